"""The data source: it reads what ``scan`` reads, natively, and writes once."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_provider_segtable.core.reads.effects import CHANGE, CHANGE_COLUMNS, VERSION
from airflow_provider_segtable.core.requests.read_request import COMPLETION_TIME, INSTANT
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compact_table import compact_table
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.table.table import Table

pytestmark = pytest.mark.spark

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("a.b", pa.string())])
ROWS = (
    "select timestamp_micros(1356998400000000 + id * 8640000000) at, id n, 'x' `a.b` from range(%d)"
)
PAIRS = EVENTS.remove(2)
ZOOKEEPER = f"memory://{uuid4()}"


@pytest.fixture
def source(spark: SparkSession) -> SparkSession:
    """Return a session of the test's own, with the data source: views and settings end with it."""
    own = spark.newSession()
    register(own)
    return own


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Make a table of a hundred rows in ten days, then delete every seventh."""
    made = Table.create(
        str(tmp_path / "table"), schema=EVENTS, time_column="at", zookeeper=ZOOKEEPER
    )
    start = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    at = pa.array([start + n * 8_640_000_000 for n in range(100)], pa.timestamp("us", "UTC"))
    names = pa.array([f"w{n % 9}" for n in range(100)])
    made.append(pa.table([at, pa.array(range(100)), names], schema=EVENTS))
    made.delete("n % 7 = 0 and n < 70")
    return made


def keyed_table(place: Path) -> Table:
    """Make an empty table with a primary key, without a coordinator."""
    return Table.create(
        str(place / "keyed"), schema=PAIRS, time_column="at", primary_key="n", buckets=2
    )


def load(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.read.format("segtable").options(**options).load(table.ports.uri)


def plan(rows: DataFrame) -> str:
    return rows._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]


def test_a_query_reads_only_what_it_needs(source: SparkSession, table: Table) -> None:
    """Spark's own reader gets the query's columns, filters and days, with deleted rows left out."""
    rows = load(source, table)
    found = rows.where("at >= '2013-01-03' and at < '2013-01-05' and n % 2 = 0").select("`a.b`")
    assert found.count() == len([n for n in range(20, 40) if n % 2 == 0 and n % 7])
    text = plan(found)
    assert "Location: NumberedFiles(2 paths)" in text
    assert "GreaterThanOrEqual(at" in text
    assert "Scan segtable" not in text
    assert rows.count() == table.snapshot().count() == 90
    either = rows.where("at = '2013-01-02' or at > '2013-01-10' and n > 97")
    assert sorted(row.n for row in either.collect()) == [10, 98, 99]


def test_joins_and_subqueries_over_one_table(source: SparkSession, table: Table) -> None:
    """Two scans of a table in one query, and filters with queries in them, are each right."""
    load(source, table).createOrReplaceTempView("t")
    joined = source.sql(
        "select a.n, b.n m from t a join t b on a.n = b.n + 1 "
        "where a.n > (select avg(n) from t) and b.n in (select n from t where `a.b` = 'w3')"
    )
    kept = {row["n"] for row in table.scan(columns=["n"]).to_arrow().to_pylist()}
    mean = sum(kept) / len(kept)
    wanted = {(n, n - 1) for n in kept if n - 1 in kept and n > mean and (n - 1) % 9 == 3}
    assert {tuple(row) for row in joined.collect()} == wanted
    other = source.newSession()  # has no strategy of ours, only the registered name
    assert load(other, table).where("n < 9").count() == 7


def test_all_ways_to_name_a_version(source: SparkSession, table: Table) -> None:
    """By event, time and tag; columns, condition and interval select within it."""
    table.tag("before", version=1)
    assert load(source, table, version="1").count() == 100
    assert load(source, table, TAG="before").count() == 100
    assert load(source, table, asOf="2100-01-01", where="n < 9", columns="n").collect() == [
        (n,) for n in range(9) if n % 7
    ]
    found = load(source, table, interval="2013-01-02T12:00:00Z/2013-01-04", version="1")
    assert sorted(row.n for row in found.collect()) == list(range(15, 30))
    source.sql(f"CREATE TEMPORARY VIEW old USING segtable OPTIONS (path '{table.ports.uri}')")
    table.delete("true")
    assert source.table("old").count() == 90
    assert load(source, table).count() == 0


def test_loads_of_a_table_that_is_changed_between_them(source: SparkSession, table: Table) -> None:
    """Each shows the newest version of the table that is there then, whoever made it."""

    def shown(rows: DataFrame) -> list[int]:
        return sorted(row.n for row in rows.collect())

    def loaded() -> DataFrame:
        rows = load(source, table)
        assert shown(rows) == sorted(table.scan(columns=["n"]).to_arrow()["n"].to_pylist())
        return rows

    first, uri = loaded(), table.ports.uri
    other = Table.open(uri, zookeeper=ZOOKEEPER)
    other.delete("n < 50")
    second = loaded()
    other.restore(version=1)
    assert len(shown(loaded())) == 100
    assert (len(shown(first)), len(shown(second))) == (90, 48)
    assert shown(load(source, table, version="3")) == shown(second)

    for end in (drop, shutil.rmtree):  # the second one leaves nothing: numbers begin anew
        events = table.state().n
        end(uri)
        with pytest.raises(IllegalArgumentException, match=r"TableGone|NotATable"):
            load(source, table)
        table = Table.create(uri, schema=PAIRS, time_column="at", zookeeper=ZOOKEEPER)
        assert load(source, table).columns == ["at", "n"]
        while table.state().n < events:
            table.append(pairs(table.state().n, 3))
        table.append(pairs(500, 3))
        assert max(shown(loaded())) == 502


def drop(uri: str) -> None:
    Table.drop(uri, zookeeper=ZOOKEEPER, force=True)


def pairs(first: int, count: int) -> pa.Table:
    at = pa.array([1356998400000000 + n for n in range(count)], pa.timestamp("us", "UTC"))
    return pa.table([at, pa.array(range(first, first + count), pa.int64())], schema=PAIRS)


def test_modes_of_a_write(source: SparkSession, table: Table) -> None:
    """An append by a commit id is made once; an overwrite of no given rows replaces all."""
    rows = source.sql(ROWS % 10)

    def save(mode: str, **options: str) -> int:
        writer = rows.write.format("segtable").mode(mode).option("zookeeper", ZOOKEEPER)
        writer.options(**options).save(table.ports.uri)
        return table.scan().count()

    assert [save("append", commitId="once") for _ in range(2)] == [100, 100]
    assert save("ignore") == 100
    assert save("overwrite") == 10


def test_a_rollup_table(source: SparkSession, tmp_path: Path) -> None:
    """The kind of table takes rows in its own way, and merges groups on request."""
    made = Table.create(
        str(tmp_path / "sums"),
        schema=EVENTS.remove(2),
        time_column="at",
        kind=Rollup(
            metrics=(Metric.parse("total=sum(n)"),), query_granularity=QueryGranularity.DAY
        ),
        zookeeper=ZOOKEEPER,
    )
    rows = source.sql(ROWS % 20).select("at", "n")
    for _ in range(2):
        writer = rows.write.format("segtable").option("zookeeper", ZOOKEEPER)
        writer.mode("append").save(made.ports.uri)
    assert load(source, made).count() == 4
    merged = load(source, made, rolledUp="true").select("total")
    assert sorted(row.total for row in merged.collect()) == [90, 290]


def test_errors_are_named(source: SparkSession, table: Table) -> None:
    """Spark raises one line with the name of segtable's error and the way out."""
    for options, said in (
        (
            {"asOff": "2026"},
            r"InvalidInput: there is no option 'asoff' here; there are: version, a",
        ),
        ({"columns": "m"}, r"SchemaMismatch: there is no column 'm': the table has at, n, a\.b"),
        ({"version": "1", "tag": "x"}, r"InvalidInput: .* name a version each"),
    ):
        with pytest.raises(IllegalArgumentException, match=f"^{said}"):
            load(source, table, **options)
    with pytest.raises(IllegalArgumentException, match=r"^NotATable: "):
        source.read.format("segtable").load(f"{table.ports.uri}x")
    with pytest.raises(IllegalArgumentException, match=r"^InvalidInput: .*PARSE_SYNTAX_ERROR"):
        load(source, table, where="n + ").count()
    rows = source.sql(ROWS % 1)
    with pytest.raises(IllegalArgumentException, match=r"^TableExists: .* with mode 'append'"):
        rows.write.format("segtable").save(table.ports.uri)
    few = rows.select("at", "n").write.format("segtable").option("zookeeper", ZOOKEEPER)
    with pytest.raises(IllegalArgumentException, match=r"^SchemaMismatch: .*missing: a\.b"):
        few.mode("append").save(table.ports.uri)


def test_windows_and_changes(source: SparkSession, table: Table) -> None:
    """A window has the rows added in it; a change feed has each change, with its event."""
    table.append(table.scan(where="n < 3").to_arrow())
    found = load(source, table, sinceVersion="2").where("at < '2013-01-02'").select("n")
    assert sorted(row.n for row in found.collect()) == [1, 2]
    assert load(source, table, sinceVersion="2").count() == 2
    assert load(source, table, sinceVersion="2", where="n = 2 or n > 90").count() == 1
    assert load(source, table, sinceVersion="1", version="2").count() == 0
    feed = load(source, table, sinceVersion="0", version="2", changes="true")
    assert feed.columns == [*EVENTS.names, *CHANGE_COLUMNS]
    counts = feed.where("n < 50").groupBy(CHANGE, VERSION).count()
    assert sorted(map(tuple, counts.collect())) == [("delete", 2, 8), ("insert", 1, 50)]
    times = {row[0] for row in feed.select(COMPLETION_TIME).distinct().collect()}
    assert len(times) == 2
    with pytest.raises(IllegalArgumentException, match=r"^InvalidInput: changes are those since"):
        load(source, table, changes="true")


def test_a_table_follows_another(source: SparkSession, table: Table, tmp_path: Path) -> None:
    """A stream adds each row once, also if a batch was committed and a crash hid it from Spark."""
    other = Table.create(
        str(tmp_path / "other"), schema=EVENTS, time_column="at", zookeeper=ZOOKEEPER
    )
    table.advance_consumer("copy", 0)
    reader = source.readStream.format("segtable").option("consumer", "copy")
    arriving = reader.load(table.ports.uri)

    def stream(rows: DataFrame = arriving, checkpoint: str = "checkpoint") -> int:
        writer = rows.writeStream.format("segtable").option("zookeeper", ZOOKEEPER)
        writer = writer.option("checkpointLocation", f"file:{tmp_path}/{checkpoint}")
        assert writer.trigger(availableNow=True).start(other.ports.uri).awaitTermination(300)
        return other.scan().count()

    assert stream() == 90
    for noted in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        noted.unlink()  # as if the driver had died right before writing it
    table.append(table.scan(where="n < 4").to_arrow())
    assert stream() == 93
    assert other.state().n == 2
    assert stream() == 93
    assert table.scan(consumer="copy").count() == 0
    times = source.readStream.format("segtable").load(table.ports.uri).select("at")
    with pytest.raises(StreamingQueryException, match=r"SchemaMismatch: .*missing: n, a\.b"):
        stream(times, "elsewhere")
    with pytest.raises(IllegalArgumentException, match=r"^InvalidInput: a stream has no end"):
        source.readStream.format("segtable").option("version", "1").load(table.ports.uri)


def test_the_origin_of_rows(source: SparkSession, table: Table, tmp_path: Path) -> None:
    """Hidden columns that a view names are what the library reads; other queries stay native."""
    table.append(table.scan(where="n < 3").to_arrow())
    compact_table(table.ports, kind="major")
    columns = ["*", INSTANT, COMPLETION_TIME]
    rows = load(source, table, columns=",".join(columns))
    assert "Location: Files(" in plan(rows.select("n"))
    early = rows.where("at < '2013-01-02' and n > 0")
    wanted = table.scan(columns=columns, interval="2013-01-01/2013-01-02").to_arrow().to_pylist()
    found = early.toArrow().cast(pa.schema([rows.toArrow().schema.field(n) for n in rows.columns]))
    assert sorted(map(str, found.to_pylist())) == sorted(str(r) for r in wanted if r["n"])
    times = rows.select(COMPLETION_TIME).distinct().collect()
    assert len(times) == 2
    start = table.ports.log.at(2).time
    window = load(source, table, sinceVersion="2", columns=COMPLETION_TIME).collect()
    late = rows.where(F.unix_micros(COMPLETION_TIME) > start).select(COMPLETION_TIME).collect()
    assert len(window) == len(late) == 2
    keyed = keyed_table(tmp_path)
    for n in range(3):
        keyed.upsert(pa.table([[datetime(2013, 1, 1, tzinfo=UTC)] * 2, [n, n + 1]], schema=PAIRS))
    asked = ["n", INSTANT, COMPLETION_TIME]
    both = load(source, keyed, columns=",".join(asked)).toArrow().to_pylist()
    assert sorted(map(str, both)) == sorted(
        map(str, keyed.scan(columns=asked).to_arrow().to_pylist())
    )


def test_inserts_in_sql(source: SparkSession, table: Table, tmp_path: Path) -> None:
    """INSERT appends or upserts, INSERT OVERWRITE replaces all; the view then shows the rows."""
    source.conf.set("spark.sql.session.timeZone", "UTC")
    where = f"path '{table.ports.uri}', zookeeper '{ZOOKEEPER}'"
    source.sql(f"CREATE TEMPORARY VIEW whole USING segtable OPTIONS ({where})")
    source.sql(f"INSERT INTO whole {ROWS % 5}")
    assert source.table("whole").count() == table.scan().count() == 95
    source.sql("INSERT INTO whole (n, at) VALUES (7, timestamp'2013-01-01')")
    assert table.scan(where="n = 7 and `a.b` is null").count() == 1
    load(source, table).where("n < 2").createOrReplaceTempView("few")
    source.sql("INSERT INTO whole SELECT * FROM few")
    assert source.table("whole").count() == 96 + 3
    source.sql(f"INSERT OVERWRITE whole {ROWS % 4}")
    assert source.table("whole").count() == table.scan().count() == 4
    source.sql(f"CREATE TABLE listed USING segtable OPTIONS ({where})")
    try:
        source.table("whole").where("n = 0").write.insertInto("listed")
        assert source.table("listed").count() == 5
    finally:
        source.sql("DROP TABLE listed")
    keyed = keyed_table(tmp_path)
    source.sql(f"CREATE TEMPORARY VIEW pairs USING segtable OPTIONS (path '{keyed.ports.uri}')")
    for _ in range(2):
        source.sql("INSERT INTO pairs SELECT timestamp'2013-01-01', id FROM range(2)")
    assert source.table("pairs").count() == 2
    source.sql(f"CREATE TEMPORARY VIEW past USING segtable OPTIONS ({where}, version '1')")
    with pytest.raises(IllegalArgumentException, match=r"^InvalidInput: this view shows a part"):
        source.sql(f"INSERT INTO past {ROWS % 1}")
    with pytest.raises(IllegalArgumentException, match=r"^InvalidInput: 1 row without a key"):
        source.sql("INSERT INTO pairs VALUES (timestamp'2013-01-01', null)")


def test_rows_that_delete_their_key(source: SparkSession, tmp_path: Path) -> None:
    """The option names a column of the rows, in batches and in streams."""
    keyed = keyed_table(tmp_path)
    rows = source.sql("select timestamp'2013-01-01' at, id n, id > 9 gone from range(10)")
    rows.write.format("segtable").mode("append").option("deleted", "gone").save(keyed.ports.uri)
    gone = rows.where("n < 4").selectExpr("at", "n", "n > 0 gone")
    gone.write.format("segtable").mode("append").option("deleted", "gone").save(keyed.ports.uri)
    assert sorted(row.n for row in load(source, keyed).collect()) == [0, *range(4, 10)]
    folder = f"file:{tmp_path}/incoming"
    rows.where("n > 5").selectExpr("at", "n", "n % 2 = 0 gone").write.parquet(folder)
    arriving = source.readStream.schema(rows.schema).parquet(folder)
    writer = arriving.writeStream.format("segtable").option("deleted", "gone")
    writer = writer.option("checkpointLocation", f"file:{tmp_path}/checkpoint")
    assert writer.trigger(availableNow=True).start(keyed.ports.uri).awaitTermination(60)
    assert sorted(row.n for row in load(source, keyed).collect()) == [0, 4, 5, 7, 9]


def test_batches_of_a_stream(source: SparkSession, table: Table, tmp_path: Path) -> None:
    """A batch has as many versions as its limits allow, its query's columns alone, and is exact.

    That also holds after a restart whose batch before is expired, and where others compact.
    """
    for n in range(5):
        table.append(table.scan(where=f"n = {n + 1}", version=2).to_arrow())
        table.alter(set={"compaction.min_segments": str(n + 2)})  # changes no row
    compact_table(table.ports, kind="major")
    newest = table.state().n
    seen: list[tuple[list[int], list[str]]] = []

    def note(rows: DataFrame, _: int) -> None:
        seen.append((sorted(row.n for row in rows.collect()), rows.columns))

    def stream(checkpoint: str, **options: str) -> list[list[int]]:
        seen.clear()
        reader = source.readStream.format("segtable").options(**options)
        writer = reader.load(table.ports.uri).select("n").writeStream.foreachBatch(note)
        writer = writer.option("checkpointLocation", f"file:{tmp_path}/{checkpoint}")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        counted = [each["numInputRows"] for each in query.recentProgress]
        assert [n for n in counted if n] == [len(rows) for rows, _ in seen if rows]
        assert {tuple(names) for _, names in seen} <= {("n",)}
        return [rows for rows, _ in seen]

    limits = {"sinceVersion": "2", "maxVersionsPerTrigger": "2"}
    assert stream("two", **limits) == [[1, 2], [3, 4], [5]]
    assert stream("two", **limits) == []
    assert stream("files", sinceVersion="2", maxFilesPerTrigger="3") == [[1, 2, 3], [4, 5]]
    assert stream("bytes", sinceVersion="2", maxBytesPerTrigger="1") == [[n] for n in range(1, 6)]
    assert stream("new", sinceVersion="latest") == [[]]
    clean(table.ports, retention=Retention(hours=0, versions=1, orphan_hours=0))
    assert [table.state().keeps(n) for n in (10, newest)] == [False, True]
    table.append(table.scan(where="n = 20").to_arrow())
    assert stream("two", **limits) == stream("new", sinceVersion="latest") == [[20]]
    with pytest.raises(IllegalArgumentException, match=r"^InvalidInput: .*0 files: give at least"):
        source.readStream.format("segtable").option("maxFilesPerTrigger", 0).load(table.ports.uri)

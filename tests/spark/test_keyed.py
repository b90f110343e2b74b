"""Primary-key tables in Spark: upserts, streams and reads give what the library gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch, TimeOutOfRange
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.services.compact_table import compact_table
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.reads.dataframe_scan import read, scan
from airflow_provider_segtable.spark.reads.input_source import read_stream_source
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, ingest, ingest_some
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.spark.writes.stream import ingest_stream
from airflow_provider_segtable.table.table import Table

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("key", pa.int64()),
        ("a.word", pa.string()),
        ("seq", pa.int64()),
        ("text", pa.string()),
    ]
)
KEYED: dict[str, Any] = {"primary_key": ["key", "a.word"], "buckets": 2, "ordering": "seq"}


def keyed(place: Path, schema: pa.Schema = SCHEMA, **more: Any) -> Table:
    """Create a table without a coordinator."""
    given = {**KEYED, "granularity": Granularity.DAY, "properties": {}, **more}
    return Table.create(str(place / "keyed"), schema=schema, time_column="at", **given)


def rows(spark: SparkSession, keys: range, seq: int, gone: str = "false") -> DataFrame:
    """Return a row a key, in three days; ``key`` is narrower than in the table."""
    return spark.range(keys.start, keys.stop, 1, 2).selectExpr(
        "timestamp_micros(1356998400000000 + id % 3 * 86400000000) at",
        "int(id) key",
        "concat('w', id % 2) `a.word`",
        f"{seq}L seq",
        f"concat('v', {seq}) text",
        f"{gone} gone",
    )


def content(found: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a table or frame, sorted, without their times."""
    if isinstance(found, DataFrame):
        return sorted(tuple(row)[1:] for row in found.collect())
    return sorted(tuple(row.values())[1:] for row in found.to_pylist())


def agree(spark: SparkSession, table: Table) -> list[tuple[Any, ...]]:
    """Compare the rows that Spark reads with those of the library; return them."""
    assert [*violations(table.state())] == []
    found = content(scan(spark, table.snapshot()))
    assert found == content(table.snapshot().to_arrow())
    return found


def test_upserts_deletes_and_reads(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's records win or lose by their order, with those of the library, in the same buckets.

    Narrower keys are hashed as the table has them. A commit id commits once, without a coordinator.
    """
    table = keyed(tmp_path)
    done = ingest(table.ports, rows(spark, range(12), 2).drop("gone"), commit_id="one")
    assert (done.rows, done.segments) == (12, 6)
    assert ingest(table.ports, rows(spark, range(12), 9).drop("gone"), commit_id="one").n == done.n
    table.upsert(rows(spark, range(6), 3).drop("gone").toArrow())  # newer
    ingest(table.ports, rows(spark, range(12), 1).drop("gone"))  # late
    ingest(table.ports, rows(spark, range(4), 4, gone="id % 2 = 0"), deleted="gone")
    wanted = dict.fromkeys(range(6), 3) | dict.fromkeys(range(6, 12), 2) | {1: 4, 3: 4}
    del wanted[0], wanted[2]
    found = agree(spark, table)
    assert found == sorted((k, f"w{k % 2}", seq, f"v{seq}") for k, seq in wanted.items())

    snapshot = table.snapshot()
    second = Interval.parse("2013-01-02/2013-01-03")
    for where, interval in (
        ("key > 3 and seq = 3", None),
        ("length(text) = 2 and `a.word` = 'w1'", None),
        ("seq = 2", second),
    ):
        frame = scan(spark, snapshot, interval, ["key", "text"], where=where)
        known = {k for k in wanted if interval is None or k % 3 == 1}
        keep = {
            k
            for k in known
            if ("seq = 3" not in where or (k > 3 and wanted[k] == 3))
            and ("length" not in where or k % 2)
            and ("seq = 2" not in where or wanted[k] == 2)
        }
        assert sorted(row.key for row in frame.collect()) == sorted(keep), where
    assert scan(spark, snapshot, columns=[]).count() == len(wanted)
    assert content(scan(spark, table.snapshot(version=done.n))) == content(
        table.snapshot(version=done.n).to_arrow()
    )
    nothing = rows(spark, range(0), 1).drop("gone")
    assert ingest_some(table.ports, nothing, commit_id="none", sizing=Sizing()) is None
    assert scan(spark, keyed(tmp_path / "new").snapshot()).count() == 0


def test_windows(spark: SparkSession, tmp_path: Path) -> None:
    """Rows added and changes of rows since a version are those that the library reads."""
    table = keyed(tmp_path)
    ingest(table.ports, rows(spark, range(8), 1).drop("gone"))
    start = table.state().n
    ingest(table.ports, rows(spark, range(6, 10), 2, gone="id = 6"), deleted="gone")
    for changes in (False, True):
        asked = read_request(since_version=start, changes=changes, where="key > 6")
        frame = read(spark, table.ports, table.state(), asked)
        wanted = table.scan(since_version=start, changes=changes, where="key > 6").to_arrow()
        assert frame.columns == wanted.column_names
        untimed = [row[:6] for row in content(wanted)]
        assert [row[:6] for row in content(frame)] == untimed
        assert wanted.num_rows


def test_a_feed_in_tasks_is_the_feed_of_the_library(
    spark: SparkSession, tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Tasks read the pieces of a feed: over compactions, late records, deletes and a restore."""
    table = keyed(tmp_path, zookeeper=zookeeper.address)
    ingest(table.ports, rows(spark, range(12), 2).drop("gone"))
    start = table.state().n
    ingest(table.ports, rows(spark, range(6, 18), 3, gone="id % 4 = 0"), deleted="gone")
    ingest(table.ports, rows(spark, range(9), 1).drop("gone"))  # late
    assert compact_table(table.ports, kind="semi-major").plans
    table.upsert(rows(spark, range(5), 4).drop("gone").toArrow())
    table.restore(version=start)
    ingest(table.ports, rows(spark, range(3), 5).drop("gone"))
    second = Interval.parse("2013-01-02/2013-01-03")
    for interval in (None, second):
        asked = read_request(since_version=start, changes=True, interval=interval)
        frame = read(spark, table.ports, table.state(), asked)
        wanted = table.scan(since_version=start, changes=True, interval=interval).to_arrow()
        untimed = [row[:6] for row in content(wanted)]
        assert [row[:6] for row in content(frame)] == untimed
        assert len({*wanted["_segtable_version"].to_pylist()}) >= 4
        assert len({*wanted["_segtable_change"].to_pylist()}) == 4
    assert frame.rdd.getNumPartitions() > 1
    none = read_request(since_version=table.state().n, changes=True)
    assert read(spark, table.ports, table.state(), none).count() == 0


def test_compactions_on_spark(
    spark: SparkSession, tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Log and base compactions in tasks change no row; what is compacted, Spark reads itself."""
    table = keyed(
        tmp_path, zookeeper=zookeeper.address, properties={"compaction.min_segments": "2"}
    )
    for seq in (1, 2, 3):
        ingest(table.ports, rows(spark, range(9), seq, gone=f"id = {seq}"), deleted="gone")
    before = agree(spark, table)
    assert len(before) == 8  # of key 3; the deletes of 1 and 2 were overtaken
    for kind in ("minor", "semi-major"):
        plans = [known.plan.id for known in request(table.ports, kind)]
        results = compact(table.ports, plans, spark_execute(spark), parallelism=2)
        assert {result.ended for result in results} == {Ended.COMPLETED}
        assert agree(spark, table) == before
    base = scan(spark, table.snapshot())
    filled = [s for s in table.snapshot().segments() if s.rows]
    assert 0 < len(base.inputFiles()) <= len(filled)  # none of one that has tombstones alone
    ingest(table.ports, rows(spark, range(1), 5).drop("gone"))
    mixed = scan(spark, table.snapshot())
    assert 0 < len(mixed.inputFiles()) <= len([s for s in table.snapshot().segments() if s.rows])
    assert len(agree(spark, table)) == 8
    table.ports.coordinator.close()


def test_buckets_that_a_compaction_changed(spark: SparkSession, tmp_path: Path) -> None:
    """Each bucket of a region gets one log file, whatever number of buckets the region has."""
    table = keyed(tmp_path, zookeeper=f"memory://{uuid4()}")
    ingest(table.ports, rows(spark, range(30), 1).drop("gone"))
    first = Interval.parse("2013-01-01/2013-01-02")
    compact_table(table.ports, kind="major", buckets=3, interval=first)
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # joins no tasks
    try:
        done = ingest(table.ports, rows(spark, range(120), 2).drop("gone"))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert (done.rows, done.segments) == (120, 3 + 2 + 2)
    assert len(agree(spark, table)) == 120


def test_a_restarted_stream_upserts_once(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that was committed, but not noted by Spark before a crash, is not committed again."""
    table = keyed(tmp_path, primary_key=["key"], ordering="")
    folder = tmp_path / "in"

    def stream_once() -> None:
        schema = SCHEMA.append(pa.field("gone", pa.bool_()))
        source = read_stream_source(spark, str(folder), "csv", schema=schema)
        stream = ingest_stream(table.ports, source, str(tmp_path / "checkpoint"), deleted="gone")
        assert stream.wait(300)

    def drop(name: str, *lines: str) -> None:
        folder.mkdir(exist_ok=True)
        head = ",".join([*SCHEMA.names, "gone"])
        (folder / name).write_text("\n".join([head, *lines]) + "\n")

    drop("a.csv", *(f"2013-01-01T00:00:00Z,{n},w,1,a,false" for n in range(3)))
    stream_once()
    noted = tmp_path / "checkpoint" / "commits" / "0"
    noted.unlink()  # as if the driver had died right before writing it
    (noted.parent / ".0.crc").unlink(missing_ok=True)
    later = {"at": 1356998400000000, "key": 0, "a.word": "w", "seq": 1, "text": "later"}
    table.upsert(pa.Table.from_pylist([later], schema=SCHEMA))
    stream_once()
    assert table.state().n == 2
    drop("b.csv", "2013-01-01T00:00:00Z,1,w,2,b,true")
    stream_once()
    assert [(row[0], row[-1]) for row in agree(spark, table)] == [(0, "later"), (2, "a")]


def test_writers_of_their_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Two writers of a partial-update table fill a row; columns that they leave out stay."""
    table = keyed(tmp_path, primary_key=["key"], ordering="", merge="partial_update")
    both = rows(spark, range(4), 7).drop("gone")
    ingest(table.ports, both.select("at", "key", "text"))
    ingest(table.ports, both.select("at", "key", "seq"))
    assert [row[2:] for row in agree(spark, table)] == [(7, "v7")] * 4


@pytest.mark.parametrize("merge", ["latest", "partial_update"])
def test_columns_change(spark: SparkSession, tmp_path: Path, merge: str) -> None:
    """Spark merges, reads and writes files of all schemas, also where one run needs no merge."""
    table = keyed(tmp_path, primary_key=["key"], merge=merge)
    ingest(table.ports, rows(spark, range(6), 2).drop("gone"))
    before = table.state()
    table.alter(
        columns=[
            RenameColumn(name="text", new="label"),
            DropColumn(name="a.word"),
            AddColumn(name="text", type="string", default="none"),
            AddColumn(name="count", type="int32", default="7"),
            Reorder(names=("at", "key", "count")),
        ]
    )
    renamed = rows(spark, range(4), 3).drop("gone", "a.word")
    later = renamed.withColumnRenamed("text", "label").withColumn("text", F.lit("set"))
    wanted = [(key, 7, 2, "v2", "none") for key in range(6)]
    assert agree(spark, table) == wanted  # each bucket of a day is one run
    ingest(table.ports, later)  # without the column count
    wanted[:4] = [(key, 7, 3, "v3", "set") for key in range(4)]
    assert agree(spark, table) == wanted
    table.alter(columns=[WidenColumn(name="count", type="int64")])
    ingest(table.ports, later.where("key = 0").withColumn("count", F.lit(9)))
    wanted[0] = (0, 9, 3, "v3", "set")
    assert agree(spark, table) == wanted
    assert {row["text"] for row in scan(spark, table.snapshot(version=before.n)).collect()} == {
        "v2"
    }
    assert scan(spark, table.snapshot(), where="count = 7").count() == 5
    frame = scan(spark, table.snapshot(), columns=["text", "count"], where="text = 'none'")
    assert [tuple(row) for row in frame.collect()] == [("none", 7)] * 2


def test_keys_move_from_one_time_chunk_to_another(spark: SparkSession, tmp_path: Path) -> None:
    """With an index of records, Spark's upserts and deletes reach the rows of the library's."""
    table = keyed(tmp_path)
    table.create_index("keys", "record_index")
    ingest(table.ports, rows(spark, range(12), 2).drop("gone"))
    day = "timestamp_micros(1356998400000000 + 5 * 86400000000)"
    moved = rows(spark, range(6), 3, gone="id % 2 = 0").withColumn("at", F.expr(day))
    ingest(table.ports, moved, deleted="gone")
    table.upsert(rows(spark, range(6, 8), 1).withColumn("at", F.expr(day)).drop("gone").toArrow())
    wanted = {1: 3, 3: 3, 5: 3} | dict.fromkeys(range(6, 12), 2)
    assert agree(spark, table) == sorted((k, f"w{k % 2}", s, f"v{s}") for k, s in wanted.items())
    found = table.index_entries("keys")
    assert sorted(found["key_2"].to_pylist()) == [*range(12)]


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda df: df.withColumn("key", F.lit(None).cast("bigint")), InvalidInput, "key"),
        (lambda df: df.withColumn("at", F.expr("if(key < 2, null, at)")), TimeOutOfRange, "2 are"),
        (lambda df: df.withColumn("gone", F.lit(None).cast("boolean")), InvalidInput, "3 null"),
        (lambda df: df.withColumn("gone", F.lit(1)), InvalidInput, "'gone'.*int"),
        (lambda df: df.drop("key"), SchemaMismatch, "missing: key"),
    ],
)
def test_what_does_not_fit_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    wrong: Callable[[DataFrame], DataFrame],
    error: type[Exception],
    said: str,
) -> None:
    """The error names the column and the count; no file is left, and nothing is committed."""
    schema = SCHEMA.set(1, pa.field("key", pa.int64(), nullable=False))
    table = keyed(tmp_path, schema if said == "missing: key" else SCHEMA)
    with pytest.raises(error, match=said):
        ingest(table.ports, wrong(rows(spark, range(3), 1, gone="false")), deleted="gone")
    assert table.state().n == 0
    assert not [*(tmp_path / "keyed").rglob("*.parquet")]

"""What Spark's own reader reads: which files, without which rows, with how many jobs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn, RenameColumn
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.reads import dataframe_scan, keyed_scan, native_files
from airflow_provider_segtable.spark.reads.dataframe_scan import read, scan
from airflow_provider_segtable.spark.reads.native_files import NativeRead
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.spark.spark_columns import spark_schema
from tests.watched_files import watched

pytestmark = pytest.mark.spark

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
DAY_US = 86_400_000_000


def events(first: int, count: int, days: int = 3) -> pa.Table:
    numbers = np.arange(first, first + count)
    at = pa.array(1356998400000000 + numbers % days * DAY_US + numbers, pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "n": numbers, "who": [f"w{n % 7}" for n in numbers]})


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Table]:
    """Return a maker of tables without ZooKeeper."""

    def make(name: str = "table", **more: Any) -> Table:
        place = str(tmp_path / name)
        given = {"schema": EVENTS, "time_column": "at", "zookeeper": f"memory://{place}"}
        return Table.create(place, **{**given, **more})

    return make


def plan(rows: DataFrame) -> str:
    return rows._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]


def texts(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def agree(spark: SparkSession, table: Table, **asked: Any) -> list[str]:
    """Return the rows, which are the same in Spark and in the library, and as many."""
    snapshot = table.snapshot(**asked)
    wanted = snapshot.scan().to_arrow()
    found = scan(spark, snapshot)
    assert texts(found.toArrow().cast(wanted.schema)) == texts(wanted)
    assert found.select().count() == scan(spark, snapshot, columns=[]).count() == len(wanted)
    return texts(wanted)


def jobs(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return the number of jobs that Spark starts for some work."""
    context = spark.sparkContext
    context.setJobGroup("counted", "counted")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    work()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    after = len(context.statusTracker().getJobIdsForGroup("counted"))
    context._jsc.clearJobGroup()
    return after - before


@pytest.fixture
def deleted(made: Callable[..., Table]) -> Table:
    """Return a table of six files, three of which have deleted rows."""
    table = made()
    for first in (0, 300):
        table.append(events(first, 300))
    table.delete("n < 200 and n % 10 = 0")
    return table


def test_only_files_with_deleted_rows_are_filtered(spark: SparkSession, deleted: Table) -> None:
    """By bits in the plan: nothing is joined, and no job is started for them."""
    rows = scan(spark, deleted.snapshot(), columns=["n"])
    text = plan(rows)
    assert text.count("FileScan parquet") == 2
    assert text.count("Location: Files(3 paths)") == 1
    assert text.count("Location: NumberedFiles(3 paths)") == 1
    assert "Join" not in text
    assert "MapInArrow" not in text
    assert text.count("ReadSchema: struct<n:bigint>") == 1
    paths = [f"{deleted.ports.uri}/{s.path}" for s in deleted.snapshot().segments()]
    plain = spark.read.schema(spark_schema(EVENTS)).parquet(*paths)

    def total(frame: DataFrame) -> Callable[[], object]:
        return lambda: frame.agg(F.sum("n")).collect()

    assert jobs(spark, lambda: scan(spark, deleted.snapshot(), columns=["n"])) == 0
    assert jobs(spark, total(rows)) == jobs(spark, total(plain))
    assert len(agree(spark, deleted)) == 580


def test_vectors_are_read_once(spark: SparkSession, deleted: Table) -> None:
    """A table that stays open keeps which rows are deleted; those of later deletes are read."""
    table, files = watched(deleted)

    def read_now() -> list[str]:
        files.opened.clear()
        assert scan(spark, table.snapshot()).count() == table.scan().count()
        assert len(agree(spark, table)) == Table.open(table.ports.uri).scan().count()
        return [path for path in files.opened if path.startswith("deletes/")]

    assert len(read_now()) == 1
    assert read_now() == []
    deleted.delete("n < 200 and n % 10 = 3")
    assert len(read_now()) == 2
    assert read_now() == []


def test_a_count_opens_no_file(spark: SparkSession, deleted: Table) -> None:
    """The log and the vectors know it, by the data source, too."""
    register(spark)
    rows = spark.read.format("segtable").load(deleted.ports.uri)
    for each in deleted.snapshot().segments():
        Path(deleted.ports.uri, each.path).unlink()
    assert rows.count() == 580
    assert "FileScan" not in plan(rows.groupBy().count())


def _history(table: Table) -> Iterator[object]:
    """Change a table so that deleted rows are named in each way there is."""
    table.append(events(0, 300))
    yield table.append(events(300, 300))
    yield table.delete("n % 50 = 3")  # in files as they were appended
    yield table.compact("minor")
    yield table.delete("n % 50 = 4")  # in files with runs of others
    yield table.append(events(600, 90))
    more = [AddColumn(name="more", type="int64"), RenameColumn(name="who", new="name")]
    yield table.alter(columns=more)
    yield table.delete("n % 50 = 5")
    yield table.compact("semi-major")
    yield table.delete("n % 50 = 6")  # in files with hidden columns
    yield table.alter(columns=[DropColumn(name="more")])
    yield table.compact("major", interval="2013-01-01/2013-01-02")


def test_every_version_is_what_the_library_reads(
    spark: SparkSession, made: Callable[..., Table]
) -> None:
    """Deletes in appended, concatenated and sorted files, under three schemas."""
    table = made(properties={"compaction.min_segments": "2"})
    for _ in _history(table):
        pass
    newest = agree(spark, table)
    assert len(newest) < 690
    some = range(1, table.state().n, table.state().n // 4)
    assert len({len(agree(spark, table, version=n)) for n in some}) > 2
    unchecked = table.snapshot(checked=False)
    assert scan(spark, unchecked).count() == len(newest)
    inside = Interval.parse("2013-01-01T00:00:00.0002Z/2013-01-02T00:00:00.0003Z")
    part = scan(spark, table.snapshot(), inside, ["n"]).toArrow()
    assert texts(part) == texts(table.scan(interval=inside, columns=["n"]).to_arrow())


def test_added_rows_are_read_natively(spark: SparkSession, made: Callable[..., Table]) -> None:
    """Of a window; also those that a compaction has put among older ones. A feed goes by tasks."""
    table = made(properties={"compaction.min_segments": "2"})
    table.append(events(0, 200))
    start = table.state().n
    table.append(events(200, 200))
    table.delete("n % 20 = 0")
    for compaction in (None, "minor", "semi-major"):
        if compaction:
            table.compact(compaction)
        request = read_request(since_version=start)
        found = read(spark, table.ports, table.state(), request)
        assert sorted(row.n for row in found.collect()) == [n for n in range(200, 400) if n % 20]
        if compaction is None:  # compacted small files have roots in hidden columns
            assert "MapInArrow" not in plan(found)
    feed = read(spark, table.ports, table.state(), read_request(since_version=start, changes=True))
    assert "FileScan" not in plan(feed)
    wanted = table.scan(since_version=start, changes=True).to_arrow()
    assert texts(feed.toArrow().cast(wanted.schema)) == texts(wanted)


def test_rows_of_sorted_files_get_numbers(
    spark: SparkSession, made: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver looks their addresses up; beyond a number of rows, tasks compare them."""
    table = made(properties={"compaction.min_segments": "2"})
    for first in (0, 300):
        table.append(events(first, 300))
    table.compact("semi-major")
    table.delete("n % 50 = 6")
    snapshot = table.snapshot()
    text = plan(scan(spark, snapshot, columns=["n"]))
    assert ("NumberedFiles" in text, "Join" in text) == (True, False)
    assert len(agree(spark, table)) == 588
    monkeypatch.setattr(dataframe_scan, "MOST_LOOKED_AT", 250)  # one file, of 200 rows
    text = plan(scan(spark, snapshot, columns=["n"]))
    assert ("NumberedFiles" in text, "Join" in text) == (True, True)
    assert len(agree(spark, table)) == 588


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_many_marks_are_joined(spark: SparkSession, deleted: Table, vectorized: str) -> None:
    """More bits than a plan should have are broadcast; the rows are the same either way."""
    segments = deleted.snapshot().segments()
    marks = [np.arange(s.rows) % (2 + n) == 0 for n, s in enumerate(segments)]
    key = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(key, vectorized)
    try:
        plans, found = [], []
        for most in (1 << 20, 0):
            reading = NativeRead(
                spark=spark,
                ports=deleted.ports,
                schema=spark_schema(pa.schema([EVENTS.field("n")])),
                checked=True,
                most=most,
            )
            frame = reading.rows(segments, marks)
            plans.append("Join" in plan(frame))
            found.append(sorted(row.n for row in frame.collect()))
    finally:
        spark.conf.unset(key)
    assert plans == [False, True]
    assert found[0] == found[1]
    assert len(found[0]) == sum(int((~flags).sum()) for flags in marks)


def test_without_the_class_tasks_read_the_rows(
    spark: SparkSession, deleted: Table, keyed: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark with other interfaces: the same rows, and the plan has a sentence on it."""
    wanted = agree(spark, deleted)
    monkeypatch.setattr(native_files, "_CLASS", "segtable.Absent")
    native_files._loaded.cache_clear()
    try:
        text = plan(scan(spark, deleted.snapshot(), columns=["n"]))
        assert "FileScan" not in text
        assert f"read_in_task, because Spark {spark.version} has other interfaces" in text
        assert agree(spark, deleted) == wanted
        addressed = scan(spark, deleted.snapshot(), addressed=True).where("n = 7").collect()
        assert addressed[0]["__segtable_row"] is not None
        keyed.upsert(upserted(0, 40, 2, step=5))
        agree(spark, keyed)
        register(spark)
        rows = spark.read.format("segtable").load(deleted.ports.uri)
        assert (rows.count(), rows.where("n < 20").count()) == (580, 18)
    finally:
        native_files._loaded.cache_clear()


# Primary keys
def upserted(first: int, count: int, seq: int, step: int = 1) -> pa.Table:
    rows = events(first, count * step).take(np.arange(count) * step)
    return rows.append_column("seq", pa.array([seq] * count, pa.int64()))


@pytest.fixture
def keyed(made: Callable[..., Table]) -> Table:
    """Return a table of base files."""
    schema = EVENTS.append(pa.field("seq", pa.int64()))
    table = made("keyed", schema=schema, primary_key="n", buckets=2, ordering="seq")
    table.upsert(upserted(0, 300, 1))
    table.compact("semi-major")
    return table


def test_base_files_are_read_as_they_are(spark: SparkSession, keyed: Table) -> None:
    """Without hidden columns: footers say that they have no tombstones. A count opens none."""
    text = plan(scan(spark, keyed.snapshot(), columns=["who"]))
    assert text.count("FileScan parquet") == 1
    assert "ReadSchema: struct<who:string>" in text
    assert "Location: Files(6 paths)" in text
    assert "FileScan" not in plan(scan(spark, keyed.snapshot(), columns=[]))
    assert len(agree(spark, keyed)) == 300


def test_settled_rows_are_read_natively(spark: SparkSession, keyed: Table) -> None:
    """Tombstones and late values, a tail, and versions before it: the newest record of each key."""
    keyed.upsert(upserted(0, 40, 2, step=5))
    keyed.delete("n % 10 = 1")
    keyed.upsert(upserted(10, 20, 0))  # late: nothing changes
    keyed.settle()
    settled = scan(spark, keyed.snapshot(), columns=["who"])
    assert "MapInArrow" not in plan(settled)
    assert "NumberedFiles" in plan(settled)
    before = agree(spark, keyed)
    keyed.upsert(upserted(20, 3, 3, step=30))
    text = plan(scan(spark, keyed.snapshot(), columns=["who"]))
    assert "FileScan parquet" in text
    assert agree(spark, keyed) != before
    where = "n between 15 and 60 and seq > 0"
    wanted = keyed.scan(where=where).to_arrow()
    assert texts(scan(spark, keyed.snapshot(), where=where).toArrow().cast(wanted.schema)) == texts(
        wanted
    )
    assert agree(spark, keyed, version=keyed.state().n - 1) == before
    keyed.compact("semi-major")
    agree(spark, keyed)


def test_a_large_tail_is_merged_in_tasks(
    spark: SparkSession, keyed: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver looks at no more keys than it may; the rows are the same."""
    keyed.upsert(upserted(0, 40, 2, step=5))
    divided = agree(spark, keyed)
    assert "FileScan" in plan(scan(spark, keyed.snapshot(), columns=["n"]))
    monkeypatch.setattr(keyed_scan, "MOST_LOOKED_AT", 0)
    assert "FileScan" not in plan(scan(spark, keyed.snapshot(), columns=["n"]))
    assert agree(spark, keyed) == divided


def test_defaults_of_columns_that_no_record_set(
    spark: SparkSession, made: Callable[..., Table]
) -> None:
    """Rows of partial updates, settled and with a tail; those of several records go by tasks."""
    schema = EVENTS.append(pa.field("seq", pa.int64()))
    table = made("partial", schema=schema, primary_key="n", ordering="seq", merge="partial_update")
    table.upsert(upserted(0, 60, 1).drop(["who"]))
    table.alter(columns=[AddColumn(name="kind", type="string", default="new")])
    table.upsert(upserted(0, 10, 2))
    table.settle()
    text = plan(scan(spark, table.snapshot()))
    assert "MapInArrow read_in_task" in text
    assert "FileScan parquet" in text
    agree(spark, table)
    table.upsert(upserted(5, 10, 3).drop(["who"]))
    agree(spark, table)
    table.compact("semi-major")
    agree(spark, table)

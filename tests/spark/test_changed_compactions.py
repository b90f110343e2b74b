"""Changes and compactions in any order: Spark reads what Arrow reads, and a plain model has."""

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.spark.writes.spark_engine import delete, update
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
SECOND = Interval.parse("2013-01-18T00:00:00Z/2013-02-05")
DAYS_45 = (
    "select timestamp_micros(1356998400000000 + id * 1296000000) at, id n, concat('w', id % 9) who "
    "from range(3000)"
)


class Model:
    """The numbers that a table has, and the seed by which some of them go."""

    def __init__(self, spark: SparkSession, table: Table, seed: int) -> None:
        self.spark, self.table, self.randomness = spark, table, random.Random(seed)
        self.left = {*range(3000)}

    def delete(self, by: str) -> None:
        """Delete a tenth of the rows, by Arrow or by Spark."""
        some = sorted(self.randomness.sample(sorted(self.left), len(self.left) // 10))
        self.left -= {*some}
        if by == "arrow":
            done = self.table.delete(rows=pa.table({"n": pa.array(some, pa.int64())}))
        else:
            listed = ", ".join(map(str, some))
            done = delete(self.spark, self.table.ports, f"n in ({listed})")
        assert done.deleted == len(some)

    def check(self) -> None:
        """Compare everything with the model."""
        snapshot = self.table.snapshot()
        assert [*violations(snapshot.state)] == []
        assert sorted(snapshot.to_arrow()["n"].to_pylist()) == sorted(self.left)
        frame = scan(self.spark, snapshot, columns=["who", "n"])
        assert sorted(row.n for row in frame.collect()) == sorted(self.left)
        assert all(row.who == f"w{row.n % 9}" for row in frame.where("n < 500").collect())
        clipped = snapshot.to_arrow(columns=["n"], interval=SECOND)["n"].to_pylist()
        rows = scan(self.spark, snapshot, SECOND, ["n"]).collect()
        assert sorted(row.n for row in rows) == sorted(clipped)
        assert scan(self.spark, snapshot, columns=[]).count() == len(self.left)


def compacted(spark: SparkSession, table: Table, kind: str, **wish: str) -> None:
    if kind == "minor":
        plans = [launch.plan_id for launch in plan_table(table.ports).launches]
    else:
        plans = [known.plan.id for known in request(table.ports, kind, **wish)]
    results = compact(table.ports, plans, spark_execute(spark))
    assert plans
    assert {result.ended for result in results} == {Ended.COMPLETED}, results


def made(spark: SparkSession, make_table: MakeTable) -> Table:
    table = make_table(EVENTS, compaction__min_segments="2")
    ingest(table.ports, spark.sql(DAYS_45), rows_per_segment=250)
    return table


def test_any_chain_of_compactions(spark: SparkSession, make_table: MakeTable) -> None:
    """Deletes between them follow their rows into merged, sorted and newly cut files."""
    table = made(spark, make_table)
    model = Model(spark, table, seed=7)
    first = scan(spark, table.snapshot(), columns=["n"], addressed=True).localCheckpoint()
    chain: tuple[tuple[str, dict[str, str]], ...] = (
        ("minor", {}),
        ("semi-major", {"clustering": "who,n"}),
        ("major", {"granularity": "day"}),
    )
    for kind, wish in chain:
        model.delete("spark")
        model.delete("arrow")
        model.check()
        compacted(spark, table, kind, **wish)
        model.check()
    model.delete("arrow")
    model.check()
    _addresses_hold(spark, model, first)


def _addresses_hold(spark: SparkSession, model: Model, first: DataFrame) -> None:
    """Addresses from before every compaction name the same rows after them."""
    gone = {n for n in model.left if n < 600}
    done = delete(spark, model.table.ports, addresses=first.where("n < 600"))
    assert done.deleted == len(gone)
    model.left -= gone
    now = scan(spark, model.table.snapshot(), columns=["n"], addressed=True)
    done = delete(spark, model.table.ports, addresses=now.where("n >= 2500").select(ROOT, ROW))
    model.left = {n for n in model.left if n < 2500}
    model.check()


@pytest.mark.parametrize(
    ("kind", "wish"),
    [("minor", {}), ("semi-major", {"clustering": "who,n"}), ("major", {"granularity": "day"})],
)
def test_changes_while_it_runs(
    spark: SparkSession, make_table: MakeTable, kind: str, wish: dict[str, str]
) -> None:
    """Before its tasks, between its tasks and its commit, and after it: none waits or is lost."""
    table = made(spark, make_table)
    model = Model(spark, table, seed=11)
    model.delete("arrow")
    if kind == "minor":
        plans = [launch.plan_id for launch in plan_table(table.ports).launches]
    else:
        plans = [known.plan.id for known in request(table.ports, kind, **wish)]
    model.delete("spark")  # requested, not begun

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        model.delete("spark")  # in flight
        yield from spark_execute(spark)(jobs)
        model.delete("spark")  # written, not committed

    results = compact(table.ports, plans, execute)
    assert {result.ended for result in results} == {Ended.COMPLETED}, results
    model.check()
    done = update(spark, table.ports, {"who": "concat('w', n % 9)"}, "n % 2 = 0")
    assert done.inserted == sum(n % 2 == 0 for n in model.left)
    model.check()


def test_split_files_and_skipped_row_groups(spark: SparkSession, make_table: MakeTable) -> None:
    """A row's number in its file holds where Spark reads parts of it, or leaves parts out."""
    table = made(spark, make_table)
    model = Model(spark, table, seed=13)
    model.delete("arrow")
    compacted(spark, table, "minor")
    model.delete("arrow")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    try:
        frame = scan(spark, table.snapshot(), columns=["n"])
        assert frame.rdd.getNumPartitions() > len(table.snapshot().segments())
        assert sorted(row.n for row in frame.collect()) == sorted(model.left)
        some = sorted(row.n for row in frame.where("n between 700 and 800").collect())
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert some == sorted(n for n in model.left if 700 <= n <= 800)


@pytest.fixture
def generated(spark: SparkSession) -> Iterator[None]:
    """Let Spark generate code: only then does its reader give batches."""
    before = spark.conf.get("spark.sql.codegen.wholeStage")
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    yield
    spark.conf.set("spark.sql.codegen.wholeStage", before)


@pytest.mark.usefixtures("generated")
def test_filters_and_columns_reach_the_reader(
    spark: SparkSession, make_table: MakeTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deleted rows cost no column and no filter, and no row is handed to Python."""
    table = made(spark, make_table)
    plan = _plan(scan(spark, table.snapshot(), columns=["n"]).where("n > 10"), capsys)
    assert "Join" not in plan
    Model(spark, table, seed=3).delete("arrow")
    for sort in (False, True):
        if sort:
            compacted(spark, table, "semi-major", clustering="who,n")
            table.delete("n < 300")
        plan = _plan(scan(spark, table.snapshot(), columns=["n"]).where("n > 10"), capsys)
        assert ("NumberedFiles" in plan, "Join" in plan) == (True, False)
        assert "GreaterThan(n,10)" in plan
        assert "Batched: true" in plan
        assert not any(word in plan for word in ("Python", "MapInArrow", "who", "SortMerge"))


def _plan(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


def test_what_spark_s_reader_does_not_know(spark: SparkSession, make_table: MakeTable) -> None:
    """Rows that go by way of Arrow are sieved there, and have root addresses at once."""
    table = make_table(pa.schema([("at", pa.timestamp("ns", "UTC")), ("n", pa.int64())]))
    times = pa.array([1356998400_000_000_001 + 10**9 * n for n in range(100)], EVENTS_NS)
    table.append(pa.table({"at": times, "n": range(100)}))
    assert delete(spark, table.ports, "n % 3 = 0").deleted == 34
    compacted(spark, table, "semi-major", clustering="n")
    assert delete(spark, table.ports, "n % 3 = 1").deleted == 33
    named = scan(spark, table.snapshot(), columns=["n", "at"], addressed=True)
    assert sorted(row.n for row in named.collect()) == [n for n in range(100) if n % 3 == 2]
    assert delete(spark, table.ports, addresses=named.where("n > 50")).deleted == 16
    assert sorted(table.snapshot().to_arrow()["n"].to_pylist()) == [*range(2, 51, 3)]


EVENTS_NS = pa.timestamp("ns", "UTC")

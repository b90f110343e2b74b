"""Compaction of each kind by Spark tasks: the same rows in better files, whatever breaks."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import (
    Group,
    SparkRun,
    packed,
    spark_execute,
)
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
DAYS_90 = (
    "select timestamp_micros(1356998400000000 + id * 777600000) at, id n, concat('w', id % 9) who "
    "from range(10000)"
)


def three_months(spark: SparkSession, make_table: MakeTable) -> Table:
    """Return a table of three months in twelve segments."""
    table = make_table(EVENTS, compaction__min_segments="2")
    ingest(table.ports, spark.sql(DAYS_90), rows_per_segment=900)
    return table


def plans_of(table: Table) -> list[str]:
    return [launch.plan_id for launch in plan_table(table.ports).launches]


def spark_rows(spark: SparkSession, table: Table) -> list[tuple[object, ...]]:
    return sorted(map(tuple, scan(spark, table.snapshot()).collect()))


def arrow_rows(table: Table) -> list[dict[str, object]]:
    return sorted(table.snapshot().to_arrow().to_pylist(), key=lambda row: row["n"])


def test_rows_are_the_same_in_fewer_segments(spark: SparkSession, make_table: MakeTable) -> None:
    """Three chunks are compacted in one call; Arrow and Spark read the very same rows after."""
    table = three_months(spark, make_table)
    before, before_spark = arrow_rows(table), spark_rows(spark, table)
    plans = plans_of(table)
    assert len(plans) == 3

    results = compact(table.ports, plans, spark_execute(spark))

    assert [result.ended for result in results] == [Ended.COMPLETED] * 3
    assert sum(result.rows for result in results) == 10_000
    assert len(table.snapshot().segments()) == 3
    assert arrow_rows(table) == before
    assert spark_rows(spark, table) == before_spark
    assert list(violations(table.state())) == []


def test_a_lost_worker_is_one_plan_s_failure(spark: SparkSession, make_table: MakeTable) -> None:
    """A Python worker killed under one plan fails that plan; it is simply run again."""
    table = three_months(spark, make_table)
    before = arrow_rows(table)
    plans = plans_of(table)

    def run(group: Group) -> list[Done]:
        from airflow_provider_segtable.spark.tasks.writing import run_group

        if any(index == 0 for index, _ in group):
            os.kill(os.getpid(), signal.SIGKILL)
        return run_group(group)

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        return SparkRun(spark, "killed", run).results(packed(jobs, 2), 2)

    results = {result.plan_id: result for result in compact(table.ports, plans, execute)}
    assert results[plans[0]].ended is Ended.FAILED
    assert "ExecutionFailed" in results[plans[0]].message
    assert all(results[plan].ended is Ended.COMPLETED for plan in plans[1:])
    assert arrow_rows(table) == before

    (again,) = compact(table.ports, plans[:1], spark_execute(spark))
    assert again.ended is Ended.COMPLETED
    assert arrow_rows(table) == before
    assert table.ports.coordinator.locks(table.state().table.table_id) == ()


def test_a_missing_file_is_one_plan_s_failure(spark: SparkSession, make_table: MakeTable) -> None:
    """A kernel's own error names its file, and the other plans go on."""
    table = three_months(spark, make_table)
    victim = table.snapshot().segments()[0]
    place = Path(table.ports.uri, victim.path)
    kept = place.read_bytes()
    place.unlink()
    results = compact(table.ports, plans_of(table), spark_execute(spark))
    failed = [result for result in results if result.ended is Ended.FAILED]
    assert len(failed) == 1
    assert victim.path in failed[0].message
    place.write_bytes(kept)
    assert len(arrow_rows(table)) == 10_000


@pytest.mark.parametrize(
    ("kind", "wish", "late", "chunks"),
    [
        ("semi-major", {"clustering": "who,n"}, "2013-03-20", 3),
        ("major", {"clustering": "zorder(who,n)"}, "2013-03-20", 3),
        ("major", {"granularity": "day"}, "2014-03-20", 91),
        ("major", {"granularity": "year"}, "2014-03-20", 2),
    ],
)
def test_sorted_in_tasks_under_appends(
    spark: SparkSession,
    make_table: MakeTable,
    kind: str,
    wish: dict[str, str],
    late: str,
    chunks: int,
) -> None:
    """Sorted, replaced, or cut anew in tasks: Arrow and Spark read the rows, late ones, too."""
    table = three_months(spark, make_table)
    plans = [known.plan.id for known in request(table.ports, kind, **wish)]
    rows = spark.range(20).selectExpr(
        f"timestamp'{late} 00:00:00Z' + make_dt_interval(0, 0, 0, id) at",
        "id + 10000 n",
        "'late' who",
    )
    expected = [*arrow_rows(table), *rows.toArrow().cast(EVENTS).to_pylist()]

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        if table.snapshot().count() == 10_000:
            ingest(table.ports, rows, wait_s=0.0)  # nobody waits for anybody
        yield from spark_execute(spark)(jobs)

    results = compact(table.ports, plans, execute)

    assert {result.ended for result in results} == {Ended.COMPLETED}, results
    assert arrow_rows(table) == expected
    assert [row[1:] for row in spark_rows(spark, table)] == sorted_by_time(expected)
    assert len({segment.id.interval for segment in table.snapshot().segments()}) == chunks
    assert list(violations(table.state())) == []
    files = {str(p) for p in Path(table.ports.uri, "data").rglob("*.parquet")}
    visible = {str(Path(table.ports.uri, s.path)) for s in table.snapshot().segments()}
    assert visible <= files


def sorted_by_time(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Return all but the time, in the order of time."""
    return [(row["n"], row["who"]) for row in sorted(rows, key=lambda row: str(row["at"]))]

"""Builds of indexes in Spark tasks: the same entries as in this process."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
DAYS_90 = (
    "select timestamp_micros(1356998400000000 + id * 1944000000) at, id n, concat('w', id % 9) who "
    "from range(4000)"
)
KINDS = {"column_stats": ["n", "who"], "bloom_filter": ["who"]}


def entries_of(table: Table, name: str) -> list[dict[str, object]]:
    rows = table.index_entries(name).to_pylist()
    return sorted(rows, key=lambda row: (row["file"], row.get("row_group", 0)))


def test_tasks_build_what_this_process_builds(spark: SparkSession, make_table: MakeTable) -> None:
    """For each kind of index, by one job a task, with the packages that executors have."""
    table = make_table(EVENTS)
    ingest(table.ports, spark.sql(DAYS_90).coalesce(1))
    for kind, columns in KINDS.items():
        for name in (f"{kind}_tasks", f"{kind}_here"):
            table.create_index(name, kind, columns)
        tasks = run_index(table.ports, f"{kind}_tasks", spark_execute(spark))
        here = run_index(table.ports, f"{kind}_here", in_process())
        assert (tasks.ended, here.ended) == (Ended.COMPLETED, Ended.COMPLETED)
        assert tasks.files == here.files == len(table.snapshot().segments())
        assert entries_of(table, f"{kind}_tasks") == entries_of(table, f"{kind}_here")

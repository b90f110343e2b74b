"""Spark leaves files out by indexes: the other files are deleted, so no read may open them."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.requests.change_request import Delete
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.spark.writes.spark_engine import SparkEngine
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, rows

pytestmark = pytest.mark.spark

WANTED = "row = 59 AND name = 'n2'"


def left_alone(place: str, key: str | None) -> Table:
    """Make a table of 20 files, of which only those are left that may have the wanted row."""
    kind = None if key is None else PrimaryKey(key=(key,), buckets=1)
    zookeeper = f"memory://{uuid4()}"
    table = Table.create(place, schema=SCHEMA, time_column="at", kind=kind, zookeeper=zookeeper)
    table.create_index("stats", "column_stats", columns=["row"])
    for turn in range(20):
        new = rows(range(turn * 10, turn * 10 + 10)).cast(table.snapshot().schema)
        (table.upsert if key else table.append)(new)
    kept = {file.path for file in table.scan(where=WANTED).explain().files}
    assert len(kept) == 1
    for segment in table.snapshot().segments():
        if segment.path not in kept:
            table.ports.files.delete(segment.path)
    return table


@pytest.mark.parametrize("key", [None, "row"])
def test_spark_opens_the_files_that_indexes_leave(
    spark: SparkSession, tmp_path: Path, key: str | None
) -> None:
    """In scans, by filters that Spark pushes to the data source, and in changes."""
    table = left_alone(str(tmp_path / "table"), key)
    snapshot = table.snapshot()
    assert [row["row"] for row in scan(spark, snapshot, where=WANTED).collect()] == [59]
    register(spark)
    frame = spark.read.format("segtable").load(table.ports.uri)
    for where in (WANTED, "row IN (59, -1)", "row > 58 AND row < 60 AND price IS NOT NULL"):
        assert [row["row"] for row in frame.where(where).collect()] == [59], where
    if key is None:
        found = SparkEngine(spark).select(snapshot, Delete(where=WANTED), addressed=True)
        assert found.matched == 1

"""Compacting in Spark where rows of a rollup table with sketches were deleted."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.segment import ROOT
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.table.table import Table
from tests.spark.test_rollup_compaction import MakeRollup, done, make_rollup, visits

__all__ = ["make_rollup"]

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


def events(table: Table) -> dict[str, int]:
    """Return how many given rows the files have of each page, and check the descriptors."""
    found: dict[str, int] = {}
    for segment in (one for one in table.snapshot().segments() if one.rows):
        rows = pq.read_table(Path(table.ports.uri, segment.path), partitioning=None)
        assert (rows.num_rows, sum(rows.column(EVENTS).to_pylist())) == (
            segment.rows,
            segment.events,
        )
        assert ROOT not in rows.column_names
        assert not segment.roots
        for row in rows.select(["page", EVENTS]).to_pylist():
            found[row["page"]] = found.get(row["page"], 0) + row[EVENTS]
    return found


def test_erased_rows_are_left_out(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """What a predicate named is gone from files, what came later is not; none left is no error."""
    table, execute = make_rollup(), spark_execute(spark)
    first, late = visits(300, 1, hours=20), visits(200, 2, hours=20)
    pages = sorted({page for page in first.column("page").to_pylist() if page is not None})
    ingest(table.ports, spark.createDataFrame(first))
    table.delete(f"page = '{pages[0]}'")
    ingest(table.ports, spark.createDataFrame(late))
    for kind in ("minor", "major"):
        done(table, execute, kind)
        expected: dict[str, int] = {}
        for page in [*first.column("page").to_pylist(), *late.column("page").to_pylist()]:
            expected[page] = expected.get(page, 0) + 1
        expected[pages[0]] = late.column("page").to_pylist().count(pages[0])
        assert events(table) == {page: n for page, n in expected.items() if n}
        assert {s.deletes_applied_through for s in table.snapshot().segments()} != {0}
    table.delete("true")
    done(table, execute, "semi-major")
    assert events(table) == {}

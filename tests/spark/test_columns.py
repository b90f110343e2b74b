"""Spark reads a table across changes of its columns as Arrow does, and compacts it."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

FIRST = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("n", pa.int32()),
        ("price", pa.float32()),
        ("who", pa.string()),
        ("half", pa.float16()),
    ]
)
ROWS = "select timestamp_micros(1356998400000000 + id * 1000000) at, "


def rows_of(spark: SparkSession, table: Table, **asked: Any) -> list[tuple[object, ...]]:
    """Return the rows that Spark reads, sorted."""
    return sorted(map(tuple, scan(spark, table.snapshot(), **asked).collect()), key=str)


def test_spark_reads_and_compacts_files_of_all_schemas(
    spark: SparkSession, make_table: MakeTable
) -> None:
    """Renamed, widened, swapped, dropped, added columns; deleted rows; compacted, restored."""
    table = make_table(FIRST)
    at = pa.array([1356998400_000000 + n for n in range(6)], FIRST.field("at").type)
    values = {"n": range(6), "price": [n / 2 for n in range(6)], "who": list("abcdef")}
    half = pa.array([n / 4 for n in range(6)], pa.float16())
    table.append(pa.table({"at": at, **values, "half": half}).cast(FIRST))
    table.alter(
        columns=[
            WidenColumn(name="n", type="int64"),
            WidenColumn(name="half", type="double"),
            DropColumn(name="who"),
            RenameColumn(name="price", new="who"),
            AddColumn(name="price", type="int32", default="7"),
            Reorder(names=("price", "at")),
        ]
    )
    ingest(
        table.ports,
        spark.sql(ROWS + "10 + id n, float(id) who, double(id) half, int(id) price from range(3)"),
    )
    ingest(table.ports, spark.sql(ROWS + "20 + id n, float(id) who, double(id) half from range(1)"))
    table.delete("n in (1, 11, 20)")
    names = ["price", "n", "who", "half"]
    kept = table.scan(columns=names).to_arrow().to_pylist()
    wanted = sorted((tuple(row.values()) for row in kept), key=str)
    assert len(wanted) == 7
    assert [row[0] for row in wanted].count(7) == 5
    assert scan(spark, table.snapshot()).columns == ["price", "at", "n", "who", "half"]
    assert rows_of(spark, table, columns=names) == wanted
    some = rows_of(spark, table, columns=["who", "price"], where="price = 7 and who >= 1")
    assert some == [(1.0, 7), (1.5, 7), (2.0, 7), (2.5, 7)]
    for kind in ("minor", "semi-major"):
        plans = [known.plan.id for known in request(table.ports, kind)]
        compact(table.ports, plans, spark_execute(spark))
        assert rows_of(spark, table, columns=names) == wanted
    assert {segment.schema for segment in table.state().timeline.visible_segments()} == {1}
    late = table.state().n
    table.restore(version=1)
    first = table.scan(columns=names).to_arrow().to_pylist()
    assert len(first) == 6
    assert rows_of(spark, table, columns=names) == sorted(
        (tuple(row.values()) for row in first), key=str
    )
    table.restore(version=late)
    assert rows_of(spark, table, columns=names) == wanted

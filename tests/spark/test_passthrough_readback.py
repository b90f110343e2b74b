"""Spark reads merged files as it reads their inputs, and its own files pass through."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.data.parquet.footer import read_footer
from tests.unit.data.making import merged, parquet, plain, put, rich

pytestmark = pytest.mark.spark


def same(one: DataFrame, other: DataFrame) -> bool:
    return (
        one.schema == other.schema
        and one.exceptAll(other).isEmpty()
        and (one.count() == other.count())
    )


def test_rich_rows_read_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """All types, nested ones and nulls included, read from the output as from the inputs."""
    files = LocalFiles(tmp_path)
    maps_apart = [rich(200, seed).drop_columns(["map", "naive"]) for seed in range(3)]
    paths = [
        put(files, f"{n}.parquet", parquet(table, row_group_size=80, max_rows_per_page=30))
        for n, table in enumerate(maps_apart)
    ]
    out = merged(files, paths)
    inputs = spark.read.parquet(*(str(tmp_path / path) for path in paths))
    assert same(spark.read.parquet(str(tmp_path / out)), inputs)


def test_page_filters_find_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Filters that parquet-java answers by column and offset indexes find the very rows."""
    files = LocalFiles(tmp_path)
    tables = [plain(900, seed) for seed in range(3)]
    paths = [
        put(files, f"{n}.parquet", parquet(table, row_group_size=300, max_rows_per_page=50))
        for n, table in enumerate(tables)
    ]
    frame = spark.read.parquet(str(tmp_path / merged(files, paths)))
    numbers = pa.concat_tables(tables).column("number").to_pylist()
    for wanted in (numbers[0], numbers[449], numbers[1301], numbers[-1]):
        assert frame.where(col("number") == lit(wanted)).count() == numbers.count(wanted)
    between = frame.where("at >= '2013-01-01 00:04:50' AND at < '2013-01-01 00:05:10'")
    assert between.count() == 3 * 20


def test_spark_files_pass_through(spark: SparkSession, tmp_path: Path) -> None:
    """Files by Spark, with bloom filters, numbered row groups and page indexes, are moved."""
    files = LocalFiles(tmp_path)
    options = {
        "parquet.block.size": "100000",
        "parquet.page.size": "4096",
        "parquet.bloom.filter.enabled#number": "true",
        "parquet.bloom.filter.expected.ndv#number": "5000",
    }
    made = spark.range(20_000).selectExpr(
        "id * 7919 % 20011 AS number",
        "CAST(id % 17 AS STRING) AS word",
        "TIMESTAMP '2013-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) AS at",
        "struct(id, array(id, NULL)) AS nested",
    )
    made.repartition(3).write.options(**options).parquet(str(tmp_path / "in"))
    frame = spark.read.parquet(str(tmp_path / "in"))
    paths = sorted(f"in/{path.name}" for path in (tmp_path / "in").glob("*.parquet"))
    out = merged(files, paths)
    groups = sum(pq.read_metadata(tmp_path / path).num_row_groups for path in paths)
    with files.open(out) as source:
        footer = read_footer(source)
    assert len(footer.groups) == groups > 3
    assert footer.created_by.startswith(b"parquet-mr")
    assert [group.spans["ordinal"][2] for group in footer.groups] == list(range(groups))
    assert "bloom" in footer.groups[-1].columns[0]
    again = spark.read.parquet(str(tmp_path / out))
    assert same(again, frame)
    for number in (0, 7919, 19_999, 20_010):
        assert (
            again.where(col("number") == number).count()
            == frame.where(col("number") == number).count()
        )
    expected = pa.concat_tables([pq.read_table(tmp_path / path) for path in paths])
    assert pq.read_table(tmp_path / out).equals(expected)

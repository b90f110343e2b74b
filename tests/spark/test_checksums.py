"""Damaged files are refused by Spark's own reader, too."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import ChecksumMismatch
from airflow_provider_segtable.core.segment import FooterChecksum
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])


@pytest.fixture
def table(make_table: MakeTable) -> Table:
    made = make_table(EVENTS)
    times = pa.array(range(500), EVENTS.field("at").type)
    made.append(pa.table({"at": times, "n": [n * n for n in range(500)]}))
    return made


def flip(table: Table, offset: int) -> str:
    """Flip a bit of the table's file, so many bytes behind the last page; return its name."""
    (segment,) = table.state().timeline.visible_segments()
    assert isinstance(segment.footer, FooterChecksum)
    path = Path(table.ports.uri) / segment.path
    data = bytearray(path.read_bytes())
    data[segment.footer.start + offset] ^= 1
    path.write_bytes(data)
    return path.name


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_page_is_compared_by_the_reader(
    spark: SparkSession, table: Table, vectorized: str
) -> None:
    """With Parquet's own checksum; the error names the file."""
    name = flip(table, -1)
    key = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(key, vectorized)
    try:
        with pytest.raises(ChecksumMismatch, match=name), translated("reading"):
            scan(spark, table.snapshot()).collect()
    finally:
        spark.conf.unset(key)


def test_an_index_is_compared_before_spark_plans_by_it(spark: SparkSession, table: Table) -> None:
    """Unless checking is switched off."""
    name = flip(table, 0)
    with pytest.raises(ChecksumMismatch, match=name):
        scan(spark, table.snapshot())
    assert scan(spark, table.snapshot(checked=False)).count() == 500

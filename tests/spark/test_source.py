"""Sources: formats by suffix, text in the table's types."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import InvalidInput, NotFound, SchemaMismatch
from airflow_provider_segtable.spark.reads.input_source import format_of, read_source
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from tests.spark.conftest import MakeTable

pytestmark = pytest.mark.spark

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])


def test_csv_columns_are_found_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """A compressed CSV in another column order is read in the table's types."""
    path = tmp_path / "flights.csv.gz"
    path.write_bytes(gzip.compress(b"n,who,at\n1,NA,2013-01-01T05:00:00Z\n"))
    rows = read_source(spark, str(path), options={"nullValue": "NA"}, schema=EVENTS)
    assert rows.dtypes == [("n", "bigint"), ("who", "string"), ("at", "timestamp")]
    assert rows.select("n", "who").collect() == [(1, None)]


def test_a_value_that_does_not_parse_is_refused(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    """Text that is no number fails the ingest; it never becomes null."""
    path = tmp_path / "bad.csv"
    path.write_text("at,n,who\n2013-01-01T05:00:00Z,one,x\n")
    table = make_table(EVENTS)
    rows = read_source(spark, str(path), schema=EVENTS)
    with pytest.raises(SchemaMismatch, match="ingest into"):
        ingest(table.ports, rows)
    assert table.state().n == 0


def test_nothing_at_the_path(spark: SparkSession, tmp_path: Path) -> None:
    """A missing source is named."""
    with pytest.raises(NotFound, match=r"nothing\.parquet"):
        read_source(spark, str(tmp_path / "nothing.parquet"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a/b.CSV.gz", "csv"), ("x.parquet/", "parquet"), ("s3://b/c.ndjson.zst", "json")],
)
def test_the_suffix_tells_the_format(path: str, kind: str) -> None:
    """Compression and case do not matter."""
    assert format_of(path)[0] == kind


def test_no_suffix_tells_none() -> None:
    """The way out is in the message."""
    with pytest.raises(InvalidInput, match="--format"):
        format_of("data/2013")

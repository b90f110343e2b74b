"""Streaming ingest: every micro-batch is appended exactly once."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import TimeOutOfRange
from airflow_provider_segtable.spark.reads.input_source import read_stream_source
from airflow_provider_segtable.spark.writes.stream import ingest_stream
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])


def stream_once(spark: SparkSession, table: Table, folder: Path) -> None:
    rows = read_stream_source(spark, str(folder / "in"), "csv", schema=EVENTS)
    assert ingest_stream(table.ports, rows, str(folder / "checkpoint")).wait(300)


def drop_file(folder: Path, name: str, numbers: range, at: str = "2013-01-01T00:00:00Z") -> None:
    lines = ["at,n", *(f"{at},{n}" for n in numbers)]
    place = folder / "in"
    place.mkdir(exist_ok=True)
    (place / name).write_text("\n".join(lines) + "\n")


def test_a_restarted_stream_appends_once(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    """A batch that was appended, but not noted by Spark before a crash, is not appended again."""
    table = make_table(EVENTS)
    drop_file(tmp_path, "a.csv", range(10))
    stream_once(spark, table, tmp_path)
    noted = tmp_path / "checkpoint" / "commits" / "0"
    noted.unlink()  # as if the driver had died right before writing it
    (noted.parent / ".0.crc").unlink(missing_ok=True)

    stream_once(spark, table, tmp_path)
    assert sorted(table.snapshot().to_arrow()["n"].to_pylist()) == list(range(10))
    assert noted.exists()

    drop_file(tmp_path, "b.csv", range(10, 15))
    stream_once(spark, table, tmp_path)
    assert sorted(table.snapshot().to_arrow()["n"].to_pylist()) == list(range(15))
    assert table.state().n == 2


def test_a_bad_batch_ends_the_stream_with_its_error(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    """What ends a stream is raised as what it was, and the table is as before."""
    table = make_table(EVENTS)
    drop_file(tmp_path, "a.csv", range(3), at="")
    with pytest.raises(TimeOutOfRange, match="3 are null"):
        stream_once(spark, table, tmp_path)
    assert table.state().n == 0

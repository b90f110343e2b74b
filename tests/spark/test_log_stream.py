"""Streams through a table's log store: readers see rows early, and the table has them once."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import TimeOutOfRange
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.reads.input_source import read_stream_source
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.spark.writes.stream import LogSink, ingest_stream, stream_writer
from tests.contract.worlds import eventually
from tests.spark.conftest import MakeTable
from tests.spark.test_stream import EVENTS, drop_file

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


def stream_once(spark: SparkSession, table: Table, folder: Path) -> None:
    """Stream all files of a folder, as far as they are new."""
    rows = read_stream_source(spark, str(folder / "in"), "csv", schema=EVENTS)
    assert ingest_stream(table.ports, rows, str(folder / "checkpoint"), log=True).wait(300)


def test_a_restarted_stream_appends_once(
    spark: SparkSession, make_table: MakeTable, tmp_path: Path
) -> None:
    """A batch that was committed, but not noted by Spark before a crash, is not sent again."""
    table = Table(make_table(EVENTS).ports)
    drop_file(tmp_path, "a.csv", range(10))
    stream_once(spark, table, tmp_path)
    assert table.state().log_store[0].end == 10
    noted = tmp_path / "checkpoint" / "commits" / "0"
    noted.unlink()  # as if the driver had died right before writing it
    (noted.parent / ".0.crc").unlink(missing_ok=True)
    drop_file(tmp_path, "b.csv", range(10, 15))
    stream_once(spark, table, tmp_path)
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [*range(15)]
    assert table.scan(include_log=True).explain().log_notes == ("bucket 0: no service holds it",)


def test_rows_are_readable_before_their_batch_is_committed(
    spark: SparkSession, make_table: MakeTable
) -> None:
    """Piece by piece, as tasks hand them over; what fails before its commit is discarded."""
    table = Table(make_table(EVENTS).ports)
    at = pa.array([7] * 4, EVENTS.field("at").type)
    rows = pa.table({"at": at, "n": [1, 2, 3, None]}, schema=EVENTS)
    batch = spark.createDataFrame(rows).repartitionByRange(2, "n")
    sink = LogSink(partial(table.log_writer, embedded=True, automatic=False))
    sink.add(batch, "one")
    assert table.scan().count() == 4

    late = pa.array([7, 7, None, 7], EVENTS.field("at").type)
    bad = spark.createDataFrame(rows.set_column(0, EVENTS.field("at"), late))
    with pytest.raises(TimeOutOfRange, match="null"):
        sink.add(bad.repartitionByRange(2, "n"), "two")
    readable = table.scan(include_log=True).count()
    sink.close()
    assert readable > table.scan(include_log=True).count() == table.scan().count() == 4


def test_a_batch_that_exceeds_the_store_is_committed_as_one(
    spark: SparkSession, make_table: MakeTable
) -> None:
    """Its rows wait in files for the commit; run again, it is known."""
    table = Table(make_table(EVENTS, log_store__bucket_mb="1").ports)
    rows = spark.range(200_000).selectExpr("timestamp_micros(id) at", "id n")
    sink = LogSink(partial(stream_writer, table.ports, 0.1))
    before = table.state().n
    for _ in range(2):
        sink.add(rows, "one")
    sink.close()
    assert table.scan().count() == 200_000
    assert table.state().n == before + 2  # an epoch, and one commit


def test_one_stream_writes_and_another_one_reads_while_the_table_is_compacted(
    spark: SparkSession, make_table: MakeTable, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """Both end with the same rows, each once."""
    register(spark)
    table = Table(make_table(EVENTS).ports)
    drop_file(tmp_path, "0.csv", range(10))
    given = read_stream_source(spark, str(tmp_path / "in"), "csv", schema=EVENTS).writeStream
    sink = given.format("segtable").options(log="true", zookeeper=zookeeper.address)
    writing = sink.option("checkpointLocation", str(tmp_path / "w")).start(table.ports.uri)
    writing.processAllAvailable()
    options = {"log": "true", "start": "earliest", "zookeeper": zookeeper.address}
    log = spark.readStream.format("segtable").options(**options).load(table.ports.uri)
    kept = log.where("n % 10 < 9").select("n").writeStream.format("memory").queryName("kept")
    reading = kept.option("checkpointLocation", str(tmp_path / "r")).start()
    try:
        for turn in (1, 2):
            drop_file(tmp_path, f"{turn}.csv", range(turn * 10, turn * 10 + 10))
            writing.processAllAvailable()
            table.compact("minor")
            reading.processAllAvailable()
    finally:
        reading.stop()
        writing.stop()
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [*range(30)]
    assert sorted(row.n for row in spark.table("kept").collect()) == [
        n for n in range(30) if n % 10 < 9
    ]
    assert table.state().log_store[0].end == 30
    unserved = ("bucket 0: no service holds it",)
    eventually(lambda: table.scan(include_log=True).explain().log_notes == unserved)

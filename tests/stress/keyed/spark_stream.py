"""A writer of the keyed stress run that is a Spark stream: ``workload.streamed``, in SQL.

Spark numbers the rows of ``rate-micro-batch`` by batch, so a batch that it runs again after a kill
has the same rows. Its checkpoint is ``FOLDER/NAME.checkpoint``.
"""

import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.writes.stream import ingest_stream
from airflow_provider_segtable.table.context import TableContext
from tests.simulation.keyed.records import CHUNKS, GONE
from tests.simulation.world import HOUR_US
from tests.stress.keyed import workload
from tests.stress.keyed.services import Going

BEGAN_MS = 1_767_225_600_000
"""Any start of the source's own time, which no column has; it must stay for a checkpoint."""
TRIGGER = {"processingTime": "500 milliseconds"}


def run_stream(ports: TableContext, name: str, folder: Path, going: Going) -> None:
    """Run the stream until all are to stop.

    Raises:
        SegtableError: the stream ended by itself.
    """
    spark = session(f"stress {name}", "local[1]", {"spark.sql.shuffle.partitions": "1"})
    numbered = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=workload.STREAMED_ROWS, numPartitions=1, startTimestamp=BEGAN_MS
    )
    stream = ingest_stream(
        ports,
        records(numbered.load(), int(name[-1])),
        str(folder / f"{name}.checkpoint"),
        name=name,
        trigger=TRIGGER,
        deleted=GONE,
    )
    for _ in going:
        if not stream.query.isActive:
            stream.wait()
            raise ExecutionFailed(f"stream {name} ended by itself")
        time.sleep(0.2)
    stream.stop()
    spark.stop()


def records(numbered: DataFrame, stream: int) -> DataFrame:
    """Return the records of numbered rows."""
    value = F.col("value")
    key = (value * workload.STREAMED_STRIDE + 13 * stream) % workload.KEYS
    seq = (F.floor(value / 3) + stream) % workload.SEQUENCES
    return numbered.select(
        F.timestamp_micros(key % CHUNKS * HOUR_US + key).alias("at"),
        key.alias("row"),
        F.when(value % 11 != 0, seq).cast("int").alias("count"),
        F.when(value % 3 != 0, value).alias("text"),
        F.when(value % 2 != 0, value).alias("note"),
        (value % 5 == 0).alias(GONE),
    )

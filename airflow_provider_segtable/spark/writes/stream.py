"""Ingest a stream: each micro-batch is one append, exactly once.

1. A batch's commit id is the query's id and the batch's number, which Spark keeps in the
   checkpoint. If the query dies between the commit and Spark's checkpoint, it runs the batch again
   after a restart, and the log reports it as committed already.
2. The commit id uses the query's *id*, never its name: a new checkpoint is a new stream, even with
   the same name, and its batches are new rows.
3. A batch without rows appends nothing. A batch is persisted, because an ingest reads it twice.
4. ``wait`` raises the original error that ended the stream.

With ``log``, the rows of a batch go through the table's log store, where readers see them before
the batch is committed:

5. The driver runs the store, as long as the query runs: it ends with ``wait`` or ``stop``. Tasks
   hand the rows of a micro-batch to it piece by piece, and each piece is readable when it arrives.
   At the end of the batch all of it is committed, by the commit id of the batch: exactly once. No
   other checkpoint is made.
6. A batch that is run again is skipped if it was committed. If it was not, the new epoch discards
   the rows that readers saw of it, and they are reset.
7. A batch may be of any size: rows beyond ``log_store.bucket_mb`` for each of ``log_store.buckets``
   wait in temporary files of the driver for the commit, which needs memory for the batch once. Rows
   of an append table go to the buckets in turn, piece by piece.
8. A query that ends, in whatever way, leaves nothing uncommitted behind.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import ExecutionFailed, SegtableError
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.driver.spark_connect import check_in_driver
from airflow_provider_segtable.spark.driver.spark_errors import translate, translated
from airflow_provider_segtable.spark.spark_columns import spark_schema
from airflow_provider_segtable.spark.tasks.writing import PIECE, PIECES, packed_rows, unpacked_rows
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, ingest_some
from airflow_provider_segtable.table.context import TableContext

OpenWriter = Callable[[], TableLogWriter]


# Batches through the log store
class LogSink:
    """The log store of one query, from its first batch on.

    Args:
        open_writer: opens a writer with a store beside it, which makes no checkpoint by itself, and
            overflows.
        deleted: the column that says which rows delete their key, if any.
    """

    def __init__(self, open_writer: OpenWriter, deleted: str | None = None) -> None:
        self._open, self._deleted = open_writer, deleted
        self._mutex = threading.Lock()
        self._writer: TableLogWriter | None = None
        self._ended = False

    def add(self, batch: DataFrame, commit_id: str) -> None:
        """Make the rows of a micro-batch readable, then commit them, once.

        Raises:
            LogStoreServed: services have the table's log store.
            Fenced: another writer has taken the table's log store.
            SegtableError: as ``TableLogWriter.append`` and ``checkpoint``.
        """
        writer = self._opened()
        if writer.committed_as(commit_id) is not None:
            return
        for rows in arrow_rows(batch):
            writer.append(rows, deleted=self._deleted)
        writer.checkpoint(commit_id)

    def close(self) -> None:
        """End the store; what is not committed is gone."""
        with self._mutex:
            self._ended = True
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()

    def _opened(self) -> TableLogWriter:
        with self._mutex:
            if self._writer is None:
                writer = self._open()
                if self._ended:
                    writer.discard()
                self._writer = writer
            return self._writer


def arrow_rows(batch: DataFrame) -> Iterator[pa.Table]:
    """Yield the rows of a DataFrame in pieces, while it is computed."""
    pieces = batch.mapInArrow(packed_rows, spark_schema(PIECES))
    for row in pieces.toLocalIterator(prefetchPartitions=True):
        yield unpacked_rows(row[PIECE])


AVAILABLE_NOW: Mapping[str, Any] = {"availableNow": True}
_QUERY_ID = "sql.streaming.queryId"


# The stream
@dataclass(slots=True)
class StreamIngest:
    """A running stream into a table."""

    query: StreamingQuery
    _failures: list[SegtableError] = field(default_factory=list)
    _end: Callable[[], None] = field(default=lambda: None, repr=False)

    def wait(self, timeout_s: int | None = None) -> bool:
        """Wait for the end of the stream; return whether it has ended.

        Raises:
            SegtableError: the failure that ended the stream.
        """
        try:
            return self._awaited(timeout_s)
        except StreamingQueryException as error:
            if self._failures:
                raise self._failures[0] from None
            raise translate(error, f"stream {self.query.name or self.query.id}") from error
        finally:
            if not self.query.isActive:
                self._end()

    def stop(self) -> None:
        """End the stream; a batch in progress is appended once or not at all."""
        self.query.stop()
        self._end()

    def _awaited(self, timeout_s: int | None) -> bool:
        if timeout_s is None:
            self.query.awaitTermination()
            return True
        return bool(self.query.awaitTermination(timeout_s))


def ingest_stream(  # noqa: PLR0913 - each is an option of a user
    ports: TableContext,
    stream_df: DataFrame,
    checkpoint_location: str,
    *,
    name: str | None = None,
    trigger: Mapping[str, Any] = AVAILABLE_NOW,
    rows_per_segment: int | None = None,
    target_size: int | None = None,
    wait_s: float = 60.0,
    deleted: str | None = None,
    log: bool = False,
) -> StreamIngest:
    """Start to append a stream; upsert it if the table has a primary key.

    Args:
        ports: the table's ports.
        stream_df: the table's columns, in any order.
        checkpoint_location: where Spark keeps the stream's progress; one location per stream.
        name: name that Spark shows.
        trigger: arguments of Spark's ``trigger``: ``{"availableNow": True}``,
            ``{"processingTime": "10 seconds"}``.
        rows_per_segment: see ``ingest``.
        target_size: see ``ingest``.
        wait_s: see ``ingest``.
        deleted: see ``ingest``.
        log: let readers of the table's log store see rows before their batch is committed; the
            driver runs the store, and sizes are those of a checkpoint.
    """
    check_in_driver(stream_df, "ingest_stream")
    sizing = Sizing(rows_per_segment=rows_per_segment, target_size=target_size)
    failures: list[SegtableError] = []
    sink = LogSink(partial(stream_writer, ports, wait_s), deleted)

    def append(batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        try:
            if log:
                sink.add(batch, batch_id(query, number))
                return
            append_batch(ports, batch, query, number, sizing=sizing, wait_s=wait_s, deleted=deleted)
        except SegtableError as error:
            failures.append(error)
            sink.close()
            raise

    writer = stream_df.writeStream.foreachBatch(append).trigger(**trigger)
    writer = writer.option("checkpointLocation", checkpoint_location)
    with translated(f"starting a stream into {ports.uri}"):
        query = (writer.queryName(name) if name else writer).start()
    return StreamIngest(query, failures, sink.close)


def stream_writer(ports: TableContext, wait_s: float) -> TableLogWriter:
    """Open the writer of a stream: its store is here, and each batch is a checkpoint."""
    return Table(ports).log_writer(embedded=True, automatic=False, overflow=True, wait_s=wait_s)


def batch_id(query: str | None, number: int) -> str:
    """Return the commit id of a micro-batch of a query, by the query's id.

    Raises:
        ExecutionFailed: the query has no id.
    """
    if not query:  # a made-up id could repeat another stream's, and its batches would be dropped
        raise ExecutionFailed(f"Spark does not say which query this is ({_QUERY_ID} is not set)")
    return f"{query}-{number}"


def append_batch(
    ports: TableContext,
    batch: DataFrame,
    query: str | None,
    number: int,
    *,
    sizing: Sizing,
    wait_s: float,
    deleted: str | None = None,
) -> None:
    """Append a micro-batch of a query, by the query's id and the batch's number, once."""
    commit_id = batch_id(query, number)
    batch.persist()
    try:
        ingest_some(
            ports,
            batch,
            commit_id=commit_id,
            sizing=sizing,
            wait_s=wait_s,
            deleted=deleted,
        )
    finally:
        batch.unpersist()

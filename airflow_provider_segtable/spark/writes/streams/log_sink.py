"""Ingest a stream through the table's log store: readers see rows before their batch is committed.

1. The driver runs the store, as long as the query runs. Tasks hand the rows of a micro-batch to it
   piece by piece, and each piece is readable when it arrives. At the end of the batch all of it is
   committed, by the commit id of the batch (``stream``): exactly once. No other checkpoint is made.
2. A batch that is run again was committed, then it is skipped; or it was not, then what readers saw
   of it is discarded by the new epoch, and they are reset.
3. A batch may be of any size: rows beyond ``log_store.bucket_mb`` for each of ``log_store.buckets``
   wait in temporary files of the driver for the commit, which needs memory for the batch once. Rows
   of an append table go to the buckets in turn, piece by piece.
4. A query that ends, in whatever way, leaves nothing uncommitted behind.
"""

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.library.log_writer.table_log_writer import TableLogWriter
from airflow_provider_segtable.spark.reads.spark_schemas import spark_schema
from airflow_provider_segtable.spark.tasks.arrow_pieces import (
    PIECE,
    PIECES,
    packed_rows,
    unpacked_rows,
)

OpenWriter = Callable[[], TableLogWriter]


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

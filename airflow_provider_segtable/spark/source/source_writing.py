"""Writes of the data source: batches, inserts in SQL, and streams.

1. A write opens a connection to ZooKeeper, and closes it; upserts need none.
2. Modes of a batch: ``append`` appends, or upserts into a table with a primary key. ``overwrite``
   replaces an interval, the chunks of the rows, the rows of a condition, or all rows, in one event.
   ``ignore`` and Spark's default, ``error``, write to no table that exists; a table that does not
   is made by ``Table.create``, which asks for the event time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import DataFrame

from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import TableExists
from airflow_provider_segtable.library.log_stores import log_finder
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.spark.source.source_options import (
    Place,
    WriteRequest,
    answered,
    frame_of,
)
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest_some
from airflow_provider_segtable.spark.writes.spark_engine import overwrite
from airflow_provider_segtable.spark.writes.stream import (
    LogSink,
    append_batch,
    batch_id,
    stream_writer,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.tail import Finder
from airflow_provider_segtable.table.table import Table

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


def save(place: Place, request: WriteRequest, mode: str, rows: DataFrame) -> None:
    """Write a batch in one of Spark's modes.

    Raises:
        TableExists: the mode writes to no table that exists.
    """
    if mode == "ErrorIfExists":
        raise TableExists(f"{place.uri} is a table already: write with mode 'append'")
    if mode == "Ignore":
        return
    with writable(place) as ports:
        if mode == "Append":
            _append(ports, request, rows)
        else:
            _overwrite(ports, request, rows)


def _append(ports: TableContext, request: WriteRequest, rows: DataFrame) -> None:
    ingest_some(
        ports,
        rows,
        commit_id=request.commit_id or ports.randomness.token(),
        sizing=request.sizing,
        wait_s=request.wait_s,
        deleted=request.deleted,
    )


def _overwrite(ports: TableContext, request: WriteRequest, rows: DataFrame) -> None:
    overwrite(
        ports,
        rows,
        interval=request.extent,
        where=request.where,
        commit_id=request.commit_id,
        sizing=request.sizing,
        wait_s=request.wait_s,
    )


@dataclass(slots=True)
class StreamTarget:
    """A table that a stream is written to: ``SegtableSource.Target``.

    With ``log`` it is written through its log store, from the first batch to the query's end.
    """

    context: SparkContext
    place: Place
    request: WriteRequest
    log: bool = False
    _sink: LogSink = field(init=False, repr=False)
    _ports: TableContext | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Prepare the log store, which starts with the first batch."""
        self._sink = LogSink(self._log_writer, self.request.deleted)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Target",)

    @answered
    def add(self, query: str, batch: int, rows: "JavaObject") -> None:
        """Append a micro-batch, once."""
        frame = frame_of(self.context, rows)
        if self.log:
            self._sink.add(frame, batch_id(query, batch))
            return
        with writable(self.place) as ports:
            append_batch(
                ports,
                frame,
                query,
                batch,
                sizing=self.request.sizing,
                wait_s=self.request.wait_s,
                deleted=self.request.deleted,
            )

    @answered
    def close(self) -> None:
        """End the log store, if there is one: the query has ended."""
        self._sink.close()
        ports, self._ports = self._ports, None
        if ports is not None and ports.optional_coordinator is not None:
            ports.optional_coordinator.close()

    def _log_writer(self) -> TableLogWriter:
        self._ports = _opened(self.place)
        return stream_writer(self._ports, self.request.wait_s)


def readable(place: Place) -> TableContext:
    """Return a table's ports, without a coordinator."""
    return Table.open(place.uri, storage_options=place.storage_options).ports


def connected(place: Place) -> tuple[TableContext, Finder]:
    """Return a table's ports with a coordinator, and what finds the services of its log store."""
    ports = _opened(place)
    return ports, log_finder(ports)


def _opened(place: Place) -> TableContext:
    return Table.connect(place.uri, find_zookeeper(place.zookeeper), place.storage_options, None)


@contextmanager
def writable(place: Place) -> Iterator[TableContext]:
    """Yield a table's ports with a coordinator; in the end what was committed is published."""
    ports = _opened(place)
    try:
        yield ports
    finally:
        ports.finish()
        if ports.optional_coordinator is not None:
            ports.optional_coordinator.close()

"""What Spark asks of the data source, answered by segtable: ``SegtableSource.Tables``.

1. A read opens no connection to ZooKeeper. A write opens one and closes it.
2. Modes of a batch: ``append`` appends, or upserts into a table with a primary key. ``overwrite``
   replaces an interval, the chunks of the rows, the rows of a condition, or all rows, in one event.
   ``ignore`` and Spark's default, ``error``, write to no table that exists; a table that does not
   is made by ``Table.create``, which asks for the event time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import SparkContext

from airflow_provider_segtable.coordination.discovery import find_zookeeper
from airflow_provider_segtable.core.errors import TableExists
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.spark.source.jvm_answers import answered, frame_of
from airflow_provider_segtable.spark.source.source_options import (
    Options,
    Place,
    WriteRequest,
    to_read,
    to_write,
)
from airflow_provider_segtable.spark.source.source_reading import Asked, SourceFeed, SourceReading
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest_some
from airflow_provider_segtable.spark.writes.dataframe_overwrite import overwrite
from airflow_provider_segtable.spark.writes.stream import append_batch
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


@dataclass(frozen=True, slots=True)
class JvmTables:
    """The tables of this driver."""

    context: SparkContext

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Tables",)

    @answered
    def read(self, session: "JavaObject", options: Options) -> SourceReading:
        """Return what the options ask for, of the version that they name."""
        del session
        place, request = to_read(options)
        return SourceReading(self.context, Asked.of(_readable(place), request))

    @answered
    def follow(self, session: "JavaObject", options: Options) -> SourceFeed:
        """Return the feed of a stream that reads a table."""
        del session
        place, request = to_read(options)
        return SourceFeed.of(self.context, _readable(place), request)

    @answered
    def save(
        self, session: "JavaObject", options: Options, mode: str, rows: "JavaObject"
    ) -> SourceReading:
        """Write a batch; return the table."""
        del session
        place, request = to_write(options)
        reading = SourceReading(self.context, Asked.of(_readable(place), ReadRequest()))
        if mode == "ErrorIfExists":
            raise TableExists(f"{place.uri} is a table already: write with mode 'append'")
        frame = frame_of(self.context, rows)
        with _writable(place) as ports:
            if mode == "Append":
                commit_id = request.commit_id or ports.randomness.token()
                ingest_some(
                    ports,
                    frame,
                    commit_id=commit_id,
                    sizing=request.sizing,
                    wait_s=request.wait_s,
                    deleted=request.deleted,
                )
            elif mode == "Overwrite":
                overwrite(
                    ports,
                    frame,
                    interval=request.extent,
                    where=request.where,
                    commit_id=request.commit_id,
                    sizing=request.sizing,
                    wait_s=request.wait_s,
                )
        return reading

    @answered
    def receive(self, session: "JavaObject", options: Options) -> "StreamTarget":
        """Return a table to which a stream is written."""
        del session
        place, request = to_write(options)
        _readable(place)  # an error now, not at the first batch
        return StreamTarget(self.context, place, request)


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """A table that a stream is written to: ``SegtableSource.Target``."""

    context: SparkContext
    place: Place
    request: WriteRequest

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Target",)

    @answered
    def add(self, query: str, batch: int, rows: "JavaObject") -> None:
        """Append a micro-batch, once."""
        frame = frame_of(self.context, rows)
        with _writable(self.place) as ports:
            append_batch(
                ports,
                frame,
                query,
                batch,
                sizing=self.request.sizing,
                wait_s=self.request.wait_s,
                deleted=self.request.deleted,
            )


def _readable(place: Place) -> TableContext:
    return Table.open(place.uri, storage_options=place.storage_options).ports


@contextmanager
def _writable(place: Place) -> Iterator[TableContext]:
    ports = Table.connect(place.uri, find_zookeeper(place.zookeeper), place.storage_options, None)
    try:
        yield ports
    finally:
        if ports.optional_coordinator is not None:
            ports.optional_coordinator.close()

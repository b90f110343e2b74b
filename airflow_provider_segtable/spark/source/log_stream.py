"""Read a table's log store as a Spark stream, with the option ``log``: ``SegtableSource.Feed``.

The stream:

1. An offset is the position of each bucket. A stream begins at the newest records, or with
   ``start=earliest`` at the first ones that can be read.
2. A batch ends at the newest records that services hold, committed or not; of buckets without a
   service at their committed end. It has at most ``maxRecordsPerTrigger`` of each bucket.
3. Rows come as they were written: later deletes and updates do not show. Those of a primary-key
   table have the column ``_segtable_deleted``.
4. A batch is read by the driver when its rows are needed, once, and is in memory until it is done.

A batch, between two positions of each bucket:

5. The positions alone determine a batch: committed records are the same whenever it is read.
6. Records that a new epoch has discarded are in no batch any more. A batch that ends in them ends
   where they begin; one that begins behind them begins there again (``Lineage.span``). So the new
   records at these offsets are in the next batch, after those that the stream has already seen.
7. Records are read from files or from the service (``table.log_store.tail``), by the driver. One
   that is neither here nor discarded is waited for, because its service may come back.
8. Of a primary-key table a committed range is one step: a batch may have records again that the one
   before had, in their last form.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark import SparkContext

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, LogStoreUnavailable, WindowExpired
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Expired, Reset, Whence
from airflow_provider_segtable.spark.source.source_options import (
    LogRequest,
    LogStart,
    answered,
    java_of,
    session_of,
)
from airflow_provider_segtable.spark.spark_columns import arrow_schema, schema_json, spark_schema
from airflow_provider_segtable.spark.spark_columns import readable as in_spark
from airflow_provider_segtable.spark.tasks.reading import near
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import DELETED, log_schema
from airflow_provider_segtable.table.log_store.file_reader import first_available
from airflow_provider_segtable.table.log_store.positions import start_positions
from airflow_provider_segtable.table.log_store.tail import BucketTail, Finder, LogRecords

if TYPE_CHECKING:
    from py4j.java_gateway import JavaArray, JavaObject


Positions: TypeAlias = Mapping[int, Position]
"""The position of each bucket."""

WAIT_S = 60.0
"""Longest wait for records whose service does not answer."""
LOOK_S = 1.0

_LOG = logging.getLogger(__name__)


# Batches between two positions
def encode_positions(positions: Positions) -> str:
    """Return positions as a stream's offset, e.g. ``{"0": [1, 50]}``."""
    found = {str(n): [each.epoch, each.offset] for n, each in sorted(positions.items())}
    return json.dumps(found)


def decode_positions(text: str) -> Positions:
    """Parse the output of ``encode_positions``."""
    found = json.loads(text)
    return {int(n): Position(epoch=epoch, offset=at) for n, (epoch, at) in found.items()}


def batch_end(
    ports: TableContext, start: Positions | None, up_to: Positions, records: int
) -> Positions:
    """Return the end of a batch that has at most so many records of each bucket.

    Arguments as for ``batch_rows``. A checkpoint of a primary-key table is never divided.
    """
    state, found = ports.log.load(), {}
    for bucket, last in up_to.items():
        if start is None:
            first = first_available(ports, bucket).offset
        else:
            lineage = bucket_of(state, bucket).lineage
            first, _ = lineage.span(start.get(bucket, BEGINNING), last)
        found[bucket] = replace(last, offset=min(last.offset, first + records))
    return found


def batch_rows(
    ports: TableContext, find: Finder, start: Positions | None, end: Positions, schema: pa.Schema
) -> pa.Table:
    """Return the records from one position of each bucket to another.

    Args:
        ports: the table's ports.
        find: finds the services of buckets.
        start: the first positions; None for all that can be read.
        end: the last positions.
        schema: the columns.

    Raises:
        WindowExpired: records after the start were cleaned.
        LogStoreUnavailable: records are neither in the table nor at a service, for ``WAIT_S``.
    """
    found = [schema.empty_table()]
    for bucket, last in sorted(end.items()):
        first = None if start is None else start.get(bucket, BEGINNING)
        reading = _BucketBatch(ports, find, bucket, first, last)
        found += [_in_columns(each, schema) for each in reading.records()]
    return pa.concat_tables(found)


def _in_columns(records: LogRecords, schema: pa.Schema) -> pa.Table:
    rows = records.rows
    if DELETED in schema.names:
        rows = rows.append_column(schema.field(DELETED), pa.array(records.deleted, pa.bool_()))
    return rows.select(schema.names).cast(schema)


class _BucketBatch:
    """The records of one bucket in a batch; ``start`` is None for all that can be read."""

    def __init__(
        self,
        ports: TableContext,
        find: Finder,
        bucket: int,
        start: Position | None,
        end: Position,
    ) -> None:
        self._ports, self._find, self._bucket = ports, find, bucket
        self._start, self._end = start, end

    def records(self) -> Iterator[LogRecords]:
        """Yield the records."""
        first, last = self._span()
        at = first.offset
        waited_s = 0.0
        with closing(BucketTail(self._ports, self._bucket, first, self._find)) as tail:
            while at < last:
                match tail.read(LOOK_S):
                    case LogRecords() as found:
                        yield _until(found, last)
                        at, waited_s = found.after.offset, 0.0
                    case Reset():
                        return  # what was discarded meanwhile: the next batch begins there
                    case Expired(position=position):
                        self._check_start(position)
                        at = position.offset
                    case None:
                        waited_s += LOOK_S
                        last = self._span()[1]
                        self._check_wait(waited_s, at, last)

    def _span(self) -> tuple[Position, Offset]:
        """Return the first position, and the offset after the last record, as of now."""
        known = bucket_of(self._ports.log.load(), self._bucket)
        start = BEGINNING if self._start is None else self._start
        first, last = known.lineage.span(start, self._end)
        if first == start.offset:
            return start, last
        _LOG.warning(
            "%s: records of bucket %s from offset %s on were discarded before they were committed; "
            "the stream has read up to %s, and goes on with the records of epoch %s",
            self._ports.uri,
            self._bucket,
            first,
            start.offset,
            known.epoch,
        )
        return Position(epoch=known.epoch, offset=first), last

    def _check_start(self, position: Position) -> None:
        if self._start is not None:
            raise WindowExpired(
                f"{self._ports.uri}: the records of bucket {self._bucket} after offset "
                f"{self._start.offset} were cleaned up to {position.offset}: read a version of the "
                "table, and start a new stream, with a checkpoint of its own"
            )

    def _check_wait(self, waited_s: float, at: Offset, last: Offset) -> None:
        if waited_s >= WAIT_S and at < last:
            raise LogStoreUnavailable(
                f"{self._ports.uri}: the records {at} to {last} of bucket {self._bucket} are not "
                f"in the table, and no service has them since {waited_s:g} s: start the writer "
                "again, then the stream"
            )


def _until(records: LogRecords, last: Offset) -> LogRecords:
    """Return the records of an append table up to an offset; all of a merged range."""
    count = last - records.first
    if records.deleted is not None or records.rows.num_rows <= count:
        return records
    return replace(records, rows=records.rows.slice(0, count))


Access: TypeAlias = tuple[TableContext, Finder]
"""A table's ports with a coordinator, and what finds its services."""

SIZE = 1 << 20
"""Bytes of a batch, as far as Spark chooses joins by them; it is in the driver's memory."""


# The stream
@dataclass(slots=True)
class LogFeed:
    """The log store of a table, as far as a stream asks for it."""

    context: SparkContext
    columns: pa.Schema
    time_column: str
    request: LogRequest
    connect: Callable[[], Access] = field(repr=False)
    _access: Access | None = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Feed",)

    @staticmethod
    def of(
        context: SparkContext,
        ports: TableContext,
        request: LogRequest,
        connect: Callable[[], Access],
    ) -> "LogFeed":
        """Return the feed of a table's log store; ``connect`` is called when it is first read.

        Raises:
            InvalidInput: this kind of table has no log store.
        """
        state = ports.log.load()
        columns = log_schema(state, ports.uri)
        return LogFeed(context, columns, state.table.time_column, request, connect)

    @property
    def access(self) -> Access:
        """Return the connected table."""
        if self._access is None:
            self._access = self.connect()
        return self._access

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return schema_json(self.columns)

    @answered
    def newest(self) -> str:
        """Return the newest positions."""
        ports, find = self.access
        buckets = ports.log.load().log_store
        return encode_positions(start_positions(ports, find, Whence.LATEST.value, buckets))

    @answered
    def next(self, after: str, up_to: str, limited: bool) -> str:  # noqa: FBT001
        """Return the end of the batch after a position, at most ``up_to``."""
        if not limited or self._skips(after):
            return up_to
        ports, _ = self.access
        start = decode_positions(after) if after else None
        end = batch_end(ports, start, decode_positions(up_to), self.request.records)
        return encode_positions(end)

    @answered
    def batch(self, after: str, up_to: str) -> "LogBatch":
        """Return the reading of a batch."""

        def read() -> pa.Table:
            if self._skips(after):
                return self.columns.empty_table()
            end = decode_positions(up_to)
            start = decode_positions(after) if after else None
            return batch_rows(*self.access, start, end, self.columns)

        return LogBatch(self.context, self.columns, self.time_column, read)

    def _skips(self, after: str) -> bool:
        """Return whether a batch is the first one of a stream of new records: it has none."""
        return not after and self.request.start is LogStart.LATEST

    @answered
    def close(self) -> None:
        """End the connection to ZooKeeper."""
        access, self._access = self._access, None
        if access is not None and access[0].optional_coordinator is not None:
            access[0].optional_coordinator.close()


@dataclass(slots=True)
class LogBatch:
    """The records of a batch: ``SegtableSource.Reading``."""

    context: SparkContext
    columns: pa.Schema
    time_column: str
    read: Callable[[], pa.Table] = field(repr=False)
    _rows: pa.Table | None = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Reading",)

    @property
    def rows(self) -> pa.Table:
        """Return the records; they are read once."""
        if self._rows is None:
            self._rows = self.read()
        return self._rows

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return schema_json(self.columns)

    @answered
    def size(self) -> int:
        """Return the bytes by which Spark chooses joins."""
        return SIZE

    @answered
    def frame(
        self, session: "JavaObject", columns: "JavaArray", filters: "JavaArray"
    ) -> "JavaObject":
        """Return a DataFrame of columns; Spark itself filters."""
        del filters
        kinds = spark_schema(in_spark(self.columns))
        rows = near(self.rows, arrow_schema(kinds), self.time_column)
        made = session_of(self.context, session).createDataFrame(rows, kinds)
        return java_of(made.select([f"`{name}`" for name in columns]))

    @answered
    def insert(self, rows: "JavaObject", overwrite: bool) -> None:  # noqa: FBT001
        """Refuse rows: a batch is what was read.

        Raises:
            InvalidInput: always.
        """
        del rows, overwrite
        raise InvalidInput("a batch of a stream takes no rows: write to the table")

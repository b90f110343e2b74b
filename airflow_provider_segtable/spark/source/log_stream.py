"""Read a table's log store as a Spark stream, with the option ``log``: ``SegtableSource.Feed``.

The stream:

1. An offset is the position of each bucket. A stream begins at the newest records, or with
   ``start=earliest`` at the first ones that can be read.
2. A batch ends at the newest records that services hold, committed or not; of buckets without a
   service at their committed end. It has at most ``maxRecordsPerTrigger`` of each bucket.
3. Rows come as they were written: later deletes and updates do not show. Those of a primary-key
   table have the column ``_segtable_deleted``.
4. The driver reads no record. It plans a batch once, when its rows are needed: the committed ranges
   with their files, and for the rest the service of each bucket. Tasks read both
   (``spark.tasks.log_reading``), in the order of buckets and offsets.

A batch, between two positions of each bucket:

5. The positions alone determine a batch: committed records are the same whenever it is read.
6. Records that a new epoch has discarded are in no batch any more. A batch that ends in them ends
   where they begin; one that begins behind them begins there again (``Lineage.span``). So the new
   records at these offsets are in the next batch, after those that the stream has already seen.
7. Records that are neither here nor discarded are waited for, because their service may come back.
8. Of a primary-key table a committed range is one step: a batch may have records again that the one
   before had, in their last form.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark import SparkContext

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinationError,
    InvalidInput,
    LogStoreUnavailable,
    NotFound,
    WindowExpired,
)
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended, published
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import (
    BEGINNING,
    LogRange,
    Offset,
    Position,
)
from airflow_provider_segtable.core.log_store.reading import Whence
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.ports.log_store import LogClient
from airflow_provider_segtable.spark.reads.keyed_scan import read_in_tasks
from airflow_provider_segtable.spark.source.source_options import (
    LogRequest,
    LogStart,
    answered,
    java_of,
    session_of,
)
from airflow_provider_segtable.spark.spark_columns import readable as in_spark
from airflow_provider_segtable.spark.spark_columns import schema_json, spark_schema
from airflow_provider_segtable.spark.tasks.log_reading import (
    LOOK_S,
    WAIT_S,
    CommittedPart,
    LogPart,
    LogReading,
    ServedPart,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import DELETED, log_schema
from airflow_provider_segtable.table.log_store.file_reader import first_available, ranges
from airflow_provider_segtable.table.log_store.positions import start_positions
from airflow_provider_segtable.table.log_store.tail import Finder

if TYPE_CHECKING:
    from py4j.java_gateway import JavaArray, JavaObject


Positions: TypeAlias = Mapping[int, Position]
"""The position of each bucket."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """A batch: the definition of the table, what tasks read, and the services that they ask."""

    table: TableDefinition
    parts: tuple[LogPart, ...] = ()
    clients: Mapping[int, LogClient] = field(default_factory=dict)


def batch_plan(
    ports: TableContext, find: Finder, start: Positions | None, end: Positions
) -> BatchPlan:
    """Return how to read the records from one position of each bucket to another.

    Args:
        ports: the table's ports.
        find: finds the services of buckets.
        start: the first positions; None for all that can be read.
        end: the last positions.

    Raises:
        WindowExpired: records after the start were cleaned.
        LogStoreUnavailable: records are neither in the table nor at a service, for ``WAIT_S``.
    """
    parts: list[LogPart] = []
    clients: dict[int, LogClient] = {}
    for bucket, last in sorted(end.items()):
        first = None if start is None else start.get(bucket, BEGINNING)
        planned = _BucketPlan(ports, find, bucket, first, last)
        parts += planned.parts()
        if planned.client is not None:
            clients[bucket] = planned.client
    return BatchPlan(table=ports.log.load().table, parts=tuple(parts), clients=clients)


class _BucketPlan:
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
        self._at = 0
        self.client: LogClient | None = None

    def parts(self) -> Iterator[LogPart]:
        """Yield the parts, in the order of their offsets."""
        state, self._at, last = self._span()
        self._warn(self._at)
        waited_s = 0.0
        while self._at < last:
            yield from self._committed(state, last)
            if self._at >= last:
                return
            self.client = self._service()
            if self.client is not None:
                epoch = bucket_of(state, self._bucket).epoch
                start = Position(epoch=epoch, offset=self._at)
                yield ServedPart(bucket=self._bucket, start=start, last=last, n=state.n)
                return
            self._check_wait(waited_s, last)
            self._ports.clock.sleep(LOOK_S)
            waited_s += LOOK_S
            state, _, last = self._span()

    def _committed(self, state: State, last: Offset) -> Iterator[CommittedPart]:
        """Yield the committed ranges from the offset on, as of a version."""
        end = bucket_of(state, self._bucket).end
        while self._at < min(end, last):
            try:
                for event, found in ranges(self._ports.log, state, self._bucket, self._at):
                    if found.start > self._at:
                        self._skip(found.start)
                    if found.start >= last:
                        return
                    yield self._part(state, event, found, last)
                    self._at = found.end
            except NotFound:  # it has expired meanwhile
                first = first_available(self._ports, self._bucket).offset
                if first <= self._at:
                    raise
                self._skip(first)
                continue
            if self._at < end and self._at < last:
                self._skip(end)

    def _part(self, state: State, event: Event, found: LogRange, last: Offset) -> CommittedPart:
        action, kind = event.action, state.table.kind
        segments = published(kind, action, event.time) if isinstance(action, Appended) else ()
        first = max(self._at, found.start)
        return CommittedPart(found=found, segments=segments, first=first, last=min(found.end, last))

    def _service(self) -> LogClient | None:
        try:
            return self._find(self._bucket)
        except (LogStoreUnavailable, CoordinationError):
            return None

    def _span(self) -> tuple[State, Offset, Offset]:
        """Return a version, the first offset, and the one after the last record, as of now."""
        state = self._ports.log.load()
        start = BEGINNING if self._start is None else self._start
        first, last = bucket_of(state, self._bucket).lineage.span(start, self._end)
        return state, first, last

    def _warn(self, first: Offset) -> None:
        if self._start is None or first == self._start.offset:
            return
        _LOG.warning(
            "%s: records of bucket %s from offset %s on were discarded before they were committed; "
            "the stream has read up to %s, and goes on with the records of epoch %s",
            self._ports.uri,
            self._bucket,
            first,
            self._start.offset,
            bucket_of(self._ports.log.load(), self._bucket).epoch,
        )

    def _skip(self, first: Offset) -> None:
        """Go on from the first record that is kept; only the first batch of a stream may."""
        if self._start is not None:
            raise WindowExpired(
                f"{self._ports.uri}: the records of bucket {self._bucket} after offset "
                f"{self._start.offset} were cleaned up to {first}: read a version of the "
                "table, and start a new stream, with a checkpoint of its own"
            )
        self._at = first

    def _check_wait(self, waited_s: float, last: Offset) -> None:
        if waited_s >= WAIT_S:
            raise LogStoreUnavailable(
                f"{self._ports.uri}: the records {self._at} to {last} of bucket {self._bucket} are "
                f"not in the table, and no service has them since {waited_s:g} s: start the writer "
                "again, then the stream"
            )


Access: TypeAlias = tuple[TableContext, Finder]
"""A table's ports with a coordinator, and what finds its services."""

SIZE = 1 << 20
"""Bytes of a batch, as far as Spark chooses joins by them; nobody knows them before it is read."""


# The stream
@dataclass(slots=True)
class LogFeed:
    """The log store of a table, as far as a stream asks for it."""

    context: SparkContext
    columns: pa.Schema
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
        return LogFeed(context, columns, request, connect)

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

        def plan() -> BatchPlan:
            ports, find = self.access
            if self._skips(after):
                return BatchPlan(table=ports.log.load().table)
            start = decode_positions(after) if after else None
            return batch_plan(ports, find, start, decode_positions(up_to))

        return LogBatch(self.context, self.columns, lambda: self.access[0], plan)

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
    ports: Callable[[], TableContext] = field(repr=False)
    make_plan: Callable[[], BatchPlan] = field(repr=False)
    _plan: BatchPlan | None = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Reading",)

    @property
    def plan(self) -> BatchPlan:
        """Return what tasks read; it is decided once."""
        if self._plan is None:
            self._plan = self.make_plan()
        return self._plan

    def reading(self, columns: Sequence[str]) -> LogReading:
        """Return how tasks read the parts of the batch."""
        found = self.plan
        return LogReading(
            table=found.table,
            place=self.ports().uri,
            columns=pa.schema([self.columns.field(name) for name in columns]),
            deleted=None if found.table.kind.rules is None else DELETED,
            clients=found.clients,
        )

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return schema_json(self.columns)

    @answered
    def size(self) -> int:
        """Return the bytes by which Spark chooses joins."""
        return SIZE

    @answered
    def frame(self, session: "JavaObject", columns: str, filters: "JavaArray") -> "JavaObject":
        """Return a DataFrame of columns; Spark itself filters."""
        del filters
        wanted = json.loads(columns)
        reading = self.reading(wanted or self.columns.names[:1])  # to count rows
        rows = read_in_tasks(
            session_of(self.context, session),
            self.ports(),
            self.plan.parts,
            reading,
            spark_schema(in_spark(reading.columns)),
            time_column=reading.table.time_column,
        )
        return java_of(rows.select([f"`{name}`" for name in wanted]))

    @answered
    def insert(self, rows: "JavaObject", overwrite: bool) -> None:  # noqa: FBT001
        """Refuse rows: a batch is what was read.

        Raises:
            InvalidInput: always.
        """
        del rows, overwrite
        raise InvalidInput("a batch of a stream takes no rows: write to the table")

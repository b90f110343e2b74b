"""Read a batch of a log store's records in Spark tasks: committed ranges, and services.

1. The driver divides a batch into parts (``spark.source.log_stream``). A part is a committed range,
   read from its files, or what a service holds of a bucket, read from the service.
2. Between the plan and the task a service may have committed its records and forgotten them, or
   ended. The task then finds them in the events after the planned version: event files follow each
   other by number, so neither the table's log nor ZooKeeper is needed for that.
3. Only records of the planned epoch count. If a later epoch has begun, the rest of the part was
   discarded: the task ends there, and the next batch of the stream begins there.
4. Records that are nowhere are waited for: a commit may be under way. After ``WAIT_S`` the task
   fails, and with it the batch. Its positions stay, so the stream that is started again reads the
   same records, wherever they are by then.
5. Records keep the order of their offsets within a part.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import Fenced, LogStoreUnavailable, NotFound
from airflow_provider_segtable.core.log.events import Event, decode_file
from airflow_provider_segtable.core.log.families.append_events import Appended, published
from airflow_provider_segtable.core.log.families.log_store_events import epoch_begun
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log_store.manifest import LogRange, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.data.log_ranges import RangeReader
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.log_store import LogClient, LogReader, Records
from airflow_provider_segtable.spark.tasks.reading import RowsOf

WAIT_S = 60.0
"""Longest wait for records that neither a service nor a file has."""
LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPart:
    """The records of a committed range from an offset on, up to another one."""

    found: LogRange
    segments: tuple[Segment, ...]
    first: Offset
    last: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPart:
    """The records of a bucket that a service had at version ``n``, from ``start`` to ``last``."""

    bucket: int
    start: Position
    last: Offset
    n: int


LogPart: TypeAlias = CommittedPart | ServedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """Read parts of a log store.

    Attributes:
        table: its definition, as of the plan.
        place: the table, for messages.
        columns: the columns of the records.
        deleted: the name of the column that flags records that delete their key; None if the table
            has no primary key.
        clients: the services of the buckets with a ``ServedPart``.
        pause: sleeps for so many seconds.
    """

    table: TableDefinition
    place: str
    columns: pa.Schema
    deleted: str | None
    clients: Mapping[int, LogClient]
    pause: Callable[[float], None] = field(default=time.sleep)

    def opened(self, files: DataFiles) -> RowsOf[LogPart]:
        """Return the reader of a task."""
        return partial(self._rows, files)

    def _rows(self, files: DataFiles, part: LogPart) -> Iterator[pa.Table]:
        reader = RangeReader(files=files, table=self.table, place=self.place)
        match part:
            case CommittedPart():
                yield self.committed(reader, part)
            case ServedPart():
                yield from _Served(self, reader, part).rows()

    def committed(self, reader: RangeReader, part: CommittedPart) -> pa.Table:
        """Return the records of a range; of a primary-key table always all of them."""
        rows, deleted = reader.records(part.found, part.segments)
        if deleted is None:
            first = max(part.first - part.found.start, 0)
            rows = rows.slice(first, part.last - part.found.start - first)
        return self.shown(rows, deleted)

    def shown(self, rows: pa.Table, deleted: Flags | None) -> pa.Table:
        """Return records in the columns of the stream."""
        if deleted is not None and self.deleted is not None:
            rows = rows.append_column(pa.field(self.deleted, pa.bool_()), pa.array(deleted))
        return rows.select(self.columns.names).cast(self.columns)


class _Served:
    """The records of a part that a service had when the batch was planned."""

    def __init__(self, reading: LogReading, files: RangeReader, part: ServedPart) -> None:
        self._reading, self._files, self._part = reading, files, part
        self._at, self._n = part.start.offset, part.n
        self._discarded = False
        self._reader: LogReader | None = None

    def rows(self) -> Iterator[pa.Table]:
        """Yield the records; fewer if the rest was discarded."""
        waited_s = 0.0
        try:
            while self._at < self._part.last:
                found = self._from_service()
                found = [*self._from_files()] if found is None else found
                yield from found
                if self._discarded:
                    return
                waited_s = 0.0 if found else waited_s + LOOK_S
                self._check_wait(waited_s)
        finally:
            self._leave()

    def _from_service(self) -> Sequence[pa.Table] | None:
        """Return the next records of the service; None if it has none."""
        try:
            reader = self._connected()
            found = reader.read(wait_s=LOOK_S) if reader else None
        except (LogStoreUnavailable, Fenced):
            self._leave()
            return None
        match found:
            case Records():
                return [self._records(found)]
            case Reset():
                self._discarded = True
                return []
            case _:  # silence, or they are in files by now
                return None

    def _records(self, found: Records) -> pa.Table:
        rows = pa.Table.from_batches([found.batch]).slice(0, self._part.last - found.first)
        self._at = found.first + rows.num_rows
        names = self._reading.columns.names
        missing = self._reading.deleted
        if missing in rows.column_names:
            flags = rows.column(missing).fill_null(fill_value=False)
            rows = rows.set_column(rows.column_names.index(missing), missing, flags)
        return rows.select(names).cast(self._reading.columns)

    def _connected(self) -> LogReader | None:
        client = self._reading.clients.get(self._part.bucket)
        if self._reader is None and client is not None:
            start = Position(epoch=self._part.start.epoch, offset=self._at)
            self._reader = client.reader(self._part.bucket, start=start)
        return self._reader

    def _leave(self) -> None:
        reader, self._reader = self._reader, None
        if reader:
            reader.close()

    def _from_files(self) -> Iterator[pa.Table]:
        """Yield the records that events after the plan have committed."""
        for event in self._news():
            self._n = event.n
            begun = epoch_begun(event.action, self._part.bucket)
            if begun is not None and begun > self._part.start.epoch:
                self._discarded = True
                return
            action = event.action
            for each in action.log if isinstance(action, Appended) else ():
                if each.bucket != self._part.bucket or each.end <= self._at:
                    continue
                if each.epoch != self._part.start.epoch:  # a restore has begun another one
                    self._discarded = True
                    return
                yield self._committed(event, each)
                if self._at >= self._part.last:
                    return

    def _committed(self, event: Event, found: LogRange) -> pa.Table:
        action, kind = event.action, self._reading.table.kind
        segments = published(kind, action, event.time) if isinstance(action, Appended) else ()
        last = min(found.end, self._part.last)
        part = CommittedPart(found=found, segments=segments, first=self._at, last=last)
        self._at = found.end
        self._leave()  # its reader is at an earlier position
        return self._reading.committed(self._files, part)

    def _news(self) -> Iterator[Event]:
        """Yield the events after the last known one."""
        while True:
            path = event_path(self._n + 1)
            try:
                with self._files.files.open(path) as source:
                    data = source.read_at(0, source.size)
            except NotFound:
                return
            yield from decode_file(data, path)

    def _check_wait(self, waited_s: float) -> None:
        if waited_s >= WAIT_S:
            raise LogStoreUnavailable(
                f"{self._reading.place}: the records {self._at} to {self._part.last} of bucket "
                f"{self._part.bucket} are not in the table, and no service has them since "
                f"{waited_s:g} s: start the writer again, then the stream"
            )
        if waited_s and self._reader is None:
            self._reading.pause(LOOK_S)

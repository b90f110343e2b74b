"""A follower of one bucket: it reads files when it is far behind, and its service near the tail.

1. ``core.log_store.following`` decides where to read next; this class reads there.
2. Records of an append table come once and without gaps, except after ``Reset``. In a primary-key
   table a range in files is read whole (``file_reader``): after the service went away in the middle
   of it, ``LogRecords.first`` is before the position. As upserts these records change nothing.
3. Services move. A service that does not answer, or has another epoch than the follower has seen,
   is left; the follower waits for news, looks into the files, and asks for the bucket's service
   again. Without any service it follows the commits of the table.
4. A position of an epoch that the table's log does not know is one of a log that was lost
   (``segtable repair``): the follower is reset to the beginning.
5. A follower belongs to one thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.errors import (
    CoordinationError,
    Fenced,
    InvalidInput,
    LogStoreUnavailable,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.reading import (
    LOOK_S,
    Behind,
    CommittedRead,
    Expired,
    FilesEnded,
    Following,
    NewsAwaited,
    Reset,
    Seen,
    Silence,
    Source,
    Streamed,
    Unavailable,
    followed,
    through_in,
)
from airflow_provider_segtable.data.merge.key_groups import Flags
from airflow_provider_segtable.ports.log_store import LogClient, LogReader, Records
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.file_reader import RangeRecords, read_committed
from airflow_provider_segtable.table.log_store.live_tail import Finder
from airflow_provider_segtable.table.log_store.log_schema import DELETED

NEWS_S = 0.5
"""Longest wait for an event of the table before the service is looked up again."""
SHORTEST_S = 0.001
"""What a wait counts at least, so that a reader that never waits looks at the table, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """Records of a bucket.

    Attributes:
        bucket: the number of the bucket.
        first: the offset of the first record.
        after: the position after the last one.
        rows: the records, in the order of their offsets; if they are ``committed`` and the table
            has a primary key, one record a key, sorted by key.
        committed: whether they were read from the table's files. If not, a commit may follow, or a
            ``Reset``.
        deleted: in a primary-key table, which of them delete their key; else None.
    """

    bucket: int
    first: Offset
    after: Position
    rows: pa.Table
    committed: bool
    deleted: Flags | None = None


Found: TypeAlias = LogRecords | Reset | Expired
_Step: TypeAlias = tuple[Found | None, Seen, float]
"""What is next at the source, the event of it, and for how long it was awaited."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The committed records from a position on, as of a version."""

    state: State
    records: Iterator[RangeRecords | Reset | Expired]


class BucketTail:
    """A follower of one bucket of a table."""

    def __init__(self, ports: TableContext, bucket: int, start: Position, find: Finder) -> None:
        """Follow a bucket from a position on.

        Args:
            ports: the table's ports; with a coordinator, commits are heard of at once.
            bucket: the number of the bucket.
            start: the position of the first record.
            find: finds the service of a bucket.
        """
        self._ports, self._bucket, self._find = ports, bucket, find
        self._at = Following(position=start)
        self._unproven = True  # a position that a user gave may be none
        self._state: State | None = None
        self._files: _Files | None = None
        self._client: LogClient | None = None
        self._reader: LogReader | None = None

    @property
    def position(self) -> Position:
        """Return the position behind all that was returned."""
        return self._at.position

    @property
    def through(self) -> int:
        """Return an event up to which everything committed was returned; -1 if unknown."""
        return self._at.through

    @property
    def source(self) -> Source:
        """Return where the next records come from."""
        return self._at.source

    def read(self, wait_s: float) -> Found | None:
        """Return what is next; None if nothing comes in time.

        ``Reset`` says that records from an offset on were discarded, ``Expired`` that records were
        cleaned before they were read. Both name the position at which the next read goes on.

        Raises:
            InvalidInput: the start is no position of the bucket.
            TableGone, CorruptTable, StorageError: the table cannot be read.
        """
        left = wait_s
        while True:
            found, seen, waited = self._step(left)
            self._at = followed(self._at, seen)
            if found is not None:
                self._unproven = False
                return found
            left -= waited
            if waited and left <= 0:
                return None

    def close(self) -> None:
        """Release the service."""
        self._leave()
        self._files = None

    def _step(self, left: float) -> _Step:
        match self._at.source:
            case Source.FILES:
                return self._from_files()
            case Source.SERVICE:
                return self._from_service(max(0.0, min(left, LOOK_S)))
            case Source.NEWS:
                return None, NewsAwaited(), self._await_news(max(0.0, min(left, NEWS_S)))

    def _from_files(self) -> _Step:
        files = self._files = self._files or self._opened_files()
        match next(files.records, None):
            case RangeRecords() as read:
                records = self._committed(read)
                return records, CommittedRead(after=records.after, n=read.n), 0.0
            case None:
                self._files = None
                self._leave_if_moved()
                return None, FilesEnded(n=files.state.n, epoch=self._epoch_in(files.state)), 0.0
            case other:
                self._files = None
                return other, other, 0.0

    def _opened_files(self) -> "_Files":
        """Return the committed records from the position on, as of the newest version."""
        log, position = self._ports.log, self.position
        self._state = state = log.refresh(self._state) if self._state else log.load()
        known = self._epoch_in(state)
        if position.epoch > known:
            return _Files(state, iter([Reset(epoch=known, offset=0)]))
        through = through_in(known, position, self._at.through)
        records = read_committed(self._ports, self._bucket, position, state=state, through=through)
        return _Files(state, records)

    def _epoch_in(self, state: State) -> Epoch:
        return bucket_of(state, self._bucket).epoch

    def _committed(self, read: RangeRecords) -> LogRecords:
        return LogRecords(
            bucket=self._bucket,
            first=read.first,
            after=read.after,
            rows=read.rows,
            committed=True,
            deleted=read.deleted,
        )

    def _from_service(self, wait_s: float) -> _Step:
        try:
            reader = self._connected()
            found = reader.read(wait_s=wait_s)
        except (LogStoreUnavailable, Fenced):
            return self._refused()
        except InvalidInput:
            if self._unproven:
                raise
            return self._refused()
        match found:
            case Records():
                records = self._streamed(found, reader.position or self.position)
                return records, Streamed(after=records.after), 0.0
            case None:
                waited = max(wait_s, SHORTEST_S)
                return None, Silence(seconds=waited), waited
            case Behind():
                return None, found, 0.0
            case _:
                return found, found, 0.0

    def _refused(self) -> _Step:
        self._leave()
        return None, Unavailable(), 0.0

    def _streamed(self, records: Records, after: Position) -> LogRecords:
        rows, deleted = pa.Table.from_batches([records.batch]), None
        if DELETED in rows.column_names:
            deleted = rows.column(DELETED).fill_null(fill_value=False).to_numpy()
            rows = rows.drop_columns([DELETED])
        return LogRecords(
            bucket=self._bucket,
            first=records.first,
            after=after,
            rows=rows,
            committed=False,
            deleted=deleted,
        )

    def _connected(self) -> LogReader:
        """Return a reader at the position; raise ``LogStoreUnavailable`` without a service."""
        if self._reader is None:
            self._client = self._service()
            if self._client is None:
                raise LogStoreUnavailable(f"bucket {self._bucket} is not served at present")
            self._reader = self._client.reader(self._bucket, start=self.position)
        if self._reader.position != self.position:
            self._reader.seek(self.position)
        return self._reader

    def _leave_if_moved(self) -> None:
        """Leave a service that does not have the bucket any more."""
        if self._reader is not None and self._service() is not self._client:
            self._leave()

    def _service(self) -> LogClient | None:
        try:
            return self._find(self._bucket)
        except (LogStoreUnavailable, CoordinationError):
            return None

    def _leave(self) -> None:
        reader, self._reader, self._client = self._reader, None, None
        if reader:
            reader.close()

    def _await_news(self, wait_s: float) -> float:
        """Wait for an event of the table; return for how long."""
        coordinator, state = self._ports.optional_coordinator, self._state
        begin = self._ports.clock.monotonic()
        try:
            if coordinator is None or state is None:
                self._ports.clock.sleep(wait_s)
            else:
                coordinator.wait_head(state.table.table_id, beyond=state.n, wait_s=wait_s)
        except CoordinationError:  # the files can be read without it
            self._ports.clock.sleep(wait_s)
        return max(self._ports.clock.monotonic() - begin, SHORTEST_S)

"""Read the tail of a log store: at one moment with the table, or by following its buckets.

The live tail, the records that log stores hold and the table has not committed:

1. It is of one point in time. First the status of each store is read, of all its buckets at once;
   then the newest version of the table; then of each bucket the records from the version's
   committed end up to the end in the status. If the version is already beyond that, there are none.
   Several services have a point each, all before the version.
2. Only records of a bucket's newest epoch count. Those of an older one will never be committed.
3. If the records were committed meanwhile and evicted, or discarded by a new epoch, a newer version
   shows it: begin again, a bounded number of times.
4. A bucket without a service has no tail. Nor has one with a published service that has certainly
   ended: its host answers, and nothing listens there (``LogStoreGone``). Its records are lost with
   it, or its writer sends them again. A note says so.
5. A published service that does not answer is an error: its records may be alive, and other readers
   may see them.

A follower of one bucket reads files when it is far behind, and the service near the tail:

6. ``core.log_store.reading`` decides where to read next; ``BucketTail`` reads there.
7. Records of an append table are returned once and without gaps, except after ``Reset``. In a
   primary-key table a range in files is read whole (``table.log_store.file_reader``). If the
   service ended in the middle of a range, ``LogRecords.first`` is before the position. As upserts
   these records change nothing.
8. Services move. If a service does not answer, or has another epoch than the follower has seen, the
   follower leaves it, waits for news, reads the files, and looks the bucket's service up again.
   Without any service it follows the commits of the table.
9. A position of an epoch that the table's log does not have is one of a lost log
   (``segtable repair``): the follower is reset to the beginning.
10. A follower belongs to one thread.

``BucketTurns`` follows several buckets at once, and returns their records in turn:

11. Each bucket has a thread with a follower, which holds one result until it is taken. So a bucket
    that is slow, or far behind, delays no other one. If the reader takes nothing, all threads wait:
    memory is bounded.
12. Buckets with results are served in turn: none is served twice while another one waits.
13. An error of a bucket is raised once by ``take``; then the bucket is followed again.
14. Members of a consumer group share buckets, so these are added and removed (``follow``,
    ``leave``).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinationError,
    Fenced,
    InvalidInput,
    LogStoreGone,
    LogStoreUnavailable,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.bucket import Batch, BucketCut
from airflow_provider_segtable.core.log_store.manifest import NO_EPOCHS, Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.reading import (
    LOOK_S,
    Behind,
    BucketStatus,
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
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.ports.log_store import (
    Cut,
    LogClient,
    LogReader,
    RecordBatch,
    Records,
)
from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE, TableContext
from airflow_provider_segtable.table.log_store.checkpointing import DELETED
from airflow_provider_segtable.table.log_store.file_reader import RangeRecords, read_committed

Finder: TypeAlias = Callable[[int], LogClient | None]
"""Returns access to the store that holds a bucket; None if no service holds it."""

_LOG = logging.getLogger(__name__)

TRIES = 5
WAIT_S = 10.0
"""Longest wait for records that the status has promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTail:
    """A version, and the records after it; ``notes`` has a note on each bucket."""

    state: State
    cut: Cut
    notes: tuple[str, ...]


def live_tail(ports: TableContext, find: Finder) -> LiveTail:
    """Return the newest version and the records that its log stores hold after it.

    Raises:
        LogStoreUnavailable: a published service does not answer, or the log stores changed
            ``TRIES`` times meanwhile.
    """
    reason = ""
    for _ in range(TRIES):
        try:
            found = _at_one_point(ports, find)
        except (LogStoreUnavailable, Fenced) as error:
            found = str(error)
        if isinstance(found, LiveTail):
            return found
        reason = found
    raise LogStoreUnavailable(
        f"the live tail of {ports.uri} was not read in {TRIES} attempts: {reason}; a service whose "
        f"host is gone is known until its ZooKeeper session ends ({SESSION_TIMEOUT_VARIABLE}, 30 s "
        "by default): read again after that, or read the table without include_log"
    )


def _at_one_point(ports: TableContext, find: Finder) -> LiveTail | str:
    """Return the tail, or the reason to read it again."""
    before = ports.log.load()
    clients = {bucket: find(bucket) for bucket in sorted(before.log_store)}
    each, gone = _statuses({n: client for n, client in clients.items() if client is not None})
    state = ports.log.refresh(before)
    if state.log_store.keys() != clients.keys():
        return "a bucket got its first writer meanwhile"
    cuts: dict[int, BucketCut[RecordBatch]] = {}
    notes = []
    for bucket, client in clients.items():
        found = gone.get(bucket) or _of_bucket(state, bucket, client, each.get(bucket))
        if isinstance(found, BucketCut):
            cuts[bucket] = found
            notes.append(f"bucket {bucket}: {counted(found.end - found.start, 'record')}")
        elif found is None:
            return f"bucket {bucket} was committed or discarded meanwhile"
        else:
            notes.append(f"bucket {bucket}: {found}")
    return LiveTail(state=state, cut=Cut(buckets=cuts), notes=tuple(notes))


def _statuses(
    clients: Mapping[int, LogClient],
) -> tuple[Mapping[int, BucketStatus], Mapping[int, str]]:
    """Return the status of the buckets of some stores, and a note for those of an ended store.

    Each store is asked once, for the buckets that it was found for: it may still have others that
    another store took.
    """
    found: dict[int, BucketStatus] = {}
    gone: dict[int, str] = {}
    for store in {id(client): client for client in clients.values()}.values():
        mine = [bucket for bucket, client in clients.items() if client is store]
        try:
            found |= own_statuses(store, mine)
        except LogStoreGone as error:
            note = f"its service has ended, so only what is committed is read ({error})"
            gone |= dict.fromkeys(mine, note)
            _LOG.warning("a read with the log: %s", note)
    return found, gone


def own_statuses(store: LogClient, mine: Collection[int]) -> dict[int, BucketStatus]:
    """Return the status of the buckets that a store was found for."""
    return {bucket: status for bucket, status in store.status().items() if bucket in mine}


def _of_bucket(
    state: State, bucket: int, client: LogClient | None, status: BucketStatus | None
) -> BucketCut[RecordBatch] | str | None:
    """Return a bucket's records after a version, or the reason for none; None to begin again."""
    if client is None or status is None:
        return "no service holds it"
    known = bucket_of(state, bucket)
    if status.epoch < known.epoch:
        return f"its service is in epoch {status.epoch}, which epoch {known.epoch} has replaced"
    if status.end.offset <= known.end:
        return "all is committed"
    start = Position(epoch=status.epoch, offset=known.end)
    batches = _batches(client, bucket, start, status.end.offset)
    if batches is None:
        return None
    return BucketCut(
        bucket=bucket,
        epoch=status.epoch,
        start=known.end,
        end=status.end.offset,
        lineage=NO_EPOCHS,
        batches=batches,
    )


def _batches(
    client: LogClient, bucket: int, start: Position, end: Offset
) -> tuple[Batch[RecordBatch], ...] | None:
    """Return the records of an epoch in a range of offsets; None if some are missing."""
    found: list[Batch[RecordBatch]] = []
    reader = client.reader(bucket, start=start)
    try:
        at = start.offset
        while at < end:
            received = reader.read(wait_s=WAIT_S)
            after = reader.position
            if not isinstance(received, Records) or after is None or after.epoch != start.epoch:
                return None
            found.append(_batch(received, end))
            at = after.offset
    finally:
        reader.close()
    return tuple(found)


def _batch(received: Records, end: Offset) -> Batch[RecordBatch]:
    """Return records as a batch, up to an offset."""
    rows = received.batch
    count = min(rows.num_rows, end - received.first)
    part = rows if count == rows.num_rows else rows.slice(0, count)
    return Batch(first=received.first, count=count, size=part.nbytes, content=part)


NEWS_S = 0.5
"""Longest wait for an event of the table before the service is looked up again."""
SHORTEST_S = 0.001
"""Least duration that a wait counts, so that a reader that never waits reads the table, too."""


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
        deleted: in a primary-key table, the flags of records that delete their key; else None.
    """

    bucket: int
    first: Offset
    after: Position
    rows: pa.Table
    committed: bool
    deleted: Flags | None = None


Found: TypeAlias = LogRecords | Reset | Expired
_Step: TypeAlias = tuple[Found | None, Seen, float]
"""The next result of the source, its event for ``followed``, and the seconds waited."""


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
            ports: the table's ports; with a coordinator, commits are noticed at once.
            bucket: the number of the bucket.
            start: the position of the first record.
            find: finds the service of a bucket.
        """
        self._ports, self._bucket, self._find = ports, bucket, find
        self._at = Following(position=start)
        self._unproven = True  # a user's position may be invalid
        self._state: State | None = None
        self._files: _Files | None = None
        self._client: LogClient | None = None
        self._reader: LogReader | None = None

    @property
    def position(self) -> Position:
        """Return the position behind all returned records."""
        return self._at.position

    @property
    def through(self) -> int:
        """Return an event up to which all committed records were returned; -1 if unknown."""
        return self._at.through

    @property
    def source(self) -> Source:
        """Return the source of the next records."""
        return self._at.source

    def read(self, wait_s: float) -> Found | None:
        """Return the next result; None if there is none in time.

        ``Reset`` means that records from an offset on were discarded, ``Expired`` that records were
        cleaned before they were read. Both have the position of the next read.

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
        files, self._files = self._files or self._opened_files(), None
        match next(files.records, None):  # after an error nothing more comes of these: none is kept
            case RangeRecords() as read:
                self._files = files
                records = self._committed(read)
                return records, CommittedRead(after=records.after, n=read.n), 0.0
            case None:
                self._leave_if_moved()
                return None, FilesEnded(n=files.state.n, epoch=self._epoch_in(files.state)), 0.0
            case other:
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
        """Leave the service if it does not have the bucket any more."""
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
        """Wait for an event of the table; return the seconds waited."""
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


SLICE_S = 0.2
"""Longest read of a bucket's thread before it checks whether it should stop."""


@dataclass(slots=True)
class _Followed:
    """A bucket's follower, its thread, and its results."""

    tail: BucketTail
    thread: threading.Thread = field(init=False)
    ready: "deque[Found | Exception]" = field(default_factory=deque)
    wanted: bool = True


class BucketTurns:
    """Several buckets, each followed by a thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._followed: dict[int, _Followed] = {}
        self._turns: deque[int] = deque()

    @property
    def buckets(self) -> frozenset[int]:
        """Return the buckets that are followed."""
        return frozenset(self._followed)

    def follow(self, bucket: int, tail: BucketTail) -> None:
        """Begin to follow a bucket."""
        followed = _Followed(tail=tail)
        followed.thread = threading.Thread(
            target=self._run, args=(bucket, followed), name=f"log-bucket-{bucket}", daemon=True
        )
        with self._changed:
            self._followed[bucket] = followed
        followed.thread.start()

    def leave(self, bucket: int) -> None:
        """Stop following a bucket, and drop its results; wait for its thread."""
        with self._changed:
            followed = self._followed.pop(bucket, None)
            self._turns = deque(each for each in self._turns if each != bucket)
            if followed is None:
                return
            followed.wanted = False
            self._changed.notify_all()
        followed.thread.join()

    def take(self, wait_s: float) -> tuple[int, Found] | None:
        """Return the result of the next bucket in turn; None if there is none in time.

        Raises:
            SegtableError: a bucket could not be read; the next call goes on.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            while not self._turns:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return None
            bucket = self._turns.popleft()
            found = self._followed[bucket].ready.popleft()
            self._changed.notify_all()
        if isinstance(found, Exception):
            raise found
        return bucket, found

    def close(self) -> None:
        """Stop following all buckets."""
        with self._changed:
            for followed in self._followed.values():
                followed.wanted = False
            self._changed.notify_all()
        for bucket in self.buckets:
            self.leave(bucket)

    def _run(self, bucket: int, followed: _Followed) -> None:
        while followed.wanted:
            found: Found | Exception | None
            try:
                found = followed.tail.read(SLICE_S)
            except Exception as error:  # noqa: BLE001 - the reader's thread gets it
                found = error
            if found is not None:
                self._offer(bucket, followed, found)
        followed.tail.close()

    def _offer(self, bucket: int, followed: _Followed, found: Found | Exception) -> None:
        """Wait until the last result was taken, and offer the next."""
        with self._changed:
            while followed.wanted and followed.ready:
                self._changed.wait()
            if followed.wanted:
                followed.ready.append(found)
                self._turns.append(bucket)
                self._changed.notify_all()

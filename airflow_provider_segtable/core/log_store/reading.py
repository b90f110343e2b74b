"""Answer the readers of a bucket: the next records, where to read on, and their lag.

A reader at its position gets records, a reset, or that it is behind:

1. A position of an earlier epoch from which records were discarded gets ``Reset``: forget the
   records from this offset on, and read again. This comes before anything else, so a reader never
   sees another record at an offset without a reset in between.
2. A position below the first offset in memory gets ``Behind``: these records are in the table.
3. A position within a batch gets the rest of the batch, and the batches that follow below a size: a
   reader that is late catches up with fewer and larger messages.
4. At the end there is nothing yet. The same holds before the first writer: a store that has just
   started does not know where the table's log ends. Its earliest and its latest position are then
   the same, where its first epoch will begin, and stand as None.
5. A position of a later epoch than the bucket's means that the reader has seen a newer store:
   ``Fenced``. So does a bucket whose writer was replaced elsewhere.

A follower of a bucket reads next in files, at a service, or nowhere until news come:

6. A follower begins with the files. At their end it has all that is committed, and asks the service
   for the records after its position. So it never leaves a gap, nor reads a record twice::

       FILES ── end ──▶ SERVICE ── behind, unavailable, long silence ──▶ FILES

7. Records that the service cannot give are in the files, or are going to be. If the service had
   nothing at the position and the files have nothing either, the follower waits for *news*: an
   event of the table, or another service. Then it begins with the files again.
8. Silence may come from a service without writers, because another service has its buckets. So a
   follower looks at the table after ``LOOK_S``: it has the epochs (``Reset``).
9. ``Reset`` and ``Expired`` give the position from which to go on. The follower stays where it is.
10. ``through`` is an event up to which no range has a record at or behind the position. So the
    files of a later range are found without a walk over earlier events. It holds in the position's
    epoch only: a restore, which begins another one, may bring back ranges of earlier events.

The status of a bucket at one point in time serves checkpoints, lags, and reads with the log:

11. ``committed`` to ``end`` are the records without a known commit. ``uncommitted_since`` is when
    the oldest of these records was appended, by the clock of the store's host.
12. ``start`` is the first offset in memory; earlier records are in the table's files only.

The lag of a reader is the distance to the end of the log store:

13. A reader's unread records begin at its position, or where records that it has read were
    discarded. They end where the bucket's service does, or at the committed end without a service.
14. The lag is as old as its first record: by the event that committed it, or, if that is not
    committed, at most as old as the oldest uncommitted record of the service.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar, assert_never

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import Fenced, InvalidInput
from airflow_provider_segtable.core.log_store.bucket import (
    Batch,
    BucketLog,
    is_fenced,
    named,
    taken,
)
from airflow_provider_segtable.core.log_store.manifest import (
    BEGINNING,
    BucketManifest,
    Epoch,
    Offset,
    Position,
)
from airflow_provider_segtable.core.time import SECOND_US, Instant

# Reads at a position
T = TypeVar("T")


class Whence(StrEnum):
    """Where a reader without a position begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T]):
    """Adjacent batches, the position ``skip`` records after their first, and the next position."""

    batches: tuple[Batch[T], ...]
    skip: int
    next: Position

    @property
    def first(self) -> Offset:
        """Return the offset of the first record at the position."""
        return self.batches[0].first + self.skip

    @property
    def size(self) -> int:
        """Return the size of the batches."""
        return sum(batch.size for batch in self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The records from ``offset`` on were discarded; other ones follow, of ``epoch``."""

    epoch: Epoch
    offset: Offset

    @property
    def position(self) -> Position:
        """Return the position from which to read again."""
        return Position(epoch=self.epoch, offset=self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The records below ``first_available`` are in the table's files only."""

    first_available: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The records before ``position`` were cleaned: read a version of the table instead."""

    position: Position


def position_of(log: BucketLog[T], whence: Whence) -> Position | None:
    """Return the earliest or the latest position; None before the first writer."""
    if not log.epoch:
        return None
    offset = log.start if whence is Whence.EARLIEST else log.end
    return Position(epoch=log.epoch, offset=offset)


def read(
    log: BucketLog[T], start: Position | None, *, most_size: int = 0
) -> Found[T] | Reset | Behind | None:
    """Return the records at a position; None if there are none yet.

    Args:
        log: the bucket.
        start: the position; None for the origin of the bucket.
        most_size: size below which batches come together.

    Raises:
        Fenced: the position is of a later epoch than the bucket's newest, or the bucket was
            given away.
        InvalidInput: the position is beyond the end of its own epoch.
    """
    if not log.epoch:
        return None
    at = log.origin if start is None else start
    _check(log, at)
    left_at = log.lineage.left_at(at)
    if left_at is not None:
        return Reset(epoch=log.epoch, offset=left_at)
    if at.offset < log.start:
        return Behind(first_available=log.start)
    batches = log.buffer.run_at(at.offset, most_size)
    if not batches:
        return None
    after = Position(epoch=log.epoch, offset=batches[-1].end)
    return Found(batches=batches, skip=at.offset - batches[0].first, next=after)


def _check(log: BucketLog[T], at: Position) -> None:
    if is_fenced(log):
        raise taken(log)
    if at.epoch > log.epoch:
        raise Fenced(
            f"{named(log)} is in epoch {log.epoch}, the reader has seen epoch {at.epoch}: "
            "a newer service has replaced this one; look up its address"
        )
    if at.offset < 0 or (at.epoch == log.epoch and at.offset > log.end):
        raise InvalidInput(
            f"{named(log)} ends at offset {log.end} in epoch {log.epoch}, and a reader asks for "
            f"offset {at.offset}: begin at a position that was read or committed"
        )


# A follower: in files, at a service, or awaiting news
LOOK_S = 2.0
"""Seconds of silence after which the follower of a service looks at the table."""

NOTHING_READ = -1


class Source(StrEnum):
    """Where the next records come from."""

    FILES = "files"
    SERVICE = "service"
    NEWS = "news"


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A follower of a bucket.

    ``refused`` says that the service had nothing at the position, ``silent_s`` for how long it has
    sent nothing.
    """

    position: Position = BEGINNING
    source: Source = Source.FILES
    through: int = NOTHING_READ
    refused: bool = False
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRead:
    """The files of event ``n`` gave records up to a position."""

    after: Position
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesEnded:
    """The files have no record at the position as of event ``n``, in the bucket's ``epoch``."""

    n: int
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The service gave records up to a position."""

    after: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The service gave nothing for some time."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """There is no service, or it does not know the position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsAwaited:
    """The follower has waited for news, with or without success."""


Seen: TypeAlias = (
    CommittedRead
    | FilesEnded
    | Streamed
    | Silence
    | Unavailable
    | NewsAwaited
    | Reset
    | Expired
    | Behind
)


def through_in(epoch: Epoch, position: Position, through: int) -> int:
    """Return ``through`` of a position as it holds in an epoch of the bucket."""
    return through if position.epoch == epoch else NOTHING_READ


def followed(at: Following, seen: Seen) -> Following:
    """Return the follower after an answer."""
    match seen:
        case CommittedRead(after=after, n=n):
            return Following(position=after, through=n)
        case FilesEnded(n=n, epoch=epoch):
            source = Source.NEWS if at.refused else Source.SERVICE
            through = through_in(epoch, at.position, n)
            return Following(position=at.position, source=source, through=through)
        case Streamed(after=after):
            through = through_in(after.epoch, at.position, at.through)
            return replace(at, position=after, through=through, silent_s=0.0)
        case Silence(seconds=seconds):
            silent_s = at.silent_s + seconds
            source = Source.FILES if silent_s >= LOOK_S else at.source
            return replace(at, source=source, silent_s=silent_s)
        case Behind() | Unavailable():
            return replace(at, source=Source.FILES, refused=True)
        case NewsAwaited():
            return replace(at, source=Source.FILES)
        case Reset(position=position) | Expired(position=position):
            return replace(at, position=position, through=NOTHING_READ)
        case _:
            assert_never(seen)


# The status of a bucket
@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStatus:
    """A bucket at one point in time; ``epoch`` is 0 before the first writer."""

    bucket: int
    epoch: Epoch
    start: Offset
    end: Position
    committed: Position
    uncommitted_bytes: int
    uncommitted_since: Instant | None

    @property
    def uncommitted_records(self) -> int:
        """Return the number of records that wait for a checkpoint."""
        return self.end.offset - self.committed.offset


def status_of(log: BucketLog[T]) -> BucketStatus:
    """Return the status of a bucket."""
    oldest = log.buffer.batch_at(log.committed.offset)
    return BucketStatus(
        bucket=log.bucket,
        epoch=log.epoch,
        start=log.start,
        end=Position(epoch=log.epoch, offset=log.end),
        committed=log.committed,
        uncommitted_bytes=log.buffer.since(log.committed.offset).size,
        uncommitted_since=None if oldest is None else oldest.at,
    )


# The lag of a reader


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLag:
    """The records of a bucket that a reader has yet to read.

    Attributes:
        bucket: the number of the bucket.
        position: the reader's position.
        end: the offset after the last record that is known.
        records: number of records that the reader has yet to read.
        seconds: for how long the first of them has waited; 0 if there is none.
        served: whether a service was asked; if not, only committed records count.
    """

    bucket: int
    position: Position
    end: Offset
    records: int
    seconds: float
    served: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLag:
    """The records that a reader, or a consumer group, has yet to read, by bucket."""

    buckets: Mapping[int, BucketLag]

    @property
    def records(self) -> int:
        """Return the number of records that are yet to be read, in all buckets."""
        return sum(each.records for each in self.buckets.values())

    @property
    def seconds(self) -> float:
        """Return for how long the oldest of them has waited; 0 if there is none."""
        return max((each.seconds for each in self.buckets.values()), default=0.0)

    @property
    def served(self) -> bool:
        """Return whether services were asked for all buckets."""
        return all(each.served for each in self.buckets.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a bucket: by the table's log, and by its service, if one answers."""

    known: BucketManifest
    status: BucketStatus | None = None

    @property
    def served(self) -> BucketStatus | None:
        """Return the service's status, unless a newer epoch has replaced it."""
        current = self.status is not None and self.status.epoch >= self.known.epoch
        return self.status if current else None

    @property
    def offset(self) -> Offset:
        """Return the offset after the last record."""
        return max(self.known.end, self.served.end.offset if self.served else 0)

    def first_unread(self, position: Position) -> Offset:
        """Return the first offset that a reader has yet to read."""
        left_at = self.known.lineage.left_at(position)
        return position.offset if left_at is None else left_at


def lag_of(
    bucket: int, position: Position, end: LogEnd, *, committed_at: Instant | None, now: Instant
) -> BucketLag:
    """Return the lag of a reader.

    Args:
        bucket: the number of the bucket.
        position: the reader's position.
        end: the end of the bucket.
        committed_at: when the first record to read was committed; None if it is not.
        now: this machine's clock.
    """
    records = max(0, end.offset - end.first_unread(position))
    buffered = end.served.uncommitted_since if end.served else None
    since = buffered if committed_at is None else committed_at
    waited = 0 if since is None or not records else now - since
    return BucketLag(
        bucket=bucket,
        position=position,
        end=end.offset,
        records=records,
        seconds=max(0, waited) / SECOND_US,
        served=end.served is not None,
    )

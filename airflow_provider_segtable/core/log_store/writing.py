"""What a writer does to a bucket: it begins an epoch, and appends records.

1. ``begin``: a writer of a higher epoch goes on from the last committed snapshot, as the table's
   log has it. What the bucket holds below that offset is kept only if it is known to be the same:
   the bucket has recorded this very commit, or it is a cut of the bucket's own newest epoch, whose
   news was lost. All else is discarded. Repeating the call of one writer changes nothing.
2. ``append``: the *sequence number* of an append is the offset that its writer expects, counted
   from the answer to ``begin``. A higher number than the end means that an append before it is
   missing. A lower one means that it is a repetition, which gets the same answer, however late.
   So a bucket needs no memory of earlier appends.
3. An append of an older epoch is refused: ``Fenced``.
4. ``fence``: the table's log has given the bucket away, so no commit of this epoch can come. Its
   uncommitted records are dropped. Its writer is refused, and so are readers, which find them
   elsewhere; until another epoch begins here.
5. An append that does not fit evicts committed records, oldest first. If this is not enough, the
   answer is ``Full``; the caller waits for a commit and tries again.
"""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.errors import Fenced, InvalidInput
from airflow_provider_segtable.core.log_store.bucket_log import BucketLog, Limits
from airflow_provider_segtable.core.log_store.buffer import Batch, Buffer
from airflow_provider_segtable.core.log_store.position import (
    CommittedEnd,
    Epoch,
    Offset,
    Position,
)
from airflow_provider_segtable.core.time.interval import Instant

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Generic[T]):
    """Records of one writer; ``sequence`` is the offset that it expects for the first."""

    epoch: Epoch
    sequence: Offset
    count: int
    size: int
    content: T
    at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Generic[T]):
    """The bucket holds the records, now or since an earlier call."""

    log: BucketLog[T]
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """There is no room before a checkpoint is committed."""

    uncommitted_bytes: int


def begin(log: BucketLog[T], *, epoch: Epoch, writer: str, committed: CommittedEnd) -> BucketLog[T]:
    """Return the bucket with a new epoch, which goes on from ``committed``.

    Raises:
        Fenced: another writer has this epoch or a higher one.
        InvalidInput: the bucket knows of a later commit than ``committed``.
    """
    if epoch == log.epoch and writer == log.writer:
        return log
    newest = max(log.epoch, committed.position.epoch)
    if epoch <= newest:
        raise fenced(log, epoch, newest)
    at = committed.position
    if (at.epoch, at.offset) < (log.committed.epoch, log.committed.offset):
        raise InvalidInput(
            f"{named(log)} is committed up to offset {log.committed.offset}, but the writer of "
            f"epoch {epoch} begins at {at.offset}: read the table's last version again"
        )
    known = _is_known(log, at)
    begun = Position(epoch=epoch, offset=at.offset)
    return replace(
        log,
        epoch=epoch,
        writer=writer,
        origin=log.origin if log.epoch else begun,
        end=at.offset,
        committed=at,
        lineage=committed.lineage.begun(begun),
        buffer=log.buffer.before(at.offset) if known else Buffer(),
        kept=log.kept if known else (),
        pending=None,
    )


def append(log: BucketLog[T], new: Append[T], limits: Limits) -> Stored[T] | Full:
    """Return the bucket with more records, or that there is no room.

    Raises:
        Fenced: a newer epoch has begun.
        InvalidInput: the sequence number does not follow, or the batch never fits.
    """
    _check(log, new, limits)
    if new.sequence < log.end or not new.count:
        return Stored(log=log, repeated=new.sequence < log.end)
    buffer = _with_room(log, new.size, limits)
    if buffer is None:
        return Full(uncommitted_bytes=log.buffer.since(log.committed.offset).size)
    batch = Batch(first=log.end, count=new.count, size=new.size, content=new.content, at=new.at)
    return Stored(
        log=replace(log, buffer=buffer.added(batch), end=batch.end),
        repeated=False,
    )


def has_room(log: BucketLog[T], size: int, limits: Limits) -> bool:
    """Return whether batches of this size fit, if committed records are evicted."""
    return _with_room(log, size, limits) is not None


def fence(log: BucketLog[T], epoch: Epoch) -> BucketLog[T]:
    """Return the bucket without a writer, if its epoch is not a later one."""
    if log.epoch > epoch or is_fenced(log):
        return log
    return replace(log, writer="", end=log.committed.offset, buffer=Buffer(), kept=(), pending=None)


def is_fenced(log: BucketLog[T]) -> bool:
    """Return whether the bucket's newest writer was replaced elsewhere."""
    return log.epoch > 0 and not log.writer


def taken(log: BucketLog[T]) -> Fenced:
    """Return the refusal of a bucket that was given away."""
    return Fenced(
        f"{named(log)} was taken by another service or writer, so epoch {log.epoch} is over here: "
        "look up the bucket's address, or begin again with a higher epoch"
    )


def named(log: BucketLog[T]) -> str:
    """Return the name of a bucket in messages."""
    return f"bucket {log.bucket} of the log store"


def fenced(log: BucketLog[T], epoch: Epoch, newest: Epoch) -> Fenced:
    """Return the refusal of an epoch."""
    return Fenced(
        f"{named(log)} refuses epoch {epoch}, because epoch {newest} has begun: "
        "stop this writer, or begin again with a higher epoch"
    )


def _is_known(log: BucketLog[T], at: Position) -> bool:
    """Return whether the records in memory below a commit are those of the commit."""
    of_this_epoch = at.epoch == log.epoch and log.committed.offset <= at.offset <= log.end
    return at == log.committed or (of_this_epoch and not log.buffer.divides(at.offset))


def _check(log: BucketLog[T], new: Append[T], limits: Limits) -> None:
    if new.epoch < log.epoch:
        raise fenced(log, new.epoch, log.epoch)
    if is_fenced(log):
        raise taken(log)
    if new.epoch > log.epoch:
        raise InvalidInput(
            f"{named(log)} is in epoch {log.epoch}, the append is of epoch {new.epoch}: "
            "begin the epoch first"
        )
    if new.sequence > log.end or new.sequence < log.end < new.sequence + new.count:
        raise InvalidInput(
            f"{named(log)} ends at offset {log.end}, so an append of {new.count} records with "
            f"sequence number {new.sequence} does not follow: send the missing appends first"
        )
    if new.size > limits.bucket_bytes:
        raise InvalidInput(
            f"a batch of {describe_size(new.size)} exceeds the buffer of {named(log)} "
            f"({describe_size(limits.bucket_bytes)}): append smaller batches"
        )


def _with_room(log: BucketLog[T], size: int, limits: Limits) -> Buffer[T] | None:
    """Return the buffer after the eviction of enough committed batches; None if too few."""
    buffer = log.buffer
    while buffer.size + size > limits.bucket_bytes:
        oldest = buffer.blocks[0][0]
        if oldest.end > log.committed.offset:
            return None
        buffer = buffer.since(oldest.end)
    return buffer

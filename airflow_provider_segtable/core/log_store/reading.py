"""What a reader gets at its position: records, a reset, or that it is behind.

1. A position of an earlier epoch from which records were discarded gets ``Reset``: forget what was
   read from this offset on, and read again. This comes before anything else, so a reader never sees
   another record at an offset without a reset in between.
2. A position below the first offset in memory gets ``Behind``: these records are in the table.
3. A position within a batch gets the rest of the batch, and the batches that follow below a size: a
   reader that is late catches up with fewer and larger messages.
4. At the end there is nothing yet. The same holds before the first writer: a store that has just
   started does not know where the table's log ends. Its earliest and its latest position are then
   the same, where its first epoch will begin, and stand as None.
5. A position of a later epoch than the bucket's means that the reader has seen a newer store:
   ``Fenced``. So does a bucket whose writer was replaced elsewhere.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from airflow_provider_segtable.core.errors import Fenced, InvalidInput
from airflow_provider_segtable.core.log_store.bucket_log import BucketLog
from airflow_provider_segtable.core.log_store.buffer import Batch
from airflow_provider_segtable.core.log_store.position import Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.writing import is_fenced, named, taken

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
    """Return what is at a position; None if nothing is there yet.

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

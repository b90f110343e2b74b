"""What a bucket holds at one point in time: for checkpoints, readers' lag, and reads with the log.

1. ``committed`` to ``end`` is what no commit is known to have. ``uncommitted_since`` is when the
   oldest of these records was appended, by the clock of the store's host.
2. ``start`` is the first offset in memory; what is before it is in the table's files only.
"""

from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_segtable.core.log_store.bucket_log import BucketLog
from airflow_provider_segtable.core.log_store.position import Epoch, Offset, Position
from airflow_provider_segtable.core.time.interval import Instant

T = TypeVar("T")


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

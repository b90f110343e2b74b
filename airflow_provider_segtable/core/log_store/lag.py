"""How far a reader of the log store is behind its end.

1. What a reader has yet to read begins at its position, or where records that it has read were
   discarded. It ends where the bucket's service does, or at the committed end without a service.
2. It is as old as its first record: by the event that committed it, or, if that is not committed,
   at most as old as the oldest uncommitted record of the service.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.log_store.position import Offset, Position
from airflow_provider_segtable.core.log_store.status import BucketStatus
from airflow_provider_segtable.core.time.interval import Instant

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLag:
    """What a reader has yet to read of a bucket.

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
    """What a reader, or a consumer group, has yet to read, by bucket."""

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
    """The end of a bucket: what the table's log knows, and its service, if one answers."""

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

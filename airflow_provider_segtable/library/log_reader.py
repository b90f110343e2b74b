"""A reader that follows the log store of a table, all of its buckets, as records come.

1. Records are read in turn from all buckets, within a bucket in the order of their offsets. Files
   of the table are read as long as the reader is far behind, then the services that hold the newest
   records; it goes from one to the other by itself, and along when services move.
2. Records that are not committed yet may be discarded. Then ``BucketReset`` follows: forget the
   records of this bucket from the offset on. Other records follow.
3. If records were cleaned before they were read, ``BucketExpired`` names the first position left.
4. ``positions`` stand behind all that was returned, and another reader may begin there.
5. Readers of one *group* share the buckets. ``store`` keeps the positions with the table, so that
   the group goes on from there: another member takes the buckets of a dead one. Records that a
   member returned and did not store are returned again by the next: at least once. Buckets move
   while members read, so a member has to call ``read`` every now and then.
"""

import time
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Self, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import Fenced, InvalidInput, LockLost
from airflow_provider_segtable.core.log_store.manifest import Offset, Position
from airflow_provider_segtable.core.log_store.reading import Expired, Reset
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.positions import (
    GroupShare,
    Start,
    buckets_of,
    start_positions,
)
from airflow_provider_segtable.table.log_store.tail import (
    BucketTail,
    BucketTurns,
    Finder,
    LogRecords,
)

STEP_S = 1.0
"""Seconds after which a reader of a group looks at the other members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketReset:
    """The records of a bucket from ``offset`` on were discarded; other ones follow."""

    bucket: int
    position: Position

    @property
    def offset(self) -> Offset:
        """Return the offset of the first record to forget."""
        return self.position.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketExpired:
    """Records of a bucket before ``position`` were cleaned: read a version of the table instead."""

    bucket: int
    position: Position


LogItem: TypeAlias = LogRecords | BucketReset | BucketExpired


class TableLogReader:
    """Reads records of buckets as they come; a context manager, and an iterator without end.

    Args:
        ports: the table's ports.
        find: finds the service of a bucket.
        start: where buckets begin; in a group only those without a stored position.
        buckets: the buckets to read; all by default.
        group: the consumer group that shares them.

    Raises:
        InvalidInput: the start is no position of the table, or it does not have a bucket.
        InvalidName: the group's name is not a valid file name.
        VersionExpired: the version of the start was cleaned.
        CoordinatorUnavailable: a group needs ZooKeeper.
    """

    def __init__(
        self,
        ports: TableContext,
        find: Finder,
        *,
        start: Start,
        buckets: Collection[int] | None = None,
        group: str | None = None,
    ) -> None:
        chosen = buckets_of(ports.log.load(), buckets)
        self._ports, self._find = ports, find
        self._starts = start_positions(ports, find, start, chosen)
        self._share = None if group is None else GroupShare(ports, group, chosen)
        self._turns = BucketTurns()
        self._positions: dict[int, Position] = {}
        self._next_step = 0.0
        self._open = True
        if self._share is None:
            for bucket in chosen:
                self._follow(bucket, None)
        else:
            self._rebalance(self._share)

    @property
    def positions(self) -> dict[int, Position]:
        """Return by bucket the position behind all that was returned."""
        return dict(self._positions)

    def read(self, wait_s: float | None = None) -> LogItem | None:
        """Return the next batch; None if there is none in time. Without a time, wait for it.

        Raises:
            InvalidInput: the start is no position of a bucket.
            TableGone, CorruptTable, StorageError: the table cannot be read.
        """
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while self._open:
            if self._share is not None and time.monotonic() >= self._next_step:
                self._rebalance(self._share)
            left = STEP_S if deadline is None else min(STEP_S, deadline - time.monotonic())
            taken = self._turns.take(max(0.0, left))
            if taken is not None:
                return self._returned(*taken)
            if deadline is not None and time.monotonic() >= deadline:
                return None
        return None

    def __iter__(self) -> Iterator[LogItem]:
        """Yield batches and notices, until the reader is closed."""
        while (item := self.read()) is not None:
            yield item

    def store(self) -> None:
        """Keep the positions of the group with the table: all that was returned is handled.

        Raises:
            InvalidInput: the reader belongs to no group.
            LockLost: another member has a bucket by now; read on, and store then.
            Fenced: another member has stored a position of a bucket. The reader goes on from the
                group's stored position; records may be returned again.
        """
        if self._share is None:
            raise InvalidInput(
                "this reader belongs to no consumer group, so it has no place for its positions: "
                "open it with group='NAME', or keep `positions` yourself"
            )
        try:
            self._share.store(self._positions)
        except (LockLost, Fenced):
            self._next_step = 0.0
            raise

    def close(self) -> None:
        """Leave the group, and release the services; a reader that waits returns."""
        self._open = False
        self._turns.close()
        if self._share is not None:
            self._share.close()

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _rebalance(self, share: GroupShare) -> None:
        moves = share.step()
        for bucket in moves.left:
            self._turns.leave(bucket)
            self._positions.pop(bucket, None)
        for bucket, stored in moves.taken.items():
            self._follow(bucket, stored)
        self._next_step = time.monotonic() + STEP_S

    def _follow(self, bucket: int, stored: Position | None) -> None:
        start = self._starts[bucket] if stored is None else stored
        self._positions[bucket] = start
        self._turns.follow(bucket, BucketTail(self._ports, bucket, start, self._find))

    def _returned(self, bucket: int, found: LogRecords | Reset | Expired) -> LogItem:
        match found:
            case LogRecords(after=after):
                self._positions[bucket] = after
                return found
            case Reset(position=position):
                self._positions[bucket] = position
                return BucketReset(bucket=bucket, position=position)
            case Expired(position=position):
                self._positions[bucket] = position
                return BucketExpired(bucket=bucket, position=position)

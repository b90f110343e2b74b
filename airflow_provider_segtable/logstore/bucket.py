"""One bucket, shared by threads: its state under a lock, and waiting for it to change.

All decisions are those of ``core.log_store``. Every change of the state wakes all waiting calls,
which decide again. States do not change, so readers need no lock. No record is copied.

Writers are answered only as long as the bucket's epoch is *confirmed*: its service has read the
table's log not long ago. The time is that of ``monotonic``.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import LogStoreFull, LogStoreUnavailable
from airflow_provider_segtable.core.log_store import bucket, reading
from airflow_provider_segtable.core.log_store.bucket import (
    Append,
    BucketCut,
    BucketLog,
    Full,
    Limits,
    Stored,
)
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Behind, Found, Reset, Whence
from airflow_provider_segtable.logstore.changes import Changes
from airflow_provider_segtable.ports.log_store import RecordBatch

State: TypeAlias = BucketLog[RecordBatch]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a writer hears of an append: the offset of its first record, and what is committed."""

    first: Offset
    committed: Offset


class Bucket:
    """A bucket's state, for the threads of its writer, its readers and checkpoints."""

    def __init__(
        self,
        number: int,
        limits: Limits,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        confirmed_until: float = math.inf,
    ) -> None:
        self._limits = limits
        self._monotonic, self._until = monotonic, confirmed_until
        self._log: State = BucketLog(bucket=number)
        self._changes = Changes()
        self._open = True
        self._sealed = False

    @property
    def log(self) -> State:
        """Return the present state."""
        return self._log

    def begin(self, *, epoch: Epoch, writer: str, committed: CommittedEnd) -> Offset:
        """Begin an epoch; return the offset of its next record."""
        self._refuse_if_sealed()
        return self._change(
            lambda log: bucket.begin(log, epoch=epoch, writer=writer, committed=committed)
        ).end

    def append(
        self, batch: RecordBatch, *, epoch: Epoch, sequence: Offset, wait_s: float
    ) -> Answer:
        """Append records.

        Raises:
            LogStoreFull: there was no room until the deadline.
            LogStoreUnavailable: the epoch was not confirmed until the deadline.
        """
        new = Append(
            epoch=epoch,
            sequence=sequence,
            count=batch.num_rows,
            size=batch.nbytes,
            content=batch,
            at=time.time_ns() // 1000,
        )
        return self._answered(new, wait_s)

    def check(self, *, epoch: Epoch, sequence: Offset, wait_s: float) -> Answer:
        """Answer as to an append of nothing: the epoch is the newest one, and confirmed."""
        return self._answered(_nothing(epoch, sequence), wait_s)

    def confirm(self, until: float) -> None:
        """Answer writers until a time of ``monotonic``."""
        with self._changes.mutex:
            late, self._until = not self._confirmed(), until
            if late:
                self._changes.made()

    def takes(self, size: int) -> bool:
        """Return whether batches of this size would be taken and answered now."""
        return self._confirmed() and bucket.has_room(self._opened(), size, self._limits)

    def wait_until_it_takes(self, size: int, wait_s: float) -> None:
        """Wait until the bucket ``takes`` batches of a size.

        Raises:
            LogStoreFull, LogStoreUnavailable: it did not until the deadline.
        """
        deadline = time.monotonic() + wait_s
        while True:
            seen = self._changes.number
            self._refuse_if_sealed()
            if self.takes(size):
                return
            if not self._changes.wait(seen, deadline - time.monotonic()):
                raise (
                    self._no_room(size, wait_s) if self._confirmed() else self._unconfirmed(wait_s)
                )

    @contextmanager
    def held(self) -> Iterator[State]:
        """Hold the state as it is."""
        with self._changes.mutex:
            yield self._opened()

    def position_of(self, whence: Whence) -> Position | None:
        """Return the earliest or latest position; None before the first writer."""
        return reading.position_of(self._opened(), whence)

    def read(
        self, start: Position | None, *, wait_s: float, most_size: int = 0
    ) -> Found[RecordBatch] | Reset | Behind | None:
        """Wait for what is at a position (None: the origin); None if nothing comes in time.

        Batches come together below ``most_size``.
        """
        deadline = time.monotonic() + wait_s
        while True:
            seen = self._changes.number
            found = reading.read(self._opened(), start, most_size=most_size)
            if found is not None:
                return found
            if not self._changes.wait(seen, deadline - time.monotonic()):
                return None

    def cut(self) -> BucketCut[RecordBatch] | None:
        """Take the uncommitted records; None if there are none."""
        return self._change(bucket.cut).pending

    def commit(self, done: BucketCut[RecordBatch]) -> None:
        """Record the commit of a cut."""
        self._change(lambda log: bucket.commit(log, done, self._limits))

    def abandon(self, given_up: BucketCut[RecordBatch]) -> None:
        """Return the records of a cut to the next one."""
        self._change(lambda log: bucket.abandon(log, given_up))

    def fence(self, epoch: Epoch) -> None:
        """Give the bucket up, unless a later epoch has begun."""
        self._change(lambda log: bucket.fence(log, epoch))

    def seal(self) -> None:
        """Take no more records; what is here can be read and committed."""
        with self._changes.mutex:
            self._sealed = True
            self._changes.made()

    def close(self) -> None:
        """End all waiting calls, and release the records."""
        with self._changes.mutex:
            self._open = False
            self._log = BucketLog(bucket=self._log.bucket)
            self._changes.made()

    def _answered(self, new: Append[Any], wait_s: float) -> Answer:
        """Append once the epoch is confirmed and there is room; errors as ``append``."""
        deadline = time.monotonic() + wait_s
        while True:
            with self._changes.mutex:
                seen, full = self._changes.number, None
                if not self._confirmed():
                    self._appended(_nothing(new.epoch, new.sequence))  # may be refused
                elif (full := self._appended(new)) is None:
                    return Answer(first=new.sequence, committed=self._log.committed.offset)
            if not self._changes.wait(seen, deadline - time.monotonic()):
                raise self._unconfirmed(wait_s) if full is None else self._full(full, new, wait_s)

    def _confirmed(self) -> bool:
        return self._monotonic() < self._until

    def _opened(self) -> State:
        if not self._open:
            raise LogStoreUnavailable(
                f"{bucket.named(self._log)} was shut down: connect to its successor"
            )
        return self._log

    def _change(self, transition: Callable[[State], State]) -> State:
        with self._changes.mutex:
            return self._set(transition(self._opened()))

    def _set(self, log: State) -> State:
        if log is not self._log:
            self._log = log
            self._changes.made()
        return log

    def _refuse_if_sealed(self) -> None:
        if self._sealed:
            raise LogStoreUnavailable(
                f"{bucket.named(self._log)} moves to another service: look up its address"
            )

    def _appended(self, new: Append[Any]) -> Full | None:
        self._refuse_if_sealed()
        match bucket.append(self._opened(), new, self._limits):
            case Stored(log=log):
                self._set(log)
                return None
            case Full() as full:
                return full

    def _unconfirmed(self, wait_s: float) -> LogStoreUnavailable:
        return LogStoreUnavailable(
            f"{bucket.named(self._log)} did not answer within {wait_s} s, because its service has "
            "not read the table's log for too long, and another writer may have taken the bucket: "
            "look whether the table's storage can be reached"
        )

    def _no_room(self, size: int, wait_s: float) -> LogStoreFull:
        waiting = self._log.buffer.since(self._log.committed.offset).size
        return LogStoreFull(
            f"{bucket.named(self._log)} had no room for {describe_size(size)} within {wait_s} s, "
            f"because {describe_size(waiting)} wait for a checkpoint: run one, or raise the limit"
        )

    def _full(self, full: Full, new: Append[Any], wait_s: float) -> LogStoreFull:
        waiting = describe_size(full.uncommitted_bytes)
        return LogStoreFull(
            f"{bucket.named(self._log)} had no room for {counted(new.count, 'record')} "
            f"({describe_size(new.size)}) within {wait_s} s, because {waiting} wait for a "
            "checkpoint: run one, or raise the limit"
        )


def _nothing(epoch: Epoch, sequence: Offset) -> Append[Any]:
    return Append(epoch=epoch, sequence=sequence, count=0, size=0, content=None)

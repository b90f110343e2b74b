"""The buckets of one store: their state, shared by threads, and checkpoints over all of them.

All buckets:

1. A checkpoint cuts all buckets or none. The table's commit holds the cuts of all.
2. A commit is recorded in every bucket, even if one of them refuses; the first refusal is raised
   at the end.
3. The status is that of all buckets at one point in time.
4. The store itself cannot commit. ``serve_checkpoints`` gives it the function that commits on
   request.
5. Of the confirmations of ``confirming`` the newest one counts, for all buckets alike.
6. A bucket that moves to another service is sealed, committed, and then no longer served. Each of
   these steps, a cut and a status come one after the other. A bucket that comes back begins empty.

One bucket:

7. ``core.log_store`` makes all decisions. Every change of the state wakes all waiting calls,
   which decide again. States do not change, so readers need no lock. No record is copied.
8. Writers are answered only as long as the bucket's epoch is *confirmed*: its service has read the
   table's log not long ago. The time is that of ``monotonic``.

Changes of a state, made by threads in turn, while others wait for the next one:

9. A change is made under ``mutex``, and is counted.
10. A waiting thread names the number that it read *before* it looked at the state, so it misses no
    change.
11. Each thread has a lock of its own to sleep on. It needs no other one when it wakes, so threads
    that wake together do not stand in each other's way.
"""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, TypeVar

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    Fenced,
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    SchemaMismatch,
)
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
from airflow_provider_segtable.core.log_store.reading import (
    Behind,
    BucketStatus,
    Found,
    Reset,
    Whence,
    status_of,
)
from airflow_provider_segtable.ports.log_store import (
    Cut,
    LogContext,
    RecordBatch,
    Schema,
    ServeCheckpoint,
)


# Changes of a state, and waiting for them
class Changes:
    """Counts the changes of one state."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.number = 0
        self._waiting: list[threading.Lock] = []

    def made(self) -> None:
        """Count a change, and wake all threads that wait for one; ``mutex`` is held."""
        self.number += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.release()

    def wait(self, seen: int, wait_s: float) -> bool:
        """Wait for a change after the ``seen``-th; return whether there is one."""
        asleep = threading.Lock()
        asleep.acquire()
        with self.mutex:
            if self.number != seen:
                return True
            self._waiting.append(asleep)
        if asleep.acquire(timeout=max(0.0, wait_s)):
            return True
        with self.mutex:
            if self.number == seen:
                self._waiting.remove(asleep)
            return self.number != seen


State: TypeAlias = BucketLog[RecordBatch]
T = TypeVar("T")


# One bucket
@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to an append: the offset of its first record, and the committed offset."""

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
                raise self._no_room(size) if self._confirmed() else self._unconfirmed()

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
        """Wait for records at a position (None: the origin); None if there are none in time.

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
        """Take no more records; present ones can be read and committed."""
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
                raise self._unconfirmed() if full is None else self._full(full, new)

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

    # The errors of a deadline do not name its seconds: a client that tries again gave the rest of
    # its own.

    def _unconfirmed(self) -> LogStoreUnavailable:
        return LogStoreUnavailable(
            f"{bucket.named(self._log)} did not answer in time, because its service has not read "
            "the table's log for too long, and another writer may have taken the bucket: look "
            "whether the table's storage can be reached"
        )

    def _no_room(self, size: int) -> LogStoreFull:
        waiting = self._log.buffer.since(self._log.committed.offset).size
        return LogStoreFull(
            f"{bucket.named(self._log)} had no room for {describe_size(size)} in time, because "
            f"{describe_size(waiting)} wait for a checkpoint: run one, or raise the limit"
        )

    def _full(self, full: Full, new: Append[Any]) -> LogStoreFull:
        waiting = describe_size(full.uncommitted_bytes)
        return LogStoreFull(
            f"{bucket.named(self._log)} had no room for {counted(new.count, 'record')} "
            f"({describe_size(new.size)}) in time, because {waiting} wait for a checkpoint: run "
            "one, or raise the limit"
        )


def _nothing(epoch: Epoch, sequence: Offset) -> Append[Any]:
    return Append(epoch=epoch, sequence=sequence, count=0, size=0, content=None)


# All buckets of a store
class Buckets:
    """The buckets of a context: the part of ``ports.log_store.LogStore`` that all stores share."""

    def __init__(
        self, context: LogContext, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.context = context
        self._monotonic, self._until = monotonic, math.inf
        self._buckets = {n: self._new(n) for n in context.buckets}
        self._cutting = threading.Lock()
        self._serve: ServeCheckpoint | None = None
        self._open = True

    def bucket(self, number: int) -> Bucket:
        """Return a bucket.

        Raises:
            InvalidInput: this store does not serve the bucket.
        """
        self._refuse_if_shut_down()
        if number not in self.context.buckets:
            raise InvalidInput(
                f"bucket {number} is not served here; this log store has the buckets "
                f"{', '.join(map(str, self.context.buckets))} of table {self.context.table}"
            )
        try:
            return self._buckets[number]
        except KeyError:
            raise LogStoreUnavailable(
                f"bucket {number} of table {self.context.table} is not served here now: look up "
                "its address"
            ) from None

    def seal(self, buckets: Collection[int]) -> None:
        """Take no more records into some buckets."""
        with self._cutting:
            for number in buckets:
                if sealed := self._buckets.get(number):
                    sealed.seal()

    def serve(self, buckets: Collection[int]) -> None:
        """Serve these buckets and no others."""
        with self._cutting:
            for number in self._buckets.keys() - set(buckets):
                self._buckets.pop(number).close()
            for number in sorted(set(buckets) - self._buckets.keys()):
                self._buckets[number] = self._new(number)

    @contextmanager
    def confirming(self, lease_s: float) -> Iterator[None]:
        """Answer writers until so many seconds after the begin of a block that reads the log."""
        begun = self._monotonic()
        yield
        with self._cutting:
            self._until = begun + lease_s
            for each in self._buckets.values():
                each.confirm(self._until)

    @contextmanager
    def together(self, sizes: Mapping[int, int], wait_s: float) -> Iterator[bool]:
        """Let batches for several buckets be one for status and cuts: appends of the block.

        Yields:
            Whether it is so; batches that exceed a bucket come in parts.

        Raises:
            LogStoreFull, LogStoreUnavailable: there was no room until the deadline.
        """
        if max(sizes.values(), default=0) > self.context.limits.bucket_bytes:
            yield False
            return
        deadline = time.monotonic() + wait_s
        while True:
            with self._cutting:
                slow = [n for n, size in sizes.items() if not self.bucket(n).takes(size)]
                if not slow:
                    yield True
                    return
            left_s = deadline - time.monotonic()
            self.bucket(slow[0]).wait_until_it_takes(sizes[slow[0]], left_s)

    def check_schema(self, schema: Schema) -> None:
        """Raise ``SchemaMismatch`` unless a schema is that of the table."""
        checked_schema(schema, self.context.schema)

    def checkpoint(self) -> Cut:
        """Cut all buckets.

        Raises:
            CheckpointPending: an earlier cut is neither committed nor abandoned.
        """
        cuts: dict[int, BucketCut[RecordBatch]] = {}
        with self._cutting:
            try:
                for number in self._buckets:
                    if taken := self.bucket(number).cut():
                        cuts[number] = taken
            except CheckpointPending:
                self.abandon(Cut(buckets=cuts))
                raise
        return Cut(buckets=cuts)

    def committed(self, cut: Cut) -> None:
        """Record the commit of a cut in its buckets that are still served.

        Raises:
            Fenced: a bucket has discarded the records.
        """
        refusals = []
        for number, done in cut.buckets.items():
            try:
                self.bucket(number).commit(done)
            except Fenced as refusal:
                refusals.append(refusal)
            except LogStoreUnavailable:
                self._refuse_if_shut_down()
        if refusals:
            raise refusals[0]

    def abandon(self, cut: Cut) -> None:
        """Return the records of a cut to the next one."""
        for number, given_up in cut.buckets.items():
            if still := self._buckets.get(number):
                still.abandon(given_up)

    def fence(self, bucket: int, epoch: Epoch) -> None:
        """Give a bucket up; nothing is left to do if it is not served any more."""
        if still := self._buckets.get(bucket):
            still.fence(epoch)

    def status(self) -> dict[int, BucketStatus]:
        """Return the status of all buckets at one point in time."""
        with self._cutting, ExitStack() as holding:
            logs = {n: holding.enter_context(self.bucket(n).held()) for n in self._buckets}
            return {n: status_of(log) for n, log in logs.items()}

    def serve_checkpoints(self, serve: ServeCheckpoint) -> None:
        """Let requests for a checkpoint be served."""
        self._serve = serve

    def request_checkpoint(self, wait_s: float) -> int | None:
        """Have a checkpoint made; return the table's version that has all records.

        Raises:
            LogStoreUnavailable: no service commits the records of this store.
        """
        if not self._open or self._serve is None:
            raise LogStoreUnavailable(
                f"no service commits the records of table {self.context.table} in this log store: "
                "connect to its successor, or commit cuts yourself"
            )
        return self._serve(wait_s)

    def close(self) -> None:
        """End all waiting calls, and release the records."""
        self._open = False
        for each in tuple(self._buckets.values()):
            each.close()

    def _new(self, number: int) -> Bucket:
        limits = self.context.limits
        return Bucket(number, limits, monotonic=self._monotonic, confirmed_until=self._until)

    def _refuse_if_shut_down(self) -> None:
        if not self._open:
            raise LogStoreUnavailable(
                f"the log store of table {self.context.table} was shut down: "
                "connect to its successor"
            )


def checked_schema(schema: Schema, expected: Schema) -> None:
    """Raise ``SchemaMismatch`` unless a schema is the expected one."""
    if not schema.equals(expected):
        raise SchemaMismatch(
            f"records of this log store have the columns {_columns(expected)}, not "
            f"{_columns(schema)}: cast them first"
        )


def _columns(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

"""The buckets of one store, and checkpoints over all of them.

1. A checkpoint cuts all buckets or none. The table's commit holds the cuts of all.
2. A commit is recorded in every bucket, even if one of them refuses; the first refusal is raised
   at the end.
3. The status is that of all buckets at one point in time.
4. The store cannot commit. What can is told to it by ``serve_checkpoints``, and does so on request.
5. Of the confirmations of ``confirming`` the newest one counts, for all buckets alike.
6. A bucket that moves to another service is sealed, committed, and then no longer served. Each of
   these steps, a cut and a status come one after the other. A bucket that comes back begins empty.
"""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    Fenced,
    InvalidInput,
    LogStoreUnavailable,
    SchemaMismatch,
)
from airflow_provider_segtable.core.log_store.bucket import BucketCut
from airflow_provider_segtable.core.log_store.manifest import Epoch
from airflow_provider_segtable.core.log_store.reading import BucketStatus, status_of
from airflow_provider_segtable.logstore.bucket import Bucket
from airflow_provider_segtable.ports.log_store import (
    Cut,
    LogContext,
    RecordBatch,
    Schema,
    ServeCheckpoint,
)


class Buckets:
    """The buckets of a context."""

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

    def seal(self, numbers: Collection[int]) -> None:
        """Take no more records into some buckets."""
        with self._cutting:
            for number in numbers:
                if sealed := self._buckets.get(number):
                    sealed.seal()

    def serve(self, numbers: Collection[int]) -> None:
        """Serve these buckets and no others."""
        with self._cutting:
            for number in self._buckets.keys() - set(numbers):
                self._buckets.pop(number).close()
            for number in sorted(set(numbers) - self._buckets.keys()):
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
        """Record the commit of a cut in those of its buckets that are still served.

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

    def fence(self, number: int, epoch: Epoch) -> None:
        """Give a bucket up; nothing is left to do if it is not served any more."""
        if still := self._buckets.get(number):
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
                f"no service commits what this log store has of table {self.context.table}: "
                "connect to its successor, or commit cuts yourself"
            )
        return self._serve(wait_s)

    def close(self) -> None:
        """End all waiting calls, and release the records."""
        self._open = False
        for bucket in tuple(self._buckets.values()):
            bucket.close()

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

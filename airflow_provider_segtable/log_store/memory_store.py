"""A log store in this process, for its threads: full rules, no network.

1. Addresses are ``memory://N``; they are known to the provider that created the store.
2. Batches are shared with their writer, not copied. Arrow batches do not change.
3. An answer is never lost here, so ``send`` is ``append``.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from itertools import count
from uuid import uuid4

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import LogStoreGone
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.reading import (
    Behind,
    BucketStatus,
    Found,
    Reset,
    Whence,
)
from airflow_provider_segtable.log_store.buckets import Bucket, Buckets
from airflow_provider_segtable.ports.log_store import (
    DeployMode,
    LogContext,
    RecordBatch,
    Records,
)


@dataclass(slots=True)
class MemoryLogStoreProvider:
    """Creates stores in this process, and connects to them; ``monotonic`` is their clock."""

    monotonic: Callable[[], float] = time.monotonic
    _running: "dict[str, MemoryLogStore]" = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def create(self, context: LogContext) -> "MemoryLogStore":
        """Return a store that is not started yet."""
        address = f"memory://{next(self._numbers)}"
        return MemoryLogStore(context, self.monotonic, address, self._running)

    def connect(self, address: str) -> "MemoryLogClient":
        """Return a client of a running store.

        Raises:
            LogStoreGone: no store runs at the address.
        """
        if address not in self._running:
            raise LogStoreGone(
                f"no log store runs at {address} in this process: start one, or look up its address"
            )
        return MemoryLogClient(self._running[address])


class MemoryLogStore(Buckets):
    """The buckets of a context, in this process."""

    deploy_mode = DeployMode.EMBEDDED

    def __init__(
        self,
        context: LogContext,
        monotonic: Callable[[], float],
        address: str,
        running: "dict[str, MemoryLogStore]",
    ) -> None:
        super().__init__(context, monotonic)
        self.address = address
        self._running = running

    def start(self) -> None:
        """Begin to serve."""
        self._running[self.address] = self

    def client(self) -> "MemoryLogClient":
        """Return a client in this process."""
        return MemoryLogClient(self)

    def shutdown(self) -> None:
        """Stop serving, and end all waiting calls."""
        self._running.pop(self.address, None)
        self.close()


class MemoryLogClient:
    """Access to one store of this process."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def writer(self, bucket: int, *, epoch: Epoch, committed: CommittedEnd) -> "MemoryLogWriter":
        """Begin an epoch of a bucket."""
        log = self._buckets.bucket(bucket)
        end = log.begin(epoch=epoch, writer=uuid4().hex, committed=committed)
        return MemoryLogWriter(self._buckets, bucket, epoch, end)

    def reader(self, bucket: int, *, start: Position | Whence) -> "MemoryLogReader":
        """Read a bucket."""
        return MemoryLogReader(self._buckets.bucket(bucket), start)

    def status(self) -> dict[int, BucketStatus]:
        """Return the status of all buckets."""
        return self._buckets.status()

    def checkpoint(self, *, wait_s: float) -> int | None:
        """Have a checkpoint made."""
        return self._buckets.request_checkpoint(wait_s)

    def together(self, sizes: Mapping[int, int], *, wait_s: float) -> AbstractContextManager[bool]:
        """Let the appends of a block be seen and committed as one."""
        return self._buckets.together(sizes, wait_s)


class MemoryLogWriter:
    """The writer of a bucket in this process."""

    def __init__(self, buckets: Buckets, bucket: int, epoch: Epoch, end: Offset) -> None:
        self._buckets, self._number = buckets, bucket
        self.epoch, self.end, self.committed = epoch, end, end

    def append(self, batch: RecordBatch, *, wait_s: float) -> Offset:
        """Append records and return the offset of the first."""
        self._buckets.check_schema(batch.schema)
        bucket = self._buckets.bucket(self._number)
        answer = bucket.append(batch, epoch=self.epoch, sequence=self.end, wait_s=wait_s)
        self.end = answer.first + batch.num_rows
        self.committed = answer.committed
        return answer.first

    def send(self, batch: RecordBatch, *, wait_s: float) -> Offset:
        """Append records; here the answer takes no time."""
        return self.append(batch, wait_s=wait_s)

    def flush(self, *, wait_s: float) -> Offset:  # noqa: ARG002  # the port's signature
        """Return the offset after the last record: all are stored."""
        return self.end

    def check(self, *, wait_s: float) -> None:
        """Raise ``Fenced`` if the epoch is over."""
        bucket = self._buckets.bucket(self._number)
        answer = bucket.check(epoch=self.epoch, sequence=self.end, wait_s=wait_s)
        self.committed = answer.committed

    def leave(self, why: str) -> None:
        """Do nothing: a call in memory waits at its bucket, which wakes it."""

    def close(self) -> None:
        """Release nothing: a writer in memory holds no resources."""


class MemoryLogReader:
    """A reader of a bucket in this process."""

    def __init__(self, bucket: Bucket, start: Position | Whence) -> None:
        self._bucket = bucket
        self.position: Position | None = None
        self.seek(start)

    def read(self, *, wait_s: float) -> Records | Reset | Behind | None:
        """Return the next batch; None if there is none in time."""
        match self._bucket.read(self.position, wait_s=wait_s):
            case Found() as found:
                self.position = found.next
                rows = found.batches[0].content
                rows = rows.slice(found.skip) if found.skip else rows
                return Records(first=found.first, batch=rows)
            case Reset() as reset:
                self.position = reset.position
                return reset
            case other:
                return other

    def seek(self, start: Position | Whence) -> None:
        """Go on from another position."""
        at = self._bucket.position_of(start) if isinstance(start, Whence) else start
        self.position = at

    def close(self) -> None:
        """Release nothing: a reader in memory holds no resources."""

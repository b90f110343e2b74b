"""One log store with its clients, in memory or over Arrow Flight, as a test sees it."""

from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Position
from airflow_provider_segtable.core.log_store.reading import Behind, Reset, Whence
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import (
    Cut,
    LogContext,
    LogReader,
    LogStore,
    LogStoreProvider,
    LogWriter,
    Records,
)
from tests.contract.cut_proxy import CutProxy

SCHEMA = pa.schema([("n", pa.int64())])
ROW = 8
PATIENCE_S = 60.0
"""Longest wait for what has to come, on a machine with much else to do."""
SOON_S = 0.05
"""How long a test waits for what must not come."""


def rows(*numbers: int) -> pa.RecordBatch:
    """Return a batch of records."""
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


@dataclass
class LogWorld:
    """One store of two buckets, and a table that is a list of numbers for each."""

    provider: LogStoreProvider
    is_remote: bool = False
    proxy: CutProxy | None = None
    store: LogStore = field(init=False)
    address: str = ""
    epoch: int = 0
    tables: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})
    ends: dict[int, CommittedEnd] = field(
        default_factory=lambda: {0: CommittedEnd(), 1: CommittedEnd()}
    )
    opened: ExitStack = field(default_factory=ExitStack)

    def start(self, limits: Limits | None = None) -> None:
        """Start the store, or one that replaces it."""
        context = LogContext(
            table="t", schema=SCHEMA, buckets=(0, 1), limits=limits or Limits(bucket_bytes=800)
        )
        self.store = self.provider.create(context)
        self.store.start()
        self.opened.callback(self.store.shutdown)
        self.address = self.store.address
        if self.is_remote:
            scheme, host, port = self.address.rsplit(":", 2)
            self.proxy = CutProxy(int(port))
            self.opened.callback(self.proxy.close)
            self.address = f"{scheme}:{host}:{self.proxy.port}"

    def lose_answers(self) -> None:
        """Lose the next answer on each connection; in memory none is ever lost."""
        if self.proxy:
            self.proxy.cut()

    def writer(self, bucket: int = 0, *, epoch: int | None = None) -> LogWriter:
        """Begin an epoch from what the table has."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        client = self.provider.connect(self.address)
        made = client.writer(bucket, epoch=self.epoch, committed=self.ends[bucket])
        self.opened.callback(made.close)
        return made

    def reader(
        self, bucket: int = 0, *, start: Position | Whence = Whence.EARLIEST
    ) -> "CheckedReader":
        """Return another reader."""
        made = self.provider.connect(self.address).reader(bucket, start=start)
        self.opened.callback(made.close)
        return CheckedReader(made, self.tables[bucket])

    def commit(self, cut: Cut) -> None:
        """Write a cut into the tables, as their commit would."""
        for number, part in cut.buckets.items():
            assert part.start == len(self.tables[number])
            self.tables[number] += [n for each in part.batches for n in numbers(each.content)]
            assert len(self.tables[number]) == part.end
            self.ends[number] = part.committed_end

    def checkpoint(self) -> None:
        """Run a whole checkpoint."""
        cut = self.store.checkpoint()
        self.commit(cut)
        self.store.committed(cut)

    def end(self) -> None:
        """Close everything."""
        self.opened.close()


class CheckedReader:
    """A reader, and what it has: whatever it says must fit to what it said before."""

    def __init__(self, reader: LogReader, table: list[int]) -> None:
        self.reader = reader
        self.table = table
        self.seen: dict[int, int] = {}
        self.events: list[Reset | Behind] = []
        self.next: int | None = None

    def step(self, wait_s: float = PATIENCE_S) -> Records | Reset | Behind | None:
        """Read once."""
        found = self.reader.read(wait_s=wait_s)
        match found:
            case Records(first=first, batch=batch):
                assert self.next in {None, first}
                for offset, n in enumerate(numbers(batch), first):
                    assert self.seen.setdefault(offset, n) == n, "another record without a reset"
                self.next = first + batch.num_rows
            case Reset(offset=offset):
                self.seen = {o: n for o, n in self.seen.items() if o < offset}
                self.events.append(found)
                self.next = offset
            case Behind():
                self.events.append(found)
        return found

    def until(self, offset: int) -> list[int]:
        """Read until everything below an offset is there; return the records in order."""
        while self.next is None or self.next != offset:
            assert self.step() is not None, f"nothing came after {self.next}"
        return [self.seen[each] for each in sorted(self.seen)]


def numbers(batch: object) -> list[int]:
    """Return the records of a batch."""
    assert isinstance(batch, pa.RecordBatch)
    return [int(n) for n in batch.column(0).to_pylist()]


def flight_world() -> LogWorld:
    """Return a world over Arrow Flight on loopback, whose connections can be cut."""
    return LogWorld(FlightLogStoreProvider(), is_remote=True)


def memory_world() -> LogWorld:
    """Return a world in memory."""
    return LogWorld(MemoryLogStoreProvider())

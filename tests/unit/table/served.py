"""A service of one bucket over a table, with its writer, and followers."""

from dataclasses import dataclass, field

from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import (
    LogClient,
    LogContext,
    LogStore,
    LogStoreProvider,
    LogWriter,
)
from airflow_provider_segtable.table.log_store.checkpointing import (
    begin_epoch,
    commit_cut,
    log_schema,
)
from airflow_provider_segtable.table.log_store.tail import BucketTail, LogRecords
from airflow_provider_segtable.table.table import Table
from tests.unit.table.logged import rows_of

WAIT_S = 60.0


@dataclass
class Service:
    """A service of bucket 0, and its writer."""

    table: Table
    provider: LogStoreProvider = field(default_factory=MemoryLogStoreProvider)
    store: LogStore = field(init=False)
    writer: LogWriter = field(init=False)
    client: LogClient | None = None

    def start(self) -> "Service":
        """Start a store, and begin an epoch."""
        schema = log_schema(self.table.state())
        self.store = self.provider.create(LogContext(table="t", schema=schema, buckets=(0,)))
        self.store.start()
        self.client = self.provider.connect(self.store.address)
        begun = begin_epoch(self.table.ports, [0], owner="me")
        self.writer = self.client.writer(0, epoch=begun.epoch, committed=begun.ends[0])
        return self

    def append(self, *numbers: int) -> None:
        """Append rows."""
        self.writer.append(rows_of(numbers).combine_chunks().to_batches()[0], wait_s=WAIT_S)

    def checkpoint(self, deleted: str | None = None) -> int:
        """Commit what was appended; return the event."""
        cut = self.store.checkpoint()
        done = commit_cut(self.table.ports, cut, deleted=deleted)
        self.store.committed(cut)
        assert done is not None
        return done.n

    def end(self) -> None:
        """End the store; clients find no service."""
        self.client = None
        self.store.shutdown()

    def follow(self, start: Position | None = None) -> BucketTail:
        """Return a follower from a position on, by default the first record."""
        return BucketTail(self.table.ports, 0, start or Position(), lambda _: self.client)


def numbers(found: object) -> list[int]:
    """Return the rows of records."""
    assert isinstance(found, LogRecords), found
    return [int(n) for n in found.rows.column("row").to_pylist()]

"""A table in memory with a log store beside it, and reads with the live tail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Position
from airflow_provider_segtable.core.log_store.reading import BucketStatus, Whence
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import (
    Cut,
    LogClient,
    LogContext,
    LogReader,
    LogStore,
    LogWriter,
)
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log_store.checkpointing import (
    DELETED,
    begin_epoch,
    commit_cut,
    deleted_column,
    log_schema,
)
from airflow_provider_segtable.table.log_store.union_scan import UnionScan, union_scan
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.table.conftest import new_table

BUCKETS = (0, 1)
WAIT_S = 5.0


def table_of(kind: TableKind | None = None) -> Table:
    """Return an empty table in memory, of a kind."""
    made = new_table(MemoryService())
    if kind is None:
        return made
    ports = replace(made.ports, storage=MemoryStorage(clock=made.ports.clock), files=MemoryFiles())
    return create_table(ports, of_kind(made.state().table, kind))


@dataclass
class Interrupted:
    """A client between whose calls something happens, once each: ``status``, ``reader``."""

    client: LogClient
    after: dict[str, Callable[[], None]]

    def status(self) -> Mapping[int, BucketStatus]:
        """Return the status; then something happens."""
        found = self.client.status()
        self.after.pop("status", lambda: None)()
        return found

    def reader(self, bucket: int, *, start: Position | Whence) -> LogReader:
        """Something happens; then return a reader."""
        self.after.pop("reader", lambda: None)()
        return self.client.reader(bucket, start=start)

    def writer(self, bucket: int, *, epoch: Epoch, committed: CommittedEnd) -> LogWriter:
        """Begin an epoch of a bucket."""
        return self.client.writer(bucket, epoch=epoch, committed=committed)

    def checkpoint(self, *, wait_s: float) -> int | None:
        """Ask for a checkpoint."""
        return self.client.checkpoint(wait_s=wait_s)


@dataclass
class Streamed:
    """The table, one store that holds both buckets, and their writers."""

    table: Table
    limits: Limits = field(default_factory=Limits)
    buckets: Sequence[int] = BUCKETS
    store: LogStore = field(init=False)
    client: LogClient = field(init=False)
    writers: dict[int, LogWriter] = field(default_factory=dict)
    served: bool = True

    def __post_init__(self) -> None:
        """Start the store and its writers."""
        provider = MemoryLogStoreProvider()
        schema = log_schema(self.table.state())
        context = LogContext(table="t", schema=schema, buckets=BUCKETS, limits=self.limits)
        self.store = provider.create(context)
        self.store.start()
        self.client = provider.connect(self.store.address)
        self.begin(*self.buckets)

    def interrupted(self, **after: Callable[[], None]) -> None:
        """Let things happen once in the next read, each after one call of the store's client."""
        self.client = Interrupted(self.client, dict(after))

    def begin(self, *buckets: int) -> None:
        """Begin an epoch of some buckets: what is not committed of them is discarded."""
        begun = begin_epoch(self.table.ports, buckets, owner="host:7")
        for bucket, end in begun.ends.items():
            writer = self.client.writer(bucket, epoch=begun.epoch, committed=end)
            self.writers[bucket] = writer

    def send(self, bucket: int, rows: pa.Table, gone: Sequence[bool] = ()) -> None:
        """Append rows to a bucket; of a primary-key table, some delete their keys."""
        if deleted_column(self.table.state()) is not None:
            flags = pa.array(gone or [False] * rows.num_rows, pa.bool_())
            rows = rows.append_column(pa.field(DELETED, pa.bool_()), flags)
        schema = log_schema(self.table.state())
        for batch in rows.cast(schema).to_batches(max_chunksize=2):
            self.writers[bucket].append(batch, wait_s=WAIT_S)

    def cut(self) -> Cut:
        """Cut the store."""
        return self.store.checkpoint()

    def commit(self, cut: Cut) -> None:
        """Commit a cut to the table; the store is not told."""
        commit_cut(self.table.ports, cut, deleted=deleted_column(self.table.state()))

    def checkpoint(self) -> None:
        """Run a whole checkpoint."""
        cut = self.cut()
        self.commit(cut)
        self.store.committed(cut)

    def find(self, bucket: int) -> LogClient | None:
        """Return the client of the store that holds a bucket."""
        return self.client if self.served and bucket in BUCKETS else None

    def union(self, **asked: Any) -> UnionScan:
        """Return a read with the live tail."""
        return union_scan(self.table.ports, self.find, read_request(include_log=True, **asked))

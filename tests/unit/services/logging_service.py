"""A log store in memory with its service, over a table whose commits can be made to go wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.log_store.bucket import CheckpointPolicy, Limits
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import LogContext, LogStore, LogWriter
from airflow_provider_segtable.services.log_store import LogService
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch, log_schema
from airflow_provider_segtable.table.table import Table
from tests.support.clock import FakeClock
from tests.unit.table.committing import Trap, traps
from tests.unit.table.conftest import new_table
from tests.unit.table.logged import rows_of

POLICY = CheckpointPolicy(seconds=10, nbytes=1 << 30, records=100)
LIMITS = Limits(bucket_bytes=20_000)


@dataclass
class Served:
    """A store of two buckets, their writers, and the service."""

    policy: CheckpointPolicy = POLICY
    table: Table = field(init=False)
    store: LogStore = field(init=False)
    service: LogService = field(init=False)
    writers: dict[int, LogWriter] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    written: int = 0

    def __post_init__(self) -> None:
        """Open everything; nothing is started."""
        made = new_table(MemoryService())
        trap = Trap(made.ports.storage)  # type: ignore[arg-type]
        self.table = Table(replace(made.ports, storage=trap))  # type: ignore[arg-type]
        state = self.table.state()
        context = LogContext(table="t", schema=log_schema(state), buckets=(0, 1), limits=LIMITS)
        self.store = MemoryLogStoreProvider().create(context)
        self.service = LogService(
            self.table.ports, self.store, self.policy, columns=state, on_lost=self.lost.append
        )
        self.begin(0, 1)

    @property
    def clock(self) -> FakeClock:
        """Return the clock of the table and its service."""
        assert isinstance(self.table.ports.clock, FakeClock)
        return self.table.ports.clock

    def begin(self, *buckets: int) -> None:
        """Begin an epoch of buckets."""
        begun = begin_epoch(self.table.ports, buckets, owner="writer")
        for bucket in buckets:
            self.writers[bucket] = self.store.client().writer(
                bucket, epoch=begun.epoch, committed=begun.ends[bucket]
            )

    def append(self, count: int, bucket: int = 0, *, wait_s: float = 0.0) -> None:
        """Append numbered rows in one batch."""
        numbers = range(self.written, self.written + count)
        (batch,) = rows_of(numbers).combine_chunks().to_batches()
        self.writers[bucket].append(batch, wait_s=wait_s)
        self.written += count

    def trap(self, *strikes: Callable[[str, bytes], None]) -> None:
        """Let the next creates of files in the log go wrong."""
        traps(self.table.ports).extend(strikes)

    def numbers(self) -> list[int]:
        """Return the rows that the table has."""
        found: pa.Table = self.table.scan().to_arrow()
        return sorted(found.column("row").to_pylist())

"""A table in memory with a log store, and external services of it in this process."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa

from airflow_provider_segtable.core.log_store.bucket import ON_REQUEST, CheckpointPolicy
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, Offset
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode, LogContext
from airflow_provider_segtable.services.log_directory import ClaimedBuckets
from airflow_provider_segtable.services.log_store import LogService
from airflow_provider_segtable.table.log_store.checkpointing import log_schema
from airflow_provider_segtable.table.log_store.file_reader import RangeRecords, read_committed

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("value", pa.string()),
    ]
)
EXTERNAL = FlightLogStoreProvider(deploy_mode=DeployMode.EXTERNAL)


def rows(*ids: int, value: str | None = "v") -> pa.Table:
    """Return rows with these ids."""
    return pa.Table.from_pylist([{"at": 1, "id": n, "value": value} for n in ids], SCHEMA)


def new_table(*, keyed: bool = False, **properties: str) -> Table:
    """Return an empty table in memory; properties are those of its log store."""
    return Table.create(
        f"memory://{uuid4()}",
        schema=SCHEMA,
        time_column="at",
        granularity="all",
        primary_key="id" if keyed else None,
        properties={f"log_store.{name}": value for name, value in properties.items()},
        zookeeper=f"memory://{uuid4()}",
    )


def ids(table: Table) -> list[int]:
    """Return the ids of the table's rows, sorted."""
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def logged(table: Table, bucket: int = 0, start: Offset = 0) -> list[int]:
    """Return the ids that the table has of a bucket, in the order of the offsets."""
    found = []
    for each in read_committed(table.ports, bucket, BEGINNING):
        assert isinstance(each, RangeRecords)
        found += each.rows.column("id").to_pylist()
    return found[start:]


@dataclass
class ExternalService:
    """A service as a process of its own would have it."""

    table: Table
    buckets: Sequence[int] = (0,)
    policy: CheckpointPolicy = ON_REQUEST
    service: LogService = field(init=False)
    claims: ClaimedBuckets = field(init=False)

    def __post_init__(self) -> None:
        """Start to serve."""
        state = self.table.state()
        store = EXTERNAL.create(
            LogContext(
                table=state.table.table_id, schema=log_schema(state), buckets=tuple(self.buckets)
            )
        )
        self.service = LogService(self.table.ports, store, self.policy, columns=state)
        self.service.start()
        self.claims = ClaimedBuckets(
            self.table.ports.coordinator,
            state.table.table_id,
            service=str(uuid4()),
            deploy_mode=DeployMode.EXTERNAL,
        )
        self.claims.take(self.buckets, store.address)

    def kill(self) -> None:
        """Lose the store with all that is not committed, and the claims."""
        self.service.store.shutdown()
        self.claims.release(self.buckets)

"""A table in memory with its coordinator, and rows to append."""

from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock, FakeRandomness

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
HOUR_US = 3_600_000_000


@pytest.fixture
def service() -> MemoryService:
    return MemoryService()


@pytest.fixture
def ports(service: MemoryService) -> TableContext:
    """Two hours with four small segments each."""
    clock = FakeClock()
    made = TableContext(
        uri="memory://t",
        storage=MemoryStorage(clock=clock),
        files=MemoryFiles(),
        clock=clock,
        randomness=FakeRandomness(),
        author="first",
        optional_coordinator=MemoryCoordinator(clock, service),
    )
    create_table(
        made,
        TableDefinition(
            table_id="t",
            name="t",
            schema=from_arrow(SCHEMA),
            time_column="at",
            granularity=Granularity.HOUR,
            properties={"compaction.min_segments": "2", "compaction.max_attempts": "2"},
        ),
    )
    for turn in range(4):
        Table(made).append(rows(turn))
    return made


@pytest.fixture
def other(ports: TableContext, service: MemoryService) -> TableContext:
    """Another process with a session of its own."""
    client = MemoryCoordinator(ports.clock, service)
    return replace(
        ports, author="second", randomness=FakeRandomness(1), optional_coordinator=client
    )


def rows(turn: int) -> pa.Table:
    """Return two rows, one an hour."""
    times = pa.array([turn, HOUR_US + turn], SCHEMA.field("at").type)
    return pa.table({"at": times, "row": [turn, 100 + turn]}, SCHEMA)


def contents(ports: TableContext) -> list[int]:
    """Return the row numbers of the newest snapshot, sorted."""
    return sorted(Table(ports).snapshot().to_arrow().column("row").to_pylist())

"""A table in memory with its coordinator: two hours, four segments each, ten rows a segment."""

from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import HOUR_US, Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock, FakeRandomness

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("row", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("price", pa.float64()),
    ]
)


def new_table(service: MemoryService) -> Table:
    """Return an empty table by the hour."""
    clock = FakeClock()
    ports = TableContext(
        uri="memory://t",
        storage=MemoryStorage(clock=clock),
        files=MemoryFiles(),
        clock=clock,
        randomness=FakeRandomness(),
        author="first",
        optional_coordinator=MemoryCoordinator(clock, service),
    )
    definition = TableDefinition(
        table_id="t",
        name="t",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.HOUR,
        properties={},
    )
    return create_table(ports, definition)


@pytest.fixture
def service() -> MemoryService:
    return MemoryService()


@pytest.fixture
def table(service: MemoryService) -> Table:
    """Rows 0 to 39, five an hour in each of four appends; each third row has no name."""
    made = new_table(service)
    for turn in range(4):
        made.append(rows(range(turn * 10, turn * 10 + 10)))
    return made


@pytest.fixture
def other(table: Table, service: MemoryService) -> Table:
    """The same table in another process, with a session of its own."""
    client = MemoryCoordinator(table.ports.clock, service)
    return Table(
        replace(
            table.ports, author="second", randomness=FakeRandomness(1), optional_coordinator=client
        )
    )


def rows(numbers: range) -> pa.Table:
    """Return rows; odd ones are an hour later."""
    given = [
        {
            "at": number + (number % 2) * HOUR_US,
            "row": number,
            "name": None if number % 3 == 0 else f"n{number % 3}",
            "price": number / 2,
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(given, SCHEMA)


def numbers(table: Table, **version: int) -> list[int]:
    """Return the row numbers of a snapshot, sorted."""
    return sorted(table.snapshot(**version).to_arrow().column("row").to_pylist())


def files(table: Table) -> set[str]:
    """Return the paths of all files, whether the log names them or not."""
    return set(table.ports.files.store)  # type: ignore[attr-defined]

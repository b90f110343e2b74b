"""A table in memory with its coordinator: two hours, four segments each, ten rows a segment."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory, defined_by, in_another_process

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
    return create_table(context_in_memory(service), defined_by(SCHEMA))


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
    return Table(in_another_process(table.ports, service))


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

"""A table in memory with its coordinator, and rows to append."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory, defined_by, in_another_process

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
HOUR_US = 3_600_000_000


@pytest.fixture
def ports(service: MemoryService) -> TableContext:
    """Two hours with four small segments each."""
    made = context_in_memory(service)
    properties = {"compaction.min_segments": "2", "compaction.max_attempts": "2"}
    create_table(made, defined_by(SCHEMA, properties=properties))
    for turn in range(4):
        Table(made).append(rows(turn))
    return made


@pytest.fixture
def other(ports: TableContext, service: MemoryService) -> TableContext:
    """Another process with a session of its own."""
    return in_another_process(ports, service)


def rows(turn: int) -> pa.Table:
    """Return two rows, one an hour."""
    times = pa.array([turn, HOUR_US + turn], SCHEMA.field("at").type)
    return pa.table({"at": times, "row": [turn, 100 + turn]}, SCHEMA)


def contents(ports: TableContext) -> list[int]:
    """Return the row numbers of the newest snapshot, sorted."""
    return sorted(Table(ports).snapshot().to_arrow().column("row").to_pylist())

"""A table with an index, log and data below one root."""

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.indexes.index_kind import FILE, FileList
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes.index_entries import entries_in
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory
from tests.unit.services.conftest import rows
from tests.unit.services.test_cleaning import DEFINITION


def indexed_table(service: MemoryService) -> TableContext:
    """Return a table of two hours with four small segments each, fed into an index."""
    made = context_in_memory(service, rooted=True)
    create_table(made, DEFINITION)
    request_index(made, "files", FileList())
    for turn in range(4):
        Table(made).append(rows(turn))
    return made


def index(ports: TableContext) -> IndexState:
    """Return the state of the index."""
    return ports.log.load().indexes["files"]


def listed(ports: TableContext) -> list[str]:
    """Return the files that the index knows, in order."""
    return sorted(entries_in(ports, index(ports)).column(FILE).to_pylist())

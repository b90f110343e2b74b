"""What a log store costs in storage: nothing but offsets in footers, and ranges in events."""

import pytest

from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.table.table import Table
from tests.unit.table.logged import rows_of
from tests.unit.table.streamed import Streamed, table_of

CHECKPOINTS, ROWS = 4, 2_000
MOST_FOOTER = 200
"""Bytes of the offsets in a footer, of rows that come in the order of their event times."""
MOST_EVENT = 60
"""Bytes of a range in an event."""


def data_files(table: Table) -> dict[str, int]:
    """Return the sizes of all data files."""
    files = table.ports.files
    assert isinstance(files, MemoryFiles)
    return {path: len(data) for path, data in files.store.items()}


def event_bytes(table: Table) -> int:
    """Return the bytes of the log's events."""
    return sum(entry.size for entry in table.ports.storage.list(TIMELINE))


@pytest.mark.parametrize("kind", [None, PrimaryKey(key=("row",), buckets=1)])
def test_a_log_store_and_its_table_need_the_storage_of_the_table(kind: TableKind | None) -> None:
    """Each file is the table's, named once; the same rows written without a log are as large."""
    made, plain = Streamed(table_of(kind)), table_of(kind)
    for turn in range(CHECKPOINTS):
        rows = rows_of(range(turn * ROWS, (turn + 1) * ROWS)).sort_by("at")
        made.send(0, rows)
        made.union().count()
        made.checkpoint()
        (plain.append if kind is None else plain.upsert)(rows)
    found, alone = data_files(made.table), data_files(plain)
    named = [segment.path for segment in made.table.state().timeline.segments()]
    assert sorted(found) == sorted(named)
    assert len(found) == len(alone)
    assert 0 <= sum(found.values()) - sum(alone.values()) <= MOST_FOOTER * len(found)
    begun = 300  # the event of the epoch
    assert event_bytes(made.table) - event_bytes(plain) <= begun + MOST_EVENT * CHECKPOINTS

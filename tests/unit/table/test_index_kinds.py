"""Entries of every kind of table: kept as they were computed, and true of what readers see."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.indexes.index_kind import FILE, high, low, nulls
from airflow_provider_segtable.core.predicate import Compare, Compares
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.core.tables.rollup_kind import QueryGranularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.indexes.entries import entries, view_of
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import forward_feeds
from airflow_provider_segtable.table.table import Table, create_table
from tests.property.test_index_views import HASHED, ORDERED, SCHEMA, drawn_rows
from tests.property.test_keyed_tables import keyed_table
from tests.unit.table.conftest import new_table
from tests.unit.table.test_erasing import hours, rolling
from tests.unit.table.test_keyed_columns import partial
from tests.unit.table.test_keyed_columns import rows as records


def files_of(table: Table) -> tuple[Segment, ...]:
    """Return the files that readers see."""
    return tuple(each for each in table.state().timeline.segments() if each.path)


def may_hold(table: Table, name: str, *tests: Any) -> list[list[bool]]:
    """Return for each file and condition whether it is read; all files must be known."""
    state = table.state()
    view = view_of(
        state.indexes[name].definition, state.table, table.index_entries(name, replaced=True)
    )
    assert all(view.knows(segment) for segment in files_of(table))
    return [[view.may_hold(segment, test) for test in tests] for segment in files_of(table)]


def computed(table: Table, name: str) -> pa.Table:
    """Return the entries of an index, from the files."""
    state = table.state()
    return entries(state.indexes[name].definition, state.table, files_of(table), table.ports.files)


def equal(column: str, value: Any) -> Compare:
    """Return the comparison of a column with a value."""
    return Compare(column, Compares.EQUAL, value)


@pytest.mark.parametrize(("kind", "columns"), [("column_stats", ORDERED), ("bloom_filter", HASHED)])
def test_a_table_of_entries_keeps_them_as_they_are(
    service: MemoryService, kind: str, columns: tuple[str, ...]
) -> None:
    """Of all types of columns, times of any unit and zone among them; copied or not."""
    begun = new_table(service)
    definition = replace(begun.state().table, schema=from_arrow(SCHEMA))
    ports = replace(
        begun.ports, storage=MemoryStorage(clock=begun.ports.clock), files=MemoryFiles()
    )
    table = create_table(ports, definition)
    table.create_index("i", kind, columns)
    for seed in range(4):
        table.append(drawn_rows(Random(seed)))
    expected = computed(table, "i").sort_by(FILE)
    assert expected.num_rows == len(files_of(table)) == 4
    assert table.index_entries("i").sort_by(FILE).equals(expected)
    forward_feeds(table.ports, table.state())
    assert table.index_entries("i").sort_by(FILE).equals(expected)


def test_rollup_tables_have_entries_of_their_rows(service: MemoryService) -> None:
    """Bounds are those of dimensions and metrics as stored."""
    table = rolling(service, QueryGranularity.HOUR)
    table.create_index("i", "column_stats", ["carrier", "total"])
    table.append(hours())
    stored = table.scan().to_arrow()
    found = table.index_entries("i")
    ids = {column.name: column.id for column in table.state().table.schema.numbered}
    for name in ("carrier", "total"):
        known = [v for v in stored.column(name).to_pylist() if v is not None]
        assert min(found.column(low(ids[name])).to_pylist()) == min(known)
        assert max(found.column(high(ids[name])).to_pylist()) == max(known)
        count = sum(found.column(nulls(ids[name])).to_pylist())
        assert count == stored.column(name).null_count
    assert may_hold(table, "i", equal("carrier", "A"), equal("carrier", "C")) == [[True, False]]


@pytest.mark.parametrize("kind", ["column_stats", "bloom_filter"])
def test_files_of_keyed_tables_have_all_their_records(tmp_path: Path, kind: str) -> None:
    """Those of deleted keys, too; and in place of what no record sets, the default shown."""
    table = keyed_table(str(tmp_path), partial())
    table.alter(columns=[AddColumn(name="mark", type="string", default="m")])
    table.create_index("i", kind, ["key", "mark"])
    table.upsert(records(table, {"key": 1, "text": "a"}, {"key": 3, "mark": "p"}))
    table.delete("key = 1")
    tests = (*(equal("key", key) for key in (1, 3, 9)), *(equal("mark", t) for t in "mpz"))
    upserted, deleted = [True, True, False, True, True, False], [True, False, False, True, False]
    assert may_hold(table, "i", *tests) == [upserted, [*deleted, False]]
    table.compact("semi-major")
    assert may_hold(table, "i", *tests) == [upserted, [*deleted, False], upserted]

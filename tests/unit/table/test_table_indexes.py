"""Indexes as users of ``Table`` ask for them: kinds by name, columns by name."""

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, ColumnStats
from airflow_provider_segtable.core.indexes.index_state import in_words, name_of
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import new_table, rows


def test_columns_are_named_and_kept_by_their_ids(table: Table) -> None:
    """So a renamed column stays indexed; settings have the defaults of the kind."""
    ids = {column.name: column.id for column in table.state().table.schema.numbered}
    version = table.create_index("by_price", columns=["price", "row"])
    table.create_index("names", "bloom_filter", "name")
    assert table.index("by_price").requested_n == version
    assert table.index("by_price").definition.kind == ColumnStats(
        columns=(ids["price"], ids["row"])
    )
    assert table.index("names").definition.kind == BloomFilter(columns=(ids["name"],), rate=0.01)
    assert [*table.indexes()] == ["by_price", "names"]
    shown = "IndexState(by_price: column_stats, building, lacks files of 1 interval)"
    assert repr(table.index("by_price")) == shown


def test_messages_name_kinds_as_users_do(table: Table) -> None:
    """Columns by their names, settings with their values, folders by the index they are of."""
    definition = table.state().table
    ids = {column.name: column.id for column in definition.schema.numbered}
    chosen = BloomFilter(columns=(ids["name"], 99), rate=0.1)
    assert in_words(chosen, definition) == "bloom_filter(name, dropped column 99, rate=0.1)"
    assert (name_of("by-city-1f"), name_of("stray")) == ("by-city", "stray")


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"kind": "btree"}, "'btree' is unknown: choose one of bloom_filter, column_stats, files"),
        ({"columns": ["prize"]}, "no column 'prize' to index"),
        ({"columns": ["row", "row"]}, "'row' is named twice"),
        ({}, "no column is named"),
        ({"kind": "files", "columns": ["row"]}, "files has no columns: leave it out"),
        ({"columns": ["row"], "rate": 0.1}, r"column_stats has no rate: .* \(bloom_filter\)"),
        ({"kind": "bloom_filter", "columns": ["row"], "rate": 2.0}, "2.0 is not between 0 and 1"),
        ({"kind": "bloom_filter", "columns": ["price"]}, "'price' is double, which bloom_filter"),
    ],
)
def test_a_wrong_wish_writes_nothing(table: Table, wish: Mapping[str, Any], said: str) -> None:
    """The message names the value and what would do."""
    n = table.state().n
    with pytest.raises(InvalidInput, match=said):
        table.create_index("i", **wish)
    assert table.state().n == n


def test_the_whole_life_of_an_index(table: Table) -> None:
    """Created once, fed, begun anew, dropped; asked for by name each time."""
    first = table.create_index("all", "files", commit_id="once")
    assert table.create_index("all", "files", commit_id="once") == first
    assert table.index_entries("all").num_rows == 0
    assert table.rebuild_index("all") == first + 1
    assert table.drop_index("all") == first + 2
    assert not table.indexes()
    with pytest.raises(InvalidInput, match="has no index 'all': its indexes are none"):
        table.index("all")


@pytest.mark.parametrize("kind", ["files", "column_stats", "bloom_filter"])
def test_entries_are_those_of_the_files_of_a_version(service: MemoryService, kind: str) -> None:
    """Entries about replaced files stay until a cleaning, and are listed on request only."""
    table = new_table(service)
    table.create_index("all", kind, () if kind == "files" else "row")
    for start in (0, 500, 250):
        version = table.append(rows(range(start, start + 500))).n
    before = table.index_entries("all")
    names = {segment.path for segment in table.snapshot().segments()}
    plans = [known.plan.id for known in request(table.ports, "semi-major")]
    carry_out(table.ports, plans, in_process(table.ports.files))
    after = table.index_entries("all")
    assert after.num_rows == len(table.snapshot().segments()) < before.num_rows
    assert {*after["file"].to_pylist()} == {s.path for s in table.snapshot().segments()}
    assert table.index_entries("all", replaced=True).num_rows == before.num_rows + after.num_rows
    assert {*table.index_entries("all", version=version)["file"].to_pylist()} == names
    with pytest.raises(InvalidInput, match="has no index 'all'"):
        table.index_entries("all", version=0)


def test_the_values_of_columns_are_known_over_all_files(service: MemoryService) -> None:
    """Bounds, nulls and distinct values of the visible files; other kinds keep none."""
    table = new_table(service)
    table.create_index("values", columns=["row", "name"])
    table.create_index("names", "bloom_filter", "name")
    for start in (0, 500, 250):
        table.append(rows(range(start, start + 500)))
    table.delete("row >= 900")
    row, name = table.index_summary("values")
    assert (row.column, row.low, row.high, row.nulls, row.nan) == ("row", 0, 999, 0, False)
    assert (row.rows, row.files) == (1500, len(table.snapshot().segments()))
    assert row.distinct == pytest.approx(1000, rel=0.25)
    values = table.snapshot().to_arrow(columns=["name"]).column("name")
    assert (name.low, name.high) == tuple(pc.min_max(values).as_py().values())
    with pytest.raises(InvalidInput, match="is a bloom_filter, which keeps no values"):
        table.index_summary("names")


def test_the_values_of_an_empty_table_are_none(service: MemoryService) -> None:
    """There are no bounds, and nothing is counted."""
    table = new_table(service)
    table.create_index("values", columns=["row"])
    (row,) = table.index_summary("values")
    assert (row.low, row.high, row.distinct, row.rows, row.files) == (None, None, 0, 0, 0)

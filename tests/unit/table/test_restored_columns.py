"""``restore(columns=True)``: the columns come back as they were, with their values."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.alteration import ColumnsAsOf, alter

AT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("at", AT),
        pa.field("k", pa.int64(), nullable=False),
        ("n", pa.int32()),
        ("note", pa.string()),
    ]
)
KINDS: tuple[Mapping[str, Any], ...] = ({}, {"primary_key": "k", "granularity": "all"})


@pytest.fixture(params=KINDS, ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Three rows; version 1."""
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
    made = Table.create(f"memory://{uuid4()}", schema=SCHEMA, time_column="at", **request.param)
    rows = [pa.array([0] * 3, AT), [1, 2, 3], pa.array([7, 8, 9], pa.int32()), ["a", "b", "c"]]
    made.append(pa.table(rows, schema=SCHEMA))
    return made


CHANGES: tuple[ColumnChange, ...] = (
    DropColumn(name="note"),
    RenameColumn(name="n", new="number"),
    AddColumn(name="stops", type="int64", default="4"),
    AddColumn(name="note", type="int64"),
    Reorder(names=("stops",)),
)


def _rows(table: Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])


def test_all_columns_are_as_they_were(table: Table) -> None:
    """Dropped ones have their values, later ones are gone, names and order are those of then."""
    before, schema = _rows(table), table.schema
    table.alter(columns=CHANGES)
    later = pa.table([pa.array([0], AT), [4], pa.array([1], pa.int32())], ["at", "k", "number"])
    table.append(later)
    shown = table.restore(version=1, columns=True, dry_run=True)
    assert (shown.columns.back, shown.columns.gone) == (("note",), ("stops", "note"))
    assert shown.columns.renamed == (("number", "n"),)
    done = table.restore(version=1, columns=True)
    assert (done.columns, done.columns_n) == (shown.columns, table.state().n)
    assert (_rows(table), table.schema) == (before, schema)
    table.compact("semi-major")
    assert _rows(table) == before
    assert table.restore(version=1, columns=True).columns_n is None


def test_columns_stay_unless_they_are_asked_for(table: Table) -> None:
    """The result says how they differ, all the same."""
    table.alter(columns=CHANGES)
    done = table.restore(version=1)
    assert (done.columns_n, done.columns.back) == (None, ("note",))
    assert table.schema.names == ["stops", "at", "k", "number", "note"]


def test_what_was_widened_stays_wide(table: Table) -> None:
    """Rows that another process is writing in the wider type still fit afterwards."""
    table.alter(columns=[WidenColumn(name="n", type="int64")])
    if not table.state().table.kind.rules:
        table.alter(columns=[MakeNullable(name="k")])
    table.restore(version=1, columns=True)
    assert table.schema.field("n").type == pa.int64()
    rows = [pa.array([0], AT), [5], [2**40], ["d"]]
    table.append(pa.table(rows, SCHEMA.names))
    assert [row["n"] for row in _rows(table)] == [7, 8, 9, 2**40]


def test_a_column_that_is_needed_is_not_taken(table: Table) -> None:
    """Neither an index nor the clustering loses its column; nothing is restored then."""
    table.alter(columns=[AddColumn(name="stops", type="int64")])
    if not table.state().table.kind.rules:
        table.alter(set={"compaction.clustering": "stops"})
        with pytest.raises(InvalidInput, match=r"compaction\.clustering"):
            table.restore(version=1, columns=True)
        table.alter(unset=["compaction.clustering"])
    table.create_index("stops", "column_stats", columns=["stops"])
    newest = table.state().n
    with pytest.raises(InvalidInput, match="drop the index first"):
        table.restore(version=1, columns=True)
    assert table.state().n == newest


def test_a_restore_that_stopped_between_both_events_is_completed(table: Table) -> None:
    """Repeated under its commit id, it brings back the columns; repeated again, nothing."""
    table.alter(columns=CHANGES)
    table.restore(version=1, commit_id="z")
    done = table.restore(version=1, commit_id="z", columns=True)
    assert table.schema.names == SCHEMA.names
    assert table.restore(version=1, commit_id="z", columns=True).state.n == done.columns_n


def test_another_alteration_meanwhile_is_kept(table: Table) -> None:
    """The columns of then are compared with the newest definition, whichever that is."""
    then = table.state().table
    table.alter(columns=[DropColumn(name="note")])
    table.alter(columns=[AddColumn(name="other", type="int64")])
    alter(table.ports, ColumnsAsOf(then=then), commit_id="z")
    assert table.schema.names == SCHEMA.names

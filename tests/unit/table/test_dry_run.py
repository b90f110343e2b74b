"""Dry runs: the counts of a real run, and nothing written."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.table.changes.row_change import ChangeResult
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, files, rows

Act = Callable[[Table, bool], ChangeResult]

ACTS: dict[str, Act] = {
    "where": lambda table, dry: table.delete("row < 7", dry_run=dry),
    "rows": lambda table, dry: table.delete(rows=rows(range(30, 50)).select(["row"]), dry_run=dry),
    "nothing": lambda table, dry: table.delete("row > 1000", dry_run=dry),
    "update": lambda table, dry: table.update({"price": 1.0}, "row IN (2, 3)", dry_run=dry),
    "upsert": lambda table, dry: table.merge(rows(range(35, 45)), on=["row"], dry_run=dry),
    "insert": lambda table, dry: table.merge(
        rows(range(35, 45)), on=["row"], matched="ignore", dry_run=dry
    ),
    "remove": lambda table, dry: table.merge(
        rows(range(35, 45)), on=["row"], matched="delete", unmatched="ignore", dry_run=dry
    ),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_dry_run_counts_what_a_run_does(table: Table, act: Act) -> None:
    """It needs no coordinator, writes no file and no event, and has the counts of the real run."""
    before, version = files(table), table.state().n
    reader = Table(replace(table.ports, optional_coordinator=None))
    tried = act(reader, True)
    assert (tried.n, tried.dry_run, tried.state.n) == (None, True, version)
    assert (files(table), table.state().n) == (before, version)
    done = act(table, False)
    assert (done.matched, done.deleted, done.inserted) == (
        tried.matched,
        tried.deleted,
        tried.inserted,
    )
    assert "a dry run" in str(tried)


def test_a_dry_run_refuses_what_a_run_refuses(table: Table) -> None:
    """Values and columns are checked, too."""
    with pytest.raises(InvalidInput, match="'nope'"):
        table.delete("nope = 1", dry_run=True)
    with pytest.raises(InvalidInput, match="'row' is int64"):
        table.update({"row": "one"}, "row = 1", dry_run=True)
    with pytest.raises(InvalidInput, match="no columns"):
        table.delete(rows=SCHEMA.empty_table().select([]), dry_run=True)

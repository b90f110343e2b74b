"""Writers feed indexes with the rows that they have: new files are not read to index them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.tables.evolution import RenameColumn
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.table import committer, upsert
from airflow_provider_segtable.table.committer import Change
from airflow_provider_segtable.table.indexes import feeding, new_rows
from airflow_provider_segtable.table.table import Table
from tests.unit.table import keyed_indexed
from tests.unit.table.conftest import rows
from tests.watched_files import WatchedFiles, watched

COLUMNS: dict[str, Any] = {
    "files": (),
    "column_stats": ["row", "name", "price"],
    "bloom_filter": ["row", "name"],
}


@pytest.fixture
def indexed(table: Table) -> Table:
    """The table, with an index of each kind about files that lacks the first four appends."""
    for kind, columns in COLUMNS.items():
        table.create_index(kind, kind, columns)
    return table


@pytest.fixture
def unkept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit changes of which no rows are in memory, as those of Spark's tasks."""
    loop = committer._Loop

    def plain(ports: Any, change: Change, state: Any) -> Any:
        return loop(ports, replace(change, kept=None), state)

    monkeypatch.setattr(committer, "_Loop", plain)


def new_paths(table: Table, before: int) -> set[str]:
    """Return the files that were published after a version."""
    old = {each.path for each in table.snapshot(version=before).segments()}
    return {each.path for each in table.snapshot().segments()} - old


def check_entries(table: Table, before: int) -> None:
    """Compare all entries about the files that came after a version with those of a build."""
    state = table.state()
    new = [each for each in table.snapshot().segments() if each.path in new_paths(table, before)]
    assert new
    for name, index in state.indexes.items():
        found = table.index_entries(name)
        if index.definition.kind.about_files:
            found = found.filter(
                pa.array([path in new_paths(table, before) for path in found["file"].to_pylist()])
            )
        expected = entries(index.definition, state.table, new, table.ports.files)
        order = [(column, "ascending") for column in index.definition.kind.key]
        assert found.sort_by(order).equals(expected.sort_by(order)), name


def test_an_append_opens_none_of_its_files(indexed: Table) -> None:
    """Also with an index of each kind, and rows in several files."""
    before = indexed.state().n
    seen, files = watched(indexed)
    seen.append(rows(range(40, 60)))
    assert len(new_paths(indexed, before)) == 2
    assert not files.opened
    check_entries(indexed, before)


def test_an_update_opens_none_of_its_new_files(indexed: Table) -> None:
    """It reads the old ones, of which it changes rows."""
    before = indexed.state().n
    seen, files = watched(indexed)
    seen.update({"price": 0.25}, where="row = 7")
    assert new_paths(indexed, before).isdisjoint(files.opened)
    check_entries(indexed, before)


def test_an_upsert_opens_none_of_its_files(tmp_path: Path) -> None:
    """With an index of records and two about files, upserts and deletes of new keys."""
    table = keyed_indexed.new_table(tmp_path)
    table.create_index("stats", "column_stats", ["key", "v"])
    table.create_index("values", "bloom_filter", ["v"])
    before = table.state().n
    given = keyed_indexed.rows(*({"key": n, "day": n % 2, "gone": n == 3} for n in range(9)))
    seen, files = watched(table)
    seen.upsert(given, deleted=keyed_indexed.DELETED)
    assert len(new_paths(table, before)) == 4
    assert not [path for path in files.opened if path.startswith("data/")]
    check_entries(table, before)


@pytest.mark.usefixtures("unkept")
def test_a_file_that_has_to_be_read_is_opened_once(indexed: Table) -> None:
    """For all kinds together."""
    before = indexed.state().n
    opened: list[str] = []
    files = WatchedFiles(indexed.ports.files)
    seen = type(indexed)(replace(indexed.ports, files=Opened(files, opened)))
    seen.append(rows(range(40, 60)))
    assert sorted(opened) == sorted(new_paths(indexed, before))
    check_entries(indexed, before)


class Opened(WatchedFiles):
    """Data files that note each opening."""

    def __init__(self, inner: WatchedFiles, noted: list[str]) -> None:
        super().__init__(inner)
        self.noted = noted

    def open(self, path: str) -> Any:
        """Open a file, and note it."""
        self.noted.append(path)
        return super().open(path)


def test_large_appends_are_fed_too(indexed: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is about files that would be read."""
    monkeypatch.setattr(feeding, "MOST_FEED_BYTES", 0)
    before = indexed.state().n
    indexed.append(rows(range(40, 60)))
    check_entries(indexed, before)


def test_copies_of_rows_are_kept_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond it files are read."""
    monkeypatch.setattr(upsert, "MOST_COPIES", 1)
    monkeypatch.setattr(new_rows, "MOST_COPIES", 1)
    table = keyed_indexed.new_table(tmp_path)
    table.create_index("stats", "column_stats", ["key", "v"])
    before = table.state().n
    seen, files = watched(table)
    keyed_indexed.upsert(seen, {"key": 1}, {"key": 2, "day": 1})
    assert new_paths(table, before) <= {*files.opened}
    check_entries(table, before)


def test_names_that_mean_other_columns_meanwhile_are_read(
    indexed: Table, other: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are kept under the names of a schema; an alteration that lands first exchanges two."""
    before = indexed.state().n
    meanwhile(monkeypatch, lambda: exchange(other))
    indexed.append(rows(range(40, 60)))
    assert indexed.state().table.schema.names == ("at", "price", "name", "row")
    check_entries(indexed, before)


def test_an_index_requested_meanwhile_is_fed_from_the_file(
    indexed: Table, other: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns were not kept."""
    before = indexed.state().n
    meanwhile(monkeypatch, lambda: other.create_index("times", "column_stats", ["at"]))
    indexed.append(rows(range(40, 60)))
    check_entries(indexed, before)


def exchange(table: Table) -> None:
    """Exchange the names of the columns ``row`` and ``price``."""
    steps = [("row", "held"), ("price", "row"), ("held", "price")]
    table.alter(columns=[RenameColumn(name=name, new=new) for name, new in steps])


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Carry out an action once, before the next commit reads the log."""
    loop = committer._Loop
    left = [action]

    def late(ports: Any, change: Change, state: Any) -> Any:
        made = loop(ports, change, state)
        if left:
            left.pop()()
        return made

    monkeypatch.setattr(committer, "_Loop", late)


def test_rows_lie_in_two_hours() -> None:
    """So that the tests above write several files."""
    assert len({int(at) // HOUR_US for at in rows(range(2))["at"].cast("int64").to_pylist()}) == 2

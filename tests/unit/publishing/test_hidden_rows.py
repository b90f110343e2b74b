"""Positions of hidden rows: by runs, by hidden columns and by event time, in one file or many."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.predicate import Bounds, Compare, Compares, Moment, can_be
from airflow_provider_segtable.core.publishing import ShownFile, shown_files
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.publishing import beyond, hidden_rows
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.table.table import Table
from tests.unit.publishing.published_rows import compacted, published_rows, stored
from tests.unit.table.conftest import SCHEMA, new_table, rows


@pytest.fixture
def table() -> Table:
    """Rows 0 to 39, five an hour in each of four appends."""
    made = new_table(MemoryService())
    for turn in range(4):
        made.append(rows(range(turn * 10, turn * 10 + 10)))
    return made


def numbers(table: Table) -> list[int]:
    """Return the numbers of the rows that a reader of published files finds."""
    found = published_rows(table.ports.files, table.state())
    return sorted(found.column("row").to_pylist())


@pytest.mark.parametrize("kind", ["", "minor", "semi-major", "major"])
def test_deleted_rows_are_hidden_in_files_of_every_making(table: Table, kind: str) -> None:
    """Deletes before and after a compaction are hidden in appended, joined and sorted files."""
    table.delete("row % 4 = 1")
    if kind:
        compacted(table, kind)
    table.delete("row % 5 = 0")
    assert numbers(table) == [n for n in range(40) if n % 4 != 1 and n % 5]


@pytest.mark.parametrize("kind", ["", "semi-major"])
def test_rows_outside_of_the_clips_are_hidden(table: Table, kind: str) -> None:
    """A clipped file hides exactly the rows outside of all its clips, and deleted ones."""
    table.delete("row = 8")
    if kind:
        compacted(table, kind)
    table.delete("row = 6")
    state = table.state()
    for file in shown_files(state).values():
        given = stored(table.ports.files, file.path)
        times = instants(given.column("at")).to_pylist()
        first, second, third, fourth, *_ = sorted(times)
        clipped = replace(file, clips=(Interval(first + 1, third), Interval(fourth, fourth + 1)))
        assert clipped.key != file.key
        found = published_rows(table.ports.files, state, [clipped]).column("row").to_pylist()
        known = zip(times, given.column("row").to_pylist(), strict=True)
        shown = [n for at, n in known if at in (second, fourth) and n not in (6, 8)]
        assert sorted(found) == sorted(shown)


def test_only_times_outside_of_the_clips_are_looked_for() -> None:
    """Row groups are skipped by the condition that a time is before, between or after the clips."""
    test = beyond("at", (Interval(10, 20), Interval(30, 40)))

    def possible(low: int, high: int) -> bool:
        bounds = Bounds(low=Moment(low), high=Moment(high), nulls=0, rows=2)
        return can_be(test, lambda _: bounds)

    inside = ((10, 19), (30, 39), (12, 12))
    outside = ((9, 9), (0, 12), (19, 20), (20, 29), (29, 30), (39, 40), (40, 90), (0, 90))
    assert [possible(*each) for each in inside] == [False] * len(inside)
    assert [possible(*each) for each in outside] == [True] * len(outside)


def test_nothing_is_read_of_files_that_hide_nothing(table: Table) -> None:
    """A file whose rows are all shown is not opened, and has no entry."""
    state = table.state()
    shown = shown_files(state).values()
    table.ports.files.store.clear()  # type: ignore[attr-defined]
    assert hidden_rows(table.ports.files, state.table, shown) == {}


def test_a_missing_vector_file_is_an_error(table: Table) -> None:
    """Rows are never shown because the file that hides them is gone."""
    table.delete("row = 3")
    state = table.state()
    for path in [path for path in table.ports.files.store if path.startswith("deletes")]:  # type: ignore[attr-defined]
        table.ports.files.delete(path)
    with pytest.raises(NotFound, match="deletion vectors"):
        hidden_rows(table.ports.files, state.table, shown_files(state).values())


def test_a_key_stays_while_other_rows_change(table: Table) -> None:
    """A delete, an append or a compaction elsewhere leaves the keys of files as they are."""
    table.delete("row = 3")
    before = {path: file.key for path, file in shown_files(table.state()).items()}
    table.delete("row = 31")
    table.append(rows(range(40, 50)))
    after = shown_files(table.state())
    assert sum(after[path].key != key for path, key in before.items()) == 1
    assert [file.whole for file in after.values()].count(False) == 2
    assert isinstance(next(iter(after.values())), ShownFile)


def test_all_that_hides_rows_is_in_the_key(table: Table) -> None:
    """Clips, deletions, conditions and tombstones: each alone gives another key."""
    table.delete("row = 3")
    (deleted,) = (file for file in shown_files(table.state()).values() if file.deletions)
    bare = ShownFile(segment=deleted.segment)
    hiding = (
        deleted,
        replace(bare, clips=(Interval(0, 1),)),
        replace(bare, predicates=(Compare("row", Compares.EQUAL, 3),)),
        replace(bare, tombstones=True),
    )
    assert bare.whole
    assert not any(file.whole for file in hiding)
    assert len({file.key for file in hiding}) == len(hiding)


def test_rows_of_several_batches_have_their_positions(table: Table) -> None:
    """Positions count from the start of the file, not of a batch or row group."""
    many = np.arange(100, 100_100)
    names = pa.nulls(len(many), pa.string())
    given = pa.table([many, many, names, many], ["at", "row", "name", "price"])
    table.append(given.cast(SCHEMA))
    compacted(table, "semi-major")
    table.delete("row >= 105 and row < 90000")
    found = published_rows(table.ports.files, table.state()).column("row").to_pylist()
    assert sorted(found) == [*range(40), *range(100, 105), *range(90_000, 100_100)]

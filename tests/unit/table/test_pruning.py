"""Reads leave files out by indexes: which steps a plan shows, and what happens without an index."""

import logging
from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.indexes.index_state import INDEXES
from airflow_provider_segtable.core.reads.selection import PrunedBy, ReadPlan
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.committer import forward_feeds
from airflow_provider_segtable.table.entry_cache import EntryCache
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import new_table, rows
from tests.watched_files import WatchedFiles, watched

FILES = 20


@pytest.fixture
def indexed(service: MemoryService) -> Table:
    """A table with an index of each kind, and 20 files in two time chunks."""
    table = new_table(service)
    table.create_index("bloom", "bloom_filter", columns=["name"])
    table.create_index("stats", "column_stats", columns=["row"])
    for turn in range(FILES // 2):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    return table


def step(plan: ReadPlan, by: PrunedBy) -> tuple[str, int, int]:
    """Return the index of a step, and the number of files before and after it."""
    (found,) = (each for each in plan.steps if each.by is by)
    return found.index, found.before.files, found.after.files


def notes(plan: ReadPlan) -> dict[str, str]:
    """Return the notes of a plan by the names of the indexes."""
    return {note.index: note.text for note in plan.index_notes}


def opened(files: WatchedFiles) -> list[str]:
    """Return the files of the table itself that were opened."""
    return [path for path in files.opened if not path.startswith(INDEXES)]


def test_each_index_is_a_step(indexed: Table) -> None:
    """It says what it left, in the order of cost; files left out are not opened."""
    table, files = watched(indexed)
    scan = table.scan(where="row = 59 AND name = 'n2'")
    plan = scan.explain()
    assert step(plan, PrunedBy.COLUMN_STATS) == ("stats", FILES, 1)
    assert notes(plan) == {"bloom": "not used for 1 file: it pays from 16"}
    assert "column stats (stats)" in str(plan)
    assert len(opened(files)) == 1
    absent = table.scan(where="name = 'zz'").explain()
    assert step(absent, PrunedBy.BLOOM_FILTER) == ("bloom", FILES, 0)
    assert notes(absent) == {"stats": "not used, because it cannot judge the condition"}
    assert absent.files == ()
    assert absent.facts["steps"][-4]["index"] == "bloom"


def test_an_index_says_nothing_of_no_files(indexed: Table) -> None:
    """Where the steps before it have left none, it has no note."""
    plan = indexed.scan(where="name = 'n2' AND row = 5000").explain()
    assert plan.files == ()
    assert notes(plan) == {}


def test_counts_windows_and_changes_use_indexes(indexed: Table) -> None:
    """A count, rows added since a version, a delete and an update open the files of a scan."""
    for act in (
        lambda table: table.scan(where="row = 59").count(),
        lambda table: table.scan(where="row = 59", since_version=2).to_arrow().num_rows,
        lambda table: table.delete("row = 59", dry_run=True).matched,
        lambda table: table.update({"price": 0.5}, where="row = 59").matched,
        lambda table: table.delete("row = 59").deleted,
    ):
        table, files = watched(indexed)
        assert act(table) == 1
        assert len({*opened(files)} & {s.path for s in table.snapshot().segments()}) <= 2


def test_an_earlier_version_is_read_by_its_indexes(indexed: Table) -> None:
    """Entries are about files, so those of files that were compacted since are right."""
    version = indexed.state().n
    plans = [known.plan.id for known in request(indexed.ports, "major")]
    compact(indexed.ports, plans, in_process(indexed.ports.files))
    indexed.delete("row = 59")
    scan = indexed.scan(where="row = 59", version=version)
    assert step(scan.explain(), PrunedBy.COLUMN_STATS) == ("stats", FILES, 1)
    assert scan.count() == 1


def test_an_index_that_cannot_be_read_is_not_used(
    indexed: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is the same, the plan says why, and one warning names the index."""
    forward_feeds(indexed.ports, indexed.state())
    for path in [*indexed.ports.files.store]:  # type: ignore[attr-defined]
        if path.startswith(INDEXES):
            indexed.ports.files.delete(path)
    table = Table(replace(indexed.ports))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert table.scan(where="row = 59").count() == 1
    (warning,) = (each for each in caplog.messages if "index stats is not used" in each)
    assert "is gone" in warning
    plan = table.scan(where="row = 59").explain()
    assert len(plan.files) == FILES
    assert notes(plan)["stats"].startswith("not used, because it cannot be read: ")
    assert plan.facts["index_notes"][0]["index"] == "stats"


def test_files_without_entries_are_opened(table: Table) -> None:
    """A new index knows only what was written since; the plan says how much it does not know."""
    table.create_index("stats", "column_stats", columns=["row"])
    for turn in range(4, 12):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    plan = table.scan(where="row = 59").explain()
    assert step(plan, PrunedBy.COLUMN_STATS) == ("stats", 24, 9)
    assert notes(plan) == {"stats": "it does not know 8 files"}


def test_entries_are_read_once_by_a_process(indexed: Table) -> None:
    """Those in files, whatever writers feed meanwhile; what they feed counts at once."""
    forward_feeds(indexed.ports, indexed.state())
    table, files = watched(indexed)
    assert table.scan(where="row = 59").count() == 1
    files.opened.clear()
    assert table.scan(where="row = 50").count() == 1
    assert len(files.opened) == 1
    for number in (200, 201):
        table.append(rows(range(number, number + 1)))
        assert table.scan(where=f"row = {number}").count() == 1
    assert not [path for path in opened(files) if path.startswith(INDEXES)]
    assert step(table.scan(where="row = 201").explain(), PrunedBy.COLUMN_STATS)[2] == 1


def test_the_entries_kept_have_a_bound() -> None:
    """Those not used for longest go first, and what is too large is not kept."""
    cache, made = EntryCache(most=10), []

    def view(name: str, size: int) -> str:
        def read() -> tuple[str, int]:
            made.append(name)
            return name, size

        return cache.view(name, read)

    for name, size in (("a", 4), ("b", 4), ("a", 4), ("c", 4), ("a", 4), ("b", 4), ("d", 11)):
        assert view(name, size) == name
    assert made == ["a", "b", "c", "b", "d"]
    assert cache.held == 8

"""Cleaning of a table with indexes: entries, the indexes' own tables, and folders left over."""

from collections.abc import Callable

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    InvalidInput,
    OutcomeUnknown,
    StorageError,
)
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats, FileList
from airflow_provider_segtable.core.indexes.index_state import INDEXES, folder
from airflow_provider_segtable.core.log.families.cleaning_events import Swept
from airflow_provider_segtable.core.log.families.index_events import IndexDropped
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.tables.evolution import DropColumn
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.indexing import requested_plan
from airflow_provider_segtable.table.committer import Change, Committed, commit, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop, is_index_marker
from airflow_provider_segtable.table.index_lifecycle import drop_index, rebuild_index, request_index
from airflow_provider_segtable.table.indexes import feeding, index_entries
from airflow_provider_segtable.table.indexes.feeding import Feeder, new_files
from airflow_provider_segtable.table.indexes.index_entries import index_ports
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import rows
from tests.unit.services.indexed import index, indexed_table, listed
from tests.unit.services.test_cleaning import compact_all, pass_hours
from tests.unit.table.interleaving import Overtaken, before_event

NOW = Retention(hours=0, versions=1)


@pytest.fixture
def ports(service: MemoryService) -> TableContext:
    return indexed_table(service)


def below_indexes(ports: TableContext) -> set[str]:
    return {entry.path.split("/")[2] for entry in ports.storage.list(INDEXES)}


def test_entries_go_with_the_files_that_they_are_about(ports: TableContext) -> None:
    """Their tombstones are a feed of the event that says that the files are deleted."""
    compact_all(ports)
    present = [s.path for s in ports.log.load().timeline.visible_segments()]
    assert set(present) < set(listed(ports))
    foreseen = clean(ports, retention=NOW, dry_run=True)
    run = clean(ports, retention=NOW)
    assert foreseen.entries == run.entries == {"files": 8}
    assert listed(ports) == sorted(present)
    swept = [e for e in ports.log.events(0) if isinstance(e.action, Swept)]
    assert [feed.index for event in swept for feed in event.feeds] == [index(ports).definition.id]


def test_the_table_of_an_index_is_cleaned_after_its_feeds_are_copied(ports: TableContext) -> None:
    """A file of a feed is no orphan, however old: the indexed table's log names it."""
    before = listed(ports)
    pass_hours(ports, 1000)
    foreseen = clean(ports, dry_run=True)
    assert len(index(ports).feeds) == 4
    assert not foreseen.indexes["files"].orphans
    own = index_ports(ports, index(ports).definition)
    stray = "data/x/00000-stray.parquet"
    own.storage.create(stray, b"x")
    pass_hours(ports, 100)
    assert not clean(own).orphans
    run = clean(ports)
    assert [entry.path for entry in run.indexes["files"].orphans] == [stray]
    assert not index(ports).feeds
    assert listed(ports) == before


def test_a_feed_that_cannot_be_copied_keeps_its_file(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The indexed table is cleaned all the same, and the next cleaning goes on.

    The four inline feeds are one feed with a file by then.
    """
    before = listed(ports)
    pass_hours(ports, 1000)
    own = index_ports(ports, index(ports).definition)
    with monkeypatch.context() as patch:

        def full(*_: object, **__: object) -> None:
            raise StorageError("the disk is full")

        patch.setattr(own.storage, "create", full)
        run = clean(ports)
    ((_, feed),) = index(ports).feeds
    assert len(feed.segments) == 1
    assert not run.indexes["files"].orphans
    assert listed(ports) == before


def test_an_index_that_cannot_be_read_keeps_no_cleaning(ports: TableContext) -> None:
    """Its error is in the run; the files of the table are deleted."""
    compact_all(ports)
    for entry in [*ports.storage.list(folder(index(ports).definition.id))]:
        ports.storage.delete(entry.path)
    run = clean(ports, retention=NOW)
    assert len(run.files) == 8
    assert "files" in run.failed


def test_a_drop_that_was_interrupted_is_finished(ports: TableContext) -> None:
    """The folder of an index that the table does not have goes when it is old."""
    change = Change(action=IndexDropped(index=index(ports).definition.id), commit_id="drop")
    gone = index(ports).definition.id
    commit_or_raise(ports, ports.log.load(), change)
    request_index(ports, "files", FileList())
    clean(ports)
    assert below_indexes(ports) == {gone, index(ports).definition.id}
    pass_hours(ports, 100)
    assert any(gone in entry.path for entry in clean(ports, dry_run=True).orphans)
    clean(ports)
    assert below_indexes(ports) == {index(ports).definition.id}


def test_a_request_in_progress_keeps_its_folder(ports: TableContext) -> None:
    """It makes the folder before its event."""
    own = ports.within(folder("new-abc"))
    own.storage.create("_segtable/timeline/00000000000000000000.json", b"{}")
    clean(ports)
    assert "new-abc" in below_indexes(ports)
    pass_hours(ports, 100)
    clean(ports)
    assert "new-abc" not in below_indexes(ports)


def test_a_dropped_table_leaves_nothing_of_its_indexes(
    ports: TableContext, service: MemoryService
) -> None:
    """Nor records in the coordinator; but the marker that keeps away what is late."""
    for turn in range(4, 8):
        Table(ports).append(rows(turn))
    clean(ports)
    pass_hours(ports, 2)
    own = index_ports(ports, index(ports).definition)
    compact_all(own)
    assert index(ports).definition.id in service.tables
    own_id = index(ports).definition.id
    drop(ports)
    (left,) = ports.storage.list(INDEXES)
    assert is_index_marker(left.path)
    assert own_id not in service.tables


def test_a_dropped_index_leaves_no_locks(ports: TableContext, service: MemoryService) -> None:
    """The records of its table in the coordinator go with its files."""
    clean(ports)
    pass_hours(ports, 2)
    own = index(ports).definition
    compact_all(index_ports(ports, own))
    drop_index(ports, "files")
    assert own.id not in service.tables


def test_a_repeated_commit_leaves_no_feed_behind(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first call named its own. If that event can be read no more, no file is deleted."""
    monkeypatch.setattr(index_entries, "MOST_INLINE", 0)
    before = ports.log.load()
    n = Table(ports).append(rows(4), commit_id="once").n
    event = ports.log.event(n)
    assert event is not None
    own = index_ports(ports, index(ports).definition)
    files = [entry.path for entry in own.storage.list("data")]
    done = commit(ports, before, Change(action=event.action, commit_id="once"))
    assert isinstance(done, Committed)
    assert [entry.path for entry in own.storage.list("data")] == files
    feeder = Feeder(ports)
    feeder.prepare(before, new_files(event.action))
    ports.storage.delete(event_path(n))
    feeder.discard_unnamed(n)
    assert len([*own.storage.list("data")]) == len(files) + 1


@pytest.mark.parametrize("end", [drop_index, rebuild_index])
def test_the_event_that_ends_an_index_ends_its_plans(
    ports: TableContext,
    end: Callable[[TableContext, str], Committed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a build that was killed keeps no orphan that came after it, and other plans go on."""
    monkeypatch.setattr(feeding, "MOST_FEED_BYTES", 0)
    Table(ports).append(rows(4))
    request_index(ports, "other", FileList())
    for name in ("files", "other"):
        known = requested_plan(ports, name)
        assert known
        carry_out(ports, [known.plan.id], lambda _: iter(()))
    assert {each.status for each in ports.log.load().pending_plans()} == {PlanStatus.INFLIGHT}
    state = end(ports, "files").state
    assert [each.plan.facts()["index"] for each in state.pending_plans()] == ["other"]
    (ended,) = [each for each in state.plans.values() if not each.status.pending]
    assert (ended.status, ended.last_n) == (PlanStatus.ABORTED, state.n)
    assert "files was dropped or rebuilt" in ended.note
    drop_index(ports, "other")
    pass_hours(ports, 1)
    ports.storage.create("data/x/00000-stray.parquet", b"x")
    pass_hours(ports, 100)
    assert "data/x/00000-stray.parquet" in {each.path for each in clean(ports).orphans}


def fails(error: Exception) -> Callable[[], None]:
    def deed() -> None:
        raise error

    return deed


def test_a_request_that_certainly_fails_leaves_no_table(ports: TableContext) -> None:
    """Whatever the error; after an unknown outcome the event may come, so the table stays."""
    before = below_indexes(ports)
    failing = before_event(ports, fails(StorageError("no more space")), word="IndexRequested")
    with pytest.raises(StorageError, match="no more space"):
        request_index(failing, "second", FileList())
    assert below_indexes(ports) == before
    failing = before_event(ports, fails(StorageError("no more space")), folder=INDEXES)
    with pytest.raises(StorageError, match="no more space"):
        request_index(failing, "second", FileList())
    assert below_indexes(ports) == before
    altered = before_event(
        ports, lambda: Table(ports).alter(columns=[DropColumn(name="row")]), word="IndexRequested"
    )
    with pytest.raises(InvalidInput, match="is gone"):
        request_index(altered, "second", ColumnStats(columns=(2,)))
    assert below_indexes(ports) == before


def test_a_request_whose_reply_is_lost_keeps_its_table(ports: TableContext) -> None:
    """The event may still come, and then names it."""
    lost = before_event(ports, fails(OutcomeUnknown("no reply")), word="IndexRequested")
    assert isinstance(lost.storage, Overtaken)
    lost.storage.deeds *= 100
    before = below_indexes(ports)
    with pytest.raises(CommitUnknown):
        request_index(lost, "second", FileList())
    assert len(below_indexes(ports) - before) == 1

"""Indexes: requested, fed by writers in their own events, copied, dropped."""

from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import InvalidInput, TableGone
from airflow_provider_segtable.core.indexes.index_kind import FILE, FileList
from airflow_provider_segtable.core.indexes.index_state import (
    INDEXES,
    IndexState,
    IndexStatus,
    folder,
)
from airflow_provider_segtable.core.log.events import decode, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import fold
from airflow_provider_segtable.core.log.log_paths import expired_path
from airflow_provider_segtable.table.committer import Change, commit, forward_feeds
from airflow_provider_segtable.table.dropping import is_index_marker
from airflow_provider_segtable.table.index_lifecycle import drop_index, rebuild_index, request_index
from airflow_provider_segtable.table.indexes import feeding
from airflow_provider_segtable.table.indexes.index_entries import entries_in, index_ports
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, new_table, rows


def listed(table: Table) -> list[str]:
    """Return the files that the index ``files`` knows, in order."""
    return sorted(entries_in(table.ports, found(table)).column(FILE).to_pylist())


def found(table: Table) -> IndexState:
    """Return the state of the index ``files``."""
    return table.state().indexes["files"]


def paths(table: Table) -> list[str]:
    """Return the files that readers see, in order."""
    return sorted(segment.path for segment in table.snapshot().segments())


def test_an_index_of_an_empty_table_is_available_at_once(service: MemoryService) -> None:
    """Nothing is lacking, and whatever comes is fed by its writer in its own event."""
    table = new_table(service)
    done = request_index(table.ports, "files", FileList())
    assert found(table).available_n == done.n
    for start in (0, 20):
        result = table.append(rows(range(start, start + 20)))
        event = table.ports.log.event(result.n)
        assert event is not None
        assert [feed.index for feed in event.feeds] == [found(table).definition.id]
        assert decode(encode(event), "here") == event
    assert listed(table) == paths(table)
    assert found(table).current


def test_a_new_index_lacks_what_was_there_before(table: Table) -> None:
    """It is fed from its request on, and is not available."""
    done = request_index(table.ports, "files", FileList())
    index = found(table)
    assert index.status is IndexStatus.BUILDING
    assert [lack.n for lack in index.lacks] == [done.n]
    assert not index.covers(done.n)
    table.append(rows(range(40, 60)))
    assert len(listed(table)) == 2
    assert found(table).lacks == index.lacks


def test_the_state_is_the_same_from_a_checkpoint_and_from_the_log(table: Table) -> None:
    """Lacks, feeds and definitions are in both."""
    request_index(table.ports, "files", FileList())
    table.append(rows(range(40, 60)))
    state = table.state()
    assert read_checkpoint(write_checkpoint(state)) == state
    assert fold(None, table.ports.log.events(0)) == state


def test_feeds_are_copied_once(table: Table, other: Table) -> None:
    """As one append, whoever copies them; before and after, readers see the same entries."""
    request_index(table.ports, "files", FileList())
    for start in (40, 60, 80):
        table.append(rows(range(start, start + 20)))
    before = listed(table)
    state = table.state()
    forward_feeds(table.ports, state)
    forward_feeds(other.ports, state)
    assert found(table).feeds == ()
    own = index_ports(table.ports, found(table).definition).log.load()
    assert own.n == 1
    assert listed(table) == before


def test_a_writer_that_had_not_read_the_request_feeds_the_index(table: Table, other: Table) -> None:
    """Its commit reads the request, and is made again with a feed."""
    seen = other.state()
    request_index(table.ports, "files", FileList())
    assert not seen.indexes
    result = other.append(rows(range(40, 60)))
    event = table.ports.log.event(result.n)
    assert event is not None
    assert len(event.feeds) == 1
    assert len(listed(table)) == 2


def test_files_that_become_durable_meanwhile_are_fed(tmp_path: Path) -> None:
    """On a local disk a file is synced, and gets its name, while its author goes on."""
    appended = Table.create(
        str(tmp_path / "a"), schema=SCHEMA, time_column="at", zookeeper="memory://a"
    )
    keyed = Table.create(
        str(tmp_path / "k"), schema=SCHEMA, time_column="at", primary_key="row", buckets=1
    )
    for table, write in ((appended, appended.append), (keyed, keyed.upsert)):
        table.create_index("stats", "column_stats", columns=["row"])
        for start in (0, 10, 20):
            write(rows(range(start, start + 10)).cast(table.snapshot().schema))
        assert table.index("stats").current


def test_an_index_that_cannot_be_written_keeps_no_writer(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log records what the index lacks, from which commit on."""
    request_index(table.ports, "files", FileList())
    monkeypatch.setattr(feeding, "MOST_FEED_BYTES", 0)
    result = table.append(rows(range(40, 60)))
    lacks = found(table).lacks
    assert {lack.n for lack in lacks} == {result.n, found(table).requested_n}
    assert found(table).lagging_commits == 1
    assert found(table).covers(result.n) is False


def test_what_comes_late_to_a_dropped_index_is_refused(table: Table) -> None:
    """A copy of a feed, like any commit to its own table: nothing is put after the end."""
    request_index(table.ports, "files", FileList())
    table.append(rows(range(40, 60)))
    late, index = table.state(), found(table).definition
    own = index_ports(table.ports, index)
    seen = own.log.load()
    drop_index(table.ports, "files")
    left = [entry.path for entry in table.ports.storage.list(INDEXES)]
    assert left == [f"{folder(index.id)}/{expired_path(seen.n + 2)}"]
    forward_feeds(table.ports, late)
    with pytest.raises(TableGone):
        commit(own, seen, Change(action=Appended(segments=()), commit_id="late"))
    assert [entry.path for entry in table.ports.storage.list(INDEXES)] == left


def test_a_dropped_index_is_gone_with_its_files(table: Table) -> None:
    """Its name is free again; writers feed it no more."""
    request_index(table.ports, "files", FileList())
    table.append(rows(range(40, 60)))
    drop_index(table.ports, "files")
    assert not table.state().indexes
    assert all(map(is_index_marker, (e.path for e in table.ports.storage.list(INDEXES))))
    request_index(table.ports, "files", FileList())


def test_a_rebuilt_index_begins_anew(table: Table) -> None:
    """Under a new id, so that nothing of the old one counts."""
    request_index(table.ports, "files", FileList())
    old = found(table).definition
    rebuild_index(table.ports, "files")
    new = found(table)
    assert new.definition.kind == old.kind
    assert new.definition.id != old.id
    assert new.status is IndexStatus.BUILDING


def test_names_are_checked_before_anything_is_written(table: Table) -> None:
    """A name that is taken, that is no name, and one that is not there."""
    request_index(table.ports, "files", FileList())
    n = table.state().n
    with pytest.raises(InvalidInput, match="already"):
        request_index(table.ports, "files", FileList())
    with pytest.raises(InvalidInput, match="cannot name an index"):
        request_index(table.ports, "a/b", FileList())
    with pytest.raises(InvalidInput, match="its indexes are files"):
        drop_index(table.ports, "other")
    assert table.state().n == n

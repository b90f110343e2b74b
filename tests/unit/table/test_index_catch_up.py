"""Catching up: one verdict for an index of a table, whoever waits for it."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.catch_up import CatchUp, Progress, catch_up
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.indexes.index_state import (
    MOST_LACKS,
    IndexState,
    decode_indexes,
    encode_indexes,
)
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.time import HOUR_US, Interval, iso
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.index_lifecycle import drop_index, request_index
from airflow_provider_segtable.table.indexes import feeding
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import new_table, rows

ALL = Interval(0, 24 * HOUR_US)
SECOND = 1_000_000


def index_of(table: Table) -> IndexState:
    return table.state().indexes["files"]


def build(table: Table, interval: Interval = ALL) -> int:
    """Say that a time is built; the entries themselves play no part here."""
    state = table.state()
    index = state.indexes["files"].definition.id
    action = IndexBuilt(index=index, interval=interval, through=state.n)
    change = Change(action=action, commit_id=f"built-{state.n}")
    return commit_or_raise(table.ports, state, change).n


def unfed(table: Table, monkeypatch: pytest.MonkeyPatch, start: int) -> int:
    """Append rows without entries."""
    with monkeypatch.context() as patch:
        patch.setattr(feeding, "MOST_WAITING", 0)
        return table.append(rows(range(start, start + 4))).n


def verdict(table: Table, upto: int | None = None, **more: int) -> CatchUp:
    return catch_up(table.state(), "files", upto, **more)


def test_an_index_that_is_being_built_has_caught_up_with_nothing(table: Table) -> None:
    """Not even with events before its request; the message counts what is left."""
    asked = request_index(table.ports, "files", FileList()).n
    for upto in (0, 1, asked, None):
        found = verdict(table, upto)
        assert (found.progress, found.lag_commits) == (Progress.WAITING, 0)
        assert f"requested by event {asked}, is being built: 2 of 2 time chunks" in found.message
    build(table, Interval(0, HOUR_US))
    assert "1 of 2 time chunks" in verdict(table, 0).message
    available = build(table)
    assert verdict(table, 0).message == f"index files (files) is available since event {available}"
    assert verdict(table).done


def test_an_event_without_entries_blocks_what_comes_after_it_alone(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was published before is there; the lag counts commits, and seconds to the present."""
    request_index(table.ports, "files", FileList())
    before = build(table)
    fed = table.append(rows(range(40, 44))).n
    oldest = unfed(table, monkeypatch, 60)
    newest = unfed(table, monkeypatch, 70)
    assert verdict(table, before).done
    assert verdict(table, fed).done
    since = index_of(table).lacking_since or 0
    found = verdict(table, oldest, now=since + 83 * SECOND)
    assert (found.progress, found.lag_commits, found.lag_s) == (Progress.WAITING, 1, 83.0)
    assert found.message.endswith("lag: 1 commit, 83 s")
    assert f"no entries of some files since event {oldest}" in found.message
    assert verdict(table, newest).lag_commits == 2
    assert verdict(table, by=since - 1, now=since).done
    assert not verdict(table, by=since, now=since + 1).done
    build(table)
    assert verdict(table, newest).done


def test_what_is_yet_to_come_is_waited_for(service: MemoryService) -> None:
    """An event of a higher number, and a time that has not passed."""
    table = new_table(service)
    done = request_index(table.ports, "files", FileList()).n
    assert "waits for event 9 to be committed" in verdict(table, 9).message
    now = table.state().time
    assert verdict(table, done).done
    assert "to pass" in verdict(table, by=now + SECOND, now=now).message
    passed = verdict(table, by=now + SECOND, now=now + 2 * SECOND)
    assert passed.done
    assert passed.message.endswith(f"with all files up to {iso(now + SECOND)}")


def test_an_index_that_is_not_there_is_gone(table: Table) -> None:
    """Dropped, of another name, or with its table: nobody waits for it."""
    request_index(table.ports, "files", FileList())
    state = table.state()
    other = catch_up(state, "other")
    assert other.progress is Progress.GONE
    assert "no index 'other' (its indexes are files)" in other.message
    assert "was dropped with its indexes" in catch_up(replace(state, dropped=True), "files").message
    drop_index(table.ports, "files")
    assert verdict(table).progress is Progress.GONE


def test_lacks_that_were_joined_still_block_their_oldest_event(table: Table) -> None:
    """Many are kept as fewer and wider ones, and never answer that something is there."""
    request_index(table.ports, "files", FileList())
    build(table)
    state = table.state()
    index = state.indexes["files"]
    kept = []
    for n in range(MOST_LACKS + 1):
        hour = Interval(n * HOUR_US, (n + 1) * HOUR_US)
        index = index.lacking([hour], state.n + 1 + n, state.time + 1 + n)
        kept.append(len(index.lacks))
    assert kept[:-1] == [*range(1, MOST_LACKS + 1)]
    assert kept[-1] < MOST_LACKS
    assert decode_indexes(encode_indexes({"files": index})) == {"files": index}
    first, last = state.n + 1, state.n + 1 + MOST_LACKS
    later = replace(state, n=last, time=state.time + MOST_LACKS + 1, indexes={"files": index})
    assert catch_up(later, "files", first - 1).done
    for n in (first, first + 7, last):
        assert not catch_up(later, "files", n).done
        assert not index.covers(n)
    built = index.built(Interval(0, HOUR_US), last)
    assert built.covers(first) is False  # the second hour of the joined pair is of the same

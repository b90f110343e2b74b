"""Cleaning a table with deletions: vectors go when no present segment needs them, not before."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import NotFound, SegtableError
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.services.conftest import HOUR_US, SCHEMA

NOW = Retention(hours=0, versions=1, orphan_hours=0)


@pytest.fixture
def ports() -> TableContext:
    """Two hours with three small segments each, log and files below one root."""
    made = context_in_memory(author="test", rooted=True)
    create_table(made, defined_by(SCHEMA))
    for turn in range(3):
        numbers = range(10 * turn, 10 * turn + 10)
        times = [n % 2 * HOUR_US + n for n in numbers]
        Table(made).append(pa.table({"at": times, "row": [*numbers]}, SCHEMA))
    return made


def delete(ports: TableContext, factor: int) -> None:
    """Delete every row whose number is a multiple."""
    numbers = [n for n in shown(ports) if n % factor == 0]
    Table(ports).delete(f"row IN ({', '.join(map(str, numbers))})")


def purge(ports: TableContext, kind: str = "semi-major") -> None:
    """Rewrite everything without what is deleted."""
    plans = [asked.plan.id for asked in request(ports, kind)]
    results = compact(ports, plans, in_process(ports.files))
    assert {result.ended for result in results} == {Ended.COMPLETED}, results
    tick(ports)


def tick(ports: TableContext, hours: float = 0.01) -> None:
    assert isinstance(ports.clock, FakeClock)
    ports.clock.advance(hours * 3600)


def shown(ports: TableContext, **which: Any) -> list[int]:
    found = Table(ports).snapshot(**which).to_arrow().column("row")
    return sorted(found.to_pylist())


def vectors(ports: TableContext) -> list[str]:
    return [entry.path for entry in ports.storage.list("deletes")]


def test_vectors_stay_until_all_that_may_hold_their_rows_is_purged(ports: TableContext) -> None:
    """The compaction purges, but its inputs are there still; with them the vectors go."""
    delete(ports, 3)
    left = shown(ports)
    purge(ports)
    young = clean(ports)
    assert (young.vectors, young.vectors_kept, len(vectors(ports))) == ((), 1, 1)
    tick(ports)
    run = clean(ports, retention=NOW)
    assert (len(run.vectors), run.vectors_kept) == (1, 0)
    assert run.bytes_freed == sum(s.size for s in run.segments) + run.vectors[0].size
    assert (vectors(ports), shown(ports)) == ([], left)
    state = Table(ports).state()
    assert (dict(state.vectors), state.pending_delete) == ({}, frozenset())


def test_a_dry_run_names_the_vectors_and_takes_none(ports: TableContext) -> None:
    """What it says is what the run then does; after that there is nothing to do."""
    delete(ports, 2)
    purge(ports)
    delete(ports, 3)
    tick(ports)
    dry = clean(ports, retention=NOW, dry_run=True)
    assert (len(dry.vectors), dry.vectors_kept, len(vectors(ports))) == (1, 1, 2)
    assert dry == clean(ports, retention=NOW)
    n = Table(ports).state().n
    again = clean(ports, retention=NOW)
    assert (again.vectors, Table(ports).state().n) == ((), n)


def test_kept_versions_and_tags_are_read_right_whatever_vectors_went(ports: TableContext) -> None:
    """Each version that is kept shows its own rows: before, between and after two deletes."""
    expected = {}
    table = Table(ports)
    for turn, factor in enumerate((3, 5)):
        table.tag(f"before{turn}")
        expected[f"before{turn}"] = shown(ports)
        delete(ports, factor)
        table.tag(f"deleted{turn}")
        expected[f"deleted{turn}"] = shown(ports)
        purge(ports, ("semi-major", "major")[turn])
    for _ in range(2):
        tick(ports)
        clean(ports, retention=NOW)
        assert {tag: shown(ports, tag=tag) for tag in expected} == expected
        kept = EventLog(ports.storage).load()
        assert shown(ports) == shown(ports, version=kept.n) == expected["deleted1"]
    for tag in expected:
        table.untag(tag)
    tick(ports)
    clean(ports, retention=NOW)
    assert (vectors(ports), shown(ports)) == ([], expected["deleted1"])


def test_vectors_of_nobody_go_by_age(ports: TableContext) -> None:
    """A writer that died before its commit leaves one: it is young first, then an orphan."""
    Table(ports).delete("row = 1")
    ports.storage.create("deletes/dead.arrow", b"x")
    tick(ports)
    assert clean(ports).young == 1
    tick(ports, 100)
    run = clean(ports)
    assert [entry.path for entry in run.orphans] == ["deletes/dead.arrow"]
    assert len(vectors(ports)) == 1


class Mortal:
    """Dies before or after its n-th effect, and stays dead."""

    def __init__(self, inner: Any, life: list[int]) -> None:
        self.inner, self.life = inner, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in ("create", "delete", "replace"):
            return found

        def mortal(*arguments: Any) -> Any:
            self.life[0] -= 1
            if self.life[0] < 0:
                raise StopCleaning
            return found(*arguments)

        return mortal


class StopCleaning(Exception):
    """The process is gone."""


def history(ports: TableContext) -> dict[str, list[int]]:
    """Make a table where vectors may go, others may not, and one is nobody's."""
    expected = {}
    delete(ports, 3)
    Table(ports).tag("kept")
    expected["kept"] = shown(ports)
    delete(ports, 2)
    purge(ports)
    delete(ports, 5)
    ports.storage.create("deletes/dead.arrow", b"x")
    tick(ports)
    return expected


@pytest.mark.parametrize("effects", range(0, 24, 2))
def test_a_cleaner_killed_anywhere_takes_nothing_that_is_needed(
    ports: TableContext, effects: int
) -> None:
    """After its death and after one more run, what is kept is whole, and nothing stale is left."""
    expected, now = history(ports), shown(ports)
    life = [effects]
    mortal = replace(
        ports,
        storage=Mortal(ports.storage, life),
        files=Mortal(ports.files, life),
    )
    try:
        clean(mortal, retention=NOW)
    except StopCleaning:
        assert shown(ports) == now
        assert {tag: shown(ports, tag=tag) for tag in expected} == expected
    tick(ports)
    clean(ports, retention=NOW)
    assert shown(ports) == now
    assert {tag: shown(ports, tag=tag) for tag in expected} == expected
    state = Table(ports).state()
    named = {each.path for some in state.vectors.values() for each in some}
    assert (set(vectors(ports)), state.pending_delete) == (named, frozenset())


def test_vectors_that_a_repair_freed_go_without_any_segment(ports: TableContext) -> None:
    """It is worth an event, once: the next cleaner is told that others did it."""
    delete(ports, 3)
    purge(ports)
    hidden = _hidden(Table(ports).state())
    gone = TableRepaired(segments=(), lost=tuple(hidden), reason="their files were lost")
    state = Table(ports).state()
    commit_or_raise(ports, state, Change(action=gone, commit_id="lost"))
    for path in {s.path for i in hidden if (s := state.timeline.get(i))}:
        ports.storage.delete(path)
    tick(ports)
    head = Table(ports).state()
    left = shown(ports)
    run = clean(ports, retention=Retention(hours=1, versions=100))
    assert (run.segments, len(run.vectors), vectors(ports)) == ((), 1, [])
    assert shown(ports) == left
    asked = Cleaned(retained_from=0, ids=())
    assert admit(asked, head) == asked
    assert isinstance(admit(asked, Table(ports).state()), Conflict)


def _hidden(state: State) -> Iterator[Any]:
    visible = {segment.id for segment in state.timeline.visible_segments()}
    return (s.id for s in state.timeline.segments() if s.id not in visible)


def test_a_reader_of_an_expired_version_is_told(ports: TableContext) -> None:
    """Its vectors are gone with the version: that is an error, never rows that were deleted."""
    delete(ports, 3)
    old = Table(ports).snapshot()
    purge(ports)
    tick(ports)
    clean(ports, retention=NOW)
    with pytest.raises((NotFound, SegtableError)):
        old.to_arrow()

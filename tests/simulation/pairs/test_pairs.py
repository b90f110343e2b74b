"""Any two actions at once, on any kind of table, leave what the plain model says.

The pairs are made of the table of ``actions``, so an action that is missing there fails a test. A
run holds each action on a kind of table or two, beside a crowd of others; the long one takes more
of the matrix, and ``python -m tests.simulation.pairs.matrix`` as much as it is given time for.
"""

import inspect
from collections.abc import Iterator

import pytest

from airflow_provider_segtable.core.log.events import KINDS as EVENTS
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.plan_kinds import kinds as plan_kinds
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.simulation.pairs.actions import ACTIONS
from tests.simulation.pairs.matrix import LONG, held_once, luck, matrix, one_play
from tests.simulation.pairs.pair import KINDS, _alone, base, fits, fitting, solo

ELSEWHERE = {
    "Voided": "an append whose files are lost gives its id up: the simulation of faults",
    "PlanYielded": "a lock that is taken away: the simulation of faults",
    "PlanAborted": "a plan that failed too often: the simulation of faults",
    "Restored": "a repair has something to do only where the log is damaged: tests of repair",
}
"""Events that no action here writes, and where they are."""
READS = {
    "consumers": "what others wrote",
    "change": "what `delete`, `update`, `merge` and `overwrite` call",
    "connect": "no table",
    "get": "the property of look-ups",
    "history": "the log",
    "index": "state",
    "index_entries": "read by the check of the indexes",
    "index_summary": "state",
    "indexes": "state",
    "log_lag": "positions",
    "log_positions": "state",
    "log_reader": "the simulation of the log store",
    "open": "no table",
    "published": "state",
    "read": "what `scan` calls",
    "snapshot": "every reader",
    "state": "state",
}
"""Methods of ``Table`` that write nothing."""
PARTS = 8
"""Parts of the long run: all 600 plays of a kind take more than a test may on a busy machine."""
IDLE = ("repair", "publish", "unpublish")
"""Actions that have nothing to do on a table that is whole, or published, or was never."""


def test_each_method_of_a_table_is_an_action() -> None:
    """A method that is added is held beside all others, or named as one that reads."""
    public = {name for name, _ in inspect.getmembers(Table, callable) if name[0] != "_"}
    called = {action.calls for action in ACTIONS.values() if action.calls}
    assert public == called | READS.keys()


def test_each_kind_of_event_is_written_by_an_action() -> None:
    """An event that is added is written beside all others, or named with the suite that has it."""
    found = {event.kind for kind, name in _fitting() for event in solo(kind, "old", name)}
    found |= {event.kind for each in KINDS for event in _events(each)}
    assert found == {kind.name for kind in EVENTS} - ELSEWHERE.keys()


def test_each_kind_of_plan_is_carried_out_by_an_action() -> None:
    """A plan that is added is held beside all others."""
    events = [event for kind, name in _fitting() for event in solo(kind, "old", name)]
    found = {e.action.plan.kind for e in events if isinstance(e.action, PlanRequested)}
    assert found == {kind.kind for kind in plan_kinds()}


@pytest.mark.parametrize("age", [pytest.param("young", marks=pytest.mark.long), "old"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_action_that_a_kind_of_table_refuses_is_named(kind: str, age: str) -> None:
    """Alone, each other action of the table is done: so no pair is empty."""
    assert [name for name in ACTIONS if fits(kind, age, name)] == fitting(kind, age)


@pytest.mark.parametrize("kind", KINDS)
def test_a_young_table_does_what_it_does_not_refuse(kind: str) -> None:
    """Of its actions that are held beside others, and all that it refuses; the long run has all."""
    held = {name for each, age, name in held_once() if (each, age) == (kind, "young")}
    refused = ACTIONS.keys() - fitting(kind, "young")
    assert {name for name in held | refused if fits(kind, "young", name)} == held - refused


@pytest.mark.parametrize(("kind", "age", "first"), held_once())
def test_an_action_is_held_beside_others(kind: str, age: str, first: str) -> None:
    """Every reader agrees with the model: while one is held, after all, and in the end."""
    play = one_play(kind, age, first)
    if play is None:
        assert first in IDLE
        return
    try:
        play.run()
    except AssertionError as error:
        error.add_note(str(play))
        raise


@pytest.fixture
def other_effects(round_trips: None) -> Iterator[None]:  # noqa: ARG001
    """Forget the effects of actions: there are others where a request is a round trip."""
    _alone.cache_clear()
    yield
    _alone.cache_clear()


@pytest.mark.usefixtures("other_effects")
@pytest.mark.parametrize(
    ("kind", "age", "first"), [each for each in held_once() if luck(f"{each}") % 16 == 0]
)
def test_an_action_is_held_where_requests_are_round_trips(kind: str, age: str, first: str) -> None:
    """Every reader agrees with the model where commits put before they look, too."""
    play = one_play(kind, age, first)
    assert play is not None or first in IDLE
    if play is not None:
        play.run()


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix(kind: str, part: int) -> None:
    """Likewise before each effect of each action, beside crowds of all others."""
    failed = []
    for play in matrix(kind, every=LONG * PARTS, part=LONG * part):
        try:
            play.run()
        except AssertionError as error:
            failed.append(f"{play}: {error}")
    assert not failed, "\n\n".join(failed)


def _fitting() -> Iterator[tuple[str, str]]:
    return ((kind, name) for kind in KINDS for name in fitting(kind, "old"))


def _events(kind: str) -> Iterator[object]:
    log = EventLog(base(kind, "old").stage.storage)
    return iter(log.events(0))

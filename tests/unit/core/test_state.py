"""The fold: order, gaps, ids, windows."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.locks import FencingToken, Generation
from airflow_provider_segtable.core.log import fold
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families import plan_events
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import IdSpace
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Granularity, GranularityOverride
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    JANUARY,
    after,
    created,
    first,
    merged,
    minor_plan,
)


def test_events_must_follow_without_gap_at_later_times() -> None:
    """A gap, a repeat or a time that stands still is corruption, not data."""
    state = created()
    event = Event(n=1, time=BASE + 1, commit="c", author="a", action=Appended(segments=(first(0),)))
    for wrong in (replace(event, n=2), replace(event, n=0), replace(event, time=BASE)):
        with pytest.raises(CorruptTable, match="cannot follow"):
            fold.apply(state, wrong)


def test_log_begins_with_creation() -> None:
    """Nothing can happen to a table that was not created."""
    with pytest.raises(CorruptTable, match="TableCreated"):
        fold.apply(None, Event(n=0, time=1, commit="c", author="a", action=Appended(segments=())))


def test_a_state_has_the_number_the_time_and_the_commits_of_its_events() -> None:
    """A committer finds its own event, the first one too; the base version stays."""
    events = [
        Event(n=0, time=BASE, commit="c0", author="a", action=DEFINITION),
        Event(n=1, time=BASE + 7, commit="c1", author="a", action=Appended(segments=(first(0),))),
    ]
    state = fold.fold(None, events)
    assert state is not None
    assert (state.n, state.time, state.base_version) == (1, BASE + 7, BASE)
    assert [state.commits.get(each) for each in ("c0", "c1", "c2")] == [0, 1, None]
    assert state.timeline.visible_segments() == (replace(first(0), completed=BASE + 7),)
    assert fold.fold(state, []) is state


def test_deletions_have_the_number_of_their_event() -> None:
    """Whether a change made them or a repair brought them back."""
    file = VectorFile(path="deletes/a", size=9, rows={CHUNK.segment(0): 2})
    later = VectorFile(path="deletes/b", size=9, rows={CHUNK.segment(0): 3})
    state = after(
        created(),
        Appended(segments=(first(0),)),
        RowsChanged(kind="delete", vectors=(file,), seen=1),
        TableRepaired(segments=(), vectors=(later,), reason="found"),
    )
    found = state.deletions(first(0))[CHUNK.segment(0)]
    assert [(each.n, each.path, each.rows) for each in found] == [
        (2, "deletes/a", 2),
        (3, "deletes/b", 3),
    ]


def test_voided_ids_add_up() -> None:
    """Each chunk has its own, whatever events they came with; none is free again."""
    other = ChunkKey(JANUARY, BASE + 1)
    state = after(
        created(),
        Voided(ids=(CHUNK.segment(1), other.segment(7)), reason="dead"),
        Voided(ids=(CHUNK.segment(3),), reason="dead, too"),
    )
    assert state.voided == {CHUNK: frozenset({1, 3}), other: frozenset({7})}
    space = state.id_space(CHUNK, Generation.FIRST)
    assert [p for p in range(5) if space.free(p)] == [0, 2, 4]


def test_a_repair_settles_the_roots_of_what_it_restores() -> None:
    """They were published once, whether or not their files are still there; no others were."""
    joined = merged(32768, (first(1), first(2)))
    state = after(created(), TableRepaired(segments=(joined,), reason="found"))
    space = state.id_space(CHUNK, Generation.FIRST)
    assert [p for p in range(5) if space.free(p)] == [0, 3, 4]


def test_a_repair_may_bring_back_the_layout_of_time() -> None:
    """If it says nothing, the layout stays."""
    override = GranularityOverride(JANUARY, Granularity.DAY)
    brought = TableRepaired(segments=(), overrides=(override,), reason="found")
    state = after(created(), brought)
    assert state.overrides == (override,)
    assert after(state, TableRepaired(segments=(), reason="more")).overrides == (override,)
    assert after(state, replace(brought, overrides=())).overrides == ()


def test_ids_leave_holes_that_can_be_filled() -> None:
    """Below ``next`` only the holes are free."""
    space = IdSpace(0).settle([2, 5])
    assert space == IdSpace(6, frozenset({0, 1, 3, 4}))
    assert [p for p in range(8) if space.free(p)] == [0, 1, 3, 4, 6, 7]
    assert space.settle([3]).settle([3]) == IdSpace(6, frozenset({0, 1, 4}))


def test_inflight_burns_its_output_ids() -> None:
    """Ids that an attempt named are never handed to another, even if it comes to nothing."""
    two = (first(0), first(1))
    plan = minor_plan(two)
    state = after(
        created(),
        Appended(segments=two),
        PlanRequested(plan=plan),
        PlanInflight(
            plan_id=plan.id,
            attempt="a",
            token=FencingToken("e", 1),
            outputs=(CHUNK.segment(32768),),
        ),
    )
    assert state.id_space(CHUNK, Generation.LATER).next == 32769
    assert list(violations(state)) == []


def test_finished_plans_and_commits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """State does not grow with history: old finished plans and commit ids are forgotten."""
    monkeypatch.setattr(plan_events, "FINISHED_PLANS_KEPT", 2)
    monkeypatch.setattr(fold, "COMMITS_KEPT", 3)
    segments = tuple(first(p) for p in range(8))
    state = after(created(), Appended(segments=segments))
    for left in range(0, 8, 2):
        plan = minor_plan(segments[left : left + 2])
        aborted = PlanAborted(plan_id=plan.id, attempt=None, reason="no")
        state = after(state, PlanRequested(plan=plan), aborted)
    assert len(state.plans) == 2
    assert len(state.commits) == 3


def test_nested_compactions_keep_every_row_once() -> None:
    """A segment compacted twice still carries lineage to the first generation."""
    segments = tuple(first(p) for p in range(4))
    state = after(created(), Appended(segments=segments))
    lower = merged(32768, segments[:2])
    upper = merged(32769, (lower, *segments[2:]))
    for inputs, output in (((segments[0], segments[1]), lower), ((lower, *segments[2:]), upper)):
        plan = minor_plan(inputs)
        outputs = (output.id,)
        state = after(
            state,
            PlanRequested(plan=plan),
            PlanInflight(
                plan_id=plan.id, attempt=plan.id, token=FencingToken("e", 1), outputs=outputs
            ),
            PlanCompleted(plan_id=plan.id, attempt=plan.id, segments=(output,)),
        )
        assert list(violations(state)) == []
    assert [s.id.partition for s in state.timeline.visible_segments()] == [32769]
    assert [run.root.partition for run in upper.runs] == [0, 1, 2, 3]

"""What the log makes of a plan's events: notes, unknown plans, how many finished ones it keeps."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families import plan_events
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.plan import PlanStatus
from tests.support.builders import (
    BASE,
    CHUNK,
    after,
    created,
    first,
    major_plan,
    merged,
    minor_plan,
)

SEGMENTS = tuple(first(partition) for partition in range(8))
PLANS = tuple(minor_plan(SEGMENTS[at : at + 2]) for at in range(0, 8, 2))
PLAN = PLANS[0]
OUTPUT = merged(32768, SEGMENTS[:2])


def begun(name: str) -> PlanInflight:
    return PlanInflight(
        plan_id=PLAN.id, attempt=name, token=FencingToken("e", 1), outputs=(OUTPUT.id,)
    )


def test_a_plan_keeps_why_it_yielded_or_was_given_up() -> None:
    """The newest reason is its note; a completed plan has none."""
    state = after(created(), Appended(segments=SEGMENTS), PlanRequested(plan=PLAN), begun("a"))
    state = after(state, PlanYielded(plan_id=PLAN.id, attempt="a", reason="somebody else"))
    known = state.plans[PLAN.id]
    assert (known.status, known.note, known.yields) == (PlanStatus.REQUESTED, "somebody else", 1)
    given_up = after(state, PlanAborted(plan_id=PLAN.id, attempt="a", reason="no more"))
    known = given_up.plans[PLAN.id]
    assert (known.status, known.note) == (PlanStatus.ABORTED, "no more")
    completed = PlanCompleted(plan_id=PLAN.id, attempt="b", segments=(OUTPUT,))
    known = after(state, begun("b"), completed).plans[PLAN.id]
    assert (known.status, known.note, known.attempts) == (PlanStatus.COMPLETED, "", 2)


@pytest.mark.parametrize(
    "action",
    [
        begun("a"),
        PlanCompleted(plan_id=PLAN.id, attempt="a", segments=(OUTPUT,)),
        PlanYielded(plan_id=PLAN.id, attempt="a", reason="no"),
        PlanAborted(plan_id=PLAN.id, attempt="a", reason="no"),
    ],
    ids=lambda action: type(action).__name__,
)
def test_events_of_a_plan_that_was_never_requested_are_corruption(action: Action) -> None:
    """The error names the event, its kind and the plan."""
    kind = type(action).__name__
    with pytest.raises(CorruptTable, match=rf"event 1 \({kind}\) names unknown plan {PLAN.id}"):
        after(created(), action)


def test_pending_plans_do_not_count_among_the_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest finished ones are forgotten, pending ones never."""
    monkeypatch.setattr(plan_events, "FINISHED_PLANS_KEPT", 2)
    state = after(created(), Appended(segments=SEGMENTS), PlanRequested(plan=PLAN))
    for plan in PLANS[1:3]:
        aborted = PlanAborted(plan_id=plan.id, attempt=None, reason="no")
        state = after(state, PlanRequested(plan=plan), aborted)
    assert set(state.plans) == {plan.id for plan in PLANS[:3]}
    last = PLANS[3]
    aborted = PlanAborted(plan_id=last.id, attempt=None, reason="no")
    state = after(state, PlanRequested(plan=last), aborted)
    assert set(state.plans) == {PLANS[0].id, PLANS[2].id, PLANS[3].id}


def test_an_attempt_is_checked_by_what_it_found_under_its_lock() -> None:
    """Not by what was there when a new version was planned."""
    plan = major_plan(SEGMENTS[:2])
    state = after(created(), Appended(segments=SEGMENTS), PlanRequested(plan=plan))
    found = tuple(segment.id for segment in SEGMENTS)
    started = replace(begun("a"), plan_id=plan.id, outputs=(), inputs=found, version=BASE + 1)
    assert admit(started, state) == started
    absent = CHUNK.segment(9)
    conflict = admit(replace(started, inputs=(*found, absent)), state)
    assert isinstance(conflict, Conflict)
    assert f"input {absent} of plan {plan.id} was replaced" in conflict.reason

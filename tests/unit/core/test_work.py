"""The measures of a completed plan follow from its events, and stay with it."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.work import Work, depth
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import HOUR_US, SECOND_US
from airflow_provider_segtable.table.log.checkpoint import (
    encode_head,
    read_checkpoint,
    write_checkpoint,
)
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

FIRST = CHUNK.interval.start


def during(segment: Segment, start_h: int, end_h: int) -> Segment:
    """Return a segment of some hours of the chunk."""
    span = {"time_min": FIRST + start_h * HOUR_US, "time_max": FIRST + end_h * HOUR_US - 1}
    return replace(segment, **span)


INPUTS = (during(first(0), 0, 2), during(first(1), 0, 2), during(first(2), 2, 4))
PLAN = minor_plan(INPUTS)
OUTPUT = replace(merged(32768, INPUTS), size=900, clustering="carrier")


def started(attempt: str) -> PlanInflight:
    return PlanInflight(
        plan_id=PLAN.id, attempt=attempt, token=FencingToken("e", 1), outputs=(OUTPUT.id,)
    )


def completed() -> State:
    """Return a table after a plan whose first attempt yielded; events are a second apart."""
    return after(
        created(),
        Appended(segments=INPUTS),
        PlanRequested(plan=PLAN),
        started("a"),
        PlanYielded(plan_id=PLAN.id, attempt="a", reason="an append goes first"),
        started("b"),
        PlanCompleted(plan_id=PLAN.id, attempt="b", segments=(OUTPUT,)),
    )


def known(state: State) -> PlanState:
    return state.plans[PLAN.id]


def test_a_completed_plan_keeps_files_bytes_overlap_and_times() -> None:
    """The work is that of the attempt that completed it; everything before is waiting."""
    found = known(completed())
    assert found.work == Work(
        files_read=3,
        bytes_read=3000,
        files_written=1,
        bytes_written=900,
        overlap_before=1.5,
        overlap_after=1.0,
        reordered=3000,
    )
    assert (found.waited, found.worked) == (3 * SECOND_US, 1 * SECOND_US)


def test_a_plan_over_a_time_is_measured_without_its_inputs() -> None:
    """Files and bytes are, overlap is not; segments that it carries over are none of its work."""
    plan = major_plan(INPUTS)
    begun = replace(started("a"), plan_id=plan.id, outputs=())
    carried = replace(first(5), origin=CHUNK.segment(4))
    done = PlanCompleted(plan_id=plan.id, attempt="a", segments=(OUTPUT, carried))
    state = after(created(), Appended(segments=INPUTS), PlanRequested(plan=plan), begun, done)
    work = state.plans[plan.id].work
    assert work is not None
    assert (work.files_read, work.files_written, work.overlap_before) == (3, 1, 0.0)
    assert work.facts()["overlap_after"] is None


def test_checkpoints_keep_the_measures() -> None:
    """They are apart from the plans, so that an older segtable reads these, and back again."""
    state = completed()
    back = known(read_checkpoint(write_checkpoint(state)))
    assert (back.work, back.started_at) == (known(state).work, known(state).started_at)
    head = encode_head(state)
    assert {"work", "started_at"}.isdisjoint(head["plans"][0])
    second = SECOND_US
    assert head["work"] == {PLAN.id: [BASE + 5 * second, 3, 3000, 1, 900, 1.5, 1.0, 3000]}
    begun = after(created(), Appended(segments=INPUTS), PlanRequested(plan=PLAN), started("a"))
    running = known(read_checkpoint(write_checkpoint(begun)))
    assert (running.work, running.started_at) == (None, known(begun).started_at)
    without = replace(known(state), work=None, started_at=0)
    assert without == known(state), "a checkpoint of an older segtable is not damaged"
    assert without.worked == 0


@pytest.mark.parametrize("more", [[], [7.0, "later"]])
def test_numbers_of_a_newer_segtable_are_ignored(more: list[float]) -> None:
    """Those that are known come back."""
    work = known(completed()).work
    assert work is not None
    assert Work.decode([*work.encode(), *more]) == work


def test_the_depth_of_no_rows_is_none() -> None:
    """Files without rows hold no instant."""
    assert depth(()) == 0.0

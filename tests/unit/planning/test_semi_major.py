"""The semi-major planner: when a chunk is worth sorting, and over which of its groups."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, tombstone
from airflow_provider_segtable.core.time import MINUTE_US
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.support.builders import BASE, CHUNK, after, created, first, merged
from tests.unit.planning.one_kind import plan_of
from tests.unit.planning.test_minor import partitions, reasons, sized, table

POLICY = Policy(target_size=1000, min_segments=4, clustering="carrier", major="off")
NOW = BASE + MINUTE_US


def ordered(*segments: Segment, clustering: str = "carrier") -> tuple[Segment, ...]:
    return tuple(replace(segment, clustering=clustering) for segment in segments)


def completed(state: State, policy: Policy = POLICY) -> State:
    """Carry out the one plan of a state, into one sorted segment."""
    (plan,) = plan_of(SemiMajorPlan, state, policy, NOW).chosen
    inputs = [s for i in plan.inputs if (s := state.timeline.get(i))]
    made = merged(32768, inputs)
    made = replace(made, clustering=plan.clustering, lineage=())
    start = PlanInflight(
        plan_id=plan.id, attempt="a", token=FencingToken("e", 1), outputs=(made.id,)
    )
    done = PlanCompleted(plan_id=plan.id, attempt="a", segments=(made,))
    return after(state, PlanRequested(plan=plan), start, done)


def test_a_chunk_is_sorted_whole() -> None:
    """All groups become inputs, ids are allocated twice over, and the reason says why."""
    planned = plan_of(SemiMajorPlan, table(*sized(900, 900, 700)), POLICY, NOW)
    (plan,) = planned.chosen
    assert (plan.kind, plan.clustering) == (SemiMajorPlan.kind, "carrier")
    assert (plan.root_start, plan.root_end, plan.outputs) == (0, 3, 8)
    assert plan.reason == ("3 segments, 2.4 KiB -> about 3 sorted by carrier: 100 % are not sorted")


@pytest.mark.parametrize(
    ("policy", "segments", "words"),
    [
        (POLICY, (*ordered(*sized(900, 200)), first(2, size=900)), "45 % are not sorted by carr"),
        (POLICY, sized(10, 10), r"too little to sort: 20 B in 2 segments, of 1000 B or 4"),
        (replace(POLICY, max_plan_bytes=99), sized(50, 60, 9, 9), "over the budget of a run"),
    ],
)
def test_what_does_not_pay_says_why(
    policy: Policy, segments: tuple[Segment, ...], words: str
) -> None:
    """Share, amount and budget each have their own words."""
    planned = plan_of(SemiMajorPlan, table(*segments), policy, NOW)
    assert planned.chosen == ()
    assert words in reasons(planned)
    assert {skipped.kind for skipped in planned.skipped} == {SemiMajorPlan.kind}


@pytest.mark.parametrize(
    "policy", [replace(POLICY, semi_major="off"), replace(POLICY, clustering="")]
)
def test_off_means_off(policy: Policy) -> None:
    """Without an order, or switched off, nothing is planned and nothing needs a reason."""
    planned = plan_of(SemiMajorPlan, table(*sized(900, 900, 900, 900)), policy, NOW)
    assert (planned.chosen, planned.skipped) == ((), ())


def test_enough_segments_are_enough() -> None:
    """Many small segments are worth sorting although they fill no output."""
    assert partitions(plan_of(SemiMajorPlan, table(*sized(9, 9, 9, 9)), POLICY, NOW)) == [
        [0, 1, 2, 3]
    ]


def test_a_living_writer_does_not_block() -> None:
    """Across a hole the longest run of neighbours is taken; the others say what they wait for."""
    state = table(*(first(p, size=300) for p in (0, 2, 3, 4, 5, 7)))
    planned = plan_of(SemiMajorPlan, state, POLICY, NOW)
    assert partitions(planned) == [[2, 3, 4, 5]]
    assert "not next to the larger run of partitions [2, 6): a writer may" in reasons(planned)
    voided = after(state, Voided(ids=(CHUNK.segment(1), CHUNK.segment(6)), reason="dead"))
    assert partitions(plan_of(SemiMajorPlan, voided, POLICY, NOW)) == [[0, 2, 3, 4, 5, 7]]


def test_not_again_at_once() -> None:
    """A chunk is sorted at most once in the interval, however much is appended."""
    state = completed(table(*sized(300, 300, 300, 300)))
    assert plan_of(SemiMajorPlan, state, POLICY, NOW).skipped == ()
    state = after(state, Appended(segments=tuple(first(p, size=900) for p in range(4, 8))))
    soon = plan_of(SemiMajorPlan, state, POLICY, state.time + 10 * MINUTE_US)
    assert soon.chosen == ()
    assert "sorted 10 min ago, of 60" in reasons(soon)
    (sorting,) = state.plans.values()
    lasting = plan_all(state, replace(POLICY, major="off"), state.time + 10 * MINUTE_US)
    assert lasting.due == sorting.changed_at + 60 * MINUTE_US
    later = plan_of(SemiMajorPlan, state, POLICY, state.time + 61 * MINUTE_US)
    assert partitions(later) == [[32768, 4, 5, 6, 7]]


def test_a_due_chunk_drains() -> None:
    """While a minor plan is pending, no new minor one is planned; then the chunk is sorted."""
    state = table(*sized(*[300] * 8))
    minor = plan_all(state, replace(POLICY, clustering=""), NOW).chosen[0]
    pending = after(state, PlanRequested(plan=minor))
    planned = plan_all(pending, POLICY, NOW)
    assert planned.chosen == ()
    assert f"held back: semi-major compaction is due, once plan {minor.id} is done" in reasons(
        planned
    )
    aborted = after(pending, PlanAborted(plan_id=minor.id, attempt=None, reason="slow"))
    resting = plan_all(aborted, POLICY, NOW)
    free = [p for p in range(8) if CHUNK.segment(p) not in minor.inputs]
    assert partitions(resting) == [free]
    assert "rests 60 min" in reasons(resting)
    assert partitions(plan_all(aborted, POLICY, NOW + 61 * MINUTE_US)) == [list(range(8))]


def test_minor_compaction_does_not_undo_the_order() -> None:
    """Small segments that are sorted already are left to the next semi-major compaction."""
    state = table(*ordered(*sized(9, 9, 9, 9)), *(first(p, size=9) for p in range(4, 7)))
    policy = replace(POLICY, min_segments=3)
    planned = plan_all(state, policy, NOW)
    assert partitions(planned) == [[4, 5, 6]]
    assert "sorted by carrier already: left to semi-major" in reasons(planned)


def test_tombstones_are_never_inputs() -> None:
    """A tombstone beside what was appended later is left out, and alone it is not mentioned."""
    dead = tombstone(CHUNK, BASE)
    alone = plan_all(after(created(), Appended(segments=(dead,))), POLICY, NOW)
    assert (alone.chosen, alone.skipped) == ((), ())
    state = after(created(), Appended(segments=(dead, *(first(p, size=400) for p in (1, 2, 3)))))
    assert partitions(plan_all(state, POLICY, NOW)) == [[1, 2, 3]]

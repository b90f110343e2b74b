"""Planning area by area, best bound first, is planning the whole table at once.

Random tables with holes, deletes, pending plans and time that was cut anew. Then

1. areas are disjoint, cut no chunk apart, and hold every chunk with rows;
2. no candidate in an area is more urgent than its bound, and there is none where the bound is 0;
3. the plans chosen are those that looking at everything chooses, from packed chunks, too;
4. a run that may look at one area only still chooses something, if there is anything to choose;
5. a brief run that examines nothing has nothing to choose, and summaries agree with the segments.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.chunk import overlap_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.work import depth
from airflow_provider_segtable.planning import selection
from airflow_provider_segtable.planning.finders.finder import finders
from airflow_provider_segtable.planning.planner_context import (
    look_at_table,
    looking_at,
    planner_context,
)
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import BRIEFLY, Planned, choose
from airflow_provider_segtable.planning.table_plan import (
    areas,
    candidates_in,
    nothing_due,
    plan_all,
)
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.examples import examples
from tests.property.test_planning import History
from tests.property.test_planning_regions import Weeks


def at_once(state: State, policy: Policy, now: int) -> Planned:
    """Plan by looking at every segment first."""
    skipped: list[selection.Skipped] = []
    return choose(
        candidates_in(look_at_table(state, policy, now), finders()[::-1], skipped), policy, skipped
    )


def check_areas(state: State, policy: Policy, now: int) -> None:
    found = planner_context(state, policy, now)
    some = list(areas(found))
    assert all(a.interval.end <= b.interval.start for a, b in pairwise(some))
    assert sorted(c for a in some for c in a.chunks) == sorted(found.chunks())
    for area in some:
        for chunk in state.timeline.visible_chunks(area.interval):
            assert area.interval.encloses(chunk.interval), f"{area} cuts {chunk} apart"
        within = candidates_in(looking_at(found, area.interval), finders()[::-1], [])
        assert all(one.urgency <= area.bound for one in within), area
        assert all(one.plan.size >= area.least for one in within), area


def check_summaries(state: State, policy: Policy) -> None:
    """Compare what summaries tell with the segments that they stand for."""
    timeline = state.timeline
    for chunk, summary in timeline.visible_summaries().items():
        segments = [s for group in timeline.visible_groups(chunk) for s in group.segments]
        sizes = [each.size for each in segments if each.path]
        for limit in (policy.small_size, policy.largest_output, *sizes, *(n + 1 for n in sizes)):
            small = sum(size < limit for size in sizes)
            assert summary.smaller_files(limit) in (small, None)
            assert summary.smaller(limit) >= small
            assert summary.any_larger(limit) == any(size > limit for size in sizes)
        few = len(sizes) < 3
        assert not few or summary.smaller_files(policy.small_size) is not None
        near = timeline.visible_summaries(chunk.interval).values()
        assert overlap_of([each for each in near if each.rows]) == depth(
            timeline.visible_segments(chunk.interval)
        )


def check(table: History) -> None:
    state, policy, now = table.state, table.policy, table.now
    check_areas(state, policy, now)
    check_summaries(state, policy)
    expected = at_once(state, policy, now)
    assert plan_all(state, policy, now).chosen == expected.chosen
    brief = plan_all(state, policy, now, explain=BRIEFLY)
    assert brief.chosen == expected.chosen
    if nothing_due(planner_context(state, policy, now)):
        assert not expected.chosen
    packed = read_checkpoint(write_checkpoint(state))
    assert plan_all(packed, policy, now, explain=BRIEFLY) == brief
    assert plan_all(packed, policy, now) == plan_all(state, policy, now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "LOOKS", 1)
        hasty = plan_all(state, policy, now)
    assert bool(hasty.chosen) == bool(expected.chosen)


@examples(40)
@given(st.integers(0, 2**32), st.integers(3, 20))
def test_areas_of_hours_plan_as_the_whole(seed: int, steps: int) -> None:
    """Whatever happened to the table, and whatever the policy wants."""
    table = History(seed)
    for _ in range(steps):
        acts = [table.append, table.append, table.delete, table.void, table.request]
        table.draw.choice([*acts, table.give_up, table.carry_out])()
        table.idle_us = table.draw.choice([0, 10**10])
    for _ in range(3):
        check(table)
        table.policy = table.some_policy()


@examples(25)
@given(st.integers(0, 2**32), st.integers(3, 15))
def test_areas_of_weeks_and_months_plan_as_the_whole(seed: int, steps: int) -> None:
    """Also where chunks stick out over the edges of what the policy wants."""
    table = Weeks(seed)
    for _ in range(steps):
        table.draw.choice([table.append, table.append, table.replace_some])()
        if table.draw.random() < 0.3:
            table.wanted()
    table.policy = replace(table.policy, max_plans=table.draw.choice([1, 64]))
    check(table)

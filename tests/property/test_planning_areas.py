"""Planning area by area, best bound first, is planning the whole table at once.

Random tables with holes, deletes, pending plans and time that was cut anew. Then

1. areas are disjoint, cut no chunk apart, and hold every chunk with rows;
2. no candidate in an area is more urgent than its bound, and there is none where the bound is 0;
3. the plans chosen are those that looking at everything chooses, from packed chunks, too;
4. a run that may look at one area only still chooses something, if there is anything to choose;
5. a brief run that examines nothing has nothing to choose, and summaries agree with the segments.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.chunk import overlap_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.work import depth
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey, Segment, Shard
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity
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
from airflow_provider_segtable.table.log import sidecars
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.examples import examples
from tests.property.test_planning import History
from tests.property.test_planning_regions import Weeks
from tests.property.test_sidecars import Files
from tests.support.builders import BASE, DEFINITION, JANUARY, created, first
from tests.unit.core.keyed_actions import KEYED


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


def in_sidecars(state: State) -> State:
    """Return the state as a checkpoint with sidecars of one or two chunks gives it back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecars, "MOST_SEGMENTS", 2)
        patch.setattr(sidecars, "MOST_CHUNKS", 2)
        files = Files()
        return files.open(files.write(state))


def check(table: "History | Still") -> None:
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
    layered = in_sidecars(state)
    assert plan_all(layered, policy, now, explain=BRIEFLY) == brief
    assert plan_all(layered, policy, now, explain=BRIEFLY) == brief, "as blocks are remembered"
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


class Still:
    """A table that is made at once: its chunks have buckets, bases, and sizes near the limits."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        pick = self.draw.choice
        self.policy = Policy(
            target_size=1000,
            min_segments=pick([2, 4]),
            clustering=pick(["", "flight", "flight"]),
            semi_major=pick(["auto", "auto", "off"]),
            semi_major_unclustered=pick([0.0, 0.1, 0.5]),
            major=pick(["auto", "auto", "off"]),
            major_unclustered=pick([0.0, 0.1, 0.5]),
            major_buckets=pick([0, 0, 4, 8]),
            major_granularity=pick(["", "", "month", "year"]),
            max_plans=64,
        )
        self.now = BASE + pick([0, 90 * DAY_US])
        table = pick([KEYED, KEYED, DEFINITION, replace(DEFINITION, kind=Rollup())])
        chunks = self.chunks(keyed=table is KEYED)
        segments = [segment for chunk in chunks for segment in self.segments_of(chunk)]
        state = created(table)
        self.state = replace(state, timeline=state.timeline.with_changes(add=segments))

    def chunks(self, *, keyed: bool) -> Iterator[ChunkKey]:
        """Yield chunks of some months; some of them overlap, or have several versions."""
        for month in range(self.draw.choice([1, 2, 4])):
            at = JANUARY.start + month * 31 * DAY_US
            sizes = [Granularity.MONTH, Granularity.WEEK, Granularity.DAY]
            for size in self.draw.sample(sizes, self.draw.choice([1, 1, 2])):
                some = self.draw.sample(range(4), self.draw.choice([1, 2, 4]))
                for bucket in some if keyed else [NO_BUCKET]:
                    yield ChunkKey(size.chunk(at), BASE + self.draw.choice([0, 0, 1]), bucket)

    def segments_of(self, chunk: ChunkKey) -> Iterator[Segment]:
        """Yield a base, if there is one, and what is beside it."""
        pick = self.draw.choice
        base, late = pick([0, 0, 1, 2]), pick([0, 1, 2, 3])
        for partition in range(max(base + late, 1)):
            inside = partition < base
            size = pick([1, 749, 750, 751, 1000, 1000, 1000, 1799, 1800, 1801])
            yield replace(
                first(partition + pick([0, 0, 5 * (not inside)]), chunk=chunk),
                shard=Shard.first_generation(partition, core=base, base=base if inside else 0),
                id=chunk.segment(partition),
                size=size,
                clustering=pick(["flight", "flight" if inside else ""]),
                time_min=chunk.interval.start + pick([0, HOUR_US]),
                time_max=chunk.interval.end - 1 - pick([0, HOUR_US]),
            )


@examples(200)
@given(st.integers(0, 2**32))
def test_areas_of_buckets_plan_as_the_whole(seed: int) -> None:
    """Although most of them are never examined."""
    check(Still(seed))


def test_a_settled_bucket_is_never_decoded() -> None:
    """A base that is sorted and of good sizes, in each of four buckets of each month."""
    chunks = [
        ChunkKey(Granularity.MONTH.chunk(at), BASE, bucket)
        for at, bucket in product((JANUARY.start, JANUARY.start + 40 * DAY_US), range(4))
    ]
    shard = Shard.first_generation(0, core=1, base=1)
    settled = [
        replace(first(0, chunk=chunk, size=1000), shard=shard, clustering="flight")
        for chunk in chunks
    ]
    state = created(KEYED)
    state = replace(state, timeline=state.timeline.with_changes(add=settled))
    packed = read_checkpoint(write_checkpoint(state))
    policy = Policy(target_size=1000, clustering="flight")
    assert plan_all(packed, policy, BASE + 90 * DAY_US, explain=BRIEFLY).chosen == ()
    (source,) = {id(each.source): each.source for each in packed.timeline.chunks()}.values()
    assert source.chunk.cache_info().misses == 0

"""Plans: their ids, what they find under their lock, and when they are beyond hope."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.locks import LockRequest, Mode
from airflow_provider_segtable.core.log.event import Stamp
from airflow_provider_segtable.core.log.plan import Complete, PlanState, Rewrite, plan_id
from airflow_provider_segtable.core.segment import ChunkKey, Place, Shard, tombstone
from airflow_provider_segtable.core.time import ALL_TIME, DAY_US, HOUR_US, Granularity, Interval
from airflow_provider_segtable.core.timeline import Timeline
from tests.support.builders import (
    BASE,
    CHUNK,
    JANUARY,
    created,
    first,
    major_plan,
    merged,
    minor_plan,
)

DAY = Interval(JANUARY.start, JANUARY.start + DAY_US)
NEXT = Interval(DAY.end, DAY.end + DAY_US)


def test_the_id_of_a_plan_is_a_function_of_its_inputs_and_purpose() -> None:
    """The same plan comes back under the id that the log and DAG runs know, also in years."""
    ids = (CHUNK.segment(0), CHUNK.segment(1))
    assert plan_id("t", "minor", ids) == plan_id("t", "minor", ids, "")
    assert plan_id("t", "minor", ids) == "minor-20130101-4843a379846d"
    assert plan_id("t", "minor", ids, "x") == "minor-20130101-4b099ecf1fe2"


def test_a_plan_of_a_region_finds_its_inputs_under_its_lock() -> None:
    """All that is visible there and has rows; a plan of segments keeps its own."""
    one, two = (first(0, chunk=ChunkKey(day, BASE)) for day in (DAY, NEXT))
    above = tombstone(ChunkKey(Interval(NEXT.start, NEXT.start + 9), BASE + 1), BASE)
    state = replace(created(), timeline=Timeline.empty().with_changes(add=[one, two, above]))
    assert minor_plan((one,)).inputs_under_lock(state) == ()
    plan = major_plan((one,))
    assert plan.inputs_under_lock(state) == (one.id,)
    assert replace(plan, region=NEXT).inputs_under_lock(state) == (two.id,)


def test_a_plan_without_its_inputs_can_never_complete() -> None:
    """Unless it finds them under its lock."""
    two = (first(0), first(1))
    there = Timeline.empty().with_changes(add=two)
    gone = there.with_changes(add=[merged(32768, two)])
    for timeline, hopeless in ((there, False), (gone, True)):
        state = replace(created(), timeline=timeline)
        assert bool(minor_plan(two).hopeless(state)) is hopeless
        assert major_plan(two).hopeless(state) is None


@pytest.mark.parametrize(
    ("granularity", "mode"),
    [(None, Mode.REPLACE), (Granularity.YEAR, Mode.REPLACE), (Granularity.DAY, Mode.EXCLUSIVE)],
)
def test_a_major_plan_locks_its_region(granularity: Granularity | None, mode: Mode) -> None:
    """And asks for a version above all; appends go on unless time is cut more finely."""
    plan = replace(major_plan((first(0),)), granularity=granularity)
    newer = first(0, chunk=ChunkKey(DAY, BASE + 7))
    elsewhere = first(0, chunk=ChunkKey(Interval(JANUARY.end, JANUARY.end + 9), BASE + 99))
    timeline = Timeline.empty().with_changes(add=[first(0), newer, elsewhere])
    state = replace(created(), timeline=timeline)
    asked = LockRequest(table="t", group="g", purpose="p", holder="h", priority=7)
    assert plan.lock(asked, state) == replace(
        asked, mode=mode, intervals=(JANUARY,), version_above=BASE + 7
    )
    cut = granularity and granularity.value
    own = {"clustering": "", "granularity": cut, "buckets": 0, "index": ""}
    assert plan.facts() == {"root": [0, 0], **own}


def test_a_major_plan_numbers_a_core_set_in_each_chunk() -> None:
    """From zero, at the version of its attempt."""
    plan = major_plan((first(0),))
    at = Stamp(n=1, time=BASE, commit="c", author="me")
    found = replace(PlanState.requested(plan, at), version=BASE + 9)
    day, following = ChunkKey(DAY, BASE + 9), ChunkKey(NEXT, BASE + 9)
    assert plan.name_outputs(found, {Place(DAY): 2, Place(NEXT): 1}, created()) == {
        Place(DAY): tuple(
            (day.segment(p), Shard.first_generation(p, core=2, base=2)) for p in range(2)
        ),
        Place(NEXT): ((following.segment(0), Shard.first_generation(0, core=1, base=1)),),
    }


def test_a_major_plan_rewrites_the_chunks_that_may_get_rows() -> None:
    """Those from the first to the last event of its inputs, in the new granularity."""
    plan = replace(major_plan((first(0),)), granularity=Granularity.DAY, clustering="carrier")
    early = replace(first(0), time_min=DAY.start + 5, time_max=DAY.start + 9)
    late = replace(first(1), time_min=DAY.start + 7, time_max=NEXT.start)
    assert plan.next_step([late, early], [], created()) == Rewrite(
        intervals=(DAY, NEXT), clustering="carrier", one_group=False
    )
    on_the_edge = replace(early, time_max=DAY.end - 1)
    step = plan.next_step([on_the_edge], [], created())
    assert isinstance(step, Rewrite)
    assert step.intervals == (DAY,)


def test_a_major_plan_publishes_what_it_wrote() -> None:
    """Nothing, if its region has become empty."""
    plan = major_plan((first(0),))
    written = (first(3), first(4))
    assert plan.next_step([first(0)], [written], created()) == Complete(segments=written)
    assert plan.next_step([], [], created()) == Complete(segments=())


def test_a_major_plan_lists_no_time_without_rows() -> None:
    """Gaps between inputs are left out, and of a file with few rows the event times are read."""
    plan = replace(major_plan((first(0),)), region=ALL_TIME, granularity=Granularity.HOUR)
    start, end = ALL_TIME.start, ALL_TIME.end - 1
    early = replace(first(0), time_min=start, time_max=start + 9)
    late = replace(first(1), time_min=end - 9, time_max=end)
    wide = replace(first(2), time_min=start, time_max=end, rows=9)
    step = plan.next_step([late, early], [], created())
    assert isinstance(step, Rewrite)
    assert [each.start for each in step.intervals] == [start, end + 1 - HOUR_US]
    assert step.sparse == ()
    step = plan.next_step([late, wide, early], [], created())
    assert isinstance(step, Rewrite)
    assert step.sparse == (wide,)
    whole = step.with_chunks([DAY, step.intervals[0]])
    assert whole.intervals == (step.intervals[0], DAY, step.intervals[1])
    assert (whole.sparse, whole.layout) == ((), None)

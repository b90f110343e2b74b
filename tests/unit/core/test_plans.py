"""Plans: their ids, what they find under their lock, and when they are beyond hope."""

from dataclasses import replace

from airflow_provider_segtable.core.plans.plan import plan_id
from airflow_provider_segtable.core.segments.segment import ChunkKey, tombstone
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import DAY_US, Interval
from airflow_provider_segtable.testing.builders import (
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

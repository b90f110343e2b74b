"""The choice of plans within the budget: which areas are examined, and what is said of others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.planning import selection
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import (
    Area,
    Candidate,
    Obstacle,
    Planned,
    choose,
    skipped_plan,
)
from tests.support.builders import BASE, CHUNK, major_plan, minor_plan
from tests.unit.planning.test_minor import sized, table

FEB = ChunkKey(Granularity.MONTH.chunk(CHUNK.interval.end), BASE)
MARCH = ChunkKey(Granularity.MONTH.chunk(FEB.interval.end), BASE)
POLICY = Policy(target_size=1000, max_plan_bytes=100)


def area(chunk: ChunkKey, segments: int, bound: float) -> Area:
    """Return an area of one chunk with segments of ten bytes."""
    known = table(*sized(*[10] * segments, chunk=chunk)).timeline.visible_summaries()
    return Area(interval=chunk.interval, known=tuple(known.items()), segments=segments, bound=bound)


def candidate(chunk: ChunkKey, size: int, *instead: Candidate) -> Candidate:
    """Return a compaction of two segments with another size."""
    plan = minor_plan(sized(10, 10, chunk=chunk))
    return Candidate(plan=replace(plan, size=size), gain=1.0, instead=instead)


class Examined:
    """Candidates by area; notes which areas were examined, in order."""

    def __init__(self, found: Mapping[ChunkKey, Sequence[Candidate]]) -> None:
        self.found, self.seen = found, list[ChunkKey]()

    def __call__(self, one: Area) -> Sequence[Candidate]:
        """Examine an area."""
        self.seen.append(one.chunks[0])
        return self.found.get(one.chunks[0], ())


def told(planned: Planned) -> list[tuple[ChunkKey, str]]:
    """Return the reasons for what was not chosen."""
    return [(each.chunk, each.reason) for each in planned.skipped]


def test_the_area_with_the_highest_bound_is_examined_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If its plan fills the budget, others are not examined; what is known of them is told."""
    monkeypatch.setattr(selection, "LOOKS", 4)
    look = Examined({FEB: [candidate(FEB, 20)], CHUNK: [candidate(CHUNK, 20)]})
    policy = replace(POLICY, max_plans=1)
    areas = (area(CHUNK, 2, 0.5), area(FEB, 3, 5.0), area(MARCH, 2, 0.0))
    planned = choose((), policy, [], areas, look)
    assert look.seen == [FEB]
    assert [plan.chunk for plan in planned.chosen] == [FEB]
    assert told(planned) == [
        (CHUNK, "over the budget of 1 plan a run: 2 segments of 20 B in all"),
        (MARCH, "nothing to gain: 2 segments of 20 B in all"),
    ]
    assert {each.kind for each in planned.skipped} == {MinorPlan.kind}


def test_a_small_table_is_examined_for_its_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the limit of segments, and only if the whole table is within it."""
    areas = (area(CHUNK, 4, 5.0), area(FEB, 4, 0.5))
    for limit, seen in ((8, [CHUNK, FEB]), (7, [CHUNK])):
        monkeypatch.setattr(selection, "LOOKS", limit)
        look = Examined({CHUNK: [candidate(CHUNK, 20)], FEB: [candidate(FEB, 20)]})
        choose((), replace(POLICY, max_plans=1), [], areas, look)
        assert look.seen == seen
    monkeypatch.setattr(selection, "LOOKS", 4)
    look = Examined({})
    planned = choose((), POLICY, [], (area(CHUNK, 1, 0.0), area(FEB, 4, 0.0)), look)
    assert look.seen == []
    assert len(planned.skipped) == 2


@pytest.mark.parametrize(("segments", "examined"), [(6, True), (7, False)])
def test_a_run_examines_so_many_segments(
    monkeypatch: pytest.MonkeyPatch,
    segments: int,
    examined: bool,  # noqa: FBT001
) -> None:
    """An area that would exceed the limit is left for the next run, unless it is the first."""
    monkeypatch.setattr(selection, "LOOKS", 10)
    look = Examined({CHUNK: [candidate(CHUNK, 20)], FEB: [candidate(FEB, 20)]})
    planned = choose((), POLICY, [], (area(CHUNK, 4, 5.0), area(FEB, segments, 4.0)), look)
    assert len(planned.chosen) == 1 + examined
    left = f"left for the next run: {segments} segments of {segments * 10} B in all"
    assert told(planned) == ([] if examined else [(FEB, left)])
    first = Examined({CHUNK: [candidate(CHUNK, 20)]})
    assert choose((), POLICY, [], [area(CHUNK, 11, 5.0)], first).chosen


def test_areas_without_a_plan_that_fits_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where nothing was found, nor where all is too large for the rest of the budget."""
    for found in ((), (candidate(CHUNK, 101),)):
        monkeypatch.setattr(selection, "LOOKS", 6)
        look = Examined({CHUNK: found, FEB: [candidate(FEB, 100)]})
        planned = choose((), POLICY, [], (area(CHUNK, 4, 5.0), area(FEB, 6, 4.0)), look)
        assert [plan.chunk for plan in planned.chosen] == [FEB]


def test_an_area_whose_smallest_segment_does_not_fit_is_not_examined() -> None:
    """Its plans would be larger; it is told that the budget is used up."""
    look = Examined({})
    planned = choose((), replace(POLICY, max_plan_bytes=7), [], [area(CHUNK, 2, 5.0)], look)
    assert planned.chosen == ()
    assert look.seen == [CHUNK]  # for its reasons, as the table is small
    look = Examined({CHUNK: [candidate(CHUNK, 8)]})
    assert choose((), replace(POLICY, max_plan_bytes=8), [], [area(CHUNK, 2, 5.0)], look).chosen


def test_a_plan_larger_than_any_run_is_an_obstacle() -> None:
    """One that another run has room for only waits; the smaller ones are considered instead."""
    for size, obstacle in ((101, Obstacle.TOO_LARGE), (100, None)):
        small = candidate(MARCH, 5)
        some = (replace(candidate(CHUNK, 20), gain=9.0), candidate(FEB, size, small))
        planned = choose(some, POLICY, [])
        assert [plan.chunk for plan in planned.chosen] == [CHUNK, MARCH]
        (over,) = planned.skipped
        assert (over.chunk, over.reason) == (FEB, "over the budget of 100 B a run")
        assert over.obstacle is obstacle


def test_what_a_larger_plan_does_is_told_at_every_depth() -> None:
    """And what is left when the number of plans is reached, too."""
    least = candidate(MARCH, 5)
    middle = candidate(FEB, 10, least)
    largest = candidate(CHUNK, 20, middle)
    planned = choose([largest], POLICY, [])
    does = f"plan {largest.plan.id} does it"
    assert told(planned) == [(FEB, does), (MARCH, does)]
    full = choose(
        [replace(candidate(CHUNK, 1), gain=9.0), middle], replace(POLICY, max_plans=1), []
    )
    over = "over the budget of 1 plan a run"
    assert told(full) == [(FEB, over), (MARCH, over)]


def test_a_skip_names_segments_or_the_whole_interval() -> None:
    """As the plan claims them."""
    some = skipped_plan(minor_plan(sized(10, 10)), "why")
    assert (some.chunk, some.partitions, some.kind) == (CHUNK, (0, 1), MinorPlan.kind)
    whole = skipped_plan(major_plan(sized(10, 10)), "why")
    assert (whole.chunk, whole.partitions, whole.kind) == (CHUNK, (), MajorPlan.kind)

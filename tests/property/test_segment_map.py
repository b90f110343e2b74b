"""The segment map shows each present segment once, at its place, and sums nothing twice."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval, parse_instant
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.page.segment_map import Cell, SegmentMap, segment_map
from tests.examples import examples
from tests.property.overshadow_model import Instants, segments
from tests.property.test_overshadow_random import LAST, arbitrary_family, legal_family, some_chunks
from tests.support.builders import created

RANDOMS = st.randoms(use_true_random=False)
NAMES = {"visible": "visible", "overshadowed": "hidden", "standby": "standby"}


def some_state(draw: random.Random, *, legal: bool) -> tuple[State, list[Segment]]:
    """Return a state with random present segments of several versions, and these segments."""
    make = legal_family if legal else arbitrary_family
    pool = [s for key in some_chunks(draw) for s in segments(make(draw, 3, 3), key)]
    present = [
        replace(each, rows=draw.randint(1, 9), size=draw.randint(1, 2000), events=9)
        for each in draw.sample(pool, draw.randint(1, len(pool)))
    ]
    timeline = Timeline.empty().with_changes(add=present)
    return replace(created(), timeline=timeline), present


def totals(cells: list[Cell]) -> tuple[int, ...]:
    """Return what cells sum up."""
    names = ("segments", "rows", "bytes", "small")
    return tuple(sum(getattr(cell, name) for cell in cells) for name in names)


@examples(60)
@given(RANDOMS, st.booleans())
def test_a_map_of_segments_has_each_present_segment_once_with_its_state(
    draw: random.Random,
    legal: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    """Cells are the present segments with the states of the naive rules, inside their chunks."""
    state, present = some_state(draw, legal=legal)
    found = segment_map(state)
    naive = Instants(present)
    expected = {
        str(each.id): NAMES[naive.state(each.id.chunk, each.shard.group).value] for each in present
    }
    assert found.level == "segments"
    assert {cell.id: cell.state for cell in found.cells} == expected
    assert len(found.cells) == found.total == len(present)
    assert all(0 <= cell.left < cell.right <= 1 for cell in found.cells)
    assert not overlapping(found)


def overlapping(found: SegmentMap) -> bool:
    """Return whether two cells of one lane overlap: full groups of one generation never do."""
    by_lane: dict[tuple[int, str, str, int], list[tuple[float, float]]] = {}
    for cell in found.cells:
        if cell.state == "visible":
            place = (cell.lane, cell.start, cell.end, cell.version)
            by_lane.setdefault(place, []).append((cell.left, cell.right))
    ordered = [sorted(some) for some in by_lane.values()]
    return any(a[1] > b[0] + 1e-5 for some in ordered for a, b in pairwise(some))


@examples(60)
@given(RANDOMS, st.integers(1, 12))
def test_a_map_of_chunks_sums_up_the_visible_segments_of_each_state(
    draw: random.Random, limit: int
) -> None:
    """Sums over visible cells are those of the visible segments, whatever the limit; none twice."""
    state, present = some_state(draw, legal=True)
    found = segment_map(state, limit=limit)
    if found.level == "segments":
        return
    visible = [cell for cell in found.cells if cell.state == "visible"]
    shown = state.timeline.visible_segments()
    rows, size = sum(s.rows for s in shown), sum(s.size for s in shown)
    assert totals(visible) == (len(shown), rows, size, len(shown))
    lanes = len({cell.lane for cell in found.cells})
    assert len(found.cells) <= max(limit, 3 * lanes)
    everything = sum(cell.segments + cell.hidden for cell in found.cells)
    assert everything == found.total == len(present)


@examples(60)
@given(RANDOMS, st.integers(0, LAST - 1), st.integers(1, LAST))
def test_a_map_of_a_window_is_that_part_of_the_whole_map(
    draw: random.Random, start: int, length: int
) -> None:
    """A window shows the cells of all chunks that overlap it, as the whole map has them."""
    state, _ = some_state(draw, legal=True)
    window = Interval(start, start + length)
    whole = [cell for cell in segment_map(state).cells if _interval(cell).overlaps(window)]
    found = segment_map(state, window).cells
    assert [c.model_copy(update={"lane": 0}) for c in found] == [
        c.model_copy(update={"lane": 0}) for c in whole
    ]


def _interval(cell: Cell) -> Interval:
    return Interval(parse_instant(cell.start), parse_instant(cell.end))


@examples(40)
@given(RANDOMS, st.integers(1, 12))
def test_neighbours_drawn_together_have_the_same_sums(draw: random.Random, limit: int) -> None:
    """A time chunk with more segments than the limit is drawn in runs that lose nothing."""
    state, _ = some_state(draw, legal=True)
    for chunk in state.timeline.chunks():
        window = Interval(chunk.start, chunk.end)
        apart, runs = segment_map(state, window), segment_map(state, window, limit=limit)
        if runs.level == "segments":
            assert sums_by_state(apart) == sums_by_state(runs)


def sums_by_state(found: SegmentMap) -> Counter[str]:
    """Return bytes and segments by state."""
    sums: Counter[str] = Counter()
    for cell in found.cells:
        sums[cell.state] += cell.segments
        sums[f"{cell.state} bytes"] += cell.bytes
    return sums

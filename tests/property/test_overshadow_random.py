"""Larger histories, several versions and impossible sets: the timeline equals the naive rules."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import GroupState, Timeline
from tests.examples import examples
from tests.property.overshadow_model import (
    CHUNK,
    Instants,
    Made,
    all_groups,
    compacted,
    druid,
    firsts,
    full_groups,
    greedy,
    roots,
    segments,
)

LAST = 12
"""Intervals lie in [0, LAST), an instant apart, so that every instant can be asked."""


def legal_family(draw: random.Random, count: int, compactions: int) -> tuple[Made, ...]:
    """Return what a random legal history makes."""
    tops = made = firsts(count)
    for _ in range(compactions):
        first = draw.randrange(len(tops))
        last = min(len(tops) - 1, first + draw.randrange(4))
        new = compacted(tops, first, last, draw.randint(1, 3))
        tops, made = (*tops[:first], new, *tops[last + 1 :]), (*made, new)
    return made


def arbitrary_family(draw: random.Random, count: int, groups: int) -> tuple[Made, ...]:
    """Return groups that may cross and tie."""
    made = set()
    for _ in range(groups):
        start = draw.randrange(count)
        end = draw.randint(start + 1, count)
        made.add((start, end, draw.randint(1, 3)))
    return (*firsts(count), *(Made(*key, draw.randint(1, 2)) for key in sorted(made)))


def walk(
    draw: random.Random, pool: list[Segment], steps: int, largest: int
) -> Iterator[tuple[Timeline, list[Segment]]]:
    """Add and remove random segments, now and then many at once; yield what is then there."""
    timeline, present = Timeline.empty(), dict[Segment, None]()
    for _ in range(steps):
        some = draw.sample(pool, min(len(pool), draw.randint(1, largest)))
        gone = [s for s in some if s in present and draw.random() < 0.6]
        come = [s for s in some if s not in present or draw.random() < 0.1]
        timeline = timeline.with_changes(add=come, remove=[s.id for s in gone])
        present = {s: None for s in present if s not in gone} | dict.fromkeys(come)
        yield timeline, list(present)


@examples(60)
@given(st.randoms(use_true_random=False), st.integers(1, 14), st.integers(0, 12))
def test_random_legal_histories_obey_druids_predicate(
    draw: random.Random, count: int, compactions: int
) -> None:
    """Visible is "full, and overshadowed by no full group"; what can be covered is covered once."""
    pool = segments(legal_family(draw, count, compactions))
    for timeline, present in walk(draw, pool, steps=12, largest=6):
        visible = druid(present)
        assert [g.key for g in timeline.visible_groups(CHUNK)] == sorted(visible)
        assert roots(visible) == roots(full_groups(present))
        assert sum(key.root_end - key.root_start for key in visible) == len(roots(visible))
        assert list(timeline.segments()) == sorted(present, key=lambda s: s.id)
        assert timeline == Timeline.empty().with_changes(add=present)


@examples(60)
@given(st.randoms(use_true_random=False), st.integers(1, 8), st.integers(0, 12))
def test_arbitrary_sets_obey_the_general_rule(draw: random.Random, count: int, groups: int) -> None:
    """Crossing and tying ranges: still one answer, whole groups only, none overlapping."""
    pool = segments(arbitrary_family(draw, count, groups))
    for timeline, present in walk(draw, pool, steps=12, largest=4):
        found = timeline.visible_groups(CHUNK)
        assert {g.key for g in found} == greedy(present)
        assert all(g.full for g in found)
        assert all(a.key.root_end <= b.key.root_start for a, b in pairwise(found))
        highest = max(
            (s.shard.minor_version for s in present if s.shard.root_start == 0), default=0
        )
        assert timeline.max_minor(CHUNK, 0, 1) == highest


@pytest.mark.parametrize("seed", range(5))
def test_large_arbitrary_sets_in_large_batches_obey_the_general_rule(seed: int) -> None:
    """Building a chunk anew from a large batch gives what single steps give, crossings or not."""
    draw = random.Random(seed)
    pool = segments(arbitrary_family(draw, 40, 150))
    for timeline, present in walk(draw, pool, steps=6, largest=250):
        assert {g.key for g in timeline.visible_groups(CHUNK)} == greedy(present)
        one_by_one = Timeline.empty()
        for one in present:
            one_by_one = one_by_one.with_changes(add=[one])
        assert one_by_one == timeline


def some_chunks(draw: random.Random) -> list[ChunkKey]:
    """Return chunks of a few versions, each of its own granularity."""
    chunks = []
    for version in range(1, draw.randint(2, 4)):
        width = draw.choice([1, 2, 3, 4, 6, LAST])
        for start in range(0, LAST, width):
            if draw.random() < 0.6:
                chunks.append(ChunkKey(Interval(start, start + width), version))
    return chunks or [ChunkKey(Interval(0, LAST), 1)]


@examples(80)
@given(st.randoms(use_true_random=False), st.booleans())
def test_versions_and_granularities_win_instant_by_instant(
    draw: random.Random,
    legal: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    """At every instant lookup shows the winner's groups; pieces are maximal, sorted and clipped."""
    make = legal_family if legal else arbitrary_family
    pool = [s for key in some_chunks(draw) for s in segments(make(draw, 2, 2), key)]
    for timeline, present in walk(draw, pool, steps=5, largest=12):
        check_lookup(timeline, Instants(present), None)
        start = draw.randrange(LAST)
        check_lookup(timeline, Instants(present), Interval(start, draw.randint(start, LAST) + 1))


@examples(60)
@given(st.randoms(use_true_random=False), st.booleans())
def test_a_chunk_has_the_best_state_of_its_groups(
    draw: random.Random,
    legal: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    """A chunk's state follows from its groups' ones, in all of the table or a part of it."""
    make = legal_family if legal else arbitrary_family
    pool = [s for key in some_chunks(draw) for s in segments(make(draw, 2, 2), key)]
    for timeline, present in walk(draw, pool, steps=4, largest=12):
        start = draw.randrange(LAST)
        part = Interval(start, draw.randint(start, LAST) + 1)
        for asked in (None, part):
            together = [*timeline.chunk_states(asked)]
            found = {chunk.key: state for some in together for chunk, state in some}
            near = {chunk.key for chunk in timeline.chunks(asked)}
            assert near <= found.keys()
            assert asked or near == found.keys()
            for key, state in found.items():
                groups = all_groups(one for one in present if one.id.chunk == key)
                states = {timeline.state(key, group) for group in groups}
                best = (s for s in (GroupState.VISIBLE, GroupState.STANDBY) if s in states)
                if state is GroupState.STANDBY:
                    assert GroupState.VISIBLE not in states
                else:
                    assert state is next(best, GroupState.OVERSHADOWED)
        assert timeline.span == _span(present)


def _span(present: list[Segment]) -> Interval | None:
    found = [segment.id.interval for segment in present]
    if not found:
        return None
    return Interval(min(each.start for each in found), max(each.end for each in found))


def check_lookup(timeline: Timeline, naive: Instants, asked: Interval | None) -> None:
    found = timeline.lookup(asked)
    for at in range(LAST + 1):
        shown = [(v.chunk, v.group) for v in found if v.interval.holds(at)]
        expected = naive.shown(at) if asked is None or asked.holds(at) else set()
        assert len(shown) == len(set(shown)), f"twice at {at}"
        assert set(shown) == expected, f"at {at}"
    assert list(found) == sorted(found, key=lambda v: (v.interval.start, v.group.root_start))
    pieces = {(v.chunk, v.group, v.interval.start) for v in found}
    assert not any((v.chunk, v.group, v.interval.end) in pieces for v in found), "cut in two"
    seen = timeline.visible_segments(asked)
    assert set(seen) == {s for v in found for s in v.segments}
    assert len(seen) == len(set(seen))
    assert set(timeline.visible_chunks(asked)) == {v.chunk for v in found}


@examples(60)
@given(st.randoms(use_true_random=False))
def test_states_follow_the_words(draw: random.Random) -> None:
    """Each group has the state that rule 4 gives it, core sets included."""
    pool = [s for key in some_chunks(draw) for s in segments(legal_family(draw, 2, 2), key)]
    for timeline, present in walk(draw, pool, steps=4, largest=12):
        naive = Instants(present)
        for key, held in naive.chunks.items():
            assert timeline.complete(key) == naive.complete(key)
            for group in all_groups(held):
                assert timeline.state(key, group) is naive.state(key, group), f"{key} {group}"


@pytest.mark.parametrize("seed", range(2))
def test_thousands_of_segments_in_any_batches_equal_a_fresh_build(seed: int) -> None:
    """One by one, by hundreds or all at once: equal timelines, also where blocks split."""
    draw = random.Random(seed)
    family = legal_family(draw, 1500, 400)
    pool = segments(family)
    for timeline, present in walk(draw, pool, steps=5, largest=1500):
        draw.shuffle(present)
        assert timeline == Timeline.empty().with_changes(add=present)
        one_by_one = Timeline.empty()
        for one in present:
            one_by_one = one_by_one.with_changes(add=[one])
        assert one_by_one == timeline
        assert [g.key for g in timeline.visible_groups(CHUNK)] == sorted(druid_swept(present))
        for one in present:
            one_by_one = one_by_one.with_changes(remove=[one.id])
        assert one_by_one == Timeline.empty()


def druid_swept(present: list[Segment]) -> set[object]:
    """Return what ``druid`` would, root by root: the highest full group over it."""
    highest: dict[int, object] = {}
    for key in sorted(full_groups(present), key=lambda k: k.minor_version):
        highest |= dict.fromkeys(range(key.root_start, key.root_end), key)
    return set(highest.values())


def test_a_change_shares_what_it_does_not_touch() -> None:
    """Old timelines stay as they were; other chunks are the very same objects in the new one."""
    other = ChunkKey(Interval(200, 300), 7)
    before = Timeline.empty().with_changes(add=segments(firsts(300)) + segments(firsts(2), other))
    (late,) = segments((Made(0, 300, 1, 1),))
    after = before.with_changes(add=[late])
    assert len(before.visible_groups(CHUNK)) == 300
    assert len(after.visible_groups(CHUNK)) == 1
    assert before._chunk(other) is after._chunk(other)


def test_states_have_the_names_of_the_proposal() -> None:
    """The three states print as Druid names them."""
    assert [str(state) for state in GroupState] == ["standby", "visible", "overshadowed"]

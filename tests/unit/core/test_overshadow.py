"""The overshadowing timeline by example: the stories of the Druid proposal, and of versions."""

import re
from dataclasses import replace
from itertools import permutations

import pytest

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput
from airflow_provider_segtable.core.segment import ChunkKey, GroupKey, Segment, Shard
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import GroupState, Timeline
from tests.support.builders import BASE, CHUNK, JANUARY, first, merged

LATER = 32768
THIRD = Interval.parse("2013-01-03/2013-01-04")


def group(start: int, end: int, minor: int, size: int, *, partition: int = LATER) -> list[Segment]:
    """Return the segments of a compacted group, numbered from ``partition``."""
    return [
        replace(
            first(0),
            id=CHUNK.segment(number),
            shard=Shard(
                partition=number,
                root_start=start,
                root_end=end,
                minor_version=minor,
                group_size=size,
            ),
            path=f"data/{number}",
        )
        for number in range(partition, partition + size)
    ]


def timeline(*segments: Segment) -> Timeline:
    return Timeline.empty().with_changes(add=segments)


def visible(of: Timeline, chunk: ChunkKey = CHUNK) -> list[tuple[int, int, int]]:
    """Return the visible groups of a chunk as (root start, root end, minor version)."""
    keys = (g.key for g in of.visible_groups(chunk))
    return [(key.root_start, key.root_end, key.minor_version) for key in keys]


def test_the_example_of_the_proposal() -> None:
    """1, 2, 3; then 4 of 2 and 3, beside 5; then 6 and 7 of 4 and 5, beside 8: 1, 6, 7, 8 show."""
    one, two, three, five, eight = map(first, range(5))
    four = group(1, 3, 1, 1)
    six_seven = group(1, 4, 2, 2, partition=LATER + 1)
    table = timeline(one, two, three, *four, five, *six_seven, eight)
    assert table.visible_segments() == (one, *six_seven, eight)


def test_an_incomplete_group_shows_nothing_of_itself() -> None:
    """Half of [0, 2) leaves 0 and 1 visible; the other half swaps both at once."""
    half, other = group(0, 2, 1, 2)
    before = timeline(first(0), first(1), half)
    assert visible(before) == [(0, 1, 0), (1, 2, 0)]
    assert before.state(CHUNK, GroupKey(0, 2, 1)) is GroupState.STANDBY
    after = before.with_changes(add=[other])
    assert visible(after) == [(0, 2, 1)]
    assert after.state(CHUNK, GroupKey(1, 2, 0)) is GroupState.OVERSHADOWED


def test_falls_back_through_nested_generations() -> None:
    """Losing a segment of [0, 3) shows [0, 2) of the generation below and 2 of the first.

    Druid's class leaves this range empty: its overshadowed groups are not adjacent but nested.
    """
    outer = group(0, 3, 2, 2, partition=LATER + 1)
    table = timeline(*map(first, range(3)), *group(0, 2, 1, 1), *outer)
    assert visible(table) == [(0, 3, 2)]
    lost = table.with_changes(remove=[outer[0].id])
    assert visible(lost) == [(0, 2, 1), (2, 3, 0)]
    assert lost.state(CHUNK, GroupKey(0, 3, 2)) is GroupState.STANDBY
    assert lost.with_changes(add=[outer[0]]) == table


def test_the_last_generation_may_stand_alone() -> None:
    """When the inputs are cleaned away, what was made of them still shows."""
    inputs = [first(0), first(1)]
    table = timeline(*inputs, *group(0, 2, 1, 1)).with_changes(remove=[s.id for s in inputs])
    assert visible(table) == [(0, 2, 1)]
    assert table.state(CHUNK, GroupKey(0, 2, 1)) is GroupState.VISIBLE
    assert len(table) == 1
    assert list(table.segments()) == group(0, 2, 1, 1)


def test_a_change_leaves_the_timeline_before_it_as_it_was() -> None:
    """Readers of an earlier version go on finding what it has, and nothing that came later."""
    (old,), (new,) = group(0, 2, 1, 1), group(0, 2, 2, 1, partition=LATER + 1)
    before = timeline(first(0), first(1), old)
    before.with_changes(add=[new], remove=[old.id])
    assert before.get(old.id) == old
    assert new.id not in before
    assert list(before.segments()) == [first(0), first(1), old]


def test_nothing_is_left_of_a_generation_that_is_gone() -> None:
    """What came and went is not remembered, not even as an empty layer."""
    plain = timeline(first(0), first(1))
    passed = plain.with_changes(add=group(0, 2, 1, 1)).with_changes(remove=[CHUNK.segment(LATER)])
    assert passed == plain
    assert passed.summary(CHUNK).minor_version == 0


@pytest.mark.parametrize(
    ("ranges", "shown", "without_the_first"),
    [
        pytest.param(
            ((4, 6, 3), (3, 5, 2), (2, 4, 1)),
            [(2, 4, 1), (4, 6, 3)],
            [(2, 3, 0), (3, 5, 2), (5, 6, 0)],
            id="a chain to the left",
        ),
        pytest.param(
            ((2, 4, 3), (3, 5, 2), (4, 6, 1)),
            [(2, 4, 3), (4, 6, 1)],
            [(2, 3, 0), (3, 5, 2), (5, 6, 0)],
            id="a chain to the right",
        ),
        pytest.param(
            ((3, 5, 2), (2, 4, 1), (4, 6, 1)),
            [(2, 3, 0), (3, 5, 2), (5, 6, 0)],
            [(2, 4, 1), (4, 6, 1)],
            id="one above two",
        ),
        pytest.param(
            ((2, 6, 2), (2, 4, 1), (3, 6, 1)),
            [(2, 6, 2)],
            [(2, 3, 0), (3, 6, 1)],
            id="of equal minor versions the wider",
        ),
        pytest.param(
            ((3, 6, 1), (2, 5, 1), (5, 6, 1)),
            [(2, 5, 1), (5, 6, 1)],
            [(2, 5, 1), (5, 6, 1)],
            id="of equal widths the lower",
        ),
    ],
)
def test_ranges_that_cross_have_one_answer_in_any_order(
    ranges: tuple[tuple[int, int, int], ...],
    shown: list[tuple[int, int, int]],
    without_the_first: list[tuple[int, int, int]],
) -> None:
    """No compaction makes them, but rule 2 holds, whatever came first; neighbours stay."""
    made = [group(*each, 1, partition=LATER + n)[0] for n, each in enumerate(ranges)]
    around = [(0, 1, 0), (1, 2, 0)], [(6, 7, 0), (7, 8, 0)]
    for order in permutations(made):
        table = timeline(*map(first, range(8)))
        for one in order:
            table = table.with_changes(add=[one])
        assert visible(table) == [*around[0], *shown, *around[1]]
        assert table == timeline(*map(first, range(8)), *made)
        table = table.with_changes(remove=[made[0].id])
        assert visible(table) == [*around[0], *without_the_first, *around[1]]


def test_finds_every_present_segment_by_id() -> None:
    """Visible or not, of any generation, and only while it is present."""
    segments = [first(0), first(1), *group(0, 2, 1, 2)]
    table = timeline(*segments)
    assert [table.get(s.id) for s in segments] == segments
    assert list(table.segments()) == segments
    assert len(table) == len(segments)
    gone = table.with_changes(remove=[segments[2].id])
    assert segments[2].id not in gone
    assert segments[3].id in gone
    assert CHUNK.segment(7) not in table


def test_repeating_a_change_changes_nothing() -> None:
    """Adding what is there and removing what is not give the very same timeline."""
    table = timeline(first(0), *group(0, 2, 1, 2))
    assert table.with_changes(add=[first(0)]) is table
    assert table.with_changes(remove=[CHUNK.segment(5), CHUNK.segment(LATER + 9)]) is table


def test_a_segment_may_be_replaced_in_one_change() -> None:
    """Removed and added under one id at once: the new descriptor holds."""
    moved = replace(first(0), path="data/moved")
    table = timeline(first(0)).with_changes(add=[moved], remove=[moved.id])
    assert table.visible_segments() == (moved,)
    (merged_before,) = group(0, 2, 1, 1)
    (merged_after,) = group(0, 3, 1, 1)
    table = timeline(merged_before).with_changes(add=[merged_after], remove=[merged_after.id])
    assert visible(table) == [(0, 3, 1)]


def test_two_segments_of_one_id_are_refused() -> None:
    """The message names the id and both files."""
    other = replace(first(0), path="data/other")
    with pytest.raises(CorruptTable, match=r"two different segments.*data/other"):
        timeline(first(0)).with_changes(add=[other])
    with pytest.raises(CorruptTable, match="two different segments"):
        timeline(*group(0, 2, 1, 1)).with_changes(add=group(0, 3, 1, 1))


def test_a_group_that_contradicts_itself_is_refused() -> None:
    """Members disagree on the size, or there are more than the size says."""
    sizes = ".*".join(re.escape(f"{CHUNK.segment(LATER + n)}': {n // 2 + 2}") for n in range(4))
    with pytest.raises(CorruptTable, match=f"group sizes.*{sizes}"):
        timeline(*group(0, 2, 1, 2), *group(0, 2, 1, 3, partition=LATER + 2))
    with pytest.raises(CorruptTable, match="made of 2 segments"):
        timeline(*group(0, 2, 1, 1), *group(0, 2, 1, 1, partition=LATER + 1))


def test_minor_versions_count_groups_that_are_not_full() -> None:
    """Whoever compacts next must go above anything that may still become full."""
    table = timeline(first(0), first(1), first(2), *group(0, 2, 4, 2)[:1])
    assert table.max_minor(CHUNK, 1, 3) == 4
    assert table.max_minor(CHUNK, 2, 3) == 0
    assert table.max_minor(CHUNK, 3, 9) == 0
    assert table.max_minor(ChunkKey(JANUARY, BASE + 1), 0, 3) == 0


def test_a_higher_version_hides_a_lower_one_and_only_where_they_meet() -> None:
    """A day at a new version splits the month in two; each piece is clipped."""
    newer = ChunkKey(THIRD, BASE + 1)
    month, day = first(0), first(0, chunk=newer)
    found = timeline(month, day).lookup()
    assert [(str(v.interval), v.segments) for v in found] == [
        ("2013-01-01T00:00:00Z/2013-01-03T00:00:00Z", (month,)),
        ("2013-01-03T00:00:00Z/2013-01-04T00:00:00Z", (day,)),
        ("2013-01-04T00:00:00Z/2013-02-01T00:00:00Z", (month,)),
    ]
    table = timeline(month, day)
    assert table.visible_segments() == (month, day)
    assert table.visible_chunks() == (CHUNK, newer)
    assert table.lookup(THIRD) == found[1:2]


def test_an_incomplete_higher_version_hides_nothing() -> None:
    """Half a group of the new version waits in STANDBY; readers and appenders stay on the old."""
    newer = ChunkKey(JANUARY, BASE + 1)
    half, other = (replace(s, id=newer.segment(s.id.partition)) for s in group(0, 2, 1, 2))
    table = timeline(first(0), first(0, chunk=newer), half)
    assert table.visible_chunks() == (CHUNK,)
    assert not table.complete(newer)
    assert table.state(newer, GroupKey(0, 1, 0)) is GroupState.STANDBY
    whole = table.with_changes(add=[other])
    assert whole.visible_chunks() == (newer,)
    assert whole.state(CHUNK, GroupKey(0, 1, 0)) is GroupState.OVERSHADOWED


@pytest.mark.parametrize("lost", range(3))
def test_a_core_set_counts_as_a_whole(lost: int) -> None:
    """A version without any one segment of its core set hides nothing, also without the first."""
    newer = ChunkKey(JANUARY, BASE + 1)
    core = [
        replace(first(n, chunk=newer), shard=Shard.first_generation(n, core=3)) for n in range(3)
    ]
    later = replace(first(3, chunk=newer), shard=Shard.first_generation(3, core=3))
    table = timeline(first(0), *core, later)
    assert table.visible_chunks() == (newer,)
    torn = table.with_changes(remove=[core[lost].id])
    assert not torn.complete(newer)
    assert torn.visible_segments() == (first(0),)


def test_of_incomplete_versions_the_highest_that_shows_anything_wins() -> None:
    """With nothing whole to fall back to, readers see the newest there is."""
    newer, newest = ChunkKey(JANUARY, BASE + 1), ChunkKey(JANUARY, BASE + 2)
    low = [first(5), *group(0, 2, 1, 2)[:1]]
    mid = [replace(s, id=newer.segment(s.id.partition)) for s in low]
    high = [replace(s, id=newest.segment(s.id.partition)) for s in low[1:]]
    table = timeline(*low, *mid, *high)
    assert table.visible_segments() == (mid[0],)
    assert table.with_changes(remove=[mid[0].id]).visible_segments() == (low[0],)


def test_an_unknown_interval_has_nothing() -> None:
    """No chunk, no version, no groups; asking for a state is the caller's mistake."""
    table = timeline(first(0))
    elsewhere = ChunkKey(Interval.parse("2014-01-01/2014-02-01"), BASE)
    assert table.visible_groups(elsewhere) == table.groups(elsewhere) == ()
    assert table.lookup(elsewhere.interval) == ()
    assert not table.complete(elsewhere)
    with pytest.raises(InvalidInput, match="has no GroupKey"):
        table.state(CHUNK, GroupKey(0, 9, 3))


def test_lists_all_groups_and_chunks() -> None:
    """Everything present is listed, sorted by key, whatever is visible."""
    later = first(0, chunk=ChunkKey(Interval.parse("2013-02-01/2013-03-01"), BASE))
    table = timeline(later, first(1), first(0), merged(LATER, [first(0), first(1)]))
    assert [g.key for g in table.groups(CHUNK)] == [
        GroupKey(0, 1, 0),
        GroupKey(0, 2, 1),
        GroupKey(1, 2, 0),
    ]
    assert table.chunk_keys() == (CHUNK, later.id.chunk)
    assert table.chunk_keys(JANUARY) == (CHUNK,)
    assert list(table.segments(later.id.interval)) == [later]


def test_many_nested_generations_need_no_recursion() -> None:
    """Thousands of generations one over the other, then without the uppermost."""
    deep = [*group(0, 2, 1, 1)]
    for minor in range(2, 3000):
        deep += group(0, minor + 1, minor, 1, partition=LATER + minor)
    table = timeline(*map(first, range(3000)), *deep)
    assert visible(table) == [(0, 3000, 2999)]
    assert visible(table.with_changes(remove=[deep[-1].id])) == [(0, 2999, 2998), (2999, 3000, 0)]

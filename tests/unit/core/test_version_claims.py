"""Which segments a version says that it replaces, and whether they are there."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.recovery.claims import (
    Deletes,
    agreed,
    attempts,
    begins,
    claims,
    covered,
    granularity_of,
    inside,
    names_of,
    whole_chunks,
)
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    GroupKey,
    Roots,
    Segment,
    Shard,
    tombstone,
)
from airflow_provider_segtable.core.time import (
    Granularity,
    GranularityOverride,
    Interval,
    Layout,
    united,
)
from tests.support.builders import BASE, CHUNK, JANUARY, first, merged

NEW = ChunkKey(JANUARY, BASE + 5)
FEBRUARY = ChunkKey(Interval.parse("2013-02-01/2013-03-01"), BASE)
WEEK = Interval.parse("2013-01-28/2013-02-04")


def core(partition: int, *replaces: Roots, of: int = 1, chunk: ChunkKey = NEW) -> Segment:
    """Return a segment of a core set."""
    shard = Shard.first_generation(partition, core=of)
    return replace(first(partition, chunk=chunk), shard=shard, replaces=replaces)


def spans(chunk: ChunkKey, *ranges: tuple[int, int]) -> Roots:
    return Roots(chunk=chunk, spans=ranges)


def test_only_lower_versions_are_named() -> None:
    """What several segments replace is put together; a version never replaces its own roots."""
    one = core(0, spans(CHUNK, (0, 2)), spans(FEBRUARY, (0, 1)), spans(NEW, (7, 8)), of=2)
    two = core(1, spans(CHUNK, (3, 4)), of=2)
    assert names_of([one, two]) == {CHUNK: [(0, 2), (3, 4)], FEBRUARY: [(0, 1)]}


def test_a_segment_is_claimed_if_all_its_roots_are() -> None:
    """A part of its roots is not enough, nor are equal numbers in another chunk."""
    pair = merged(40_000, [first(1), first(2)])
    assert claims({CHUNK: [(1, 3)]}, pair)
    assert claims({CHUNK: [(7, 8), (0, 4)]}, pair)
    for ranges in ([(0, 2)], [(2, 4)], [(1, 2), (2, 3)]):
        assert not claims({CHUNK: ranges}, pair)
    assert not claims({FEBRUARY: [(1, 3)]}, pair)


def test_a_carried_segment_is_claimed_by_the_id_in_its_file() -> None:
    """That id may be of any generation; the partition after it is another one's."""
    carried = merged(40_000, [first(1), first(2)]).carried(NEW.segment(5), 1)
    assert claims({CHUNK: [(40_000, 40_001)]}, carried)
    assert claims({NEW: [(5, 6)]}, carried)
    for names in ({CHUNK: [(39_999, 40_000)]}, {CHUNK: [(40_001, 40_002)]}, {CHUNK: [(5, 6)]}):
        assert not claims(names, carried)


def test_what_is_replaced_is_covered_by_roots_or_by_files() -> None:
    """In every chunk that is named, and without a hole."""
    pair = merged(40_000, [first(0), first(1)])
    carried = merged(40_001, [first(5), first(6)]).carried(NEW.segment(5), 1)
    assert covered({CHUNK: [(0, 3), (40_001, 40_002)]}, [pair, first(2), carried])
    assert covered({CHUNK: [(0, 2)], FEBRUARY: [(0, 1)]}, [pair, first(0, chunk=FEBRUARY)])
    assert not covered({CHUNK: [(0, 2)], FEBRUARY: [(0, 1)]}, [pair])
    assert not covered({FEBRUARY: [(0, 1)], CHUNK: [(0, 2)]}, [pair])
    assert not covered({CHUNK: [(0, 3)]}, [pair, carried])
    assert not covered({CHUNK: [(0, 2), (3, 4)]}, [pair, first(2)])
    assert not covered({CHUNK: [(5, 7)]}, [carried])
    assert covered({}, [])


def test_spans_cover_a_range_together() -> None:
    """In any order, overlapping, and beyond its ends; but not with a hole."""
    assert inside(2, 6, [(4, 9), (0, 3), (3, 5)])
    assert inside(2, 6, [(2, 6)])
    assert inside(2, 6, [(0, 9), (1, 3)])
    assert not inside(2, 6, [(3, 6)])
    assert not inside(2, 6, [(2, 5)])
    assert not inside(2, 6, [(2, 4), (5, 6)])
    assert not inside(2, 6, [])


def test_overlapping_intervals_are_joined() -> None:
    """Those that only touch stay apart; one inside another adds nothing."""
    given = [Interval(5, 9), Interval(0, 4), Interval(1, 2), Interval(3, 5), Interval(12, 13)]
    assert united(given) == [Interval(0, 5), Interval(5, 9), Interval(12, 13)]
    assert united([]) == []


def test_the_preferred_granularity_is_tried_first() -> None:
    """A chunk of another granularity is known too; other intervals are of none."""
    day = Granularity.DAY.chunk(JANUARY.start)
    assert granularity_of(JANUARY, Granularity.MONTH) is Granularity.MONTH
    assert granularity_of(day, Granularity.MONTH) is Granularity.DAY
    assert granularity_of(Interval(day.start, day.end + 1), Granularity.DAY) is None


def test_no_chunk_is_split_by_a_closed_region() -> None:
    """Chunks of the layout and of the new granularity are whole, however far that leads."""
    weeks = Layout(granularity=Granularity.WEEK)
    plain = Layout(granularity=Granularity.DAY)
    hour = Granularity.HOUR.chunk(JANUARY.start)
    assert whole_chunks(hour, Granularity.DAY, plain) == Granularity.DAY.chunk(JANUARY.start)
    assert whole_chunks(hour, Granularity.HOUR, plain) == Granularity.DAY.chunk(JANUARY.start)
    mixed = Layout(
        granularity=Granularity.DAY,
        overrides=(GranularityOverride(WEEK, Granularity.WEEK),),
    )
    assert whole_chunks(JANUARY, Granularity.DAY, mixed) == Interval(JANUARY.start, WEEK.end)
    both = Interval(JANUARY.start, FEBRUARY.interval.end)
    assert whole_chunks(JANUARY, Granularity.MONTH, mixed) == both
    assert whole_chunks(FEBRUARY.interval, Granularity.MONTH, mixed) == both
    december = Granularity.WEEK.chunk(JANUARY.start)
    assert whole_chunks(JANUARY, Granularity.DAY, weeks) == Interval(december.start, WEEK.end)


def test_the_segments_of_a_version_agree_on_its_core_set() -> None:
    """An append's footer does not record it; compacted segments are left as they are."""
    start, appended = core(0), first(1, chunk=NEW)
    joined = merged(40_000, [start, appended])
    assert joined.shard.core == 0
    assert agreed(NEW, [start, appended, joined], frozenset()) == [
        start,
        appended.carried(appended.id, 1),
        joined,
    ]
    assert agreed(CHUNK, [first(0), first(1)], frozenset()) == [first(0), first(1)]
    assert agreed(CHUNK, [], frozenset()) == []


def test_a_core_set_of_one_without_its_file_is_a_tombstone() -> None:
    """Unless its segment is known to be gone, or something stands for its root."""
    later = core(1)
    assert agreed(NEW, [later], frozenset()) == [later, tombstone(NEW, NEW.version)]
    assert agreed(NEW, [later], frozenset([NEW.segment(0)])) == [later]
    assert agreed(NEW, [later], frozenset([NEW.segment(1)]))[1:] == [tombstone(NEW, NEW.version)]
    over = merged(40_000, [core(0), later])
    assert agreed(NEW, [later, over], frozenset()) == [later, over]
    two = core(2, of=2)
    assert agreed(NEW, [two], frozenset()) == [two]


@pytest.mark.parametrize(
    ("partition", "of", "expected"), [(0, 1, True), (1, 2, True), (2, 2, False)]
)
def test_a_core_set_has_the_first_partitions(partition: int, of: int, *, expected: bool) -> None:
    """Later ones were appended to the version."""
    assert begins(core(partition, of=of)) is expected


def test_counts_may_be_less_by_what_was_deleted() -> None:
    """By the deleted rows of roots that the segments may hold, and of no others."""
    deletes = Deletes({first(0).id: 3, first(1).id: 4, first(9).id: 100})
    segments = [first(0), first(1)]
    assert deletes.alike(20, [20, 13], iter(segments))
    assert not deletes.alike(20, [20, 12], segments)
    assert not deletes.alike(20, [21, 20], segments)
    assert deletes.alike(20, [17], segments[:1])
    assert not deletes.alike(20, [16], segments[:1])


def test_where_predicates_delete_any_number_may_be_gone() -> None:
    """But no rows may come into being."""
    deletes = Deletes({}, unknown=True)
    assert deletes.alike(20, [20, 0], [first(0)])
    assert not deletes.alike(20, [21], [first(0)])
    assert not Deletes({}).alike(20, [19], [first(0)])


def test_segments_of_a_group_are_told_apart_by_attempt() -> None:
    """By when the attempt began and how many segments it made; the oldest first."""
    inputs = [first(0), first(1)]
    late, early, two = (
        replace(merged(40_000 + n, inputs), created=BASE + at) for n, at in enumerate((9, 2, 9))
    )
    two = replace(two, shard=replace(two.shard, group_size=2))
    other = replace(late, id=NEW.segment(1), shard=Shard.first_generation(1))
    assert attempts([late, early, two, other, late]) == {
        GroupKey(0, 2, 1): [[early], [late, late], [two]],
        GroupKey(1, 2, 0): [[other]],
    }

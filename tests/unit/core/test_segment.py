"""Segments: ids, shards that obey the numbering, descriptors that do not contradict themselves."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import CorruptTable, LimitReached, SegtableError
from airflow_provider_segtable.core.segment import (
    NARROW,
    WIDE,
    ChunkKey,
    GroupKey,
    Numbering,
    Roots,
    Run,
    SegmentId,
    Shard,
    concatenated,
    root_span,
    roots_of,
)
from airflow_provider_segtable.core.time import MAX_INSTANT, MIN_INSTANT, Interval
from tests.support.builders import CHUNK, first, merged

instants = st.integers(MIN_INSTANT, MAX_INSTANT)
chunks = st.builds(
    lambda ends, version, bucket: ChunkKey(Interval(*sorted(ends)), version, bucket),
    st.sets(instants, min_size=2, max_size=2),
    st.integers(-(10**15), 10**16),
    st.integers(-1, 5000),
)
ranges = st.tuples(st.integers(0, 9), st.integers(1, 5)).map(lambda r: (r[0], r[0] + r[1]))
groups = st.builds(lambda r, minor: GroupKey(*r, minor), ranges, st.integers(0, 3))


def shard(**changes: int) -> Shard:
    """Return a shard of a later generation, with some fields changed."""
    fields = {"partition": 32768, "root_start": 0, "root_end": 3, "minor_version": 1}
    return Shard(**{**fields, "group_size": 2, **changes})


@given(chunks, st.integers(0, 65535))
def test_ids_come_back_from_their_texts(chunk: ChunkKey, partition: int) -> None:
    """Segment ids and chunk keys survive being written and parsed."""
    segment_id = chunk.segment(partition)
    assert SegmentId.parse(str(segment_id)) == segment_id
    assert ChunkKey.parse(str(chunk)) == chunk
    assert segment_id.chunk == chunk


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "20130101T000000_20130201T000000_1",
        "a_b_1_2",
        "20130101T000000_20130201T000000_1_c3_4",
        "20130101T000000_20130201T000000_1_b3_4_5",
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    """An id has four parts, five with a bucket, and each must parse."""
    with pytest.raises(SegtableError):
        SegmentId.parse(text)


def run(root: int, start: int, rows: int) -> Run:
    """Return a run of rows of a root of ``CHUNK``."""
    return Run(CHUNK.segment(root), start, rows)


def test_ids_sort_by_time_then_version_then_partition() -> None:
    """Listing by id is listing by time."""
    later = ChunkKey(Interval.parse("2013-02-01/2013-03-01"), CHUNK.version - 5)
    newer = ChunkKey(CHUNK.interval, CHUNK.version + 1)
    ids = [later.segment(0), newer.segment(0), CHUNK.segment(1), CHUNK.segment(0)]
    assert sorted(ids) == ids[::-1]


def test_first_generation_shards_stand_for_themselves() -> None:
    """Partition p is [p, p+1) at minor version 0, alone in its group."""
    assert Shard.first_generation(7).group == GroupKey(7, 8, 0)
    assert Shard.first_generation(32767).root_end == 32768


@pytest.mark.parametrize(
    "changes",
    [
        {"partition": 5},
        {"partition": 65536},
        {"partition": -1},
        {"root_start": -1},
        {"root_end": 0},
        {"root_end": 32769},
        {"minor_version": 0},
        {"group_size": 0},
    ],
)
def test_shards_that_break_the_numbering_are_refused(changes: dict[str, int]) -> None:
    """First and later generations have separate ids, ranges within the roots, sizes of one up."""
    with pytest.raises(CorruptTable, match="numbering"):
        shard(**changes).check(NARROW)


@pytest.mark.parametrize("numbering", [NARROW, WIDE])
def test_a_first_generation_id_beyond_the_limit_is_refused(numbering: Numbering) -> None:
    """The next id is a later generation's: appends stop, they do not wrap."""
    Shard.first_generation(numbering.first.stop - 1).check(numbering)
    with pytest.raises(CorruptTable):
        Shard.first_generation(numbering.first.stop).check(numbering)


@pytest.mark.parametrize("numbering", [NARROW, WIDE])
def test_minor_versions_stop_at_their_limit(numbering: Numbering) -> None:
    """The last one is legal, the next is refused with the way out."""
    most, partition = numbering.minor_versions, numbering.later.start
    shard(partition=partition, minor_version=most).check(numbering)
    with pytest.raises(LimitReached, match="major compaction"):
        shard(partition=partition, minor_version=most + 1).check(numbering)


def test_a_file_group_has_ids_for_years() -> None:
    """A billion of each generation; a provisional id is neither, and keeps its own root."""
    assert len(WIDE.first) >= 2**30
    assert len(WIDE.later) >= 2**30 - 1
    Shard.first_generation(WIDE.provisional.start).check(WIDE)
    with pytest.raises(CorruptTable):
        Shard.first_generation(WIDE.provisional.start).check(NARROW)


@given(groups, groups, groups)
def test_overshadowing_is_a_strict_order_within_overlap(
    a: GroupKey, b: GroupKey, c: GroupKey
) -> None:
    """Never both ways, transitive, and only where ranges overlap."""
    assert not (a.overshadows(b) and b.overshadows(a))
    assert not a.overshadows(b) or a.overlaps(b)
    assert not (a.overshadows(b) and b.overshadows(c)) or a.overshadows(c)
    assert a.overlaps(b) == b.overlaps(a)


def test_overshadowing_needs_the_whole_range_and_a_higher_minor_version() -> None:
    """Enclosing is not enough, nor is being newer."""
    outer = GroupKey(0, 3, 2)
    assert outer.overshadows(GroupKey(0, 3, 1))
    assert outer.overshadows(GroupKey(2, 3, 0))
    assert not outer.overshadows(GroupKey(0, 3, 2))
    assert not outer.overshadows(GroupKey(2, 4, 0))
    assert not outer.overlaps(GroupKey(3, 4, 0))


def test_a_descriptor_may_not_contradict_itself() -> None:
    """Its id and shard name one partition, its lineage adds up to its rows."""
    segment = first(3, rows=10)
    with pytest.raises(CorruptTable, match="carries shard 4"):
        replace(segment, shard=Shard.first_generation(4))
    with pytest.raises(CorruptTable, match="does not add up"):
        replace(segment, lineage=(run(3, 0, 9),))
    with pytest.raises(CorruptTable, match="lineage and hidden columns"):
        replace(segment, lineage=segment.runs, roots=roots_of([segment]))


def test_lineage_of_a_first_generation_is_itself() -> None:
    """Its rows came from nowhere else."""
    assert first(3, rows=10).runs == (run(3, 0, 10),)


def test_concatenation_joins_runs_that_continue_each_other() -> None:
    """Compacting halves of a segment gives its one run back; strangers stay apart."""
    whole = first(3, rows=10)
    halves = [
        replace(whole, rows=4, lineage=(run(3, 0, 4),)),
        replace(whole, rows=6, lineage=(run(3, 4, 6),)),
    ]
    assert concatenated(halves) == (run(3, 0, 10),)
    assert concatenated(reversed(halves)) == (run(3, 4, 6), run(3, 0, 4))
    assert concatenated([first(0, rows=2), first(1, rows=3)]) == (
        run(0, 0, 2),
        run(1, 0, 3),
    )
    assert concatenated([]) == ()


def test_lineage_survives_chains_of_compactions() -> None:
    """What a merge of merges is made of is still first-generation rows, in order."""
    a, b, c = (first(p, rows=p + 1) for p in range(3))
    twice = merged(32769, [merged(32768, [a, b]), c])
    assert twice.runs == (
        run(0, 0, 1),
        run(1, 0, 2),
        run(2, 0, 3),
    )
    assert root_span([a, twice, c]) == (0, 3)


def test_what_is_carried_over_keeps_its_rows_addresses() -> None:
    """Another id, another version, another partition: the file's first name stays the root."""
    newer = ChunkKey(CHUNK.interval, CHUNK.version + 1)
    moved = first(3, rows=10).carried(newer.segment(7), core=5)
    assert moved.runs == (run(3, 0, 10),)
    both = merged(32768, [moved, first(8, rows=1, chunk=newer)])
    assert both.runs == (run(3, 0, 10), Run(newer.segment(8), 0, 1))
    assert roots_of([both]) == (
        Roots(chunk=CHUNK, spans=((3, 4),)),
        Roots(chunk=newer, spans=((8, 9),)),
    )


def test_a_segment_with_hidden_columns_is_known_by_its_roots_alone() -> None:
    """It may hold rows of these, whatever its own id is, and hands them on."""
    sorted_out = replace(first(0, rows=9), roots=roots_of([first(4), first(5), first(7)]))
    assert sorted_out.runs == ()
    assert [p for p in range(9) if sorted_out.may_hold(CHUNK.segment(p))] == [4, 5, 7]
    assert concatenated([sorted_out, first(1)]) == ()
    assert roots_of([sorted_out, first(6)]) == (Roots(chunk=CHUNK, spans=((4, 8),)),)

"""Which version wins at which instant, by example: rules 2 to 4 of the timeline."""

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_segtable.core.chunk import Chunk, ChunkSummary
from airflow_provider_segtable.core.segment import ChunkKey, GroupKey, Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import GroupState, PackedChunk, Timeline
from tests.support.builders import first, merged

ROOT = GroupKey(0, 1, 0)


def at(start: int, end: int, version: int = 1) -> ChunkKey:
    """Return a chunk of a few microseconds."""
    return ChunkKey(Interval(start, end), version)


def shown(*chunks: ChunkKey, more: tuple[Segment, ...] = ()) -> Timeline:
    """Return a timeline with one appended segment in each chunk, and more segments."""
    return Timeline.empty().with_changes(add=[*(first(0, chunk=key) for key in chunks), *more])


def half(chunk: ChunkKey) -> Segment:
    """Return one of the two segments of a compacted group: alone, it is not visible."""
    whole = merged(40_000, [first(0, chunk=chunk), first(1, chunk=chunk)])
    return replace(whole, shard=replace(whole.shard, group_size=2))


def pieces(table: Timeline, asked: Interval | None = None) -> list[tuple[int, int, ChunkKey]]:
    """Return what is visible as (start, end, chunk)."""
    return [(v.interval.start, v.interval.end, v.chunk) for v in table.lookup(asked)]


def test_every_piece_names_its_chunk_and_its_group() -> None:
    """A reader finds the version and the generation of what it reads."""
    (piece,) = shown(at(0, 9)).lookup()
    assert (piece.chunk, piece.group) == (at(0, 9), ROOT)


def test_two_narrow_chunks_cut_a_wide_one_three_times() -> None:
    """What overlaps a wide chunk is found to the wide chunk's end, and after it goes on."""
    wide, one, two, next_to_it, last = at(0, 9), at(1, 2, 2), at(5, 6, 2), at(9, 12), at(20, 21)
    table = shown(wide, one, two, next_to_it, last)
    assert pieces(table) == [
        (0, 1, wide),
        (1, 2, one),
        (2, 5, wide),
        (5, 6, two),
        (6, 9, wide),
        (9, 12, next_to_it),
        (20, 21, last),
    ]


def test_a_hidden_chunk_cuts_nothing() -> None:
    """The winner's piece goes on where chunks of lower versions begin and end; also clipped."""
    wide, old, after = at(0, 9, 2), at(3, 5), at(8, 11)
    table = shown(wide, old, after)
    assert pieces(table) == [(0, 9, wide), (9, 11, after)]
    assert pieces(table, Interval(2, 10)) == [(2, 9, wide), (9, 10, after)]
    assert pieces(table, Interval(4, 5)) == [(4, 5, wide)]


def test_a_lone_chunk_is_clipped_to_what_was_asked() -> None:
    """A lookup in a part of a chunk returns this part."""
    assert pieces(shown(at(0, 9)), Interval(2, 4)) == [(2, 4, at(0, 9))]


def test_chunks_on_both_sides_of_a_gap_are_found() -> None:
    """A chunk without a visible group connects others, but shows nothing between them."""
    empty, left, right = at(0, 9, 3), at(1, 2), at(5, 6)
    table = shown(left, right, more=(half(empty),))
    assert table.visible_chunks() == (left, right)
    assert shown(more=(half(empty),)).visible_chunks() == ()


def test_of_equal_versions_the_later_then_the_shorter_interval_wins() -> None:
    """Segments appended inside a tombstone are visible."""
    wide, later, shorter = at(0, 9), at(3, 9), at(0, 2)
    assert pieces(shown(wide, later, shorter)) == [
        (0, 2, shorter),
        (2, 3, wide),
        (3, 9, later),
    ]


def test_a_group_under_a_wider_chunk_is_overshadowed() -> None:
    """Its whole interval counts, not that of the winner; a part of it is not enough."""
    day = at(3, 4)
    assert shown(day, at(0, 9, 2)).state(day, ROOT) is GroupState.OVERSHADOWED
    lower = at(0, 4)
    torn = shown(at(2, 4, 2), more=(half(lower),))
    assert torn.state(lower, GroupKey(0, 2, 1)) is GroupState.STANDBY


def test_equal_versions_overshadow_too() -> None:
    """Chunks of one version that win at every instant of another leave nothing of it."""
    wide = at(0, 4)
    assert shown(wide, at(0, 2), at(2, 4)).state(wide, ROOT) is GroupState.OVERSHADOWED


def test_answers_about_a_chunk_that_is_not_there() -> None:
    """An absent chunk is not complete, has no core set and nothing to count."""
    table, absent = shown(at(0, 9)), at(9, 18)
    assert table.complete(at(0, 9))
    assert not table.complete(absent)
    assert table.core(absent) == 0
    assert table.summary(absent) == ChunkSummary(count=0)
    assert table.get(absent.segment(0)) is None


class Decoded:
    """Packed chunks that note which are asked for their summary, and how often one is decoded."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = chunks
        self.asked: set[int] = set()
        self.times = 0

    def summary(self, number: int) -> ChunkSummary:
        """Return the summary of a chunk."""
        self.asked.add(number)
        return self.chunks[number].summary

    def chunk(self, number: int) -> Chunk:
        """Return the decoded chunk."""
        self.times += 1
        return self.chunks[number]

    def paths(self, number: int) -> Iterator[str]:
        """Return the paths of a chunk's files."""
        return self.chunks[number].paths()


def test_summaries_of_packed_chunks_are_known_without_decoding() -> None:
    """How many segments there are, and which are counted, is read from the summaries."""
    table = shown(at(0, 9), at(9, 18), more=(first(1, rows=7, chunk=at(9, 18)),))
    source = Decoded(*(chunk.unpacked for chunk in table.chunks()))
    packed = Timeline.of_packed(
        [PackedChunk(chunk.key, source, number) for number, chunk in enumerate(source.chunks)], 3
    )
    assert len(packed) == 3
    assert packed.summary(at(9, 18)) == table.summary(at(9, 18))
    assert packed.summary(at(9, 18)).rows == 17
    assert packed.visible_chunks() == (at(0, 9), at(9, 18))
    source.asked.clear()
    assert packed.visible_chunks(Interval(10, 11)) == (at(9, 18),)
    assert source.asked == {1}
    assert [*packed.paths()] == [*table.paths()]
    assert source.times == 0
    assert packed == table

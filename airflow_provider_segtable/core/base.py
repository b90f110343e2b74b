"""Bases: which segments of a chunk hold its rows merged, because one compaction wrote them all.

1. A *base* is made of all rows that a chunk had in its first roots, ``[0, base)``. A primary-key
   table's has one record of a key (and tombstones), as all of its compactions merge by key. A
   rollup table's has one row of a group: only a major compaction rolls up so. An append table's is
   the output of a major compaction.
2. Segments record it (``Shard.base``): it follows from their writer, not from their ids or
   generation. It is decided anew when a segment gets another id: carried over beside others it is
   in no base; a restore keeps a whole base.
3. A base counts only as a whole: visible segments of it cover all its roots. If a file was lost, or
   a part was compacted with other segments, the chunk has none, until a compaction makes one.
4. Descriptors of an older segtable lack the attribute. Outputs of compactions are recognized
   by their numbers (``implied``); restored segments, and compactions inside a base, by an event and
   the state before it (``base_restored``, ``base_after``).

    [0 1 2] 3 4   base 3, two segments beside it     ->  semi-major, keyed:  [0..5)  base 5
                                                         restored:           [0 1 2] 3 4  base 3
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey, Segment, SegmentId, Shard


class HasSegments(Protocol):
    """A group of segments of a chunk."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segments, by partition."""
        ...


Grouped = TypeVar("Grouped", bound=HasSegments)


def base_of(visible: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return the segments of a chunk's base, given all visible ones by root; empty without one."""
    found: list[Segment] = []
    end = at = 0
    for segment in visible:
        shard = segment.shard
        end = shard.base if not found else end
        if shard.base != end or shard.root_start > at:
            break
        found.append(segment)
        at = max(at, shard.root_end)
    return tuple(found) if 0 < end <= at else ()


def base_groups(visible: Iterable[Grouped]) -> tuple[Grouped, ...]:
    """Return the groups of a chunk's base, given all visible ones by root; empty without one."""
    groups = tuple(visible)
    inside = {s.id for s in base_of(s for group in groups for s in group.segments)}
    return tuple(group for group in groups if group.segments[0].id in inside)


def beside_base(visible: Iterable[HasSegments]) -> tuple[Segment, ...]:
    """Return the segments with rows beside a chunk's base, given all visible groups by root."""
    segments = [segment for group in visible for segment in group.segments]
    inside = {segment.id for segment in base_of(segments)}
    return tuple(s for s in segments if s.rows and s.id not in inside)


def base_after(inputs: Sequence[Segment], chunk: ChunkKey, roots: tuple[int, int]) -> int:
    """Return the base of the outputs of a compaction inside one version.

    Args:
        inputs: the segments.
        chunk: their chunk.
        roots: the roots that its outputs stand for.
    """
    inside = {segment.shard.base for segment in inputs}
    if len(inside) == 1 and max(inside) >= roots[1]:
        return max(inside)
    begins = roots[0] == chunk.numbering.first.start
    return roots[1] if begins and chunk.bucket != NO_BUCKET else 0


def torn_base(inputs: Collection[SegmentId], base: Sequence[Segment]) -> str:
    """Return the segments of a base that a compaction with other inputs leaves, as text.

    It is empty if the compaction takes the whole base, nothing of it, or nothing else.
    """
    ids = [segment.id for segment in base]
    left = [segment_id for segment_id in ids if segment_id not in inputs]
    taken = len(ids) - len(left)
    filed = ids and ids[0].bucket != NO_BUCKET
    return ", ".join(map(str, left)) if filed and 0 < taken < len(inputs) else ""


def base_restored(restored: Sequence[Segment], present: Iterable[Segment]) -> int:
    """Return how many of a chunk's restored segments are its base, if the event does not say so.

    Args:
        restored: the segments in order, with the ids in their files as origins.
        present: the segments of the chunk that they may have been in.
    """
    known = {segment.file_id: segment for segment in present}
    then = [known[i] for i in (each.file_id for each in restored) if i in known]
    return len(base_of(then)) if len(then) == len(restored) else 0


def implied(shard: Shard, segment_id: SegmentId, *, carried: bool) -> Shard:
    """Return the shard of an older segtable's descriptor with its base, as the numbers imply.

    Args:
        shard: the shard.
        segment_id: the segment's id.
        carried: whether it has another id than its file, so that a core set may be a restored one.
    """
    first = segment_id.chunk.numbering.first.start
    if not shard.minor_version:
        own = shard.partition < shard.core and not carried
        return replace(shard, base=shard.core) if own else shard
    if segment_id.bucket == NO_BUCKET or shard.root_start != first:
        return shard
    return replace(shard, base=max(shard.root_end, shard.core))


def with_base_of(one: Segment, other: Segment) -> Segment:
    """Return a descriptor with the base of another one of the same segment.

    It is unchanged if they differ although neither is by an older segtable, whose bases follow from
    the numbers.
    """
    if all(each.shard.base not in (0, _by_numbers(each)) for each in (one, other)):
        return one
    return replace(one, shard=replace(one.shard, base=other.shard.base))


def _by_numbers(segment: Segment) -> int:
    bare = replace(segment.shard, base=0)
    return implied(bare, segment.id, carried=segment.origin is not None).base

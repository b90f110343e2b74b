"""Claims: which segments a version replaces, and whether they exist."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.segments.segment import (
    ChunkKey,
    GroupKey,
    Segment,
    SegmentId,
    tombstone,
)
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Granularity, Instant, Interval
from airflow_provider_segtable.core.time.layout import Layout, aligned

Names = Mapping[ChunkKey, Sequence[tuple[int, int]]]
"""Root ranges by chunk, and single partitions of carried-over segments."""


def names_of(segments: Iterable[Segment]) -> Names:
    """Return the root ranges of lower versions that the segments replace."""
    found: dict[ChunkKey, list[tuple[int, int]]] = {}
    for segment in segments:
        for each in segment.replaces:
            if each.chunk.version < segment.id.version:
                found.setdefault(each.chunk, []).extend(each.spans)
    return found


def claims(names: Names, segment: Segment) -> bool:
    """Return whether a segment is replaced, by its roots or by the id in its file."""
    shard, own = segment.shard, segment.file_id
    spans, origin = names.get(segment.id.chunk, ()), names.get(own.chunk, ())
    return any(a <= shard.root_start and shard.root_end <= b for a, b in spans) or any(
        a <= own.partition < b for a, b in origin
    )


def covered(names: Names, segments: Sequence[Segment]) -> bool:
    """Return whether the segments cover everything that is replaced."""
    for chunk, spans in names.items():
        here = [s for s in segments if chunk in (s.id.chunk, s.file_id.chunk)]
        roots = [(s.shard.root_start, s.shard.root_end) for s in here if s.id.chunk == chunk]
        roots += [(s.file_id.partition, s.file_id.partition + 1) for s in here]
        if not all(inside(start, end, roots) for start, end in spans):
            return False
    return True


def inside(start: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether the spans together cover ``[start, end)``."""
    for first, last in sorted(spans):
        if first <= start < last:
            start = last
    return start >= end


def united(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the intervals, sorted, overlapping ones joined."""
    found: list[Interval] = []
    for one in sorted(intervals):
        if found and one.start < found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def granularity_of(interval: Interval, preferred: Granularity) -> Granularity | None:
    """Return a granularity that has this chunk, if possible the preferred one; None if none has."""
    kinds = (kind for kind in (preferred, *Granularity) if kind.chunk(interval.start) == interval)
    return next(kinds, None)


def whole_chunks(piece: Interval, kind: Granularity, layout: Layout) -> Interval:
    """Return the smallest interval around a piece that splits no chunk, old or new."""
    before: Interval | None = None
    while piece != before:
        before = piece
        new = aligned(piece, kind)
        first, last = layout.chunk(new.start), layout.chunk(new.end - 1)
        piece = Interval(min(first.start, new.start), max(last.end, new.end))
    return piece


def agreed(
    chunk: ChunkKey, segments: Sequence[Segment], gone: frozenset[SegmentId]
) -> list[Segment]:
    """Return a chunk's segments with one core set size, as in the log.

    The footer of an append does not record it. If the core set is a single segment without a
    file, a tombstone is added: either it was one, or its file is lost.
    """
    core = max((segment.shard.core for segment in segments), default=0)
    agreed = [
        s if s.shard.minor_version or s.shard.core == core else s.carried(s.id, core)
        for s in segments
    ]
    if (
        core == 1
        and chunk.segment(0) not in gone
        and all(segment.shard.root_start for segment in segments)
    ):
        agreed.append(tombstone(chunk, chunk.version))
    return agreed


def begins(segment: Segment) -> bool:
    """Return whether a segment belongs to the core set of its version."""
    return segment.id.partition < segment.shard.core


@dataclass(frozen=True, slots=True)
class Deletes:
    """The number of deleted rows by root: an upper bound, as compaction may have applied fewer.

    ``unknown`` is set for rollup tables, where predicates delete and the number is not known.
    """

    rows: Mapping[SegmentId, int]
    unknown: bool = False

    def alike(self, whole: int, made: Iterable[int], segments: Iterable[Segment]) -> bool:
        """Return whether every count in ``made`` may be the ``whole`` rows less deleted ones."""
        segments = tuple(segments)
        gone = sum(
            rows for root, rows in self.rows.items() if any(s.may_hold(root) for s in segments)
        )
        return all(count <= whole and (self.unknown or whole <= count + gone) for count in made)


def in_balance(
    timeline: Timeline, own: Sequence[Segment], below: Sequence[Segment], deletes: Deletes
) -> bool:
    """Return whether core sets have as many events as what they replace, apart from deleted ones.

    Args:
        timeline: holds the core sets.
        own: the segments of the core sets, and of compactions inside them.
        below: what they replace.
        deletes: the number of deleted rows by root.
    """
    cores = {s.id.chunk: timeline.core(s.id.chunk) for s in own}
    groups = {chunk: [*timeline.groups(chunk)] for chunk in cores}
    inner = ((s.shard, cores[c]) for c in cores for g in groups[c] for s in g.segments)
    crossing = any(shard.root_start < core < shard.root_end for shard, core in inner)
    first = sum(s.events for s in own if not s.shard.minor_version)
    shown = sum(
        s.events
        for chunk, core in cores.items()
        for group in timeline.visible_groups(chunk)
        if group.end <= core
        for s in group.segments
    )
    whole = sum(s.events for s in below)
    return crossing or any(deletes.alike(whole, [one], below) for one in (first, shown))


def also_in(
    segment: Segment, missing: Iterable[ChunkKey], version: Instant, *, torn: bool
) -> Instant | None:
    """Return the version that may also have a segment's rows: one between it and ``version``.

    Args:
        segment: a segment that the version does not name.
        missing: chunks that the version names, and whose files are not all there.
        version: a standing version.
        torn: whether files of this version are lost.
    """
    between = (
        chunk.version
        for chunk in missing
        if chunk.interval.overlaps(segment.id.interval) and chunk.version > segment.id.version
    )
    return next(between, version if torn else None)


def remains(
    bare: Sequence[Segment], alive: Sequence[Segment]
) -> Iterator[tuple[list[Segment], list[Segment]]]:
    """Yield the inputs of each torn group, and what is left of its last attempt if that is more.

    Args:
        bare: the files that are left of torn groups of a chunk.
        alive: the visible segments of the chunk.
    """
    for key in {s.shard.group for s in bare}:
        tries = [s for s in bare if s.shard.group == key]
        newest = [s for s in tries if s.created == max(t.created for t in tries)]
        below = [
            s
            for s in alive
            if key.root_start <= s.shard.root_start and s.shard.root_end <= key.root_end
        ]
        if sum(s.events for s in newest) > sum(s.events for s in below):
            yield below, newest


def by_name(segments: Iterable[Segment]) -> tuple[frozenset[Segment], list[Segment]]:
    """Return the segments with ids, and those with provisional ones, as old as they are."""
    given = frozenset(segments)
    named = frozenset(segment for segment in given if not segment.id.provisional)
    return named, sorted(given - named, key=lambda s: (s.created, s.id))


def attempts(members: Iterable[Segment]) -> dict[GroupKey, list[list[Segment]]]:
    """Return the segments of each group by attempt, the oldest attempt first."""
    found: dict[GroupKey, dict[tuple[Instant, int], list[Segment]]] = {}
    for one in members:
        attempt = (one.created, one.shard.group_size)
        found.setdefault(one.shard.group, {}).setdefault(attempt, []).append(one)
    return {key: [tries[which] for which in sorted(tries)] for key, tries in found.items()}

"""The timeline: all present segments of a table, and the visible ones among them.

1. Inside a chunk, one (interval, version), groups overshadow groups; see
   ``core.chunk``.
2. Between versions: at each instant, the *complete* chunk of the highest version wins. If no chunk
   is complete, the highest version with a visible group wins. So an incomplete higher version
   hides nothing. Among equal versions, the later, then shorter interval wins, so segments
   appended inside a tombstone are visible.
3. ``lookup`` returns, for every instant, the winner's visible groups, clipped to where it wins.
4. A group is VISIBLE iff ``lookup`` returns it for some instant. Otherwise it is OVERSHADOWED iff
   a visible group of its chunk with a higher minor version overlaps it, or other chunks of equal
   or higher version win at every instant of its interval. Otherwise it is STANDBY: segments of
   the group, or other groups of its chunk, are missing.
5. In a primary-key table all this holds for each *bucket* by itself: a chunk is a file group, and
   file groups of different buckets hide nothing of each other.
6. All this is a function of the segments present, not of the order in which they were added and
   removed. A timeline is immutable: a changed one shares all untouched chunks.
7. Chunks may be *packed*: their summaries decide which chunk wins, and a chunk is decoded only when
   its segments are needed. A decoded ``Chunk`` and a ``PackedChunk`` answer alike the questions of
   the timeline, admission and the planner (``AnyChunk``).
8. A ``PackedChunk`` is a position in a ``ChunkSource``. Questions that its summary cannot answer
   decode the chunk. The source decides how many decoded chunks stay in memory.
9. Druid's three restrictions decide which groups of a chunk may be compacted together. They keep a
   compacted segment's ancestry one contiguous root range:

   a. First-generation segments are adjacent if their partition ids are consecutive; ids that were
      *voided* are skipped, so a writer that gave up does not separate its neighbours for ever.
   b. Groups of later generations are adjacent if their root ranges are consecutive.
   c. All segments of a group (made from the same roots) are compacted together.
10. In a primary-key table a *slice* has the visible files of a bucket: its base, and the log files
    above it. The *base* (``core.segment``) has all that completed before its end, merged. A bucket
    has one at most. All other visible files are *log files*; log compaction makes one of several.
11. Files are sorted by key, and the files of a base, or of an update group, follow each other: they
    are one *sorted run*.
12. Reading base files alone (``base_only``) merges nothing. It shows each bucket as it was when its
    base compaction was planned: older than the newest version, and not at one time in all buckets.

Source of the idea: Apache Druid's VersionedIntervalTimeline and OvershadowableManager. The latter
depends on the order of arrival and can lose data when generations are nested; this one cannot.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import Protocol

from airflow_provider_segtable.core.chunk import Chunk, ChunkSummary, Group
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segment import (
    NO_BUCKET,
    ChunkKey,
    GroupKey,
    Segment,
    SegmentId,
    base_groups,
    base_of,
    beside_base,
)
from airflow_provider_segtable.core.spans import AnyBlock, IntervalIndex
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, joined, united


# Chunks that are decoded on demand
class AnyChunk(Protocol):
    """A time chunk at one version; only ``unpacked`` and ``segments`` decode it."""

    @property
    def key(self) -> ChunkKey:
        """Return the chunk's interval and version."""

    @property
    def start(self) -> Instant:
        """Return the first instant."""

    @property
    def end(self) -> Instant:
        """Return the first instant after the chunk."""

    @property
    def summary(self) -> ChunkSummary:
        """Return the summary of the chunk."""

    @property
    def count(self) -> int:
        """Return the number of present segments."""

    @property
    def shows_any(self) -> bool:
        """Return whether any group of the chunk is visible, other versions aside."""

    @property
    def complete(self) -> bool:
        """Return whether the chunk is complete (``core.chunk``, rule 5)."""

    @property
    def core(self) -> int:
        """Return the size of the core set of the chunk's version."""

    @property
    def unpacked(self) -> Chunk:
        """Return the decoded chunk."""

    def segments(self) -> Iterator[Segment]:
        """Yield all segments by partition."""

    def paths(self) -> Iterator[str]:
        """Yield the paths of the files of all segments."""


class ChunkSource(Protocol):
    """Packed chunks by number; equal numbers give equal answers."""

    def summary(self, at: int) -> ChunkSummary:
        """Return the summary of a chunk."""

    def chunk(self, at: int) -> Chunk:
        """Return the decoded chunk."""

    def paths(self, at: int) -> Iterable[str]:
        """Return the paths of the files of a chunk's segments."""

    def alike(self, at: int, other: "ChunkSource", other_at: int) -> bool:
        """Return whether a chunk equals another source's, as far as can be seen undecoded."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedChunk:
    """A chunk of the timeline that is decoded on demand; see the module."""

    key: ChunkKey
    source: ChunkSource
    at: int

    def __eq__(self, other: object) -> bool:
        """Return whether the decoded chunks are equal."""
        if isinstance(other, PackedChunk):
            same = (self.source, self.at, self.key) == (other.source, other.at, other.key)
            if same or self.source.alike(self.at, other.source, other.at):
                return True
        return isinstance(other, PackedChunk | Chunk) and self.unpacked == other.unpacked

    __hash__ = None  # type: ignore[assignment]

    @property
    def start(self) -> Instant:
        """Return the first instant."""
        return self.key.interval.start

    @property
    def end(self) -> Instant:
        """Return the first instant after the chunk."""
        return self.key.interval.end

    @property
    def summary(self) -> ChunkSummary:
        """Return the chunk's summary, which was stored when the chunk was packed."""
        return self.source.summary(self.at)

    @property
    def count(self) -> int:
        """Return the number of present segments."""
        return self.summary.count

    @property
    def shows_any(self) -> bool:
        """Return whether any group of the chunk is visible, other versions aside."""
        return self.summary.visible > 0

    @property
    def complete(self) -> bool:
        """Return whether the chunk is complete (``core.chunk``, rule 5)."""
        return self.summary.complete

    @property
    def core(self) -> int:
        """Return the size of the core set of the chunk's version."""
        return self.summary.core

    @property
    def unpacked(self) -> Chunk:
        """Return the decoded chunk."""
        return self.source.chunk(self.at)

    def segments(self) -> Iterator[Segment]:
        """Yield all segments by partition."""
        return self.unpacked.segments()

    def paths(self) -> Iterator[str]:
        """Yield the paths of the files of all segments, without decoding them."""
        return iter(self.source.paths(self.at))


__all__ = ["Group", "GroupState", "Timeline", "Visible"]


# The timeline
class GroupState(StrEnum):
    """The state of an atomic update group; rule 4."""

    STANDBY = "standby"
    VISIBLE = "visible"
    OVERSHADOWED = "overshadowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """A visible group, and the part of its chunk's interval in which it is visible."""

    interval: Interval
    chunk: ChunkKey
    group: GroupKey
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """An immutable timeline; see the module."""

    _chunks: IntervalIndex[AnyChunk] = field(default_factory=IntervalIndex)
    _count: int = 0
    _shown: list[Mapping[ChunkKey, ChunkSummary]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )

    @staticmethod
    def empty() -> "Timeline":
        """Return the timeline of a table without segments."""
        return Timeline()

    @staticmethod
    def of_packed(chunks: Iterable[PackedChunk], count: int) -> "Timeline":
        """Return the timeline of packed chunks; ``count`` is their total number of segments."""
        return Timeline(IntervalIndex.of(chunks), count)

    @staticmethod
    def of_blocks(blocks: Iterable[AnyBlock[AnyChunk]], count: int) -> "Timeline":
        """Return the timeline of blocks of chunks, by key; ``count`` is as for ``of_packed``."""
        return Timeline(IntervalIndex(tuple(blocks)), count)

    def __len__(self) -> int:
        """Return the number of present segments, visible or not."""
        return self._count

    def __contains__(self, segment_id: object) -> bool:
        """Return whether the segment is present, visible or not."""
        return isinstance(segment_id, SegmentId) and self.get(segment_id) is not None

    def with_changes(
        self, *, add: Iterable[Segment] = (), remove: Iterable[SegmentId] = ()
    ) -> "Timeline":
        """Return the timeline with segments removed, then segments added.

        Removing an absent segment or adding a present one has no effect.

        Raises:
            CorruptTable: if two segments have one id, or a group's segments disagree on its size.
        """
        changes: dict[ChunkKey, tuple[list[Segment], list[int]]] = {}
        for segment_id in remove:
            changes.setdefault(segment_id.chunk, ([], []))[1].append(segment_id.partition)
        for segment in add:
            changes.setdefault(segment.id.chunk, ([], []))[0].append(segment)
        chunks, count = self._chunks, self._count
        for key, (added, removed) in changes.items():
            before = self._chunk(key) or Chunk(key=key)
            after = before.with_changes(added, removed)
            if after is not before:
                chunks = chunks.put(after) if after.count else chunks.drop(key)
                count += after.count - before.count
        return self if chunks is self._chunks else Timeline(chunks, count)

    def get(self, segment_id: SegmentId) -> Segment | None:
        """Return a present segment, or None."""
        chunk = self._chunk(segment_id.chunk)
        return chunk.get(segment_id.partition) if chunk else None

    def segments(self, interval: Interval | None = None) -> Iterator[Segment]:
        """Yield the present segments whose chunk overlaps the interval, by id."""
        return (segment for chunk in self.chunks(interval) for segment in chunk.segments())

    def paths(self) -> Iterator[str]:
        """Yield the paths of the files of all present segments, without decoding segments."""
        return (path for chunk in self.chunks() for path in chunk.paths())

    def chunk_keys(self, interval: Interval | None = None) -> tuple[ChunkKey, ...]:
        """Return the keys of chunks with present segments, sorted."""
        return tuple(chunk.key for chunk in self.chunks(interval))

    def chunks(self, interval: Interval | None = None) -> Iterator[AnyChunk]:
        """Yield the chunks with present segments, sorted, without decoding them."""
        if interval is None:
            return iter(self._chunks)
        return self._chunks.overlapping(interval.start, interval.end)

    def blocks(self, interval: Interval = ALL_TIME) -> Sequence[AnyBlock[AnyChunk]]:
        """Return the chunks in blocks, by key, that may overlap the interval; none is loaded."""
        return self._chunks.blocks_over(interval.start, interval.end)

    def chunk(self, key: ChunkKey) -> AnyChunk | None:
        """Return a chunk with present segments, without decoding it; or None."""
        return self._chunks.find(key)

    def summary(self, chunk: ChunkKey) -> ChunkSummary:
        """Return the summary of a chunk, without decoding it."""
        found = self._chunks.find(chunk)
        return found.summary if found else ChunkSummary(count=0)

    def groups(self, chunk: ChunkKey) -> tuple[Group, ...]:
        """Return all groups of a chunk, full or not, sorted by key."""
        found = self._chunk(chunk)
        return tuple(sorted(found.groups(), key=lambda g: g.key)) if found else ()

    def visible_groups(self, chunk: ChunkKey) -> tuple[Group, ...]:
        """Return the visible groups of one chunk, by root, regardless of other versions."""
        found = self._chunk(chunk)
        return tuple(found.visible) if found else ()

    def base(self, chunk: ChunkKey) -> tuple[Segment, ...]:
        """Return the segments of a chunk's base (``core.segment``); empty without one."""
        return base_of(s for group in self.visible_groups(chunk) for s in group.segments)

    def beside_base(self, chunk: ChunkKey) -> tuple[Segment, ...]:
        """Return the visible segments of a chunk with rows that are not in its base."""
        return beside_base(self.visible_groups(chunk))

    def complete(self, chunk: ChunkKey) -> bool:
        """Return whether the chunk is complete (``core.chunk``, rule 5)."""
        return (found := self._chunks.find(chunk)) is not None and found.complete

    def core(self, chunk: ChunkKey) -> int:
        """Return the size of the core set of a chunk's version; 0 if it has none."""
        found = self._chunks.find(chunk)
        return found.core if found else 0

    def max_minor(self, chunk: ChunkKey, root_start: int, root_end: int) -> int:
        """Return the highest minor version among groups over these roots, full or not, or 0."""
        found = self._chunk(chunk)
        return found.max_minor(root_start, root_end) if found else 0

    def lookup(self, interval: Interval | None = None) -> tuple[Visible, ...]:
        """Return the visible groups of an interval, by interval start and then by root."""
        return tuple(_shown(self.winning(interval)))

    def lookup_near(self, intervals: Iterable[Interval]) -> tuple[Visible, ...]:
        """Return ``lookup`` of the chunks that overlap any of the intervals; decode only these."""
        near = self._near(intervals)
        return tuple(_shown((piece, c) for piece, c in self.winning(None) if c.key in near))

    def visible_segments(self, interval: Interval | None = None) -> tuple[Segment, ...]:
        """Return the segments of ``lookup``, each once."""
        return tuple(self.each_visible(interval))

    def each_visible(self, interval: Interval | None = None) -> Iterator[Segment]:
        """Yield ``visible_segments``, decoding one chunk at a time."""
        chunks = {chunk.key: chunk for _, chunk in self.winning(interval)}
        groups = (group for chunk in chunks.values() for group in chunk.unpacked.visible)
        return (segment for group in groups for segment in group.segments)

    def hidden_segments(self, interval: Interval | None = None) -> Iterator[Segment]:
        """Yield the present segments that are not visible, by id; decode only their chunks."""
        visible = self.visible_summaries(interval)
        for chunk in self.chunks(interval):
            summary = visible.get(chunk.key)
            if summary is None or summary.hidden:
                found = chunk.unpacked
                shown = {s.id for g in found.visible for s in g.segments} if summary else set()
                yield from (segment for segment in found.segments() if segment.id not in shown)

    def visible_near(self, intervals: Iterable[Interval]) -> Iterator[Segment]:
        """Yield the visible segments of chunks that overlap any of the intervals; decode these."""
        return self.visible_among(self._near(intervals))

    def visible_among(self, chunks: Collection[ChunkKey]) -> Iterator[Segment]:
        """Yield the visible segments of some chunks; decode only these."""
        near = (self.visible_chunks(region) for region in united({c.interval for c in chunks}))
        for chunk in (each for some in near for each in some if each in chunks):
            yield from (s for group in self.visible_groups(chunk) for s in group.segments)

    def visible_chunks(self, interval: Interval | None = None) -> tuple[ChunkKey, ...]:
        """Return the chunks of ``lookup``, each once, by the first instant at which they win."""
        return tuple({chunk.key: None for _, chunk in self.winning(interval)})

    def visible_summaries(
        self, interval: Interval | None = None
    ) -> Mapping[ChunkKey, ChunkSummary]:
        """Return the summaries of ``visible_chunks``, in the same order, without decoding any.

        Those of the whole table are computed once.
        """
        if not self._shown:
            if interval is not None:
                return {chunk.key: chunk.summary for _, chunk in self.winning(interval)}
            self._shown[:] = [{chunk.key: chunk.summary for _, chunk in self.winning(None)}]
        known = self._shown[0]
        return known if interval is None else {c: known[c] for c in self.visible_chunks(interval)}

    def state(self, chunk: ChunkKey, group: GroupKey) -> GroupState:
        """Return the state of a group (rule 4).

        Raises:
            InvalidInput: if no segment of the group is present.
        """
        (found,) = self.states(chunk, (group,))
        return found

    def states(self, chunk: ChunkKey, groups: Iterable[GroupKey]) -> Iterator[GroupState]:
        """Yield the states of groups of one chunk, in their order; errors as ``state``."""
        found = self._chunk(chunk)
        winning = [
            (piece, winner.key)
            for piece, winner in self.winning(chunk.interval)
            if winner.key.bucket == chunk.bucket
        ]
        wins = any(winner == chunk for _, winner in winning)
        beaten = found is not None and _beaten(found, winning)
        for group in groups:
            if found is None or found.group(group) is None:
                raise InvalidInput(f"chunk {chunk} has no {group}: ask groups() for those it has")
            if wins and found.shows(group):
                yield GroupState.VISIBLE
            elif beaten or found.hides(group):
                yield GroupState.OVERSHADOWED
            else:
                yield GroupState.STANDBY

    def chunk_states(
        self, interval: Interval | None = None
    ) -> Iterator[list[tuple[AnyChunk, GroupState]]]:
        """Yield the chunks with their states, without decoding any; chunks that overlap together.

        A chunk that wins somewhere is VISIBLE, although it may have hidden groups. Otherwise it is
        OVERSHADOWED if others win at every instant of it, or else STANDBY.
        """
        wide = None if interval is None else self.closed(interval)
        for together in _connected(self.chunks(wide)):
            if len(together) == 1:  # as most are
                alone = GroupState.VISIBLE if together[0].shows_any else GroupState.STANDBY
                yield [(together[0], alone)]
                continue
            yield [each for rivals in _by_bucket(together) for each in _with_states(rivals)]

    @property
    def span(self) -> Interval | None:
        """Return the smallest interval with all chunks; None without any."""
        return self._chunks.span and Interval(*self._chunks.span)

    def winning(self, interval: Interval | None) -> Iterator[tuple[Interval, AnyChunk]]:
        """Yield the chunks that win, each with a piece of time in which it does."""
        for together in _connected(self.chunks(interval)):
            alone = len(together) == 1
            for rivals in (together,) if alone else _by_bucket(together):
                if len(rivals) > 1:
                    yield from _winners(rivals, interval)
                    continue
                (only,) = rivals
                piece = only.key.interval if interval is None else only.key.interval.clip(interval)
                if piece and only.shows_any:
                    yield piece, only

    def changed(self, before: "Timeline") -> tuple[Interval, ...]:
        """Return the intervals of the chunks that differ from an earlier timeline's, joined."""
        return joined({chunk.interval for chunk in self.changed_chunks(before)})

    def changed_chunks(self, before: "Timeline") -> set[ChunkKey]:
        """Return the chunks that differ from an earlier timeline's, or are only in one of both."""
        return {chunk.key for chunk in self._chunks.changed(before._chunks)}  # noqa: SLF001

    def closed(self, interval: Interval) -> Interval:
        """Return the interval widened until no chunk lies across its ends."""
        wide, before = interval, None
        while wide != before:
            before = wide
            for chunk in self.chunks(wide):
                wide = Interval(min(wide.start, chunk.start), max(wide.end, chunk.end))
        return wide

    def _near(self, intervals: Iterable[Interval]) -> set[ChunkKey]:
        return {chunk for each in set(intervals) for chunk in self.visible_chunks(each)}

    def _chunk(self, key: ChunkKey) -> Chunk | None:
        found = self._chunks.find(key)
        return found.unpacked if found else None


def _shown(winning: Iterable[tuple[Interval, AnyChunk]]) -> Iterator[Visible]:
    """Yield the visible groups of chunks where they win."""
    for piece, chunk in winning:
        for group in chunk.unpacked.visible:
            yield Visible(interval=piece, chunk=chunk.key, group=group.key, segments=group.segments)


def _connected(chunks: Iterable[AnyChunk]) -> Iterator[list[AnyChunk]]:
    """Yield runs of overlapping chunks; ``chunks`` are sorted by start."""
    together: list[AnyChunk] = []
    end = 0
    for chunk in chunks:
        interval = chunk.key.interval
        if together and interval.start < end:
            together.append(chunk)
            end = max(end, interval.end)
            continue
        if together:
            yield together
        together, end = [chunk], interval.end
    if together:
        yield together


def _by_bucket(chunks: list[AnyChunk]) -> Iterable[list[AnyChunk]]:
    """Return the chunks of each bucket, in their order."""
    if chunks[0].key.bucket == NO_BUCKET:
        return (chunks,)
    buckets: dict[int, list[AnyChunk]] = {}
    for chunk in chunks:
        buckets.setdefault(chunk.key.bucket, []).append(chunk)
    return (buckets[bucket] for bucket in sorted(buckets))


def _with_states(rivals: list[AnyChunk]) -> Iterator[tuple[AnyChunk, GroupState]]:
    """Yield the chunks of a bucket that overlap, with their states."""
    winning = [(piece, chunk.key) for piece, chunk in _winners(rivals, None)]
    wins = {key for _, key in winning}
    ends = [piece.end for piece, _ in winning]
    for chunk in rivals:
        if chunk.key in wins:
            yield chunk, GroupState.VISIBLE
            continue
        over = winning[bisect_right(ends, chunk.start) :]
        beaten = _beaten(chunk, _clipped(over, chunk.key.interval))
        yield chunk, GroupState.OVERSHADOWED if beaten else GroupState.STANDBY


def _clipped(
    winning: Iterable[tuple[Interval, ChunkKey]], interval: Interval
) -> Iterator[tuple[Interval, ChunkKey]]:
    """Yield the pieces inside an interval; all end after its start, and they are in order."""
    for piece, key in winning:
        inside = piece.clip(interval)
        if inside is None:
            return
        yield inside, key


def _winners(
    chunks: Iterable[AnyChunk], within: Interval | None
) -> Iterator[tuple[Interval, AnyChunk]]:
    """Yield the winning chunks: sweep over time with a heap of begun chunks, the winner on top."""
    begin: list[tuple[Interval, AnyChunk]] = []
    for chunk in chunks:
        piece = chunk.key.interval.clip(within) if within else chunk.key.interval
        if piece and chunk.shows_any:
            begin.append((piece, chunk))
    begin.sort(key=lambda pair: pair[0].start, reverse=True)
    edges = sorted({edge for piece, _ in begin for edge in (piece.start, piece.end)})
    heap: list[tuple[tuple[bool, int, int, int], AnyChunk]] = []
    open_piece: tuple[Interval, AnyChunk] | None = None
    for start, end in pairwise(edges):
        while begin and begin[-1][0].start <= start:
            chunk = begin.pop()[1]
            heappush(heap, (_preference(chunk), chunk))
        while heap and heap[0][1].end <= start:
            heappop(heap)
        if not heap:
            continue
        winner = heap[0][1]
        if open_piece and open_piece[1] is winner and open_piece[0].end == start:
            open_piece = (Interval(open_piece[0].start, end), winner)
            continue
        if open_piece:
            yield open_piece
        open_piece = (Interval(start, end), winner)
    if open_piece:
        yield open_piece


def _preference(chunk: AnyChunk) -> tuple[bool, int, int, int]:
    return not chunk.complete, -chunk.key.version, -chunk.start, chunk.end


def _beaten(chunk: AnyChunk, winning: Iterable[tuple[Interval, ChunkKey]]) -> bool:
    """Return whether other chunks of equal or higher version win at every instant of the chunk."""
    at = chunk.start
    for piece, winner in winning:
        if piece.start != at or winner == chunk.key or winner.version < chunk.key.version:
            return False
        at = piece.end
    return at == chunk.end


# Adjacency: which groups may be compacted together
def adjacent(left_end: int, right_start: int, voided: Collection[int]) -> bool:
    """Return whether all partition ids between two root ranges are voided."""
    return all(partition in voided for partition in range(left_end, right_start))


def check_contiguous(
    plan_id: str,
    inputs: Collection[SegmentId],
    roots: tuple[int, int],
    groups: Sequence[Group],
    voided: Collection[int],
) -> None:
    """Refuse a plan that breaks a restriction.

    Args:
        plan_id: the plan, for the message.
        inputs: its input segments.
        roots: the first root that its outputs stand for, and the first after them.
        groups: the visible groups of its chunk, in root order.
        voided: the chunk's voided first-generation ids.

    Raises:
        InvalidInput: with the plan and the restriction that it breaks.
    """
    wanted = set(inputs)
    chosen = [g for g in groups if wanted & {s.id for s in g.segments}]
    whole = {segment.id for group in chosen for segment in group.segments}
    if whole != wanted:
        torn = sorted(map(str, whole ^ wanted))
        raise InvalidInput(f"plan {plan_id} takes groups apart or names strangers: {torn}")
    start, end = roots
    edges = [start, *(e for g in chosen for e in (g.key.root_start, g.key.root_end)), end]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    if not all(adjacent(left, right, voided) for left, right in gaps):
        raise InvalidInput(
            f"plan {plan_id} is not contiguous over [{start}, {end}): "
            f"its groups cover {[(g.key.root_start, g.key.root_end) for g in chosen]}"
        )


# Slices of primary-key tables
def sorted_run(segment: Segment) -> tuple[int, GroupKey | None]:
    """Return the number of a sorted run of a bucket, equal for its files alone."""
    base = segment.shard.base
    return base, None if base else segment.shard.group


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The visible files of a bucket.

    Attributes:
        chunk: the bucket.
        buckets: the number that its region has of its own; 0 if it has the table's.
        base_files: the number of base files.
        base_bytes: their size.
        log_files: the number of log files.
        log_bytes: their size.
        runs: how many sorted runs a read merges.
        torn: whether it has no base, although a compaction sorted some of its files: they were
            restored, or a part of the base was lost. Nothing is shown of it without merging.
    """

    chunk: ChunkKey
    buckets: int = 0
    base_files: int = 0
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    runs: int = 0
    torn: bool = False

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return self.base_bytes + self.log_bytes

    @property
    def log_share(self) -> float:
        """Return the share of log files in the bytes."""
        return self.log_bytes / max(1, self.size)


def slices(timeline: Timeline) -> Iterator[Slice]:
    """Yield the slice of each bucket with rows."""
    for chunk in timeline.visible_chunks():
        groups = timeline.visible_groups(chunk)
        if any(segment.rows for group in groups for segment in group.segments):
            yield _slice(chunk, groups)


def _slice(chunk: ChunkKey, groups: Sequence[Group]) -> Slice:
    files = [segment for group in groups for segment in group.segments if segment.path]
    logs = beside_base(groups)
    beside = {segment.id for segment in logs}
    base = [segment for segment in files if segment.id not in beside]
    return Slice(
        chunk=chunk,
        buckets=files[0].buckets,
        base_files=len(base),
        base_bytes=sum(segment.size for segment in base),
        log_files=len(logs),
        log_bytes=sum(segment.size for segment in logs),
        runs=len({sorted_run(segment) for segment in files}),
        torn=not base_groups(groups) and any(segment.clustering for segment in files),
    )

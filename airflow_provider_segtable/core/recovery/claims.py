"""Claims: which segments a version replaces, whether they exist, and the doubts that remain.

Recovery (``core.recovery.replay``) asks these questions of descriptors. Rules 1 to 4 are about
*divisions*: log files beside versions of other time chunks or other buckets, without the log.

1. The files of a version name its number of buckets, and its chunks their granularity. Where no
   version has rows, the newest log file has the number.
2. A log file *fits* a layout if its rows are in one place of it. One that does not fit a version
   completed before it, or was divided for it: the version has its records. Or it was never
   committed.
3. So a version is *proven* if the log names it, or a log file fits its layout, but not the one
   below. Without proof, it stands only if it has the records of every log file that does not fit;
   else the files below it have all rows, and it is left out.
4. A version has the records of the files that it names (``replaces``), and of the log files whose
   records are in these (``MergedRoots``).
5. The result of a recovery is the table's segments and the doubts (``Recovered``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.replacement import home
from airflow_provider_segtable.core.segment import ChunkKey, GroupKey, Segment, SegmentId, tombstone
from airflow_provider_segtable.core.time import (
    Granularity,
    GranularityOverride,
    Instant,
    Interval,
    Layout,
    aligned,
)
from airflow_provider_segtable.core.timeline import Timeline

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
    """Return whether core sets have as many events as the replaced segments, less deleted ones.

    Args:
        timeline: holds the core sets.
        own: the segments of the core sets, and of compactions inside them.
        below: the replaced segments.
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
    """Yield the inputs of each torn group, and the rest of its last attempt if that is more.

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
    """Return the segments with ids, and the ones with provisional ids by age."""
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


# Divisions: log files beside versions of other chunks or buckets
MergedRoots = Mapping[str, Collection[int]]
"""The provisional ids of the log files whose records are in a file, by its path."""


def layout_of(
    members: Mapping[ChunkKey, Sequence[Segment]], region: Sequence[Interval], layout: Layout
) -> Layout:
    """Return the layout after a version; pieces are widened so that no chunk is split.

    Args:
        members: the version's segments, by chunk.
        region: the time that it replaces, in pieces.
        layout: the layout below it.
    """
    for piece in region:
        filled = {
            chunk: [s for s in some if s.rows]
            for chunk, some in members.items()
            if chunk.interval.overlaps(piece) and any(s.rows for s in some)
        }
        kinds = {granularity_of(chunk.interval, layout.granularity) for chunk in filled} - {None}
        own = max((s.buckets for some in filled.values() for s in some), default=0)
        for kind in kinds:
            assert kind is not None  # noqa: S101 - for the type checker
            whole = whole_chunks(piece, kind, layout)
            layout = layout.recut(whole, kind, own or layout.buckets)
    return layout


def renumbered(layout: Layout, logs: Iterable[Segment], shown: Collection[Segment]) -> Layout:
    """Return the layout with the numbers of buckets that only log files have; rule 1.

    Args:
        layout: the layout by the versions.
        logs: log files, the oldest first.
        shown: the segments of versions.
    """
    for log in logs:
        interval = layout.holds(log.time_min, log.time_max)
        if interval and not any(s.rows and s.id.interval.overlaps(interval) for s in shown):
            layout = layout.recut(interval, None, log.buckets or layout.buckets)
    return layout


def fits(segment: Segment, layout: Layout) -> bool:
    """Return whether a segment's rows are in one place of a layout."""
    return not isinstance(home(segment, layout), Conflict)


def proven(own: Iterable[Segment], logs: Iterable[Segment], below: Layout, after: Layout) -> bool:
    """Return whether a version is proven; rule 3.

    Args:
        own: the version's segments; segments of a log have a completion time.
        logs: log files.
        below: the layout below the version.
        after: the layout of the version.
    """
    logged = any(segment.completed for segment in own)
    return logged or any(fits(log, after) and not fits(log, below) for log in logs)


def unfit_logs(segments: Iterable[Segment], layout: Layout) -> list[Segment]:
    """Return the log files that do not fit a layout."""
    return [s for s in segments if s.file_id.provisional and not fits(s, layout)]


def lacking(
    logs: Iterable[Segment], layout: Layout, names: Names, merged: Collection[int]
) -> tuple[Segment, ...]:
    """Return the log files that do not fit a layout, and may not be in its version; rules 3 and 4.

    Args:
        logs: log files.
        layout: the layout.
        names: the files that the version names.
        merged: the log files with records in the files that it names.
    """
    return tuple(
        log
        for log in unfit_logs(logs, layout)
        if not claims(names, log) and log.file_id.partition not in merged
    )


def bared(replaced: Iterable[Segment], shown: Collection[Segment]) -> frozenset[ChunkKey]:
    """Return the chunks of replaced segments that nothing shown hides.

    With fewer buckets than before, tombstones hid them, which are in the log alone.
    """
    places = {segment.id.chunk.place for segment in shown}
    chunks = {segment.id.chunk for segment in replaced if segment.id.chunk.place not in places}
    return frozenset(
        chunk
        for chunk in chunks
        if not any(
            place.bucket == chunk.bucket and place.interval.overlaps(chunk.interval)
            for place in places
        )
    )


# Results and doubts
class Reason(StrEnum):
    """The reason for a doubt."""

    SAME_ID = "same id"
    UNPROVEN = "may never have been committed"
    ROWS_LOST = "rows are lost"
    MAYBE_DOUBLED = "rows may be doubled"
    LAYOUT = "rows lie in two time chunks"
    MISSING = "ids without a file"
    VERSION = "version in doubt"
    DELETES = "deletes in doubt"
    INDEXES = "indexes are lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A question that descriptors cannot answer; a person must decide a blocking one."""

    reason: Reason
    interval: Interval
    note: str
    paths: tuple[str, ...]
    rows: int = 0
    blocking: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The recovered table.

    Attributes:
        shown: the visible segments.
        kept: ``shown`` without ``carried``, and the hidden segments of their chunks; under their
            own ids.
        carried: the segments of ``shown`` that get another id.
        dropped: the segments that must not be in the table: torn groups, failed attempts.
        replaced: the segments that standing versions replaced; they may stay or be removed.
        overrides: the granularity overrides.
        doubts: the open questions.
    """

    shown: tuple[Segment, ...]
    kept: tuple[Segment, ...]
    carried: tuple[Segment, ...]
    dropped: tuple[Segment, ...]
    replaced: tuple[Segment, ...]
    overrides: tuple[GranularityOverride, ...]
    doubts: tuple[Doubt, ...]


def doubt_about(reason: Reason, segments: Sequence[Segment], note: str) -> Doubt:
    """Return a blocking doubt about segments."""
    return Doubt(
        reason=reason,
        interval=segments[0].id.interval,
        note=note,
        paths=tuple(segment.path for segment in segments),
        rows=sum(segment.rows for segment in segments),
    )


def contradictions(
    shown: Sequence[Segment], kept: Sequence[Segment], layout: Layout
) -> Iterator[Doubt]:
    """Yield a doubt for each segment that contradicts the overshadowing rules or the layout."""
    table = Timeline.empty().with_changes(add={s.id: s for s in (*kept, *shown)}.values())
    wanted, seen = ({s.id for s in some} for some in (shown, table.visible_segments()))
    for segment in (*shown, *kept):
        if segment.rows and (segment.id in seen) != (segment.id in wanted):
            note = f"the visibility of {segment.id} contradicts the descriptors of its files"
            yield doubt_about(Reason.VERSION, [segment], note)
    for segment in shown:
        if home(segment, layout) != segment.id.chunk.place and not segment.tombstone:
            note = f"{segment.id} does not fit the layout of time chunks and buckets"
            yield doubt_about(Reason.LAYOUT, [segment], note)


def unproven(found: Recovered, proven: Iterable[str]) -> Iterator[Doubt]:
    """Yield doubts about visible appended files without proof that they were committed.

    Args:
        found: the recovered table.
        proven: paths that an event of the old log names as published.
    """
    known = {*proven}
    open_ones = (s for s in found.shown if s.path and s.path not in known)
    appended = (s for s in open_ones if _appended(s))
    for interval, group in groupby(
        sorted(appended, key=lambda s: s.id), key=lambda s: s.id.interval
    ):
        segments = list(group)
        yield Doubt(
            reason=Reason.UNPROVEN,
            interval=interval,
            note="appended files without proof that they were committed",
            paths=tuple(segment.path for segment in segments),
            rows=sum(segment.rows for segment in segments),
            blocking=False,
        )


def _appended(segment: Segment) -> bool:
    """Return whether an append wrote the file: it is first-generation and in no core set."""
    return Generation.of(segment.file_id) is Generation.FIRST and (
        segment.id.partition >= segment.shard.core and not segment.shard.minor_version
    )


def holes(segments: Iterable[Segment], seen: Iterable[SegmentId]) -> tuple[SegmentId, ...]:
    """Return the ids to void in the segments' chunks.

    These are ids that were seen but are not taken, and first-generation ids that no segment stands
    for: left open, they would separate their neighbours for ever.
    """
    chunks: dict[ChunkKey, list[Segment]] = {}
    for segment in segments:
        chunks.setdefault(segment.id.chunk, []).append(segment)
    taken = {segment.id for members in chunks.values() for segment in members}
    given = (i for i in seen if not i.provisional)
    found = {i for i in given if i.chunk in chunks and i not in taken}
    for chunk, members in chunks.items():
        spans = [(s.shard.root_start, s.shard.root_end) for s in members]
        covered = {p for start, end in spans for p in range(start, end)}
        open_ones = (p for p in range(max(covered)) if p not in covered)
        found = {i for i in found if i.chunk != chunk or i.partition not in covered}
        found |= {chunk.segment(p) for p in open_ones}
    return tuple(sorted(found))


def missing(found: Recovered, voided: Iterable[SegmentId]) -> Iterator[Doubt]:
    """Yield a doubt per chunk about ids without a file: a writer gave them up, or they are lost."""
    carried = {segment.file_id for segment in found.carried}
    bare = (i for i in voided if Generation.of(i) is Generation.FIRST and i not in carried)
    for chunk, group in groupby(sorted(bare), key=lambda i: i.chunk):
        ids = [str(segment_id.partition) for segment_id in group]
        yield Doubt(
            reason=Reason.MISSING,
            interval=chunk.interval,
            note=f"{chunk} has no file for {', '.join(ids)}: abandoned, moved or lost",
            paths=(),
            blocking=False,
        )

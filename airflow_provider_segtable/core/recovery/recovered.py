"""The result of a recovery: the table's segments, and the doubts (``core.recovery.replay``)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from airflow_provider_segtable.core.locks.lock_types import Generation
from airflow_provider_segtable.core.segments.replacement import home
from airflow_provider_segtable.core.segments.segment import (
    ChunkKey,
    Segment,
    SegmentId,
)
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.core.time.layout import GranularityOverride, Layout


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

"""What recovery found, and what it cannot tell (``core.recovery.replay``)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from airflow_provider_segtable.core.segments.segment import (
    FIRST_GENERATION_IDS,
    ChunkKey,
    Segment,
    SegmentId,
)
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.core.time.layout import GranularityOverride


class Reason(StrEnum):
    """Why something is in doubt."""

    SAME_ID = "same id"
    UNPROVEN = "may never have been committed"
    ROWS_LOST = "rows are lost"
    MAYBE_DOUBLED = "rows may be doubled"
    LAYOUT = "rows lie in two time chunks"
    MISSING = "ids without a file"
    VERSION = "version in doubt"
    DELETES = "deletes in doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something that descriptors cannot tell; a blocking one must be decided by a person."""

    reason: Reason
    interval: Interval
    note: str
    paths: tuple[str, ...]
    rows: int = 0
    blocking: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a table is.

    Attributes:
        shown: what readers are to see.
        kept: ``shown`` and what lies hidden in the same chunks; under their own ids, but for
        carried: those of ``shown`` that get another id.
        dropped: what must not be in the table: torn groups, attempts that came to nothing.
        replaced: what standing versions replaced; it may stay or go.
        overrides: how time is cut where it differs from the table.
        doubts: what cannot be told.
    """

    shown: tuple[Segment, ...]
    kept: tuple[Segment, ...]
    carried: tuple[Segment, ...]
    dropped: tuple[Segment, ...]
    replaced: tuple[Segment, ...]
    overrides: tuple[GranularityOverride, ...]
    doubts: tuple[Doubt, ...]


def unproven(found: Recovered, proven: Iterable[str]) -> Iterator[Doubt]:
    """Yield what is shown of appends that nothing proves: nobody can tell by a file alone.

    Args:
        found: what the table is.
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
            note="appended files that no other file vouches for",
            paths=tuple(segment.path for segment in segments),
            rows=sum(segment.rows for segment in segments),
            blocking=False,
        )


def _appended(segment: Segment) -> bool:
    """Tell whether the file is an append's: of the first generation, and of no core set."""
    return segment.file_id.partition in FIRST_GENERATION_IDS and (
        segment.id.partition >= segment.shard.core and not segment.shard.minor_version
    )


def holes(segments: Iterable[Segment], seen: Iterable[SegmentId]) -> tuple[SegmentId, ...]:
    """Return the ids, in the segments' chunks, that are to be voided.

    Those are ids that were seen and are not taken, and first-generation ids that nothing stands
    for: left open they would separate their neighbours for ever.
    """
    chunks: dict[ChunkKey, list[Segment]] = {}
    for segment in segments:
        chunks.setdefault(segment.id.chunk, []).append(segment)
    taken = {segment.id for members in chunks.values() for segment in members}
    found = {i for i in seen if i.chunk in chunks and i not in taken}
    for chunk, members in chunks.items():
        spans = [(s.shard.root_start, s.shard.root_end) for s in members]
        covered = {p for start, end in spans for p in range(start, end)}
        open_ones = (p for p in range(max(covered)) if p not in covered)
        found = {i for i in found if i.chunk != chunk or i.partition not in covered}
        found |= {chunk.segment(p) for p in open_ones}
    return tuple(sorted(found))


def missing(found: Recovered, voided: Iterable[SegmentId]) -> Iterator[Doubt]:
    """Yield, by chunk, the ids that have no file: given up by a writer, or lost; who knows."""
    carried = {segment.file_id for segment in found.carried}
    bare = (i for i in voided if i.partition in FIRST_GENERATION_IDS and i not in carried)
    for chunk, group in groupby(sorted(bare), key=lambda i: i.chunk):
        ids = [str(segment_id.partition) for segment_id in group]
        yield Doubt(
            reason=Reason.MISSING,
            interval=chunk.interval,
            note=f"{chunk} has no file for {', '.join(ids)}: given up, moved or lost",
            paths=(),
            blocking=False,
        )

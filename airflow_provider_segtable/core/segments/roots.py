"""The roots of several segments together: lineage, ranges of roots, and what a version replaces."""

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_segtable.core.segments.segment import (
    ChunkKey,
    Roots,
    Run,
    Segment,
    SegmentId,
)


def concatenated(inputs: Iterable[Segment]) -> tuple[Run, ...]:
    """Return the lineage of the concatenated rows of ``inputs``, adjacent runs joined.

    It is empty if any input is untraced: then the output needs hidden columns.
    """
    inputs = tuple(inputs)
    if not all(segment.traced for segment in inputs):
        return ()
    runs: list[Run] = []
    for run in (run for segment in inputs for run in segment.runs):
        last = runs[-1] if runs else None
        if last and last.root == run.root and last.start + last.rows == run.start:
            runs[-1] = Run(last.root, last.start, last.rows + run.rows)
        else:
            runs.append(run)
    return tuple(runs)


def roots_of(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots that the rows of the segments may have, adjacent ranges joined."""
    segments = tuple(segments)
    files = (run.root for segment in segments for run in segment.runs)
    runs = ((root.chunk, root.partition, root.partition + 1) for root in files)
    named = ((r.chunk, start, end) for s in segments for r in s.roots for start, end in r.spans)
    return _joined((*runs, *named))


def named_roots(segment: Segment) -> Iterator[SegmentId]:
    """Yield the roots that a segment's hidden columns may name, if they overlap its interval."""
    for some in segment.roots:
        if some.chunk.interval.overlaps(segment.id.interval):
            for start, end in some.spans:
                yield from map(some.chunk.segment, range(start, end))


def root_span(segments: Sequence[Segment]) -> tuple[int, int]:
    """Return the smallest root range that covers all the segments."""
    return (
        min(s.shard.root_start for s in segments),
        max(s.shard.root_end for s in segments),
    )


def replaced(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots that the segments stand for, by chunk, adjacent ranges joined.

    A carried segment also stands for its origin, the id in its file: a range of one at the
    origin's own partition (of any generation).
    """
    segments = tuple(segments)
    own = ((s.id.chunk, s.shard.root_start, s.shard.root_end) for s in segments)
    return _joined((*own, *_origins(segments)))


def replaced_files(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return what the segments' files stand for, by the ids in their footers.

    A log file has a provisional id there, which no other file ever has.
    """
    ids = ((s.file_id, s) for s in segments)
    return _joined(
        (i.chunk, i.partition, i.partition + 1)
        if s.origin
        else (i.chunk, s.shard.root_start, s.shard.root_end)
        for i, s in ids
    )


def inherited(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return what the outputs of a compaction inside one version replace besides its inputs."""
    segments = tuple(segments)
    before = (
        (each.chunk, start, end)
        for s in segments
        for each in s.replaces
        for start, end in each.spans
    )
    return _joined((*before, *_origins(segments)))


def _origins(segments: Iterable[Segment]) -> Iterable[tuple[ChunkKey, int, int]]:
    origins = (s.origin for s in segments if s.origin and s.origin != s.id)
    return ((origin.chunk, origin.partition, origin.partition + 1) for origin in origins)


def _joined(ranges: Iterable[tuple[ChunkKey, int, int]]) -> tuple[Roots, ...]:
    spans: dict[ChunkKey, list[tuple[int, int]]] = {}
    for chunk, start, end in sorted(ranges):
        known = spans.setdefault(chunk, [])
        if known and known[-1][1] >= start:
            known[-1] = (known[-1][0], max(known[-1][1], end))
        else:
            known.append((start, end))
    return tuple(Roots(chunk=chunk, spans=tuple(r)) for chunk, r in spans.items())

"""Divisions: log files beside versions of other time chunks or other buckets, without the log.

1. The files of a version name its number of buckets, and its chunks their granularity. Where no
   version has rows, the newest log file tells the number.
2. A log file *fits* a layout if its rows are in one place of it. One that does not fit a version
   completed before it, or was divided for it: the version has its records. Or it was never
   committed.
3. So a version is *proven* if the log names it, or a log file fits its layout, but not the one
   below. Without proof, it stands only if it has the records of every log file that does not fit;
   else the files below it have all rows, and it is left out.
4. A version has the records of the files that it names (``replaces``), and of the log files whose
   records are in these (``MergedRoots``).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.recovery.version_claims import (
    Names,
    claims,
    granularity_of,
    whole_chunks,
)
from airflow_provider_segtable.core.segments.replacement import home
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.core.time.layout import Layout

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
    """Return the layout with the numbers of buckets that log files alone tell; rule 1.

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
        own: the version's segments; those of a log have a completion time.
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
        names: what the version names.
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

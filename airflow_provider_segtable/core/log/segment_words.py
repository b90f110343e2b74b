"""Segments in words, for the lines of events."""

from collections.abc import Collection

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.segments.segment import Segment


def amount(segments: Collection[Segment]) -> str:
    """Return e.g. ``2 segments, 20 rows, 2.0 KiB``."""
    rows = counted(sum(segment.rows for segment in segments), "row")
    size = describe_size(sum(segment.size for segment in segments))
    return f"{counted(len(segments), 'segment')}, {rows}, {size}"


def made(segments: Collection[Segment]) -> str:
    """Describe new segments, carried-over ones and tombstones."""
    dead = sum(segment.tombstone for segment in segments)
    carried = [segment for segment in segments if segment.origin]
    parts = [amount([s for s in segments if not s.tombstone and s.origin is None])]
    parts += [f"carried over {amount(carried)}"] if carried else []
    parts += [counted(dead, "tombstone")] if dead else []
    return "; ".join(parts)

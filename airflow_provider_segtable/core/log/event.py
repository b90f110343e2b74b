"""The parts of every event: its stamp, its conflict, and its words for segments.

1. A *stamp* is the number, time, commit id and author of an event, and its place if it shares a
   file with other events.
2. A *conflict* is a change that may not be committed: a value, not a fault.
3. The lines of all events describe segments in the same words.
"""

from collections.abc import Collection

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Everything of an event but its action.

    ``joined`` is the first and the last number of the events in its file; None if it is alone.
    """

    n: int
    time: Instant
    commit: str
    author: str
    joined: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The change cannot be committed; ``winner`` is the event that forbids it, if any."""

    reason: str
    winner: int | None = None


# Segments in words, for the lines of events
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

"""The parts of every event: its kind, its stamp, its conflict, and its words for segments.

1. A *kind* of event has a type, a name in the log, its JSON, its line for people, and the intervals
   that it touches.
2. A *stamp* is the number, time, commit id and author of an event.
3. A *conflict* is a change that may not be committed: a value, not a fault.
4. The lines of all events describe segments in the same words.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Instant, Interval

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind(Generic[A]):
    """One kind of event. ``name`` stands in the log and never changes.

    ``decode`` parses the output of ``encode``, and that of every earlier segtable. ``line`` says in
    one line what the event does, for people. ``touches`` returns the intervals in which the event
    may change segments of the timeline; None means all of them.
    """

    type: type[A]
    name: str
    encode: Callable[[A], Json]
    decode: Callable[[Mapping[str, Any]], A]
    line: Callable[[A], str]
    touches: Callable[[A], frozenset[Interval] | None]


class _WithSegments(Protocol):
    @property
    def segments(self) -> tuple[Segment, ...]: ...


class _WithIds(Protocol):
    @property
    def ids(self) -> tuple[SegmentId, ...]: ...


def no_interval(_: object) -> frozenset[Interval]:
    """Return no interval: the event changes no segment."""
    return frozenset()


def whole_table(_: object) -> None:
    """Return None: the event may change any segment."""
    return


def intervals_of_segments(action: _WithSegments) -> frozenset[Interval]:
    """Return the intervals of the segments that an event publishes."""
    return frozenset(segment.id.interval for segment in action.segments)


def intervals_of_ids(action: _WithIds) -> frozenset[Interval]:
    """Return the intervals of the ids that an event settles or removes."""
    return frozenset(segment_id.interval for segment_id in action.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Everything of an event but its action."""

    n: int
    time: Instant
    commit: str
    author: str


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

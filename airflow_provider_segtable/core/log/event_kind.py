"""A kind of event: its type, its name in the log, its JSON, its line, and what it touches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.segments.segment_codec import Json
from airflow_provider_segtable.core.time.interval import Interval

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

"""Event kinds: each type of event answers every question about its events itself.

1. A kind has a *type*, a *name* in the log, its JSON (*encode*, *decode*) and a *line* for people.
2. *apply* folds an event into the state, *admit* decides whether it may follow the newest state.
   Neighbouring events of a kind that has *together* are folded at once.
3. *touches* are the intervals in which an event may change segments; checks of the log look there.
4. *segments* are those that an event publishes, *plans* the ids of the plans that it is about, and
   *effects* its changes of rows. A kind whose segments are ``moved`` publishes records that other
   files had before.
5. The kinds are listed once, in ``core.log.events``; a kind that is not there does not exist. None
   of the answers that concern correctness has a default, so that no kind can forget one.
6. An *effect* is all rows of new segments (``RowsInserted``), the rows that vectors name
   (``RowsDeleted``), or intervals whose rows before and after the event have to be compared
   (``RowsDiffer``). An event without effects moves rows, if anything (``core.reads.effects``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Interval, joined

A = TypeVar("A")


# Effects on rows
class RowEffect(StrEnum):
    """The effect of an event on a row."""

    INSERT = "insert"
    UPDATE_BEFORE = "update_before"
    UPDATE_AFTER = "update_after"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class RowsInserted:
    """All rows of these first-generation segments were added."""

    segments: tuple[Segment, ...]
    effect: RowEffect


@dataclass(frozen=True, slots=True)
class RowsDeleted:
    """The rows that these vectors name were deleted."""

    vectors: tuple[VectorFile, ...]
    effect: RowEffect


@dataclass(frozen=True, slots=True)
class RowsDiffer:
    """Other rows may be visible in these intervals, which do not overlap."""

    intervals: tuple[Interval, ...]


Effect: TypeAlias = RowsInserted | RowsDeleted | RowsDiffer


def rows_differ(intervals: Iterable[Interval]) -> tuple[Effect, ...]:
    """Return the effect of an event that may change any row of these intervals."""
    found = joined(tuple(set(intervals)))
    return (RowsDiffer(found),) if found else ()


# Kinds
@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind(Generic[A]):
    """One kind of event.

    Attributes:
        type: the type of its actions.
        name: stands in the log and never changes.
        encode: an action as JSON.
        decode: parses the output of ``encode``, and that of every earlier segtable.
        line: the event in one line, for people.
        apply: the state after an event that ``admit`` accepted.
        admit: the action to commit, amended if that resolves a conflict; or the conflict.
        touches: the intervals in which it may change segments of the timeline; None: all.
        segments: the segments that it publishes.
        effects: its changes of rows, in order; none if it only moves them.
        plans: the ids of the plans that it is about.
        moved: whether the segments that it publishes have only records of earlier files.
        together: the state after neighbouring events of this kind, if that is cheaper.
        joins: whether its events may share a file with others (``core.log.joint_file``).
    """

    type: type[A]
    name: str
    encode: Callable[[A], Json]
    decode: Callable[[Mapping[str, Any]], A]
    line: Callable[[A], str]
    apply: Callable[[State, A, Stamp], State]
    admit: Callable[[A, State], A | Conflict]
    touches: Callable[[A], frozenset[Interval] | None]
    segments: Callable[[A], tuple[Segment, ...]]
    effects: Callable[[A], tuple[Effect, ...]]
    plans: Callable[[A], tuple[str, ...]] = lambda _: ()
    moved: bool = False
    together: Callable[[State, Sequence[tuple[A, Stamp]]], State] | None = None
    joins: bool = False


class _WithSegments(Protocol):
    @property
    def segments(self) -> tuple[Segment, ...]: ...


class _WithIds(Protocol):
    @property
    def ids(self) -> tuple[SegmentId, ...]: ...


# Answers that several kinds share
def nothing(_: object) -> tuple[()]:
    """Return nothing: the event publishes no segment, or changes no row."""
    return ()


def no_interval(_: object) -> frozenset[Interval]:
    """Return no interval: the event changes no segment."""
    return frozenset()


def whole_table(_: object) -> None:
    """Return None: the event may change any segment."""
    return


def own_segments(action: _WithSegments) -> tuple[Segment, ...]:
    """Return the segments that an event names: it publishes them."""
    return action.segments


def intervals_of_segments(action: _WithSegments) -> frozenset[Interval]:
    """Return the intervals of the segments that an event publishes."""
    return _intervals(segment.id for segment in action.segments)


def intervals_of_ids(action: _WithIds) -> frozenset[Interval]:
    """Return the intervals of the ids that an event settles or removes."""
    return _intervals(action.ids)


def _intervals(ids: Iterable[SegmentId]) -> frozenset[Interval]:
    return frozenset(segment_id.interval for segment_id in ids)


def admitted(action: A, _: State) -> A:
    """Return the action: nothing forbids it."""
    return action

"""What an event changes of a table's rows, as a change feed shows it.

1. An append adds the rows of its segments. An event of ``RowsChanged`` deletes the rows that its
   vectors name, then adds those of its segments.
2. An update deletes and adds the same number of rows: ``update_before`` and ``update_after``. The
   log records no pairs, so the rows of one event are not matched with each other; all old rows
   come first. A merge records neither which of its rows are new, so its rows, like those of an
   overwrite, are deletes and inserts.
3. A restore or repair changes which segments are visible. The rows before and after it are compared
   by root address, in the intervals that the event names.
4. No other event changes rows: compactions move them, cleanings remove files of hidden ones, and
   alterations change columns.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from airflow_provider_segtable.core.deletes.deletion import VectorFile
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    Cleaned,
    ConsumerAdvanced,
    ConsumerDropped,
    FeedsJoined,
    IndexBuilt,
    IndexDropped,
    IndexForwarded,
    IndexRequested,
    LogEpochBegun,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    RowsChanged,
    Swept,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRepaired,
    Tagged,
    Untagged,
    VersionRestored,
    Voided,
)
from airflow_provider_segtable.core.requests.change_request import ChangeKind
from airflow_provider_segtable.core.requests.overwrite import joined
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.time.interval import Instant, Interval

CHANGE = "_segtable_change"
"""The column of a change feed that names what happened to the row, a ``RowEffect``."""
VERSION = "_segtable_version"
"""The column with the number of the event, which is a version of the table."""
COMPLETION_TIME = "_segtable_completion_time"
"""The column with the time of the event, UTC."""
CHANGE_COLUMNS = (CHANGE, VERSION, COMPLETION_TIME)


class RowEffect(StrEnum):
    """What an event did to a row."""

    INSERT = "insert"
    UPDATE_BEFORE = "update_before"
    UPDATE_AFTER = "update_after"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row's effect, by event ``n`` at its completion time."""

    effect: RowEffect
    n: int
    time: Instant


@dataclass(frozen=True, slots=True)
class Came:
    """All rows of these first-generation segments were added."""

    segments: tuple[Segment, ...]
    effect: RowEffect


@dataclass(frozen=True, slots=True)
class Went:
    """The rows that these vectors name were deleted."""

    vectors: tuple[VectorFile, ...]
    effect: RowEffect


@dataclass(frozen=True, slots=True)
class Differs:
    """Other rows may be visible in these intervals, which do not overlap."""

    intervals: tuple[Interval, ...]


Effect: TypeAlias = Came | Went | Differs


def effects(action: Action) -> tuple[Effect, ...]:
    """Return what an action changes of the rows, in order; nothing if it only moves them."""
    match action:
        case Appended(segments=segments):
            return (Came(segments, RowEffect.INSERT),)
        case RowsChanged():
            return _changed(action)
        case VersionRestored(segments=segments):
            return _differing(segment.id.interval for segment in segments)
        case TableRepaired(segments=segments, lost=lost, vectors=vectors):
            roots = (root for file in vectors for root in file.rows)
            ids = (*(segment.id for segment in segments), *lost, *roots)
            return _differing(each.interval for each in ids)
        case (
            TableCreated()
            | TableAltered()
            | TableDropped()
            | Voided()
            | PlanRequested()
            | PlanInflight()
            | PlanCompleted()
            | PlanYielded()
            | PlanAborted()
            | Cleaned()
            | Swept()
            | Tagged()
            | Untagged()
            | ConsumerAdvanced()
            | ConsumerDropped()
            | IndexRequested()
            | IndexBuilt()
            | FeedsJoined()
            | IndexForwarded()
            | IndexDropped()
            | LogEpochBegun()
        ):
            return ()
        case _:
            assert_never(action)


def _changed(action: RowsChanged) -> tuple[Effect, ...]:
    update = action.kind == ChangeKind.UPDATE
    before = RowEffect.UPDATE_BEFORE if update else RowEffect.DELETE
    after = RowEffect.UPDATE_AFTER if update else RowEffect.INSERT
    went = (Went(action.vectors, before),) if action.vectors else ()
    came = (Came(action.segments, after),) if action.segments else ()
    return (*went, *came)


def _differing(intervals: Iterable[Interval]) -> tuple[Effect, ...]:
    found = joined(tuple(set(intervals)))
    return (Differs(found),) if found else ()

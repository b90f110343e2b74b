"""Events: all changes of a table.

1. An event is ``(n, time, commit, author, action)``. ``n`` counts from 0 without gaps; ``time``
   increases strictly along the log; ``commit`` is the author's own id for this change, by which
   the author recognises its event if the reply was lost.
2. The first event is the table's definition, called ``TableCreated`` in the log; ``TableAltered``
   changes it, and ``TableDropped`` is the last event.
3. A compaction is ``PlanRequested -> PlanInflight -> PlanCompleted``, or it ends in
   ``PlanAborted``. If its worker dies, another ``PlanInflight`` follows; if it loses its locks to
   a request of higher priority, ``PlanYielded`` comes first. The instant of a compaction is the
   time of its first event, its completion time that of ``PlanCompleted``.
4. An append is one event: its instant and completion time coincide.
5. Ids are settled once: published by an append or completion, *voided* when their writer gave
   up, or burnt when the attempt that named them failed.
6. Cleaning is ``Cleaned`` (segments leave the timeline, their files are pending delete), then the
   files are deleted, then ``Swept`` records that. A version that is ``Tagged`` is kept.
7. A repair is one event, ``TableRepaired``: it restores to the log what the files prove.
8. A restore is one event, ``VersionRestored``: an earlier version is carried over to new ids.
9. A consumer's position is set by ``ConsumerAdvanced`` and ends with ``ConsumerDropped``.
10. A delete, an update or a merge is one event, ``RowsChanged``: it deletes and appends atomically.
11. An index begins with ``IndexRequested``. Any event that publishes files may feed it; what it
    lacks is built by runs of ``IndexBuilt``. ``FeedsJoined`` and ``IndexForwarded`` tidy up feeds.
12. A service of the log store takes buckets by ``LogEpochBegun``; its checkpoints are appends.

Source of the idea: Hudi's timeline (RFC-66), as one log with put-if-absent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_provider_segtable.core.indexes.index_state import Feed
from airflow_provider_segtable.core.log.event import Stamp
from airflow_provider_segtable.core.log.event_kind import Effect, EventKind
from airflow_provider_segtable.core.log.families import (
    append_events,
    change_events,
    cleaning_events,
    consumer_events,
    index_events,
    log_store_events,
    plan_events,
    repair_events,
    restore_events,
    table_events,
    tag_events,
)
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleaned,
    Swept,
)
from airflow_provider_segtable.core.log.families.consumer_events import (
    ConsumerAdvanced,
    ConsumerDropped,
)
from airflow_provider_segtable.core.log.families.index_events import (
    FeedsJoined,
    IndexBuilt,
    IndexDropped,
    IndexForwarded,
    IndexRequested,
)
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.table_events import (
    TableAltered,
    TableDropped,
)
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Interval

__all__ = [
    "Action",
    "Appended",
    "Cleaned",
    "ConsumerAdvanced",
    "ConsumerDropped",
    "Event",
    "FeedsJoined",
    "IndexBuilt",
    "IndexDropped",
    "IndexForwarded",
    "IndexRequested",
    "LogEpochBegun",
    "PlanAborted",
    "PlanCompleted",
    "PlanInflight",
    "PlanRequested",
    "PlanYielded",
    "Published",
    "RowsChanged",
    "Swept",
    "TableAltered",
    "TableDropped",
    "TableRepaired",
    "Tagged",
    "Untagged",
    "VersionRestored",
    "Voided",
    "effects",
    "kind_of",
    "line",
    "plans_of",
    "published",
    "segments_of",
    "touched",
]

Action: TypeAlias = (
    TableDefinition
    | TableAltered
    | TableDropped
    | Appended
    | Voided
    | RowsChanged
    | PlanRequested
    | PlanInflight
    | PlanCompleted
    | PlanYielded
    | PlanAborted
    | Cleaned
    | Swept
    | Tagged
    | Untagged
    | TableRepaired
    | VersionRestored
    | ConsumerAdvanced
    | ConsumerDropped
    | IndexRequested
    | IndexBuilt
    | FeedsJoined
    | IndexForwarded
    | IndexDropped
    | LogEpochBegun
)

KINDS: tuple[EventKind[Any], ...] = (
    *table_events.KINDS,
    *append_events.KINDS,
    *change_events.KINDS,
    *plan_events.KINDS,
    *cleaning_events.KINDS,
    *tag_events.KINDS,
    *repair_events.KINDS,
    *restore_events.KINDS,
    *consumer_events.KINDS,
    *index_events.KINDS,
    *log_store_events.KINDS,
)

KIND_OF: dict[type, EventKind[Any]] = {kind.type: kind for kind in KINDS}


# Answers of the kinds
def kind_of(action: Action) -> EventKind[Any]:
    """Return the kind of an action."""
    return KIND_OF[type(action)]


def line(action: Action) -> str:
    """Return in one line what an action does, for people."""
    return kind_of(action).line(action)


def touched(action: Action) -> frozenset[Interval] | None:
    """Return the intervals in which an action may change segments; None means all of them."""
    return kind_of(action).touches(action)


def segments_of(action: Action) -> tuple[Segment, ...]:
    """Return the segments that an action publishes."""
    return kind_of(action).segments(action)


def plans_of(action: Action) -> tuple[str, ...]:
    """Return the id of the plan that an action is about, if it is about one."""
    return kind_of(action).plans(action)


def effects(action: Action) -> tuple[Effect, ...]:
    """Return the changes of rows by an action, in order; none if it only moves them."""
    return kind_of(action).effects(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Stamp):
    """One entry of the log; ``feeds`` are entries of indexes about the files that it publishes."""

    action: Action
    feeds: tuple[Feed, ...] = ()

    @property
    def kind(self) -> str:
        """Return the action's name in the log, which never changes."""
        return kind_of(self.action).name


# Sums over the events that published rows
@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Sums over events: ``event`` is the newest one, ``events`` are all of them; in log order."""

    event: int
    events: tuple[int, ...]
    rows: int
    segments: int
    bytes: int
    plans: tuple[str, ...]


def published(events: Sequence[Event]) -> Published:
    """Return what events published; there is at least one."""
    found = [segment for event in events for segment in segments_of(event.action)]
    numbers = sorted(event.n for event in events)
    return Published(
        event=numbers[-1],
        events=tuple(numbers),
        rows=sum(segment.rows for segment in found),
        segments=len(found),
        bytes=sum(segment.size for segment in found),
        plans=tuple(dict.fromkeys(plan for event in events for plan in plans_of(event.action))),
    )

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_provider_segtable.core.indexes.index_state import Feed
from airflow_provider_segtable.core.log.event import EventKind, Stamp
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
from airflow_provider_segtable.core.log.families.append_events import Appended, AppendEvent, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleaned,
    CleaningEvent,
    Swept,
)
from airflow_provider_segtable.core.log.families.consumer_events import (
    ConsumerAdvanced,
    ConsumerDropped,
    ConsumerEvent,
)
from airflow_provider_segtable.core.log.families.index_events import (
    FeedsJoined,
    IndexBuilt,
    IndexDropped,
    IndexEvent,
    IndexForwarded,
    IndexRequested,
)
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanEvent,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.table_events import (
    TableAltered,
    TableDropped,
    TableEvent,
)
from airflow_provider_segtable.core.log.families.tag_events import TagEvent, Tagged, Untagged
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
    "RowsChanged",
    "Swept",
    "TableAltered",
    "TableDropped",
    "TableRepaired",
    "Tagged",
    "Untagged",
    "VersionRestored",
    "Voided",
    "line",
    "touched",
]

Action: TypeAlias = (
    TableEvent
    | AppendEvent
    | RowsChanged
    | PlanEvent
    | CleaningEvent
    | TagEvent
    | TableRepaired
    | VersionRestored
    | ConsumerEvent
    | IndexEvent
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

KIND_OF: Mapping[type, EventKind[Any]] = {kind.type: kind for kind in KINDS}


def line(action: Action) -> str:
    """Return in one line what an action does, for people; its family says it."""
    return KIND_OF[type(action)].line(action)


def touched(action: Action) -> frozenset[Interval] | None:
    """Return the intervals in which an action may change segments; None means all of them."""
    return KIND_OF[type(action)].touches(action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Stamp):
    """One entry of the log; ``feeds`` are entries of indexes about the files that it publishes."""

    action: Action
    feeds: tuple[Feed, ...] = ()

    @property
    def kind(self) -> str:
        """Return the action's name in the log, which never changes."""
        return KIND_OF[type(self.action)].name

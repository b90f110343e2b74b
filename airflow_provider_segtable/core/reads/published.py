"""Sum up what events published, for readers that were not there.

1. Rows, segments and bytes are those of the segments that an event makes visible: appended,
   changed, compacted, restored or repaired ones. Other events publish none.
2. A plan's events name the plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    Cleaned,
    ConsumerAdvanced,
    ConsumerDropped,
    Event,
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
from airflow_provider_segtable.core.segments.segment import Segment


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


def segments_of(action: Action) -> tuple[Segment, ...]:
    """Return the segments that an action publishes."""
    match action:
        case (
            Appended(segments=made)
            | RowsChanged(segments=made)
            | PlanCompleted(segments=made)
            | VersionRestored(segments=made)
            | TableRepaired(segments=made)
        ):
            return made
        case (
            TableCreated()
            | TableAltered()
            | TableDropped()
            | Voided()
            | PlanRequested()
            | PlanInflight()
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


def plans_of(action: Action) -> tuple[str, ...]:
    """Return the id of the plan that an action is about, if it is about one."""
    match action:
        case PlanRequested(plan=plan):
            return (plan.id,)
        case PlanInflight() | PlanCompleted() | PlanYielded() | PlanAborted():
            return (action.plan_id,)
        case _:
            return ()

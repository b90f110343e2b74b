"""The fold: a table's state is ``apply`` over its events, and nothing else changes state.

1. ``apply(state, event)`` is pure, and total over logs whose events ``admission.admit`` accepted.
2. Events arrive in order without gaps, at strictly increasing times; anything else is a
   ``CorruptTable``, never skipped.
3. ``fold`` applies neighbouring appends together: their segments enter the timeline at once. A
   writer among eight reads seven foreign appends for each of its own. The state is that of
   ``apply``, event by event (``tests/property/test_fold.py``).
4. After each event the indexes know what it has fed them, or what they lack (``index_events``).
5. After each append the buckets of the log store know what it committed (``log_store_events``).
6. After each append that is a part of a load, the load ends there (``loads``).
7. A log begins with ``TableCreated`` and may end with ``TableDropped``. How each other event
   changes the state is said and done in its family (``core.log.families``).
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from itertools import groupby, islice
from typing import assert_never

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log.events import (
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
from airflow_provider_segtable.core.log.loads import with_part
from airflow_provider_segtable.core.log.recent_commits import RecentCommits
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.transitions import publish
from airflow_provider_segtable.core.reads.published import segments_of
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Instant

COMMITS_KEPT = 10_000
TOGETHER = 64
"""Most appends that are applied together; bounds the memory for their segments."""


def fold(state: State | None, events: Iterable[Event]) -> State | None:
    """Apply events in order; errors as ``apply``."""
    for appends, run in groupby(events, _appends):
        if not appends or state is None:
            state = reduce(apply, run, state)
            continue
        while some := tuple(islice(run, TOGETHER)):
            state = _all_appended(state, some)
    return state


def apply(state: State | None, event: Event) -> State:
    """Return the state after one more event.

    Raises:
        CorruptTable: if the event cannot follow this state.
    """
    if state is None:
        return _created(event)
    _refuse_gap(state.n, state.time, event, dropped=state.dropped)
    if isinstance(event.action, TableCreated):
        raise CorruptTable(f"event {event.n} creates the table a second time")
    return _with_commits(_acted(state, event), (event,))


def _appends(event: Event) -> bool:
    return isinstance(event.action, Appended)


def _all_appended(state: State, run: tuple[Event, ...]) -> State:
    """Return the state after neighbouring appends."""
    published: list[Segment] = []
    n, time = state.n, state.time
    for event in run:
        _refuse_gap(n, time, event, dropped=state.dropped)
        n, time = event.n, event.time
        if isinstance(event.action, Appended):
            published += append_events.published(state, event.action, event.time)
    return _with_commits(publish(state, published), run)


def _refuse_gap(n: int, time: Instant, event: Event, *, dropped: bool) -> None:
    """Refuse an event that cannot follow event ``n`` at ``time``."""
    if event.n != n + 1 or event.time <= time or dropped:
        raise CorruptTable(
            f"event {event.n} at {event.time} µs cannot follow event {n} at {time} µs"
            + (", which dropped the table" if dropped else "")
        )


def _with_commits(state: State, run: tuple[Event, ...]) -> State:
    """Return the state after these events, given what their actions changed."""
    last = run[-1]
    added = {event.commit: event.n for event in run}
    commits = state.commits.added(added, last.n, COMMITS_KEPT)
    for event in run:
        if isinstance(event.action, Appended):
            state = log_store_events.with_ranges(state, event.action.log, event.n)
            if event.action.load:
                loads = with_part(state.loads, event.action.load, event.n, COMMITS_KEPT)
                state = replace(state, loads=loads)
    for event in run if state.indexes else ():
        made = segments_of(event.action)
        known = isinstance(event.action, PlanCompleted)
        state = index_events.noted(state, event, made, event.feeds, known_records=known)
    return replace(state, n=last.n, time=last.time, commits=commits)


def _created(event: Event) -> State:
    if not isinstance(event.action, TableCreated):
        raise CorruptTable(f"a log begins with TableCreated; found {event.n} {event.kind}")
    return State(
        n=event.n,
        time=event.time,
        base_version=event.time,
        table=event.action,
        timeline=Timeline.empty(),
        commits=RecentCommits({event.commit: event.n}),
        retained_from=event.n,
    )


def _acted(state: State, event: Event) -> State:  # noqa: C901, PLR0912 - one case a family
    match event.action:
        case TableCreated() | TableDropped():  # a creation was refused before
            return replace(state, dropped=True)
        case TableAltered():
            return replace(state, table=table_events.altered(state.table, event.action, event.n))
        case Appended() | Voided():
            return append_events.apply(state, event.action, event.time)
        case RowsChanged():
            return change_events.apply(state, event.action, event)
        case PlanRequested() | PlanInflight() | PlanCompleted() | PlanYielded() | PlanAborted():
            return plan_events.apply(state, event.action, event)
        case Cleaned() | Swept():
            return cleaning_events.apply(state, event.action)
        case Tagged() | Untagged():
            return tag_events.apply(state, event.action)
        case TableRepaired():
            return repair_events.apply(state, event.action, event)
        case VersionRestored():
            return restore_events.apply(state, event.action, event)
        case ConsumerAdvanced() | ConsumerDropped():
            return consumer_events.apply(state, event.action, event.time)
        case IndexRequested() | IndexDropped():
            after = index_events.apply(state, event.action, event)
            return plan_events.without_hopeless(state, after, event)
        case IndexBuilt() | FeedsJoined() | IndexForwarded():
            return index_events.apply(state, event.action, event)
        case LogEpochBegun():
            return log_store_events.apply(state, event.action)
        case _:
            assert_never(event.action)

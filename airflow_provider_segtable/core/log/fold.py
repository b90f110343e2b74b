"""Fold events into a table's state, admit the next event, and sum up what events published.

1. ``apply(state, event)`` is pure, and total over logs whose events ``admit`` accepted. Nothing
   else changes state.
2. Events arrive in order without gaps, at strictly increasing times; anything else is a
   ``CorruptTable``, never skipped.
3. ``fold`` applies neighbouring appends together: their segments enter the timeline at once. A
   writer among eight reads seven foreign appends for each of its own. The state is that of
   ``apply``, event by event (``tests/property/test_versions.py``).
4. After each event the indexes know what it has fed them, or what they lack (``index_events``).
5. After each append the buckets of the log store know what it committed (``log_store_events``).
6. After each append that is a part of a load, the load ends there (``core.log.state``).
7. A log begins with ``TableCreated`` and may end with ``TableDropped``. Each other event changes
   the state as its family says (``core.log.families``).
8. *Admission* decides whether a change may follow the events committed since its author read the
   log. The committer calls ``admit(action, state)`` with the newest state before every attempt to
   put the next event. The event is put-if-absent at ``state.n + 1``, so no other event can come in
   between. The result is the action to commit, amended if that resolves the conflict, or a
   ``Conflict`` with the reason and the winning event.
9. Each family decides for its own events; the table below shows them side by side. The balance
   check runs in admission, so at commit (``core.log.replacement``).
10. The *published* rows, segments and bytes are summed up for readers that did not see the events.
    They are those of the segments that an event makes visible: appended, changed, compacted,
    restored or repaired ones. Other events publish none. A plan's events name the plan.

=====================  ==================================================================
mine                   over theirs
=====================  ==================================================================
append                 never waits: if its chunk has moved to another version or its ids were
                       settled, it gets other ids, by metadata alone. Refused only if granularity
                       changed and one of its segments lies in two chunks. A checkpoint of the log
                       store fails, by an error, unless its offsets follow in the newest epoch
change                 its appends likewise; its deletions commute with every compaction, because
                       root addresses never change. Refused if one of its roots has a deletion
                       that its author had not read: it has to check for equal rows
overwrite              as a change. Refused, too, if another overwrite of the same time landed that
                       its author had not read: it has to replace that one's rows
compaction completed   commutes with appends, changes and compactions of other groups; a new
                       version carries over segments appended meanwhile
                       (``core.log.replacement``). Refused if the plan is finished, another
                       attempt superseded mine, or an input is no longer visible
plan requested         refused if an input is not visible or claimed by a pending plan, or if
                       the plan is pending or completed already (an aborted one may come back)
plan yielded, aborted  refused if an attempt began that its author had not read
void                   drops ids that were settled meanwhile
repair                 refused if an id to remove is absent or one to add is present, or if segments
                       of a chunk would disagree about its core set: plan the repair again
cleaned                drops ids that are needed now, or gone; refused if a version was tagged
                       that its author had not read, or it would take a position from a consumer
                       whose author had not read it
swept                  drops paths that another writer swept
restored               undoes every event before it. Refused if the version is no longer kept, or a
                       repair has taken or changed one of its segments
consumer advanced      refused if the version is not kept, or another process moved the position
index requested        refused if the name is taken, or a column to index is gone
index built            refused if the index was dropped, or another attempt superseded mine
index dropped,         refused if it was dropped already, or its table is that far already
index forwarded
feeds joined           refused if some of them were joined already
log epoch begun        refused if a bucket has this epoch or a higher one
tagged                 refused if the version is no longer kept, or the name is taken
altered                refused if another alteration landed that its author had not read, a
                       pending plan sorts by a column that it renames or drops, or an index has a
                       column that it drops or widens. Everything else commutes with it: files are
                       read by the ids of their columns
dropped                always admitted; everything else is refused after it
=====================  ==================================================================
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, islice
from typing import assert_never

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log.event import Conflict
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
from airflow_provider_segtable.core.log.state import RecentCommits, State, publish, with_part
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.core.timeline import Timeline

__all__ = ["Conflict", "admit"]


# Admission of the next event
def admit(action: Action, state: State) -> Action | Conflict:  # noqa: C901, PLR0912 - one case a family
    """Return the action to commit next, or the conflict that forbids it.

    Raises:
        Fenced, OffsetGap: a checkpoint of the log store is not in the newest epoch, or not next.
        RowsOutOfBalance: if a compaction's outputs do not account for the rows of its inputs.
    """
    if state.dropped:
        return Conflict(reason="the table was dropped", winner=state.n)
    match action:
        case TableDefinition() | TableAltered() | TableDropped():
            plans = (known.plan for known in state.pending_plans())
            admitted = table_events.admit(action, state.table, plans)
            return _fitting(admitted, state)
        case Appended() | Voided():
            return append_events.admit(action, state)
        case RowsChanged():
            return change_events.admit(action, state)
        case PlanRequested() | PlanInflight() | PlanCompleted() | PlanYielded() | PlanAborted():
            return plan_events.admit(action, state)
        case Cleaned() | Swept():
            return cleaning_events.admit(action, state)
        case Tagged() | Untagged():
            return tag_events.admit(action, state)
        case TableRepaired():
            return repair_events.admit(action, state)
        case VersionRestored():
            return restore_events.admit(action, state)
        case ConsumerAdvanced() | ConsumerDropped():
            return consumer_events.admit(action, state)
        case IndexRequested() | IndexBuilt() | FeedsJoined() | IndexForwarded() | IndexDropped():
            return index_events.admit(action, state)
        case LogEpochBegun():
            return log_store_events.admit(action, state)
        case _:
            assert_never(action)


def _fitting(admitted: Action | Conflict, state: State) -> Action | Conflict:
    """Return an event of the table's definition, unless an index does not fit it."""
    if not isinstance(admitted, TableAltered):
        return admitted
    new = table_events.altered(state.table, admitted, state.n + 1)
    reason = index_events.unfit(state.indexes.values(), state.table, new)
    return admitted if reason is None else Conflict(reason=reason)


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
            TableDefinition()
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


# The fold of events into a state
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
    if isinstance(event.action, TableDefinition):
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
    if not isinstance(event.action, TableDefinition):
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
        case TableDefinition() | TableDropped():  # a creation was refused before
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

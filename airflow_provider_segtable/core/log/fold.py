"""Fold events into a table's state, and admit the next event.

1. ``apply(state, event)`` is pure, and total over logs whose events ``admit`` accepted. Nothing
   else changes state.
2. Events arrive in order without gaps, at strictly increasing times; anything else is a
   ``CorruptTable``, never skipped.
3. ``fold`` applies neighbouring appends together: their segments enter the timeline at once. A
   writer among eight reads seven foreign appends for each of its own. The state is that of
   ``apply``, event by event (``tests/property/test_versions.py``).
4. A log begins with ``TableCreated`` and may end with ``TableDropped``. Each event changes the
   state as its kind says (``core.log.event_kind``, ``core.log.families``).
5. After each event the indexes know its feeds, or the gaps that it leaves (``index_events``), and
   the state has its commit id.
6. *Admission* decides whether a change may follow the events committed since its author read the
   log. The committer calls ``admit(action, state)`` with the newest state before every attempt to
   put the next event. The event is put-if-absent at ``state.n + 1``, so no other event can come in
   between. The result is the action to commit, amended if that resolves the conflict, or a
   ``Conflict`` with the reason and the winning event.
7. Each kind decides for its own events; the table below shows them side by side. The balance
   check runs in admission, so at commit (``core.log.replacement``).

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
adoption               like an append; refused if the log names one of its files
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
settled                leaves out groups whose files are not all visible any more, or that are
                       settled over these files already; refused if none is left
altered                refused if another alteration landed that its author had not read, a
                       pending plan sorts by a column that it renames or drops, or an index has a
                       column that it drops or widens. Everything else commutes with it: files are
                       read by the ids of their columns
dropped                always admitted; everything else is refused after it
=====================  ==================================================================
"""

from collections.abc import Iterable
from functools import reduce
from itertools import groupby, islice
from typing import Any

from airflow_provider_segtable.core.dataclass import replace
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind
from airflow_provider_segtable.core.log.events import Action, Event, kind_of
from airflow_provider_segtable.core.log.families import index_events
from airflow_provider_segtable.core.log.state import COMMITS_KEPT, RecentCommits, State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.timeline import Timeline

__all__ = ["Conflict", "admit", "apply", "fold"]

TOGETHER = 64
"""Most events that are applied together; bounds the memory for their segments."""


def admit(action: Action, state: State) -> Action | Conflict:
    """Return the action to commit next, or the conflict that forbids it.

    Raises:
        Fenced, OffsetGap: a checkpoint of the log store is not in the newest epoch, or not next.
        RowsOutOfBalance: if a compaction's outputs do not account for the rows of its inputs.
    """
    if state.dropped:
        return Conflict(reason="the table was dropped", winner=state.n)
    found: Action | Conflict = kind_of(action).admit(action, state)
    return found


def fold(state: State | None, events: Iterable[Event]) -> State | None:
    """Apply events in order; errors as ``apply``."""
    for kind, run in groupby(events, lambda event: kind_of(event.action)):
        if state is None or kind.together is None:
            state = reduce(apply, run, state)
            continue
        while some := tuple(islice(run, TOGETHER)):
            state = _applied(state, kind, some)
    return state


def apply(state: State | None, event: Event) -> State:
    """Return the state after one more event.

    Raises:
        CorruptTable: if the event cannot follow this state.
    """
    if state is None:
        return _created(event)
    return _applied(state, kind_of(event.action), (event,))


def _applied(state: State, kind: EventKind[Any], run: tuple[Event, ...]) -> State:
    """Return the state after events of one kind: one event, or a run of those applied together."""
    before: State | Event = state
    for event in run:
        _refuse_gap(before, event, dropped=state.dropped)
        before = event
    if kind.together is None:
        after = kind.apply(state, run[0].action, run[0])
    else:
        after = kind.together(state, [(event.action, event) for event in run])
    return _with_commits(after, kind, run)


def _refuse_gap(before: State | Stamp, event: Event, *, dropped: bool) -> None:
    """Refuse an event that cannot follow the one before."""
    if event.n != before.n + 1 or event.time <= before.time or dropped:
        raise CorruptTable(
            f"event {event.n} at {event.time} µs cannot follow event {before.n} at "
            f"{before.time} µs" + (", which dropped the table" if dropped else "")
        )


def _with_commits(state: State, kind: EventKind[Any], run: tuple[Event, ...]) -> State:
    """Return the state after these events, given the changes by their actions."""
    last = run[-1]
    commits = state.commits.added({event.commit: event.n for event in run}, last.n, COMMITS_KEPT)
    for event in run if state.indexes else ():
        made, moved = kind.segments(event.action), kind.moved
        state = index_events.noted(state, event, made, event.feeds, known_records=moved)
    joined = last.joined if last.joined and last.joined[1] > last.n else None
    return replace(state, n=last.n, time=last.time, commits=commits, joined=joined)


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

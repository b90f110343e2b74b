"""The step from a published version to a version of the log: what differs, as a revision.

1. A published version *follows* the log if it is of the same table, and its event is in the log
   with its commit id. Otherwise the log was rebuilt, or the table created anew: all files are
   published again.
2. If the state at the published event can be had by a few events, only the chunks that changed
   since are compared (``core.publishing``): this process remembers a state, or the log has
   one. Otherwise all files are compared, by their keys. Both say the same, if the published version
   was put by the rules of today: of another one all files are compared.
3. Only files that are shown anew, or with other rows, are opened: their footers, and the files that
   name their hidden rows.
4. The same rows are shown as before if no event between changes rows. If these events are very
   many, or compactions change what is shown of a row, it counts as a change.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from pyroaring import BitMap

from airflow_provider_segtable.core.errors import CorruptTable, VersionExpired
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import (
    RULES,
    Changes,
    changed_files,
    difference,
    shown_files,
)
from airflow_provider_segtable.core.reads.effects import effects
from airflow_provider_segtable.data.publishing import hidden_rows, stats_of
from airflow_provider_segtable.formats.format import NewFile, Published, Revision
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publications import Publication

Report: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how many files are done, and of how many."""

MOST_EVENTS = 64
"""Number of events between two versions that are looked at one by one."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


def follows(log: EventLog, state: State, published: Published) -> bool:
    """Return whether the log has the event that a published version shows (rule 1).

    An event that has expired is taken to be the same: keys of files never are by accident. A
    version without a commit id is one that its format cannot go on from.
    """
    other = published.table_id != state.table.table_id
    if other or not published.commit or published.event > state.n:
        return False
    if state.commits.get(published.commit) == published.event:
        return True
    event = log.event(published.event)
    return event is None or event.commit == published.commit


def differing(
    log: EventLog, state: State, published: Published, last: Publication | None
) -> Changes:
    """Return what a version shows otherwise than a published one (rule 2).

    Args:
        log: the table's log.
        state: the version.
        published: the published version, which follows the log.
        last: the last publication of this process.
    """
    before = _remembered(log, published, last)
    if before is not None:
        return changed_files(before, state)
    if published.rules != RULES:
        return difference(published.files, shown_files(state))
    logged = _logged(log, published.event, state)
    if logged is not None:
        return changed_files(*logged)
    return difference(published.files, shown_files(state))


def _remembered(log: EventLog, published: Published, last: Publication | None) -> State | None:
    """Return a state that shows the files of a published version, on from the last publication."""
    if last is None or last.published.table_id != published.table_id:
        return None
    if (last.published.number, last.published.commit) == (published.number, published.commit):
        return last.state
    if published.rules != RULES:
        return None
    if not 0 < published.event - last.state.n <= MOST_EVENTS:
        return None
    begin = log.event(last.state.n)
    if begin is None or begin.time != last.state.time:
        return None  # it expired, or the log was rebuilt
    return _folded(log, last.state, published.event)


def _logged(log: EventLog, event: int, state: State) -> tuple[State, State] | None:
    """Return the states at an event and at that of ``state``, which share the chunks they can."""
    if state.n - event > MOST_EVENTS:
        return None
    try:
        before = log.version(event, state)
    except (VersionExpired, CorruptTable):
        return None
    after = _folded(log, before, state.n)
    return None if after is None else (before, after)


def _folded(log: EventLog, state: State, n: int) -> State | None:
    """Return a state with the events up to ``n``; None if one has expired."""
    for each in range(state.n + 1, n + 1):
        event = log.event(each)
        if event is None:
            return None
        state = apply(state, event)
    return state


def shows(published: Published, state: State) -> bool:
    """Return whether a published version that follows the log shows a version, too."""
    same = published.schema == state.table.schema.number
    return same and not difference(published.files, shown_files(state))


def everything(state: State, published: Published | None) -> Changes:
    """Return all files of a version, and those of a published one that it does not have."""
    shown = shown_files(state)
    known: Mapping[str, object] = {} if published is None else published.files
    return Changes(gone=frozenset(known.keys() - shown.keys()), shown=shown)


def revision(
    ports: TableContext,
    state: State,
    changes: Changes,
    published: Published | None,
    report: Report = silent,
) -> Revision | None:
    """Return the revision that publishes a version; None if its event has expired meanwhile.

    Raises:
        NotFound: a file was cleaned meanwhile: the version is too old.
        CorruptTable, StorageError: a file could not be read.
    """
    event = ports.log.event(state.n)
    if event is None:
        return None
    files = tuple(changes.shown.values())
    segments = [each.segment for each in files]
    stats = stats_of(ports.files, state.table, segments, partial(report, "footers"))
    hidden = hidden_rows(ports.files, state.table, files, partial(report, "hidden rows"))
    report("writing", 0, len(files))
    shown = {
        each.path: NewFile(
            shown=each, stats=stats[each.path], hidden=hidden.get(each.path, BitMap())
        )
        for each in files
    }
    return Revision(
        event=state.n,
        time=state.time,
        commit=event.commit,
        table=state.table,
        gone=changes.gone,
        shown=shown,
        rules=RULES,
        data_change=published is None or _rows_change(ports.log, state, event, published.event),
    )


def _rows_change(log: EventLog, state: State, last: Event, since: int) -> bool:
    """Return whether an event after ``since`` changes the rows that are shown (rule 4)."""
    if state.table.kind.merges or not 0 <= state.n - since <= MOST_EVENTS:
        return True
    if effects(last.action):
        return True
    between = (log.event(n) for n in range(since + 1, state.n))
    return any(event is None or effects(event.action) for event in between)

"""Compare a published version with a version of the log, and return the difference as a revision.

1. A published version *follows* the log if it is of the same table, and its event is in the log
   with its commit id. Otherwise the log was rebuilt, or the table created anew: all files are
   published again.
2. If this process remembers its last publication, or the log leads from the published event to the
   version in a few events, only the chunks that changed since are compared (``core.publishing``).
   What other processes published since the last publication is found by the keys of published
   files. Otherwise the keys of all files are compared. All ways give the same result if the
   published version was put by today's rules; if it was put by other rules, all files are compared.
3. Only new files, and files with other hidden rows than before, are opened: their footers, and the
   files that name their hidden rows.
4. The rows are the same as before if no event in between changes rows. If there are many such
   events, or compactions merge rows, they count as changed.
5. Events that only move rows (compactions) are published apart from those that change rows: readers
   that follow version by version leave out the former, and could not leave out a part of a version.
   Only versions that drop files are looked at for that.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from itertools import islice, takewhile
from typing import TypeAlias

from pyroaring import BitMap

from airflow_provider_segtable.core.errors import CorruptTable, VersionExpired
from airflow_provider_segtable.core.log.events import Event, effects, segments_of
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import (
    RULES,
    Changes,
    changed_files,
    difference,
    shown_files,
)
from airflow_provider_segtable.data.publishing import hidden_rows, stats_of
from airflow_provider_segtable.formats.format import NewFile, Published, Revision
from airflow_provider_segtable.formats.published_files import PublishedFiles
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publications import Publication

Report: TypeAlias = Callable[[str, int, int], None]
"""Called with the current step, the number of files done, and of all files."""

MOST_EVENTS = 64
"""Most events between two versions that are read one by one."""
MOST_APART = 1024
"""Most events between two versions among which compactions are looked for."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


def follows(log: EventLog, state: State, published: Published) -> bool:
    """Return whether the log has the event that a published version shows (rule 1).

    An event that has expired is taken to be the same: keys of files are never equal by accident. A
    format cannot continue from a version without a commit id.
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
    """Return the changes from a published version to a version of the log (rule 2).

    Args:
        log: the table's log.
        state: the version.
        published: the published version, which follows the log.
        last: the last publication of this process.
    """
    if published.rules != RULES and not _is_last(published, last):
        return difference(published.files, shown_files(state))
    if last is not None and _leads_on(log, published, last, state):
        changes = changed_files(last.state, state)
        found = changes if _is_last(published, last) else _rebased(changes, published, last)
        if found is not None:
            return found
    logged = _logged(log, published.event, state)
    if logged is not None:
        return changed_files(*logged)
    return difference(published.files, shown_files(state))


def _is_last(published: Published, last: Publication | None) -> bool:
    """Return whether a published version is that of the last publication of this process."""
    if last is None or last.published.table_id != published.table_id:
        return False
    return (last.published.number, last.published.commit) == (published.number, published.commit)


def _leads_on(log: EventLog, published: Published, last: Publication, state: State) -> bool:
    """Return whether the last publication is of an earlier version of the same log."""
    if _is_last(published, last):
        return True
    if last.published.table_id != published.table_id or last.state.n > state.n:
        return False
    begin = log.event(last.state.n)
    return begin is not None and begin.time == last.state.time  # else expired, or rebuilt


def _rebased(changes: Changes, published: Published, last: Publication) -> Changes | None:
    """Return the changes from a published version, given those from the last publication.

    None if a file that did not change since is published in another way: it was hidden, and shown
    again, in between.
    """
    then, now = last.published.files, published.files
    moved = PublishedFiles.of(then).differing(now)
    unchanged = moved - changes.shown.keys() - changes.gone
    if any(path in then for path in unchanged):
        return None
    return Changes(
        gone=frozenset({*(path for path in changes.gone if path in now), *unchanged}),
        shown={
            path: file
            for path, file in changes.shown.items()
            if path not in now or now[path].key != file.key
        },
    )


def _logged(log: EventLog, event: int, state: State) -> tuple[State, State] | None:
    """Return the states at an event and at that of ``state``, which share unchanged chunks."""
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
    event = ports.log.last_event(state)
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


def last_apart(
    log: EventLog, state: State, published: Published, changes: Changes, last: Publication | None
) -> State | None:
    """Return an earlier version to publish first (rule 5); None if there is none.

    Args:
        log: the table's log.
        state: the version to publish.
        published: the published version, which follows the log.
        changes: the changes between both.
        last: the last publication of this process.
    """
    between = state.n - published.event - 1
    if not changes.gone or state.table.kind.merges or not 0 < between <= MOST_APART:
        return None
    events = [*islice(log.events(published.event + 1), between + 1)]
    stop = _first_turn(events)
    if stop is None or stop < state.retained_from or len(events) <= between:
        return None  # files of a version that is not kept may be gone
    if last is not None and _is_last(published, last) and last.state.n <= stop:
        passed = events[last.state.n - published.event :]
        return reduce(apply, takewhile(lambda each: each.n <= stop, passed), last.state)
    with suppress(VersionExpired, CorruptTable):
        return log.version(stop, state)
    return None


def _first_turn(events: Sequence[Event]) -> int | None:
    """Return the last event before rows begin, or cease, to be only moved; None if none does."""
    moving: bool | None = None
    for event in events:
        if effects(event.action):
            moves = False
        elif segments_of(event.action):
            moves = True
        else:
            continue
        if moving not in (None, moves):
            return event.n - 1
        moving = moves
    return None


def _rows_change(log: EventLog, state: State, last: Event, since: int) -> bool:
    """Return whether an event after ``since`` changes visible rows (rule 4)."""
    if state.table.kind.merges or not 0 <= state.n - since <= MOST_EVENTS:
        return True
    if effects(last.action):
        return True
    between = (log.event(n) for n in range(since + 1, state.n))
    return any(event is None or effects(event.action) for event in between)

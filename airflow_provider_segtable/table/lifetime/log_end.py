"""End a log for good: its last event, and a marker above it.

1. ``TableDropped`` is committed. From then on no version can be opened, and every commit is refused
   with ``TableGone``.
2. The marker above the event has the event as its content, and is durable before anything else of
   the log is deleted. So a writer that was paused right before its put puts nothing that counts.
3. Both may be repeated: what another process did is found.
"""

from collections.abc import Callable

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    OutcomeUnknown,
    SegtableError,
    TableGone,
)
from airflow_provider_segtable.core.indexes.index_table import folder
from airflow_provider_segtable.core.log.codec import encode
from airflow_provider_segtable.core.log.events import Event, TableDropped
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, commit_or_raise
from airflow_provider_segtable.table.log.event_log import EXPIRED, TIMELINE, expired_path


def end_log(ports: TableContext, guard: Callable[[], None] = lambda: None) -> Event:
    """Commit the end of the log, unless another drop has; return its event.

    Raises:
        TableGone: another drop ended it, and a new table was created in its place.
    """
    try:
        state = ports.log.load()
        action, commit_id = end_of(state), ports.randomness.token()
        done = commit_or_raise(
            ports, state, Change(action=action, commit_id=commit_id, guard=guard)
        )
    except TableGone:
        end = ports.log.end()  # by another drop, or by ours, whose reply was lost
        if end is None:
            raise
        return end
    return Event(
        n=done.n, time=done.state.time, commit=commit_id, author=ports.author, action=action
    )


def mark_end(ports: TableContext, end: Event) -> None:
    """Put the marker of rule 3, and make it and the event below it durable."""
    try:
        ports.storage.create(expired_path(end.n + 1), encode(end))
    except (AlreadyExists, OutcomeUnknown):
        if ports.log.first() <= end.n:
            raise  # it is unknown whether there is a marker
    for path in (TIMELINE, EXPIRED):
        ports.storage.settle(path)


def end_index_log(ports: TableContext, index: str) -> frozenset[str]:
    """End the log of an index's own table; return its marker, which must not be deleted with it.

    A log that cannot be read or ended has no marker: what comes late there, cleaning deletes.
    """
    own = ports.within(folder(index))
    try:
        end = end_log(own)
        mark_end(own, end)
    except SegtableError:
        return frozenset()
    return frozenset({f"{folder(index)}/{expired_path(end.n + 1)}"})


def marks(path: str, end: Event) -> bool:
    """Return whether a path is that of the marker above an end."""
    return path == expired_path(end.n + 1)


def end_of(state: State) -> TableDropped:
    """Return the event that ends the log of a state."""
    return TableDropped(table_id=state.table.table_id, name=state.table.name)


def dropped(end: Event) -> TableDropped:
    """Return what the last event of a log says.

    Raises:
        CorruptTable: it is another event.
    """
    if not isinstance(end.action, TableDropped):
        raise CorruptTable(f"event {end.n} is {end.kind}, but a marker names it as the last one")
    return end.action

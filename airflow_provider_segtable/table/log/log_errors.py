"""Errors of a log that is dropped, expired, replaced or damaged: what happened, and the way out."""

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotATable,
    TableGone,
    VersionExpired,
)
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.table_events import TableDropped
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import iso


def no_table(uri: str) -> NotATable:
    """Return the error of a place without a log."""
    return NotATable(
        f"{uri} holds no segtable table: check the path, or make one with `segtable table create`"
    )


def gone(uri: str, event: Event | None) -> TableGone:
    """Return the error of a dropped table, with the event that dropped it, if it was found."""
    if event is None or not isinstance(event.action, TableDropped):
        return TableGone(f"{uri}: the table was dropped")
    return TableGone(
        f"{uri}: table {event.action.name!r} was dropped at {iso(event.time)} by "
        f"{event.author}; `segtable table create` makes a new one here"
    )


def replaced(uri: str, known: State) -> TableGone:
    """Return the error of a table that another one has replaced."""
    return TableGone(
        f"{uri}: table {known.table.name!r} was dropped, and another one was "
        "created in its place: open it again"
    )


def expired(uri: str, what: str, newest: State) -> VersionExpired:
    """Return the error of a version that is no longer kept."""
    tags = ", ".join(f"{name} ({n})" for name, n in sorted(newest.tags.items()))
    also = f"; tagged are {tags}" if tags else ""
    return VersionExpired(
        f"{uri}: {what} is no longer kept: the oldest kept is version {newest.retained_from}{also}"
    )


def unreadable(uri: str, checkpoints: str, first: int) -> CorruptTable:
    """Return the error of a log whose checkpoints are lost."""
    return CorruptTable(
        f"{uri}: the log begins with event {first} and no checkpoint from there "
        f"on can be read: restore {checkpoints}/, or run `segtable repair`"
    )

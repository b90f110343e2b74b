"""The history of a table: its events as short values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from airflow_provider_segtable.core.log.events import Appended, Event, RowsChanged
from airflow_provider_segtable.core.time import moment
from airflow_provider_segtable.table.log.event_log import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event.

    Attributes:
        n: its number, which is a version of the table.
        time: when it was committed, UTC.
        what: ``appended``, ``delete``, ``update``, ``merge``, ``plan completed``, and so on.
        rows: the rows that it adds to the table, less those that it deletes; None if these were
            not counted, as in a rollup table.
        author: the process that committed it.
    """

    n: int
    time: datetime
    what: str
    rows: int | None
    author: str


def history(log: EventLog, limit: int | None) -> list[HistoryEntry]:
    """Return the newest events, newest first; all that the log keeps without a limit."""
    newest, first = log.load().n, log.first()
    return [_entry(event) for event in islice(_backwards(log, newest, first), limit)]


def _backwards(log: EventLog, newest: int, first: int) -> Iterator[Event]:
    for n in range(newest, first - 1, -1):
        event = log.event(n)
        if event is None:  # it expired meanwhile, and all before it
            return
        yield event


def _entry(event: Event) -> HistoryEntry:
    what, rows = _words(event.kind), 0
    match event.action:
        case Appended(segments=segments):
            rows = sum(segment.rows for segment in segments)
        case RowsChanged() as change:
            what = change.kind
            rows = sum(segment.rows for segment in change.segments) - change.deleted
            if change.predicate is not None:
                return _made(event, what, None)
    return _made(event, what, rows)


def _made(event: Event, what: str, rows: int | None) -> HistoryEntry:
    return HistoryEntry(
        n=event.n, time=moment(event.time), what=what, rows=rows, author=event.author
    )


def _words(kind: str) -> str:
    """Return e.g. ``plan completed`` for ``PlanCompleted``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()

"""Detect a log that is ahead of time, because an author's clock was ahead at a commit.

1. The storage records with its own clock when it received an event. If the event's time is much
   later, its author's clock was ahead; the times of all later events follow it.
2. So the event times are right up to some event, and ahead from the next one on. A binary search
   finds that event in a few reads. Copying a log makes its files newer, so it never looks ahead.

Authors with such clocks are now refused (``table.clocks``); older logs may be affected.
"""

from bisect import bisect_left
from collections.abc import Iterator

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import TIMELINE, event_path, number

REBUILD = (
    "correct that host's clock (NTP), stop all writers, and keep a copy of _segtable/. Then delete "
    "this event and every checkpoint from number {n} on, run `segtable repair {uri} --deletes "
    "apply`, read its report, and run it again with --yes"
)


def log_ahead(ports: TableContext, state: State, most_s: float) -> Iterator[Finding]:
    """Yield the first event ahead of the storage's clock, if the newest event is ahead.

    Raises:
        StorageError: the log could not be listed.
    """
    most_us = int(most_s * 1e6)
    newest = _stored(ports, state.n)
    if state.n not in newest or state.time - newest[state.n] <= most_us:
        return
    log, stored = ports.log, _stored(ports, 0)

    def ahead(n: int) -> bool:
        event = log.event(n)
        return event is not None and event.time - stored[n] > most_us

    known = sorted(n for n in stored if n <= state.n)
    first = known[min(bisect_left(known, True, key=ahead), len(known) - 1)]
    event = log.event(first)
    if event is None:
        return
    days = (event.time - stored[first]) / 86_400e6
    yield Finding(
        code="log-ahead",
        severity=Severity.CRITICAL,
        where=event_path(first),
        what=f"its time {iso(event.time)}, of {event.author}, is {days:.1f} days after the storage "
        f"received it ({iso(stored[first])}); {state.n - first} later events follow that time",
        why="the log's time never decreases: nothing gets old enough to expire or to be compacted "
        "by age, and reads as of now end before this event",
        do=REBUILD.format(n=first, uri=ports.uri),
    )


def _stored(ports: TableContext, start: int) -> dict[int, Instant]:
    """Return the storage's receipt time of each event from number ``start`` on."""
    after = event_path(start - 1) if start else None
    entries = ports.storage.list(TIMELINE, after=after)
    return {n: e.modified for e in entries if (n := number(e.path)) is not None}

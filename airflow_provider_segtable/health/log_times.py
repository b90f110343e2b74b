"""Whether the log is ahead of time: an author's clock was off when it committed.

1. The storage notes by its own clock when it got an event. An event whose time is much later was
   stamped by a clock that was ahead; every event after it follows its time.
2. So the events of a log are right up to some number, and ahead from there on: the first is found
   by halving, in a few reads. A log that was copied looks younger, never ahead.

Authors are refused before that (``table.clocks``); logs of earlier versions may have it.
"""

from bisect import bisect_left
from collections.abc import Iterator

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time.interval import Instant, iso
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import TIMELINE, event_path, number

GUIDE = "docs/guides/runbook.md, 'A log that is ahead of time'"


def log_ahead(ports: TableContext, state: State, most_s: float) -> Iterator[Finding]:
    """Yield the first event that is ahead of the storage's clock, if the newest one is.

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
        what=f"{event.author} stamped it {iso(event.time)}, {days:.1f} days after the storage got "
        f"it ({iso(stored[first])}); the {state.n - first} events since follow that time",
        why="the log's time never goes back: nothing gets old enough to expire or to be compacted "
        "by age, and reads as of now end before it",
        do=f"set that host's clock (NTP); stop the writers and rebuild the log from here: {GUIDE}",
    )


def _stored(ports: TableContext, start: int) -> dict[int, Instant]:
    """Return when the storage got the events from a number on."""
    after = event_path(start - 1) if start else None
    entries = ports.storage.list(TIMELINE, after=after)
    return {n: e.modified for e in entries if (n := number(e.path)) is not None}

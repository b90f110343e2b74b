"""Events that were read once: their lines and effects, by table and number.

1. An event never changes, so what is shown of it is kept, without its segments.
2. Events are read in stretches, several at once on an object store (``EventLog.events``).
3. A number without an event has expired, or another reader is ahead of the log: it is left out.
4. A shelf is shared by threads, and keeps the last used ``KEPT`` events of all tables.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from airflow_provider_segtable.core.log.event_kind import RowsDeleted, RowsDiffer, RowsInserted
from airflow_provider_segtable.core.log.events import (
    Event,
    effects,
    kind_of,
    line,
    plans_of,
    segments_of,
    touched,
)
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.table.log.event_log import EventLog

KEPT = 20_000


class EventDigest(NamedTuple):
    """What is shown of an event in lists.

    ``rows_deleted`` is None if only a reader of rows can know it. ``touches`` are the intervals in
    which segments or their deleted rows may have changed; None: all. ``cleaned`` counts removed
    segments.
    """

    n: int
    time: Instant
    kind: str
    sentence: str
    author: str
    commit: str
    plans: tuple[str, ...]
    rows_added: int
    rows_deleted: int | None
    files_added: int
    bytes_added: int
    cleaned: int
    moved: bool
    touches: frozenset[Interval] | None

    def touches_any(self, window: Interval) -> bool:
        """Return whether segments of an interval, or their rows, may have changed."""
        return self.touches is None or any(each.overlaps(window) for each in self.touches)


def digest_of(event: Event) -> EventDigest:
    """Return what is shown of an event in lists."""
    action = event.action
    files = [segment for segment in segments_of(action) if segment.path]
    deleted: int | None = 0
    added, roots = 0, set[Interval]()
    for effect in effects(action):
        match effect:
            case RowsInserted(segments=segments):
                added += sum(segment.rows for segment in segments)
            case RowsDeleted(vectors=vectors):
                deleted = (deleted or 0) + sum(sum(file.rows.values()) for file in vectors)
                roots |= {root.interval for file in vectors for root in file.rows}
            case RowsDiffer():
                deleted = None
    if isinstance(action, RowsChanged) and action.predicate is not None:
        deleted = None
    places = touched(action)
    return EventDigest(
        n=event.n,
        time=event.time,
        kind=event.kind,
        sentence=line(action),
        author=event.author,
        commit=event.commit,
        plans=plans_of(action),
        rows_added=added,
        rows_deleted=deleted,
        files_added=len(files),
        bytes_added=sum(segment.size for segment in files),
        cleaned=len(action.ids) if isinstance(action, Cleaned) else 0,
        moved=kind_of(action).moved,
        touches=None if places is None else places | roots,
    )


class EventShelf:
    """The events that were read, by table and number; see the module."""

    def __init__(self, kept: int = KEPT) -> None:
        """Keep at most so many events."""
        self._digests: Recent[tuple[str, int], EventDigest] = Recent(kept)

    def between(self, log: EventLog, table_id: str, low: int, high: int) -> list[EventDigest]:
        """Return the events from ``low`` to before ``high``, in order; expired ones are left out.

        Raises:
            CorruptTable: an event is damaged.
            StorageError: the store failed.
        """
        kept = {n: self._digests.get((table_id, n)) for n in range(low, high)}
        known = {n: found for n, found in kept.items() if found is not None}
        for first, after in _stretches([n for n in range(low, high) if n not in known]):
            for event in takewhile(_before(after), log.events(first)):
                known[event.n] = self._digests.keep((table_id, event.n), digest_of(event))
        return [known[n] for n in sorted(known)]

    def backwards(
        self, log: EventLog, table_id: str, high: int, low: int, step: int
    ) -> Iterator[EventDigest]:
        """Yield the events before ``high`` down to ``low``; ``step`` are read at once.

        Errors as ``between``.
        """
        for end in range(high, low, -step):
            yield from reversed(self.between(log, table_id, max(low, end - step), end))


def _before(n: int) -> Callable[[Event], bool]:
    return lambda event: event.n < n


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive numbers, each with its first number and the one after it."""
    first = None
    for at, n in enumerate(numbers):
        first = n if first is None else first
        if at + 1 == len(numbers) or numbers[at + 1] != n + 1:
            yield first, n + 1
            first = None

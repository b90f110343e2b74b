"""Change feeds of primary-key tables: which files have the changes of each event of a window.

1. The feed is divided into pieces (``data.keyed.feed_pieces``), by file group: each reads its own
   files, so a library reads one after another, and Spark all at once.
2. Only file groups with records in the window are looked at, and of these only the keys with such
   records.
3. Compactions change nothing that readers see. But one that makes a base file may drop tombstones,
   which decide what a later record changes. So it ends a *stretch* of events: after it the rows are
   read anew. So does a restore or repair: the rows of the versions before and after it are compared
   as a whole, across all file groups of a region if their time chunks or buckets differ.
4. Memory holds the rows of these keys. Retention keeps the files of the start and of the window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from airflow_provider_segtable.core.log.events import Appended, Event, PlanCompleted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import Differs, effects
from airflow_provider_segtable.core.segment import Place
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.keyed.feed_pieces import (
    Changed,
    Comparison,
    FeedPiece,
    Files,
    Step,
    Stretch,
)
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.reads.window import walked


@dataclass(frozen=True, slots=True)
class KeyedFeed:
    """The change feed of a primary-key table."""

    log: EventLog

    def changes(
        self, start: State, end: State, reader: GroupReader, rules: MergeRules
    ) -> Iterator[Changed]:
        """Yield the changes of the window after ``start``, up to ``end``, in order.

        Raises:
            WindowExpired: an event of the window is gone.
        """
        for pieces in self.pieces(start, end):
            read = (piece.changes(reader, rules) for piece in pieces)
            yield from merge(*read, key=lambda changed: changed[0].n)

    def pieces(self, start: State, end: State) -> Iterator[Sequence[FeedPiece]]:
        """Yield the pieces of a window, those of the same events together; errors as ``changes``.

        The events of later pieces are later.
        """
        stretch: list[Event] = []
        begin = start
        for event, before, after in walked(self.log, start, end):
            differs = any(isinstance(each, Differs) for each in effects(event.action))
            if differs or _makes_base(event):
                yield _stretches(begin, stretch)
                begin, stretch = after, []
            if differs:
                for piece in _comparisons(before, after, event):
                    yield [piece]
            else:
                stretch.append(event)
        yield _stretches(begin, stretch)


def _stretches(start: State, events: Sequence[Event]) -> list[FeedPiece]:
    """Return the pieces of events that only add records."""
    steps: dict[Place, list[Step]] = {}
    for event in events:
        for place, logs in sorted(_by_place(event, start).items()):
            steps.setdefault(place, []).append(Step(n=event.n, time=event.time, logs=logs))
    return [
        Stretch(files=_visible(start, place), steps=tuple(some))
        for place, some in sorted(steps.items(), key=lambda item: item[0])
    ]


def _comparisons(before: State, after: State, event: Event) -> Iterator[Comparison]:
    """Yield the pieces that compare two versions in the intervals that an event names."""
    for each in effects(event.action):
        for interval in each.intervals if isinstance(each, Differs) else ():
            places = sorted({*_places(before, interval), *_places(after, interval)})
            alike = before.layout.cuts(interval) == after.layout.cuts(interval)
            for some in ([place] for place in places) if alike else (places,):
                yield Comparison(
                    n=event.n,
                    time=event.time,
                    before=tuple(_visible(before, place) for place in some),
                    after=tuple(_visible(after, place) for place in some),
                )


def _makes_base(event: Event) -> bool:
    """Return whether a compaction publishes a base."""
    action = event.action
    return isinstance(action, PlanCompleted) and any(s.shard.base for s in action.segments)


def _by_place(event: Event, start: State) -> dict[Place, Files]:
    """Return the log files that an event published, with its time as their completion time."""
    found: dict[Place, Files] = {}
    if isinstance(event.action, Appended):
        for segment in event.action.segments:
            place = Place(segment.id.interval, segment.id.bucket)
            completed = start.table.kind.published(segment, event.time)
            found[place] = (*found.get(place, ()), completed)
    return found


def _places(state: State, interval: Interval) -> Iterator[Place]:
    return (c.place for c in state.timeline.visible_chunks(interval))


def _visible(state: State, place: Place) -> Files:
    return tuple(
        segment
        for segment in state.timeline.visible_segments(place.interval)
        if segment.id.chunk.place == place and segment.rows
    )

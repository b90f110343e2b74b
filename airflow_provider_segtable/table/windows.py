"""Windows of a table's versions: their ends, the rows added in between, and change feeds.

Ends of a window:

1. The end is a version as of any read, the newest by default. The start is exclusive: an event
   number, the newest version at a time, or a consumer's position.
2. Times are completion times. They increase along the log, so a window by time is one by number;
   a writer that began long before the window is in it iff its event is.
3. Added rows need the start's state and the end's files: the start may be any kept version. Changes
   need every event since the start, and the files that deleted rows were in: the start must be
   within retention, so that all later versions are kept, too.
4. A start before the creation of the table means the creation.

Change feeds, every change of a row in a window, event by event:

5. The events of the window are read in order, each with the state before it.
   ``core.reads.effects`` decides the changes of an event. They become parts to read here, in the
   order of the events: deleted rows first, then inserted ones.
6. Inserted rows are those of the event's own files. Deleted rows are found by their root addresses
   in the files that the version before showed. Retention keeps both as long as it keeps the start
   of the window, whatever is compacted meanwhile.
7. For a restore or repair, the rows visible before and after are compared by root address. Segments
   that both versions show with the same deletions are not opened.
8. Every part has the change of its rows, from which ``data.rows`` makes columns.

Change feeds of primary-key tables, the files with the changes of each event:

9. The feed is divided into pieces by file group (``data.keyed.file_groups``). Each piece reads its
   own files, so a library reads one after another, and Spark all at once.
10. Only file groups with records in the window are read, and of these only the keys with such
    records. Memory holds the rows of these keys. Retention keeps the files of the start and of the
    window.
11. Compactions change no visible row. But one that makes a base file may drop tombstones, which
    decide the change that a later record makes. So it ends a *stretch* of events: after it the rows
    are read anew. A restore or repair ends one, too: the rows of the versions before and after it
    are compared as a whole, across all file groups of a region if their time chunks or buckets
    differ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from typing import TypeAlias, assert_never

from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import roots_among
from airflow_provider_segtable.core.errors import (
    InvalidInput,
    NotFound,
    VersionExpired,
    WindowExpired,
)
from airflow_provider_segtable.core.log.event_kind import (
    RowEffect,
    RowsDeleted,
    RowsDiffer,
    RowsInserted,
)
from airflow_provider_segtable.core.log.events import Event, effects
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import RowChange, added
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.segment import Place, Segment, SegmentId
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.data.keyed.file_groups import (
    Changed,
    Comparison,
    FeedPiece,
    Files,
    Step,
    Stretch,
)
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.row_filter import Bits, RowFilter, bits_of
from airflow_provider_segtable.data.vector_file import read_vectors, row_filters, united
from airflow_provider_segtable.table.kept_versions import known_consumer, known_tag
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.parts import (
    Clipped,
    Part,
    PartReader,
    Wanted,
    addresses_among,
    clip_of,
)


def version_read(log: EventLog, request: ReadRequest) -> State:
    """Return the version that a request names, the newest by default.

    Raises:
        VersionExpired: it is no longer kept.
        InvalidInput: the tag does not exist.
    """
    if request.tag is not None:
        newest = log.load()
        return log.version(known_tag(newest, request.tag), newest)
    if request.version is not None:
        return log.at(request.version)
    return log.load() if request.as_of is None else log.as_of(request.as_of)


def start_read(log: EventLog, request: ReadRequest, end: State) -> State | None:
    """Return the version before a request's window; None if it reads a whole version.

    Raises:
        WindowExpired: the start is no longer kept; the message names the oldest one.
        InvalidInput: the start is after the end, there is no such consumer, or the log of this kind
            of table does not record the rows of an event.
    """
    if not request.windowed:
        return None
    end.table.kind.check_window(log.storage.uri)
    newest = log.refresh(end)
    try:
        start = _started(log, request, newest)
    except VersionExpired:
        raise expired(log, _start_name(request), newest) from None
    if start.n > end.n:
        raise InvalidInput(
            f"{_start_name(request)} is version {start.n}, after the end of the window, "
            f"version {end.n}"
        )
    if request.changes and start.n < newest.retained_from:
        raise expired(log, _start_name(request), newest)
    return start


def pinned(log: EventLog, request: ReadRequest, end: State) -> ReadRequest:
    """Return the request with its window's start as a version: it reads the same window again.

    Raises:
        WindowExpired, InvalidInput: as ``start_read``.
    """
    start = start_read(log, request, end)
    if start is None:
        return request
    return replace(request, since_version=start.n, since=None, consumer=None)


def expired(log: EventLog, what: str, newest: State) -> WindowExpired:
    """Return the error of a window whose start is no longer kept."""
    oldest = log.event(newest.retained_from)
    time = f" ({iso(oldest.time)})" if oldest else ""
    return WindowExpired(
        f"{log.storage.uri}: what was committed after {what} was cleaned: the oldest start is "
        f"version {newest.retained_from}{time}; read a whole version, and go on from there. A "
        "consumer's position keeps versions: `segtable consumers advance`"
    )


def walked(log: EventLog, start: State, end: State) -> Iterator[tuple[Event, State, State]]:
    """Yield the events of a window, each with the states before and after it.

    Raises:
        WindowExpired: an event has expired.
    """
    before = start
    for n in range(start.n + 1, end.n + 1):
        event = log.event(n)
        if event is None:
            raise expired(log, f"version {start.n}", log.load())
        after = apply(before, event)
        yield event, before, after
        before = after


def added_part(part: Part, start: State) -> Part:
    """Return the part with the rows that were added after ``start`` only."""
    found = added(part.segment, start)
    if found.whole:
        return part
    chosen = dict.fromkeys(map(str, found.roots))
    return replace(part, row_filter=replace(part.row_filter, chosen=chosen))


def _started(log: EventLog, request: ReadRequest, newest: State) -> State:
    if request.since is not None:
        created = log.begin()
        early = request.since < newest.base_version
        return log.version(created, newest) if early else log.as_of(request.since)
    if request.consumer is not None:
        n = known_consumer(newest, request.consumer).version
    else:
        n = request.since_version or 0
    return log.at(n)


def _start_name(request: ReadRequest) -> str:
    if request.since is not None:
        return f"since={iso(request.since)}"
    if request.consumer is not None:
        return f"the position of consumer {request.consumer!r}"
    return f"since_version={request.since_version}"


Rows: TypeAlias = Mapping[SegmentId, BitMap]
ChangeOf: TypeAlias = Callable[[RowEffect], RowChange]


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The change feed of a table, restricted to the wanted rows."""

    reader: PartReader
    log: EventLog
    wanted: Wanted

    def parts(self, start: State, end: State) -> Iterator[Part]:
        """Yield the parts of the window after ``start``, up to ``end``.

        Raises:
            WindowExpired: an event or a file of the window was cleaned.
        """
        for event, before, after in walked(self.log, start, end):
            yield from self._changed(event, before, after)

    def _changed(self, event: Event, before: State, after: State) -> Iterator[Part]:
        def change_of(effect: RowEffect) -> RowChange:
            return RowChange(effect, event.n, event.time)

        for each in effects(event.action):
            match each:
                case RowsInserted(segments=segments, effect=effect):
                    yield from self._inserted(segments, change_of(effect))
                case RowsDeleted(vectors=files, effect=effect):
                    read = (read_vectors(self.reader.files, f.path, f.checksum) for f in files)
                    yield from self._deleted(united(read), before, change_of(effect))
                case RowsDiffer(intervals=intervals):
                    for interval in intervals:
                        yield from self._differing(interval, before, after, change_of)
                case _:
                    assert_never(each)

    def _inserted(self, segments: Iterable[Segment], change: RowChange) -> Iterator[Part]:
        filled = (segment for segment in segments if segment.rows)
        for segment, clip in filter(
            self.wanted.may_hold, (Clipped(s, clip_of(s, self.wanted.interval)) for s in filled)
        ):
            yield Part(
                segment=segment, row_filter=RowFilter.idle(segment), clip=clip, change=change
            )

    def _deleted(self, rows: Rows, before: State, change: RowChange) -> Iterator[Part]:
        for segment, clip in self.wanted.among(before, rows).left:
            part = Part(segment=segment, row_filter=RowFilter.idle(segment), clip=clip)
            yield _with_chosen(part, rows, change)

    def _differing(
        self, interval: Interval, before: State, after: State, change_of: ChangeOf
    ) -> Iterator[Part]:
        """Yield the rows of an interval that only one of two versions shows."""
        asked = self.wanted.interval
        inside = interval if asked is None else interval.clip(asked)
        if inside is None:
            return
        here = replace(self.wanted, interval=inside)
        try:
            old, new = self._only_in(here, before, after), self._only_in(here, after, before)
            was, now = addresses_among(self.reader, old), addresses_among(self.reader, new)
            gone = [*_chosen_parts(old, _minus(was, now), change_of(RowEffect.DELETE))]
            for part in gone:
                with self.reader.files.open(part.segment.path):
                    pass
        except NotFound as error:
            n = change_of(RowEffect.DELETE).n
            raise WindowExpired(
                f"{self.log.storage.uri}: event {n} removed rows whose file is gone ({error}): "
                f"read version {n} whole, and go on from there (since_version={n})"
            ) from None
        yield from gone
        yield from _chosen_parts(new, _minus(now, was), change_of(RowEffect.INSERT))

    def _only_in(self, wanted: Wanted, mine: State, other: State) -> list[Part]:
        """Return the parts of a version that another version shows differently or not at all."""
        theirs = {_visible_key(other, *found) for found in wanted.among(other).left}
        found = [
            each for each in wanted.among(mine).left if _visible_key(mine, *each) not in theirs
        ]
        filters = row_filters(self.reader.files, mine, (segment for segment, _ in found))
        return [Part(segment=s, row_filter=filters[s.id], clip=clip) for s, clip in found]


def _visible_key(state: State, segment: Segment, clip: Interval | None) -> tuple[object, ...]:
    """Return the key of a file's visible rows in a version; the segment's id is no part of it."""
    deletions = state.deletions(segment).items()
    vectors = ((root, each.path) for root, some in deletions for each in some)
    return segment.path, clip, frozenset(vectors)


def _minus(rows: Rows, others: Rows) -> dict[SegmentId, BitMap]:
    left = {root: some - others.get(root, BitMap()) for root, some in rows.items()}
    return {root: some for root, some in left.items() if some}


def _chosen_parts(parts: Iterable[Part], rows: Rows, change: RowChange) -> Iterator[Part]:
    for part in parts:
        chosen = _with_chosen(part, rows, change)
        if chosen.row_filter.chosen:
            yield chosen


def _with_chosen(part: Part, rows: Rows, change: RowChange) -> Part:
    """Return the part restricted to the rows at these addresses."""
    chosen: dict[str, Bits | None] = {
        str(root): bits_of(rows[root].to_array()) for root in roots_among(part.segment, rows)
    }
    return replace(part, row_filter=replace(part.row_filter, chosen=chosen), change=change)


@dataclass(frozen=True, slots=True)
class KeyedFeed:
    """The change feed of a primary-key table."""

    log: EventLog

    def changes(
        self, start: State, end: State, reader: GroupReader, rules: MergeRules
    ) -> Iterator[Changed]:
        """Yield the changes of the window after ``start``, up to ``end``, in order.

        Raises:
            WindowExpired: an event of the window has expired.
        """
        for pieces in self.pieces(start, end):
            with reader.ahead(file for piece in pieces for file in piece.segments) as ahead:
                read = (piece.changes(ahead, rules) for piece in pieces)
                yield from merge(*read, key=lambda changed: changed[0].n)

    def pieces(self, start: State, end: State) -> Iterator[Sequence[FeedPiece]]:
        """Yield the pieces of a window, grouped by events in order; errors as ``changes``."""
        stretch: list[Event] = []
        begin = start
        for event, before, after in walked(self.log, start, end):
            differs = any(isinstance(each, RowsDiffer) for each in effects(event.action))
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
        for interval in each.intervals if isinstance(each, RowsDiffer) else ():
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

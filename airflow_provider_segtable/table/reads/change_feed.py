"""Change feeds: every change of a row in a window of versions, event by event.

1. The events of the window are read in order, each with the state before it. What an event changes
   is decided by ``core.reads.effects``; here it becomes parts to read, in the order of the events:
   deleted rows first, then inserted ones.
2. Inserted rows are those of the event's own files. Deleted rows are found by their root addresses
   in the files that the version before showed. Retention keeps both as long as it keeps the start
   of the window, whatever is compacted meanwhile.
3. Of a restore or repair, the rows visible before and after are compared by root address. Segments
   that both sides show with the same deletions are not opened.
4. Every part has the change of its rows, from which ``data.arrow.change_columns`` makes columns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from pyroaring import BitMap

from airflow_provider_segtable.core.deletion import roots_among
from airflow_provider_segtable.core.errors import NotFound, WindowExpired
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import (
    Came,
    Differs,
    RowChange,
    RowEffect,
    Went,
    effects,
)
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.deletes.row_bits import Bits, bits_of
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.deletes.segment_filters import row_filters
from airflow_provider_segtable.data.deletes.vector_file import read_vectors, united
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.reads.parts import (
    Clipped,
    Part,
    PartReader,
    Wanted,
    clip_of,
)
from airflow_provider_segtable.table.reads.row_addresses import addresses_among
from airflow_provider_segtable.table.reads.window import walked

Rows: TypeAlias = Mapping[SegmentId, BitMap]
Said: TypeAlias = Callable[[RowEffect], RowChange]


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The change feed of a table, as far as its rows are wanted."""

    reader: PartReader
    log: EventLog
    wanted: Wanted

    def parts(self, start: State, end: State) -> Iterator[Part]:
        """Yield the parts of the window after ``start``, up to ``end``.

        Raises:
            WindowExpired: an event or a file of the window is gone.
        """
        for event, before, after in walked(self.log, start, end):
            yield from self._changed(event, before, after)

    def _changed(self, event: Event, before: State, after: State) -> Iterator[Part]:
        def said(effect: RowEffect) -> RowChange:
            return RowChange(effect, event.n, event.time)

        for each in effects(event.action):
            match each:
                case Came(segments=segments, effect=effect):
                    yield from self._came(segments, said(effect))
                case Went(vectors=files, effect=effect):
                    read = (read_vectors(self.reader.files, f.path, f.checksum) for f in files)
                    yield from self._went(united(read), before, said(effect))
                case Differs(intervals=intervals):
                    for interval in intervals:
                        yield from self._differing(interval, before, after, said)
                case _:
                    assert_never(each)

    def _came(self, segments: Iterable[Segment], change: RowChange) -> Iterator[Part]:
        filled = (segment for segment in segments if segment.rows)
        for segment, clip in filter(
            self.wanted.may_hold, (Clipped(s, clip_of(s, self.wanted.interval)) for s in filled)
        ):
            yield Part(
                segment=segment, row_filter=RowFilter.idle(segment), clip=clip, change=change
            )

    def _went(self, rows: Rows, before: State, change: RowChange) -> Iterator[Part]:
        for segment, clip in self.wanted.among(before, rows).left:
            part = Part(segment=segment, row_filter=RowFilter.idle(segment), clip=clip)
            yield _choosing(part, rows, change)

    def _differing(
        self, interval: Interval, before: State, after: State, said: Said
    ) -> Iterator[Part]:
        """Yield the rows of an interval that only one of two versions shows."""
        asked = self.wanted.interval
        inside = interval if asked is None else interval.clip(asked)
        if inside is None:
            return
        here = replace(self.wanted, interval=inside)
        try:
            old, new = self._alone(here, before, after), self._alone(here, after, before)
            was, now = addresses_among(self.reader, old), addresses_among(self.reader, new)
            gone = [*_choices(old, _less(was, now), said(RowEffect.DELETE))]
            for part in gone:
                with self.reader.files.open(part.segment.path):
                    pass
        except NotFound as error:
            n = said(RowEffect.DELETE).n
            raise WindowExpired(
                f"{self.log.storage.uri}: event {n} removed rows whose file is gone ({error}): "
                f"read version {n} whole, and go on from there (since_version={n})"
            ) from None
        yield from gone
        yield from _choices(new, _less(now, was), said(RowEffect.INSERT))

    def _alone(self, wanted: Wanted, mine: State, other: State) -> list[Part]:
        """Return the parts of a version that another one does not show in the same way."""
        theirs = {_shown(other, *found) for found in wanted.among(other).left}
        found = [each for each in wanted.among(mine).left if _shown(mine, *each) not in theirs]
        filters = row_filters(self.reader.files, mine, (segment for segment, _ in found))
        return [Part(segment=s, row_filter=filters[s.id], clip=clip) for s, clip in found]


def _shown(state: State, segment: Segment, clip: Interval | None) -> tuple[object, ...]:
    """Return what decides which rows a version shows of a file; the segment's id does not."""
    deletions = state.deletions(segment).items()
    vectors = ((root, each.path) for root, some in deletions for each in some)
    return segment.path, clip, frozenset(vectors)


def _less(rows: Rows, others: Rows) -> dict[SegmentId, BitMap]:
    left = {root: some - others.get(root, BitMap()) for root, some in rows.items()}
    return {root: some for root, some in left.items() if some}


def _choices(parts: Iterable[Part], rows: Rows, change: RowChange) -> Iterator[Part]:
    for part in parts:
        chosen = _choosing(part, rows, change)
        if chosen.row_filter.chosen:
            yield chosen


def _choosing(part: Part, rows: Rows, change: RowChange) -> Part:
    """Return a part with only the rows at these addresses."""
    chosen: dict[str, Bits | None] = {
        str(root): bits_of(rows[root].to_array()) for root in roots_among(part.segment, rows)
    }
    return replace(part, row_filter=replace(part.row_filter, chosen=chosen), change=change)

"""Change feeds of primary-key tables: what each event changed of the rows that readers see.

1. Only the keys with records in the window are looked at. Of each file group, their rows at the
   start of the window are merged once; then the log files of each event are merged into them, in
   the order of the events.
2. A key whose row came is an ``insert``, whose row went a ``delete``. A key with another winning
   record is an update, before and after. A record that lost (it was late) changes nothing.
3. Compactions change nothing that readers see. But one that makes a base file may drop tombstones,
   which decide what a later record changes. So it ends a *stretch* of events: after it the rows are
   read anew. So does a restore or repair: the rows of the versions before and after it are compared
   as a whole, across all file groups of a region if their time chunks or buckets differ.
4. Memory holds the rows of these keys. Retention keeps the files of the start and of the window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.log.events import Appended, Event, PlanCompleted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import (
    Differs,
    RowChange,
    RowEffect,
    effects,
)
from airflow_provider_segtable.core.segments.segment import Place, Segment
from airflow_provider_segtable.core.tables.keyed.merge_rules import (
    DELETE,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.record_columns import shown_defaults, with_defaults
from airflow_provider_segtable.data.merge.key_groups import numbers, whole
from airflow_provider_segtable.data.merge.merge_runs import merge_runs
from airflow_provider_segtable.data.merge.merging import merged_sorted
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.reads.window import walked

Changed = tuple[RowChange, pa.Table]
"""Rows with all columns, and what happened to them."""


@dataclass(frozen=True, slots=True)
class KeyedFeed:
    """The change feed of a primary-key table."""

    reader: GroupReader
    rules: MergeRules
    log: EventLog

    def changes(self, start: State, end: State) -> Iterator[Changed]:
        """Yield the changes of the window after ``start``, up to ``end``, in order.

        Raises:
            WindowExpired: an event of the window is gone.
        """
        stretch: list[Event] = []
        begin = start
        for event, before, after in walked(self.log, start, end):
            differs = any(isinstance(each, Differs) for each in effects(event.action))
            if differs or _makes_base(event):
                yield from self._stretch(begin, stretch)
                begin, stretch = after, []
            if differs:
                yield from self._compared(before, after, event)
            else:
                stretch.append(event)
        yield from self._stretch(begin, stretch)

    def _stretch(self, start: State, events: Sequence[Event]) -> Iterator[Changed]:
        """Yield the changes of events that only add records."""
        written = [(event, _by_place(event, start)) for event in events]
        places = {place for _, some in written for place in some}
        rows = {
            place: self._begun(
                place, start, [s for _, some in written for s in some.get(place, ())]
            )
            for place in places
        }
        for event, some in written:
            for place in sorted(some):
                before, orders = rows[place]
                logs = [pa.concat_tables(run) for run in self.reader.runs(some[place])]
                after = merged_sorted([before, *logs], self.rules, orders)
                yield from self._differences(before, after, event)
                rows[place] = after, orders

    def _begun(
        self, place: Place, start: State, logs: Sequence[Segment]
    ) -> tuple[pa.Table, RootOrders]:
        """Return the rows at the start of all keys in the logs, tombstones included."""
        files = _visible(start, place)
        with self.reader.opened([*files, *logs]) as reader:
            runs = reader.runs(logs, list(self.rules.key))
            keys = Keys.of(
                pa.concat_tables(rows for run in runs for rows in run), self.rules.key, nulls=True
            )
            orders = RootOrders.of_table(reader.roots([*files, *logs]))
            found = [reader.schema.empty_table()]
            for rows in merge_runs(reader.runs(files), self.rules, orders):
                found.append(rows.filter(pa.array(keys.find(rows) >= 0)))
        return pa.concat_tables(found), orders

    def _compared(self, before: State, after: State, event: Event) -> Iterator[Changed]:
        """Yield the differences of two versions in the intervals that an event names."""
        for each in effects(event.action):
            for interval in each.intervals if isinstance(each, Differs) else ():
                places = sorted({*_places(before, interval), *_places(after, interval)})
                alike = before.layout.cuts(interval) == after.layout.cuts(interval)
                for some in ([place] for place in places) if alike else (places,):
                    old, new = self._rows(some, before), self._rows(some, after)
                    yield from self._differences(old, new, event)

    def _rows(self, places: Sequence[Place], state: State) -> pa.Table:
        empty = self.reader.schema.empty_table()
        return pa.concat_tables([empty, *(self._whole(place, state) for place in places)])

    def _whole(self, place: Place, state: State) -> pa.Table:
        files = _visible(state, place)
        with self.reader.opened(files) as reader:
            orders = RootOrders.of_table(reader.roots(files))
            runs = merge_runs(reader.runs(files), self.rules, orders)
            return pa.concat_tables([reader.schema.empty_table(), *runs])

    def _differences(self, before: pa.Table, after: pa.Table, event: Event) -> Iterator[Changed]:
        """Yield what became of rows, as readers see them."""
        defaults = shown_defaults(self.reader.table)
        for change, rows in _differences(before, after, self.rules, event):
            yield change, with_defaults(rows, defaults)


def _makes_base(event: Event) -> bool:
    """Return whether an event publishes a file that begins at the first root of its bucket."""
    if not isinstance(event.action, PlanCompleted):
        return False
    segments = event.action.segments
    return any(s.shard.root_start == s.id.chunk.numbering.first.start for s in segments)


def _by_place(event: Event, start: State) -> dict[Place, list[Segment]]:
    """Return the log files that an event published, with its time as their completion time."""
    found: dict[Place, list[Segment]] = {}
    if isinstance(event.action, Appended):
        for segment in event.action.segments:
            place = Place(segment.id.interval, segment.id.bucket)
            completed = start.table.kind.published(segment, event.time)
            found.setdefault(place, []).append(completed)
    return found


def _places(state: State, interval: Interval) -> Iterator[Place]:
    return (c.place for c in state.timeline.visible_chunks(interval))


def _visible(state: State, place: Place) -> list[Segment]:
    return [
        segment
        for segment in state.timeline.visible_segments(place.interval)
        if segment.id.chunk.place == place and segment.rows
    ]


def _differences(
    before: pa.Table, after: pa.Table, rules: MergeRules, event: Event
) -> Iterator[Changed]:
    """Yield what became of rows, by key; two tables with the hidden columns."""
    old, new = _shown(before), _shown(after)
    keys = Keys.of(old, rules.key, nulls=True)
    was = np.full(keys.count + 1, -1)
    was[keys.find(old)] = np.arange(old.num_rows)
    was[-1] = -1
    places = was[keys.find(new)]
    came = places < 0
    gone = np.ones(old.num_rows, bool)
    gone[places[~came]] = False
    kept, matched = np.flatnonzero(~came), places[~came]
    other = _other_records(old.take(pa.array(matched)), new.take(pa.array(kept)))
    changed = (
        (RowEffect.DELETE, old.filter(pa.array(gone))),
        (RowEffect.UPDATE_BEFORE, old.take(pa.array(matched[other]))),
        (RowEffect.UPDATE_AFTER, new.take(pa.array(kept[other]))),
        (RowEffect.INSERT, new.filter(pa.array(came))),
    )
    for effect, rows in changed:
        if rows.num_rows:
            yield RowChange(effect, event.n, event.time), rows


def _shown(rows: pa.Table) -> pa.Table:
    """Return the rows that readers see."""
    return rows.filter(pa.array(np.asarray(whole(rows.column(OP))) != DELETE))


def _other_records(old: pa.Table, new: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which rows consist of other records than before; rows are in the same order."""
    other = np.zeros(old.num_rows, bool)
    for name in old.column_names:
        if name == ROOT_PARTITION or name.startswith(ROOT_OF):
            mine, its = whole(old.column(name)), whole(new.column(name))
            other |= numbers(mine.fill_null(-1)) != numbers(its.fill_null(-1))
    return other

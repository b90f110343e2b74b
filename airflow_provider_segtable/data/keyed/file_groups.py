"""Read the merged rows of file groups, and the changes that a window of events made to them.

File groups: the visible files of a bucket, and their merged rows.

1. The files of a base are one run (``core.timeline``); log files are runs of their own.
   A group with one run is merged already: readers see its rows without tombstones. Only
   the columns asked for are read, and of these only row groups in which a condition may hold.
2. Conditions and intervals hold for merged rows: a record that does not match may hide one that
   does. Conditions on the key alone hold for all records of a key or for none, so they are
   evaluated before the merge.
3. Of other groups, the key, the columns that order records, and the columns asked for are read.
   If a condition on the key leaves rows of one run alone, nothing is merged either.
4. Of a window, a row is read if one of the records that it consists of completed in the window,
   by the roots that records keep: also if it was compacted since. The origin of a row
   (``core.reads.effects``) is that of the record that completed last.
5. Readers that need no order read less (``MergedRead.unsorted``): rows whose fate is known are read
   as those of plain files, and only the rest is merged (``data.keyed.settled_rows``).

Pieces of the change feed: the changes of one file group in a window.

6. A *stretch* is a run of events that only add records. Of its file group, the rows of all keys
   with records in it are merged once, as they were before; then the log files of each event are
   merged into them, in the order of the events.
7. A *comparison* is one event after which the rows are compared with those before it, as a whole.
8. A key whose row appeared is an ``insert``, a key whose row disappeared a ``delete``. A key with
   another winning record is an update, before and after. A record that lost (it was late) changes
   nothing.
9. A piece is plain data and needs no other: a library reads pieces in turn, Spark in tasks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import chain, groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.event_kind import RowEffect
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.effects import RowChange
from airflow_provider_segtable.core.reads.selection import MayHold, RecordTests
from airflow_provider_segtable.core.requests.read_request import ORIGIN_COLUMNS
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    OP,
    ROOT_OF,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval
from airflow_provider_segtable.core.timeline import Visible, sorted_run
from airflow_provider_segtable.data.conditions import Condition, by_predicate
from airflow_provider_segtable.data.files_ahead import in_turn
from airflow_provider_segtable.data.keyed.group_reader import (
    GroupReader,
    shown_defaults,
    with_defaults,
)
from airflow_provider_segtable.data.keyed.key_groups import RootOrders, numbers
from airflow_provider_segtable.data.keyed.merging import merge_runs, merged_sorted, read_runs
from airflow_provider_segtable.data.keyed.row_fates import Fates
from airflow_provider_segtable.data.keyed.settled_rows import Division, divided
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_filter import ORIGIN, times_of
from airflow_provider_segtable.data.rows import Keys, instants, labelled
from airflow_provider_segtable.data.sort_keys import Indices, valid, whole


# File groups and their merged rows
@dataclass(frozen=True, slots=True)
class FileGroup:
    """The files of a bucket, in the part of time in which they are visible.

    Attributes:
        segments: the segments with rows.
        clip: the interval of the rows; None if all lie inside.
        settled: the fates of rows by the settlement that the version uses; None without one.
    """

    segments: tuple[Segment, ...]
    clip: Interval | None
    settled: Fates | None = field(default=None, compare=False)

    @property
    def runs(self) -> int:
        """Return the number of sorted runs."""
        return len({sorted_run(segment) for segment in self.segments})

    @property
    def merged(self) -> bool:
        """Return whether the files are one run, which has nothing to be merged with."""
        return self.runs == 1

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(segment.size for segment in self.segments)

    def may_hold(self, condition: Condition, time_column: str) -> bool:
        """Return whether a record may match, by the event times in the files."""
        times = ((segment.time_min, segment.time_max) for segment in self.segments)
        return any(condition.may_hold(time_column, first, last) for first, last in times)

    def narrowed(self, tests: RecordTests, may_hold: MayHold) -> "FileGroup | None":
        """Return the group with the files that matching rows may depend on; None without any."""
        left = tests.left(self.segments, may_hold)
        return replace(self, segments=left) if left else None


def file_groups(found: Iterable[Visible], interval: Interval | None) -> Iterator[FileGroup]:
    """Yield the file groups with rows.

    Args:
        found: the visible update groups, grouped by bucket.
        interval: only rows with event times in it are wanted.
    """
    for _, together in groupby(found, key=lambda each: (each.interval, each.chunk)):
        groups = [*together]
        segments = tuple(s for each in groups for s in each.segments if s.rows)
        wanted = groups[0].interval.clip(interval or ALL_TIME)
        if segments and wanted:
            inside = all(wanted.holds(s.time_min) and wanted.holds(s.time_max) for s in segments)
            yield FileGroup(segments, None if inside else wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRead:
    """A read of merged rows.

    Attributes:
        rules: how the records of a key become its row.
        columns: the columns of the rows; hidden ones that show their origin may be among them.
        by_key: a condition on the key alone.
        since: only rows of which a record completed after this time.
    """

    rules: MergeRules
    columns: tuple[str, ...]
    by_key: Predicate | None = None
    since: Instant | None = None

    def rows(
        self, reader: GroupReader, group: FileGroup, where: Condition | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of a group, sorted by key.

        Args:
            reader: reads the group's files.
            group: the group.
            where: rows for which it does not hold may be left out; on ``columns``.
        """
        needed, test = self._needed(reader, group, where)
        with reader.opened(group.segments) as opened:
            runs = opened.runs(group.segments, needed, where=test)
            merged = self._merged_already(reader, group)
            rows = _present(runs) if merged else self._merged(opened, group, runs)
            yield from self._shown(reader, group, rows)

    def unsorted(
        self, reader: GroupReader, group: FileGroup, where: Condition | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of a group in any order; arguments as for ``rows``."""
        with reader.ahead(group.segments) as ahead:
            division = self.division(ahead, group)
            if division is not None:
                yield from self._divided(ahead, group, division, where)
                return
        yield from self.rows(reader, group, where)

    def _divided(
        self, reader: GroupReader, group: FileGroup, division: Division, where: Condition | None
    ) -> Iterator[pa.Table]:
        """Yield the rows that are shown as they are, and then those that are merged."""
        defaults = shown_defaults(reader.table)
        reads = self.plain(reader, group, division, where)
        for batch in in_turn(reader.files, reads, SegmentRead.batches, lambda r: r.segment.size):
            yield with_defaults(pa.Table.from_batches([batch]), defaults)
        if division.rest:
            yield from self.rest(reader, group, division)

    def count(self, reader: GroupReader, group: FileGroup) -> int:
        """Return the number of rows of a group; of rows that are not merged, none is read."""
        with reader.ahead(group.segments) as ahead:
            division = None if group.clip or self.by_key else self.division(ahead, group)
            if division is not None:
                merged = self.rest(ahead, group, division) if division.rest else ()
                rest: int = sum(rows.num_rows for rows in merged)
                return sum(each.rows for each in division.plain) + rest
        return sum(rows.num_rows for rows in self.unsorted(reader, group))

    def division(self, reader: GroupReader, group: FileGroup) -> Division | None:
        """Return which rows of a group are shown as they are, and which are merged.

        None if all are merged: rows of a window, of which the origin is wanted, and those of a
        condition on the key, of which few are read, unless fates are at hand.
        """
        if self.since is not None or self._hidden(reader):
            return None
        few = self.by_key is not None
        return divided(reader, group.segments, self.rules, group.settled, at_hand=few)

    def reads(
        self, reader: GroupReader, group: FileGroup, where: Condition | None = None
    ) -> list[SegmentRead]:
        """Return the reads of files that ``unsorted`` makes."""
        division = self.division(reader, group)
        if division is None:
            needed, test = self._needed(reader, group, where)
            return [read for run in reader.reads(group.segments, needed, test) for read in run]
        needed = self._merged_columns(reader, group)
        rest = reader.reads(
            (each.segment for each in division.rest),
            needed,
            self._by_key(reader),
            filters=division.filters,
        )
        return [*self.plain(reader, group, division, where), *(r for run in rest for r in run)]

    def plain(
        self,
        reader: GroupReader,
        group: FileGroup,
        division: Division,
        where: Condition | None,
    ) -> list[SegmentRead]:
        """Return the reads of rows that are shown as they are: a condition is on such rows."""
        test = None if shown_defaults(reader.table) else where
        return [
            reader.plain(each.segment, self.columns, test, each.row_filter, group.clip)
            for each in division.plain
        ]

    def rest(self, reader: GroupReader, group: FileGroup, division: Division) -> Iterator[pa.Table]:
        """Yield the merged rows of a group's rest."""
        needed, test = self._merged_columns(reader, group), self._by_key(reader)
        part = replace(group, segments=tuple(each.segment for each in division.rest))
        with reader.opened(part.segments) as opened:
            runs = opened.runs(part.segments, needed, where=test, filters=division.filters)
            yield from self._shown(reader, part, self._merged(opened, part, runs))

    def _shown(
        self, reader: GroupReader, group: FileGroup, merged: Iterable[pa.Table]
    ) -> Iterator[pa.Table]:
        """Yield merged rows of a group as readers see them."""
        time, defaults = reader.table.time_column, shown_defaults(reader.table)
        for rows in merged:
            shown = within(rows, time, group.clip).select(list(self.columns))
            yield with_defaults(shown, defaults)

    def _merged(
        self, reader: GroupReader, group: FileGroup, runs: Sequence[Iterable[pa.Table]]
    ) -> Iterator[pa.Table]:
        roots, hidden = self._roots(reader), self._hidden(reader)
        if self.by_key is not None:  # mostly one file has the key: no roots are read for it
            runs = [*_filled(runs)]
            if len(runs) <= 1 and not roots:
                yield from _present(runs)
                return
        orders = RootOrders.of_table(reader.roots(group.segments))
        for rows in read_runs(runs, self.rules, orders, self._compared(reader, group)):
            found = _with_origins(rows, roots, orders) if hidden else rows
            yield found if self.since is None else _added(found, roots, orders, self.since)

    def _merged_already(self, reader: GroupReader, group: FileGroup) -> bool:
        """Return whether nothing is merged: the rows are all records but tombstones."""
        return group.merged and self.since is None and not self._hidden(reader)

    def _needed(
        self, reader: GroupReader, group: FileGroup, where: Condition | None
    ) -> tuple[list[str], Condition | None]:
        """Return the columns to read of the files of a group, and the condition on their rows."""
        looked_at = self._looked_at(reader, group)
        if self._merged_already(reader, group):
            # a condition is on rows as readers see them
            return looked_at, None if shown_defaults(reader.table) else where
        return self._merged_columns(reader, group), self._by_key(reader)

    def _merged_columns(self, reader: GroupReader, group: FileGroup) -> list[str]:
        """Return the columns to read of rows that are merged."""
        looked_at = self._compared(reader, group)
        needed = [*self.rules.needed(looked_at, reader.schema.names), *self._roots(reader)]
        return list(dict.fromkeys(needed))

    def _by_key(self, reader: GroupReader) -> Condition | None:
        time = reader.table.time_column
        return None if self.by_key is None else by_predicate(self.by_key, time)

    def _looked_at(self, reader: GroupReader, group: FileGroup) -> list[str]:
        """Return the columns that are looked at: of records, or of the rows that they make."""
        times = (reader.table.time_column,) if group.clip else ()
        if self._merged_already(reader, group):
            return list(dict.fromkeys([*self.columns, OP, *times]))
        return self._compared(reader, group)

    def _compared(self, reader: GroupReader, group: FileGroup) -> list[str]:
        """Return the columns of merged rows that are looked at."""
        times = (reader.table.time_column,) if group.clip else ()
        hidden = self._hidden(reader)
        columns = (name for name in self.columns if name not in hidden)
        read = (*columns, *self.rules.key[:1], *times, *self._roots(reader))
        return list(dict.fromkeys(read))

    def _roots(self, reader: GroupReader) -> list[str]:
        """Return the columns with the roots of records, if the read needs them."""
        needed = self._hidden(reader) or self.since is not None
        return list(filter(_is_root, reader.schema.names)) if needed else []

    def _hidden(self, reader: GroupReader) -> list[str]:
        """Return the columns of the rows' origin among those to read."""
        stored = {*reader.schema.names}
        return [name for name in self.columns if name not in stored]


def _filled(runs: Iterable[Iterable[pa.Table]]) -> Iterator[Iterator[pa.Table]]:
    """Yield the runs that have rows, whose first rows are read for it."""
    for run in map(iter, runs):
        first = next((rows for rows in run if rows.num_rows), None)
        if first is not None:
            yield chain([first], run)


def _present(runs: Iterable[Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Yield the rows without tombstones."""
    for rows in (rows for run in runs for rows in run):
        gone = pc.equal(rows.column(OP), DELETE)
        yield rows.filter(pc.invert(gone)) if pc.any(gone).as_py() else rows


def _is_root(name: str) -> bool:
    return name == ROOT_PARTITION or name.startswith(ROOT_OF)


def _added(rows: pa.Table, roots: Sequence[str], orders: RootOrders, since: Instant) -> pa.Table:
    """Return the rows of which a record completed after a time."""
    return rows.filter(pa.array(_last_records(rows, roots, orders)[1] > since))


def _with_origins(rows: pa.Table, roots: Sequence[str], orders: RootOrders) -> pa.Table:
    """Return rows with the hidden columns of their origin."""
    given = {*rows.column_names}
    for name, micros in zip(ORIGIN_COLUMNS, _last_records(rows, roots, orders), strict=True):
        if name not in given:
            rows = rows.append_column(ORIGIN.field(name), times_of(micros))
    return rows


def _last_records(
    rows: pa.Table, roots: Sequence[str], orders: RootOrders
) -> tuple[Indices, Indices]:
    """Return of each row the instant and completion of the record that completed last."""
    instants, completions = (np.zeros(rows.num_rows, np.int64) for _ in range(2))
    for name in roots:
        column = whole(rows.column(name))
        places = np.flatnonzero(valid(column))
        named = numbers(column)[places]
        completed = orders.completions_of(named)
        later = completed > completions[places]
        instants[places[later]] = orders.instants_of(named[later])
        completions[places[later]] = completed[later]
    return instants, completions


def within(rows: pa.Table, time_column: str, clip: Interval | None) -> pa.Table:
    """Return the rows with event times in an interval; all if it is None."""
    if clip is None:
        return rows
    times = instants(rows.column(time_column))
    return rows.filter(pc.and_(pc.greater_equal(times, clip.start), pc.less(times, clip.end)))


# Pieces of the change feed
Changed = tuple[RowChange, pa.Table]
"""Rows with all columns of records, and their effect."""
Files = tuple[Segment, ...]
"""The files of one file group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The log files that event ``n`` added to a file group at a time."""

    n: int
    time: Instant
    logs: Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Events that only add records to a file group, which had ``files`` before them."""

    files: Files
    steps: tuple[Step, ...]

    @property
    def segments(self) -> Files:
        """Return all files."""
        return (*self.files, *(segment for step in self.steps for segment in step.logs))

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return _size(self.segments)

    def changes(self, reader: GroupReader, rules: MergeRules) -> Iterator[Changed]:
        """Yield the changes of rows, in the order of the events."""
        logs = self.segments[len(self.files) :]
        with reader.opened(self.segments) as opened:
            orders = RootOrders.of_table(opened.roots(self.segments))
            before = self._begun(opened, rules, orders, logs)
            for step in self.steps:
                new = [pa.concat_tables(run) for run in opened.runs(step.logs)]
                after = merged_sorted([before, *new], rules, orders)
                yield from _seen(before, after, reader, rules, (step.n, step.time))
                before = after

    def _begun(
        self, reader: GroupReader, rules: MergeRules, orders: RootOrders, logs: Iterable[Segment]
    ) -> pa.Table:
        """Return the rows at the start of all keys in the logs, tombstones included."""
        parts = (rows for run in reader.runs(logs, list(rules.key)) for rows in run)
        keys = Keys.of(pa.concat_tables(parts), rules.key, nulls=True)
        found = [reader.schema.empty_table()]
        for rows in merge_runs(reader.runs(self.files), rules, orders):
            found.append(rows.filter(pa.array(keys.find(rows) >= 0)))
        return pa.concat_tables(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The files of some file groups before and after event ``n``."""

    n: int
    time: Instant
    before: tuple[Files, ...]
    after: tuple[Files, ...]

    @property
    def segments(self) -> Files:
        """Return all files."""
        return tuple(segment for files in (*self.before, *self.after) for segment in files)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return _size(self.segments)

    def changes(self, reader: GroupReader, rules: MergeRules) -> Iterator[Changed]:
        """Yield the changes of rows."""
        old, new = (_whole(some, reader, rules) for some in (self.before, self.after))
        yield from _seen(old, new, reader, rules, (self.n, self.time))


FeedPiece = Stretch | Comparison


def labelled_rows(
    changed: Changed, reader: GroupReader, interval: Interval | None
) -> Iterator[pa.RecordBatch]:
    """Yield changed rows in the columns of the table and of a feed.

    Args:
        changed: the rows, and their effect.
        reader: the reader of the table.
        interval: only rows with event times in it.
    """
    change, rows = changed
    names = [column.name for column in reader.table.schema.columns]
    for batch in within(rows.select(names), reader.table.time_column, interval).to_batches():
        yield labelled(batch, change)


def _size(files: Files) -> int:
    return sum(segment.size for segment in files)


def _whole(groups: Iterable[Files], reader: GroupReader, rules: MergeRules) -> pa.Table:
    """Return the merged rows of file groups."""
    found = [reader.schema.empty_table()]
    for files in groups:
        with reader.opened(files) as opened:
            orders = RootOrders.of_table(opened.roots(files))
            found += merge_runs(opened.runs(files), rules, orders)
    return pa.concat_tables(found)


def _seen(
    before: pa.Table,
    after: pa.Table,
    reader: GroupReader,
    rules: MergeRules,
    event: tuple[int, Instant],
) -> Iterator[Changed]:
    """Yield the changes of rows, as readers see them."""
    defaults = shown_defaults(reader.table)
    for effect, rows in _differences(_shown(before), _shown(after), rules):
        if rows.num_rows:
            yield RowChange(effect, *event), with_defaults(rows, defaults)


def _differences(
    old: pa.Table, new: pa.Table, rules: MergeRules
) -> tuple[tuple[RowEffect, pa.Table], ...]:
    """Return the changes of rows, by key; two tables with the hidden columns."""
    keys = Keys.of(old, rules.key, nulls=True)
    was = np.full(keys.count + 1, -1)
    was[keys.find(old)] = np.arange(old.num_rows)
    was[-1] = -1
    places = was[keys.find(new)]
    inserted = places < 0
    gone = np.ones(old.num_rows, bool)
    gone[places[~inserted]] = False
    kept, matched = np.flatnonzero(~inserted), places[~inserted]
    other = _other_records(old.take(pa.array(matched)), new.take(pa.array(kept)))
    return (
        (RowEffect.DELETE, old.filter(pa.array(gone))),
        (RowEffect.UPDATE_BEFORE, old.take(pa.array(matched[other]))),
        (RowEffect.UPDATE_AFTER, new.take(pa.array(kept[other]))),
        (RowEffect.INSERT, new.filter(pa.array(inserted))),
    )


def _shown(rows: pa.Table) -> pa.Table:
    """Return the rows that readers see."""
    return rows.filter(pa.array(np.asarray(whole(rows.column(OP))) != DELETE))


def _other_records(old: pa.Table, new: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows consist of other records than before; rows are in the same order.

    A column without a record has no root, as one whose record is the row's own: its value differs.
    """
    other = np.zeros(old.num_rows, bool)
    for name in old.column_names:
        mine, its = whole(old.column(name)), whole(new.column(name))
        other |= valid(mine) != valid(its)
        if name == ROOT_PARTITION or name.startswith(ROOT_OF):
            other |= numbers(mine.fill_null(-1)) != numbers(its.fill_null(-1))
    return other

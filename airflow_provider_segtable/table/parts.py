"""Parts of a read: the segments or file groups to read, their clips, and their row filters.

1. Only segments that may have wanted rows are parts: by the interval, and by the event times for
   which a condition can hold. They are chosen step by step (``core.reads.selection``).
2. If a higher version hides a part of a segment, the segment is clipped to the rest.
3. A part's row filter drops deleted rows, and chooses rows by their root addresses. The filter and
   the descriptor are plain data, so any reader may read a part, also in Spark's tasks.
4. The root addresses of a part's rows are one bitmap per root. If the log records the addresses of
   a segment and it is not clipped, no file is opened. Otherwise the hidden columns are read.
5. The rows of a primary-key table are merged on read, one for each key. The files of each bucket
   are merged as in a compaction (``data.keyed.file_groups``), one bucket after another, in bounded
   memory. Rows whose fate is known are not merged (``data.keyed.settled_rows``).
6. A bucket is skipped if no record in it may match the condition. In a window it is skipped, too,
   if all of its files are in the start's version.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import holds_any
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.effects import Origins, RowChange
from airflow_provider_segtable.core.reads.selection import (
    MayHold,
    PrunedBy,
    Selection,
    record_tests,
)
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import OP, MergeRules
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.core.timeline import Visible
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.files_ahead import in_turn
from airflow_provider_segtable.data.keyed.file_groups import FileGroup, MergedRead, file_groups
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.settled_rows import Division
from airflow_provider_segtable.data.parquet.checked_tail import Views
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.data.row_filter import RowFilter, hidden_of
from airflow_provider_segtable.ports.files import DataFiles

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A segment to read, with its row filter, and the interval to clip it to, if any.

    ``change`` is the change of its rows, in a change feed; ``origins`` are the origins of its rows,
    if they are requested.
    """

    segment: Segment
    row_filter: RowFilter
    clip: Interval | None
    change: RowChange | None = None
    origins: Origins | None = None

    @property
    def known_rows(self) -> int | None:
        """Return the number of rows; None if files have to be read for it."""
        if self.clip is not None or self.row_filter.reads:
            return None
        gone = 0 if self.row_filter.passes_all else self.row_filter.deleted_rows()
        return self.segment.rows - gone


class Clipped(NamedTuple):
    """A visible segment, and the interval to clip it to, if any."""

    segment: Segment
    clip: Interval | None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segment."""
        return (self.segment,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted rows of a read, as a test of descriptors.

    Attributes:
        interval: the interval with all wanted rows; None means all time.
        conditions: conditions that all wanted rows satisfy.
        time_column: the event time.
        merged: whether conditions are on merged rows of a rollup table: rows in files then share
            only the event times with them.
    """

    interval: Interval | None
    conditions: tuple[Condition, ...]
    time_column: str
    merged: bool = False

    @property
    def tests(self) -> tuple[Predicate, ...]:
        """Return the known predicates that all wanted rows in files satisfy."""
        return () if self.merged else tuple(p for each in self.conditions for p in each.predicates)

    def among(self, state: State, roots: Collection[SegmentId] | None = None) -> Selection[Clipped]:
        """Return the visible segments that may have wanted rows.

        With ``roots``, only segments that may hold rows of these roots.
        """
        near = Selection.begun(PrunedBy.TIME_CHUNKS, clipped(visible_groups(state, self.interval)))
        if roots is not None:
            near = near.pruned(PrunedBy.ROOTS, lambda each: holds_any(each.segment, roots))
        return near.pruned(PrunedBy.EVENT_TIMES, self.may_hold)

    def may_hold(self, found: Clipped) -> bool:
        """Return whether a segment may have wanted rows, by its first and last event time."""
        segment, clip = found
        first, last = segment.time_min, segment.time_max
        if clip is not None and not (first < clip.end and clip.start <= last):
            return False
        return all(each.may_hold(self.time_column, first, last) for each in self.conditions)

    def narrow(self, found: Clipped, may_hold: MayHold) -> Clipped | None:
        """Return a segment unless no wanted row can be in its file."""
        return found if all(may_hold(found.segment, test) for test in self.tests) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReader:
    """Reads parts in the columns of a table's definition, whatever schema their files have.

    ``checked`` compares their bytes with checksums; ``views`` has tails of files that were read
    before, which reads with a condition use.
    """

    files: DataFiles
    table: TableDefinition
    checked: bool
    views: Views | None = None

    def reading(
        self,
        part: Part,
        *,
        columns: Sequence[str] | None,
        schema: pa.Schema | None = None,
        where: Condition | None = None,
        addressed: bool = False,
    ) -> SegmentRead:
        """Return the read of a part; ``where`` skips row groups, and filters nothing."""
        return SegmentRead(
            self.files,
            part.segment,
            schema=schema or stored_columns(self.table.schema),
            time_column=self.table.time_column,
            columns=columns,
            clip=part.clip,
            row_filter=part.row_filter,
            addressed=addressed,
            checked=self.checked,
            where=where,
            views=None if where is None else self.views,
        )


def visible_groups(state: State, interval: Interval | None) -> tuple[Visible, ...]:
    """Return the visible groups that have rows, clipped to an interval."""
    found = state.timeline.lookup(interval)
    return tuple(each for each in found if any(segment.rows for segment in each.segments))


def clipped(groups: Iterable[Visible]) -> Iterator[Clipped]:
    """Yield the segments with rows of visible groups."""
    for found in groups:
        for segment in found.segments:
            if segment.rows:
                yield Clipped(segment, clip_of(segment, found.interval))


def clip_of(segment: Segment, interval: Interval | None) -> Interval | None:
    """Return the interval if a segment has rows outside of it, else None."""
    if interval is None:
        return None
    within = interval.holds(segment.time_min) and interval.holds(segment.time_max)
    return None if within else interval


def addresses_among(reader: PartReader, parts: Iterable[Part]) -> dict[SegmentId, BitMap]:
    """Return the addresses of the rows of all these parts.

    Raises:
        NotFound: a file is missing.
    """
    found: dict[SegmentId, BitMap] = {}
    for part in parts:
        if part.clip is None and part.segment.traced:
            here = _of_runs(part)
        else:
            here = addresses(reader.reading(part, columns=[], addressed=True).batches())
        for root, rows in here.items():
            found.setdefault(root, BitMap()).update(rows)
    return found


def addresses(batches: Iterable[pa.Table | pa.RecordBatch]) -> dict[SegmentId, BitMap]:
    """Return the addresses in the hidden columns of rows, as one bitmap per root.

    Raises:
        CorruptTable: a root is not a segment id.
    """
    gathered: dict[str, BitMap] = {}
    for batch in batches:
        for root, rows in _by_root(batch):
            gathered.setdefault(root, BitMap()).update(rows)
    return {SegmentId.parse(root): rows for root, rows in gathered.items()}


def _by_root(batch: pa.Table | pa.RecordBatch) -> Iterator[tuple[str, BitMap]]:
    names, codes, numbers = hidden_of(batch)
    order = np.argsort(codes, kind="stable")
    used, starts = np.unique(codes[order], return_index=True)
    for code, some in zip(used, np.split(order, starts[1:]), strict=False):
        yield names[code], BitMap(numbers[some].astype(np.uint32))


def _of_runs(part: Part) -> dict[SegmentId, BitMap]:
    """Return the addresses of a segment's rows that are not deleted, from its runs in the log."""
    found: dict[SegmentId, BitMap] = {}
    gone = None if part.row_filter.passes_all else part.row_filter.gone()
    at = 0
    for run in part.segment.runs:
        rows = BitMap(range(run.start, run.start + run.rows))
        if gone is not None:
            rows -= BitMap(np.flatnonzero(gone[at : at + run.rows]).astype(np.uint32) + run.start)
        found.setdefault(run.root, BitMap()).update(rows)
        at += run.rows
    return found


class MergedRows(NamedTuple):
    """The rows that are merged from some files, and how to read them."""

    segments: tuple[Segment, ...]
    rows: Callable[[], Iterator[pa.Table]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedScan:
    """A read of a primary-key table.

    Attributes:
        files: the table's data files.
        table: its definition.
        rules: how the records of a key become its row.
        columns: the columns of the rows.
        found: the file groups to read.
        where: a condition on merged rows.
        checked: compare data files with their checksums.
        since: only rows of keys with a record that completed after this time.
        views: tails of files that were read before, which reads with a condition use, and fates of
            rows.
        in_order: whether rows are needed in the order of keys within a bucket; else less is merged.
        limited: whether few of the rows may be used, so that no group is read ahead.
    """

    files: DataFiles
    table: TableDefinition
    rules: MergeRules
    columns: Sequence[str]
    found: Selection[FileGroup]
    where: Condition | None = None
    checked: bool = True
    since: Instant | None = None
    views: Views | None = None
    in_order: bool = False
    limited: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        where, merged, reader = self.where, self._merged, self._reader
        read = merged.rows if self.in_order else merged.unsorted
        for rows in self._of_groups(lambda group: read(reader, group, where)):
            for batch in rows.to_batches():
                kept = batch if where is None else where.keep(batch)
                yield kept.select(list(self.columns))

    def _of_groups(self, read: Callable[[FileGroup], Iterator[R]]) -> Iterator[R]:
        """Yield what is read of each group; the next small ones of a store are read meanwhile."""
        if self.limited:
            return chain.from_iterable(map(read, self.found.left))
        return in_turn(
            self.files, self.found.left, read, lambda group: sum(s.size for s in group.segments)
        )

    def count(self) -> int:
        """Return the number of rows, if there is no condition; few rows are read for it."""
        merged, reader = self._merged, self._reader
        return sum(self._of_groups(lambda group: iter([merged.count(reader, group)])))

    def apart(self, group: FileGroup) -> "tuple[Sequence[SegmentRead], MergedRows | None]":
        """Return the reads of a group's rows that are shown as they are, and its merged rows."""
        merged, reader, where = self._merged, self._reader, self.where
        division = merged.division(reader, group)
        if division is None:
            return (), MergedRows(group.segments, lambda: merged.unsorted(reader, group, where))
        plain = merged.plain(reader, group, division, where)
        if not division.rest:
            return plain, None
        files = tuple(each.segment for each in division.rest)
        return plain, MergedRows(files, lambda: merged.rest(reader, group, division))

    def whole_files(self, segments: Iterable[Segment]) -> list[SegmentRead]:
        """Return the reads of all rows of files, in the columns of the rows."""
        reader, names = replace(self._reader, views=self.views), self.columns
        return [reader.plain(each, names, None, RowFilter.idle(each), None) for each in segments]

    def reads(self, group: FileGroup) -> list[SegmentRead]:
        """Return the reads of the files of a group."""
        return self._merged.reads(self._reader, group, self.where)

    def division(self, group: FileGroup) -> Division | None:
        """Return which rows of a group are shown as they are; None if all are merged."""
        return self._merged.division(self._reader, group)

    @property
    def _reader(self) -> GroupReader:
        tails = None if self.where is None else self.views
        return GroupReader(
            self.files, self.table, checked=self.checked, views=tails, fates=self.views
        )

    @property
    def _merged(self) -> MergedRead:
        where = self.where
        tested = where.columns if where else ()
        return MergedRead(
            rules=self.rules,
            columns=tuple(dict.fromkeys([*self.columns, *tested])) or (OP,),  # to count rows
            by_key=None if where is None else record_tests(where.predicates, self.rules).by_key,
            since=self.since,
        )


def groups_to_read(
    state: State,
    interval: Interval | None,
    start: State | None = None,
    *,
    base_only: bool = False,
) -> Selection[FileGroup]:
    """Return the file groups that may have wanted rows.

    Args:
        state: the version.
        interval: only rows with event times in it.
        start: only groups with records that completed after this version.
        base_only: only the base of each group.
    """
    found = Selection.begun(PrunedBy.TIME_CHUNKS, state.timeline.lookup(interval))
    if base_only:
        base = state.timeline.base
        bases = {s.id for chunk in state.timeline.visible_chunks(interval) for s in base(chunk)}
        found = found.pruned(PrunedBy.BASE_ONLY, lambda group: group.segments[0].id in bases)
    groups = found.grouped(file_groups(found.left, interval))
    if start is None:
        return groups
    old = start.timeline
    return groups.pruned(
        PrunedBy.WINDOW, lambda group: any(each.id not in old for each in group.segments)
    )

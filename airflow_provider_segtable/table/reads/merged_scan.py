"""Merge on read: the rows of a primary-key table, one for each key.

1. The files of each bucket are merged as compaction merges them (``data.merge``), one bucket after
   another, in bounded memory. Rows come sorted by key within a bucket.
2. Conditions and intervals are evaluated on merged rows: a record that does not match may hide one
   that does.
3. Only the key, the columns that order records, and the columns asked for are read.
4. Of a window, a row is read if one of the records that it consists of completed in the window,
   by the roots that records keep: also if it was compacted since.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.timeline import Visible
from airflow_provider_segtable.core.tables.keyed.merge_rules import (
    ROOT_OF,
    ROOT_PARTITION,
    MergeRules,
)
from airflow_provider_segtable.core.time.interval import ALL_TIME, Interval
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.keyed_files import roots_in
from airflow_provider_segtable.data.merge.key_groups import numbers, valid, whole
from airflow_provider_segtable.data.merge.merge_runs import read_runs
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedScan:
    """A read of a primary-key table.

    Attributes:
        files: the table's data files.
        state: the version.
        rules: how the records of a key become its row.
        columns: the columns of the rows.
        where: a condition on merged rows.
        interval: only rows with event times in it.
        checked: compare data files with their checksums.
        start: the version after which records completed, if only rows with such are read.
    """

    files: DataFiles
    state: State
    rules: MergeRules
    columns: Sequence[str]
    where: Condition | None
    interval: Interval | None
    checked: bool
    start: State | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        found = self.state.timeline.lookup(self.interval)
        for _, groups in groupby(found, key=lambda each: (each.interval, each.chunk)):
            some = [*groups]
            if self.start is None or not _all_shown(some, self.start):
                for rows in self._merged(some):
                    yield from rows.to_batches()

    def _merged(self, groups: Sequence[Visible]) -> Iterator[pa.Table]:
        """Yield the rows of a bucket, in the part of time in which its files are visible."""
        table = self.state.table
        clip = self._clip(groups[0])
        read = [*self.columns, *(self.where.columns if self.where else ())]
        read = list(dict.fromkeys([*read, *([table.time_column] if clip else [])]))
        reader = GroupReader(self.files, table, checked=self.checked)
        read = read or list(self.rules.key)
        roots = self._roots_read(reader)
        needed = dict.fromkeys([*self.rules.needed(read, reader.schema.names), *roots])
        segments = [segment for each in groups for segment in each.segments]
        orders = RootOrders.of_table(roots_in(self.files, segments))
        runs = reader.runs(segments, list(needed))
        for rows in read_runs(runs, self.rules, orders, list(dict.fromkeys([*read, *roots]))):
            new = self._added(rows, roots, orders)
            yield self._matching(within(new, table.time_column, clip)).select(list(self.columns))

    def _roots_read(self, reader: GroupReader) -> list[str]:
        """Return the hidden columns that tell when a row changed; none without a window."""
        if self.start is None:
            return []
        names = reader.schema.names
        return [name for name in names if name == ROOT_PARTITION or name.startswith(ROOT_OF)]

    def _added(self, rows: pa.Table, roots: Sequence[str], orders: RootOrders) -> pa.Table:
        """Return the rows of which a record completed in the window."""
        if self.start is None:
            return rows
        late = np.zeros(rows.num_rows, bool)
        for name in roots:
            column = whole(rows.column(name))
            places = np.flatnonzero(valid(column))
            late[places] |= orders.completions_of(numbers(column)[places]) > self.start.time
        return rows.filter(pa.array(late))

    def _clip(self, found: Visible) -> Interval | None:
        """Return the interval that rows of a group are compared with; None if all lie inside."""
        wanted = found.interval.clip(self.interval or ALL_TIME) or found.interval
        inside = all(
            wanted.holds(s.time_min) and wanted.holds(s.time_max) for s in found.segments if s.rows
        )
        return None if inside and wanted == found.chunk.interval else wanted

    def _matching(self, rows: pa.Table) -> pa.Table:
        if self.where is None:
            return rows
        kept = (self.where.keep(batch) for batch in rows.to_batches())
        return pa.Table.from_batches(kept, rows.schema)


def _all_shown(groups: Sequence[Visible], start: State) -> bool:
    """Return whether a version before had all these files already."""
    return all(segment.id in start.timeline for each in groups for segment in each.segments)


def within(rows: pa.Table, time_column: str, clip: Interval | None) -> pa.Table:
    """Return the rows with event times in an interval; all if it is None."""
    if clip is None:
        return rows
    times = instants(rows.column(time_column))
    return rows.filter(pc.and_(pc.greater_equal(times, clip.start), pc.less(times, clip.end)))

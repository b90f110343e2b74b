"""Merge on read: the rows of a primary-key table, one for each key.

1. The files of each bucket are merged as compaction merges them (``data.merge``), one bucket after
   another, in bounded memory. Rows come sorted by key within a bucket.
2. Conditions and intervals are evaluated on merged rows: a record that does not match may hide one
   that does.
3. Only the key, the columns that order records, and the columns asked for are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.timeline import Visible
from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeRules
from airflow_provider_segtable.core.time.interval import ALL_TIME, Interval
from airflow_provider_segtable.data.arrow.arrow_schema import physical_schema, to_arrow
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.keyed.keyed_files import roots_in, run_of
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
    """

    files: DataFiles
    state: State
    rules: MergeRules
    columns: Sequence[str]
    where: Condition | None
    interval: Interval | None
    checked: bool

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        found = self.state.timeline.lookup(self.interval)
        for _, groups in groupby(found, key=lambda each: (each.interval, each.chunk)):
            for rows in self._merged([*groups]):
                yield from rows.to_batches()

    def _merged(self, groups: Sequence[Visible]) -> Iterator[pa.Table]:
        """Yield the rows of a bucket, in the part of time in which its files are visible."""
        table = self.state.table
        clip = self._clip(groups[0])
        read = [*self.columns, *(self.where.columns if self.where else ())]
        read = list(dict.fromkeys([*read, *([table.time_column] if clip else [])]))
        schema = physical_schema(to_arrow(table.schema), table.kind)
        needed = self.rules.needed(read, schema.names)
        runs = [
            run_of(
                self.files,
                each.segments,
                schema,
                time_column=table.time_column,
                columns=needed,
                checked=self.checked,
            )
            for each in groups
        ]
        segments = (segment for each in groups for segment in each.segments)
        orders = RootOrders.of_table(roots_in(self.files, segments))
        for rows in read_runs(runs, self.rules, orders, read or self.rules.key):
            kept = _within(rows, table.time_column, clip) if clip else rows
            yield self._matching(kept).select(list(self.columns))

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


def _within(rows: pa.Table, time_column: str, clip: Interval) -> pa.Table:
    times = instants(rows.column(time_column))
    return rows.filter(pc.and_(pc.greater_equal(times, clip.start), pc.less(times, clip.end)))

"""Merge on read: the rows of a primary-key table, one for each key.

1. The files of each bucket are merged as compaction merges them (``data.keyed.file_groups``), one
   bucket after another, in bounded memory. Rows come sorted by key within a bucket.
2. Buckets are skipped if no record in them may match the condition, and of a window those all of
   whose files were there before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.selection import PrunedBy, Selection, record_tests
from airflow_provider_segtable.core.tables.merge_rules import OP, MergeRules
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.keyed.file_groups import (
    FileGroup,
    MergedRead,
    file_groups,
)
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.ports.files import DataFiles


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
        since: only rows with a record that completed after this time.
    """

    files: DataFiles
    table: TableCreated
    rules: MergeRules
    columns: Sequence[str]
    found: Selection[FileGroup]
    where: Condition | None = None
    checked: bool = True
    since: Instant | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        where, merged, reader = self.where, self._merged, self._reader
        for group in self.found.left:
            for rows in merged.rows(reader, group, where):
                for batch in rows.to_batches():
                    kept = batch if where is None else where.keep(batch)
                    yield kept.select(list(self.columns))

    def reads(self, group: FileGroup) -> list[SegmentRead]:
        """Return the reads of the files of a group."""
        return self._merged.reads(self._reader, group, self.where)

    @property
    def _reader(self) -> GroupReader:
        return GroupReader(self.files, self.table, checked=self.checked)

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
        start: the version after which records completed, if only rows with such are wanted.
        base_only: of each, only the base.
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

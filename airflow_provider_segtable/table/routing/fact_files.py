"""Facts of some keys in the files of an index's own table.

1. Rows of other keys are left out before anything is merged: so a look-up costs the reading of
   files, and its keys. Row groups without the keys are not read.
2. Small files, as writers feed them, are kept in memory (``table.indexes.entry_cache``): a writer
   reads each of them once, however many commits it makes. Files never change.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_state import Feed
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.selection import PrunedBy
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.keyed_files import described_roots, own_root
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.keyed.record_bytes import decode_records
from airflow_provider_segtable.data.merge.merging import merged
from airflow_provider_segtable.data.merge.root_orders import SCHEMA, RootOrders
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.entry_cache import EntryCache
from airflow_provider_segtable.table.indexes.index_log import entry_rules
from airflow_provider_segtable.table.reads.merged_scan import groups_to_read

SMALL = 1 << 20
"""Size of a file up to which it is kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFiles:
    """The files of an index's own table, as far as they have some keys.

    Attributes:
        own: the ports of the index's own table.
        state: a version of it.
        cache: keeps small files.
        buckets: the buckets of the keys.
        wanted: the condition that a fact is about one of the keys.
    """

    own: TableContext
    state: State
    cache: EntryCache
    buckets: Collection[int]
    wanted: Condition

    def groups(self) -> tuple[FileGroup, ...]:
        """Return the file groups that may have facts of the keys."""
        return groups_to_read(self.state, None).pruned(PrunedBy.ROOTS, self._may_have).left

    def _may_have(self, group: FileGroup) -> bool:
        return group.segments[0].id.bucket in self.buckets

    def of_group(self, group: FileGroup) -> pa.Table:
        """Return the facts that a file group has, in all columns, merged."""
        found = {segment: self._records(segment) for segment in group.segments}
        filled = {segment: rows for segment, (rows, _) in found.items() if rows.num_rows}
        columns = self.state.table.schema.names
        if not filled:
            return next(iter(found.values()))[0].select(columns)
        roots = [_roots(segment, found[segment][1]) for segment in filled]
        orders = RootOrders.of_table(pa.concat_tables(roots))
        rows = merged([*filled.values()], entry_rules(self.own, self.state), orders)
        return rows.filter(pc.not_equal(rows.column(OP), DELETE)).select(columns)

    def of_feed(self, feed: Feed) -> list[Records]:
        """Return the facts and tombstones that a feed brings, as layers."""
        if feed.inline:
            records = decode_records(feed.entries, self.own.uri)
            flagged = records.rows.append_column(OP, pa.array(records.deleted))
            kept = self._kept(flagged)
            return [Records(rows=kept.drop_columns([OP]), deleted=np.asarray(kept.column(OP)))]
        near = (segment for segment in feed.segments if segment.id.bucket in self.buckets)
        found = (self._records(segment)[0] for segment in near)
        return [
            Records(rows=rows, deleted=np.asarray(pc.equal(rows.column(OP), DELETE)))
            for rows in found
        ]

    def _records(self, segment: Segment) -> tuple[pa.Table, pa.Table | None]:
        """Return the records of the keys in a file, and the roots that it describes."""
        if segment.size > SMALL:
            return self._read(segment, self.wanted)

        def made() -> tuple[tuple[pa.Table, pa.Table | None], int]:
            rows, roots = self._read(segment, None)
            return (rows, roots), rows.nbytes

        rows, roots = self.cache.view((self.own.uri, segment.path), made)
        return self._kept(rows), roots

    def _kept(self, rows: pa.Table) -> pa.Table:
        kept: Sequence[pa.RecordBatch] = [*map(self.wanted.keep, rows.to_batches())]
        return pa.Table.from_batches(kept, rows.schema)

    def _read(self, segment: Segment, where: Condition | None) -> tuple[pa.Table, pa.Table | None]:
        with GroupReader(self.own.files, self.state.table).opened((segment,)) as reader:
            schema = reader.schema
            (run,) = reader.runs((segment,), schema.names, where)
            found = [rows.cast(schema) for rows in run]
            rows = pa.concat_tables([schema.empty_table(), *found])
            return rows, described_roots(reader.files, segment)


def _roots(segment: Segment, described: pa.Table | None) -> pa.Table:
    if described is not None:
        return described
    return pa.Table.from_pylist([asdict(own_root(segment))], schema=SCHEMA)

"""Checking the records of a primary-key table's file: reads nothing, is given the rows.

1. A file is sorted by key and has one row a key; with ``partial_update`` two, a tombstone, then an
   upsert.
2. The operation is one that exists, and every root is known: ``OWN`` in a log file, in others one
   of those that the footer describes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import (
    DELETE,
    GROUPS_ONLY,
    OP,
    OWN,
    ROOT_OF,
    ROOT_PARTITION,
    UPSERT,
    MergeRules,
)
from airflow_provider_segtable.data.files.segment_files import SegmentFiles
from airflow_provider_segtable.data.keyed.keyed_files import described_roots
from airflow_provider_segtable.data.sort.sort_keys import column_codes, composed
from airflow_provider_segtable.ports.files import DataFiles

Fault = tuple[str, str]
"""A stable word, and what is wrong."""


@dataclass(slots=True, kw_only=True)
class RecordCheck:
    """The check of one file; ``last`` is the last row's key and operation.

    Attributes:
        rules: how the records of a key become its row.
        roots: the roots that its rows may name.
        last: the last row that was seen.
    """

    rules: MergeRules
    roots: pa.Array
    last: pa.Table | None = None

    @staticmethod
    def of(files: DataFiles, segment: Segment, rules: MergeRules) -> "RecordCheck":
        """Return the check of a file.

        Raises:
            CorruptTable: the footer does not describe its roots.
        """
        known = described_roots(SegmentFiles(files, [segment]), segment)
        own = pa.array([OWN], pa.int64())
        return RecordCheck(rules=rules, roots=own if known is None else known.column("partition"))

    def look(self, batch: pa.RecordBatch) -> Iterator[Fault]:
        """Yield what is wrong with more rows."""
        rows = pa.Table.from_batches([batch]).select([*self.rules.key, OP])
        joined = rows if self.last is None else pa.concat_tables([self.last, rows])
        yield from self._keys(joined)
        self.last = rows.slice(rows.num_rows - 1)
        if not np.isin(np.asarray(batch.column(OP)), (UPSERT, DELETE, GROUPS_ONLY)).all():
            yield "unknown-operation", "a row is neither an upsert nor a delete"
        yield from self._roots(batch)

    def _keys(self, rows: pa.Table) -> Iterator[Fault]:
        codes = []
        for name in self.rules.key:
            column = pa.concat_arrays(rows.column(name).chunks)
            if column.null_count:
                yield "null-key", f"{counted(column.null_count, 'row')} without {name}"
            codes.append(column_codes(column, column.slice(0, 0)))
        order = composed(codes).rows
        if (order[1:] < order[:-1]).any():
            yield "unsorted", f"its rows are not sorted by {', '.join(self.rules.key)}"
        deletes = np.asarray(rows.column(OP)) == DELETE
        pair = deletes[:-1] & ~deletes[1:] if self.rules.partial else False
        twice = np.flatnonzero((order[1:] == order[:-1]) & ~np.asarray(pair, bool))
        if len(twice):
            key = rows.select(list(self.rules.key)).slice(int(twice[0]), 1).to_pylist()[0]
            yield "doubled-key", f"key {key} occurs twice"

    def _roots(self, batch: pa.RecordBatch) -> Iterator[Fault]:
        for name in batch.schema.names:
            if name != ROOT_PARTITION and not name.startswith(ROOT_OF):
                continue
            found = pc.unique(batch.column(name)).drop_null()
            strange = found.filter(pc.invert(pc.is_in(found, value_set=self.roots)))
            if len(strange) or (name == ROOT_PARTITION and batch.column(name).null_count):
                which = f"root {strange[0]}" if len(strange) else "no root"
                yield "unknown-root", f"a row has {which} in {name}, which nothing describes"

"""The positions in files of rows that a version hides: what other formats call deletes.

1. Deletions name rows by root address. If the log records where each row came from, the positions
   follow from the runs of the segment, and no data file is read. Else its hidden columns are.
2. Clips hide the rows with event times outside of them. Only the time column is read.
3. In a primary-key table the rows that record the deletion of a key are hidden. Only the column of
   the operation is read, and only row groups whose statistics allow for such a row.
4. In a rollup table the rows that match a delete's predicate are hidden, by the columns it names.
5. Each vector file is read once. Of a file that hides nothing, nothing is read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from airflow_provider_segtable.core.deletes.predicate import AnyOf, Compare, Compares
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.publishing.shown_file import ShownFile
from airflow_provider_segtable.core.segments.segment import Run, Segment, SegmentId
from airflow_provider_segtable.core.tables.keyed.merge_rules import DELETE, OP
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.arrow.conditions import Condition, by_predicate
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.deletes.row_bits import Flags, bits_of
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.deletes.segment_filters import VectorReader
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import files_columns
from airflow_provider_segtable.ports.files import DataFiles

_DELETES = Compare(OP, Compares.EQUAL, DELETE)


def hidden_rows(
    files: DataFiles, table: TableCreated, shown: Iterable[ShownFile]
) -> dict[str, BitMap]:
    """Return the positions of the rows that a version hides, of files with any, by path.

    Args:
        files: the table's data files.
        table: its definition.
        shown: files that the version shows.

    Raises:
        NotFound, CorruptTable: a vector file, or a file that has to be read, is missing or broken.
    """
    vectors = VectorReader(files)
    found = {
        each.path: _clipped(files, table, each)
        | _deleted(files, table, each, vectors)
        | _matching(files, table, each)
        | _tombstones(files, table, each)
        for each in shown
        if not each.whole
    }
    return {path: rows for path, rows in found.items() if rows}


def _deleted(
    files: DataFiles, table: TableCreated, file: ShownFile, vectors: VectorReader
) -> BitMap:
    """Return the rows that deletions name."""
    if not file.deletions:
        return BitMap()
    gone = {root: vectors.rows(root, some) for root, some in file.deletions}
    if file.segment.traced:
        return _by_runs(file.segment.runs, gone)
    bits = {str(root): bits_of(rows.to_array()) for root, rows in gone.items()}
    row_filter = RowFilter(deleted=bits)
    return _rows_where(files, table, file.segment, row_filter.reads, partial(_left_out, row_filter))


def _matching(files: DataFiles, table: TableCreated, file: ShownFile) -> BitMap:
    """Return the rows that match predicates."""
    if not file.predicates:
        return BitMap()
    row_filter = RowFilter(predicates=file.predicates)
    where = by_predicate(AnyOf(file.predicates), table.time_column)
    left_out = partial(_left_out, row_filter)
    return _rows_where(files, table, file.segment, row_filter.reads, left_out, where)


def _left_out(row_filter: RowFilter, rows: pa.RecordBatch) -> Flags | None:
    """Return flags of the rows that a filter without runs leaves out; None if it keeps all."""
    kept = row_filter.kept(rows, 0)
    return None if kept is None else ~kept


def _by_runs(runs: Sequence[Run], gone: Mapping[SegmentId, BitMap]) -> BitMap:
    """Return the positions of addresses in a file of these runs."""
    found, at = BitMap(), 0
    for run in runs:
        rows = gone.get(run.root)
        if rows:
            inside = rows & BitMap(range(run.start, run.start + run.rows))
            found |= inside.shift(at - run.start)
        at += run.rows
    return found


def _clipped(files: DataFiles, table: TableCreated, file: ShownFile) -> BitMap:
    """Return the rows with event times outside of the clips."""
    if not file.clips:
        return BitMap()
    name = table.time_column
    outside = partial(_outside, name, file.clips)
    return _rows_where(files, table, file.segment, (name,), outside)


def _outside(name: str, clips: Sequence[Interval], rows: pa.RecordBatch) -> Flags:
    times = np.asarray(instants(rows.column(name)))
    inside = np.zeros(len(times), np.bool_)
    for clip in clips:
        inside |= (times >= clip.start) & (times < clip.end)
    return ~inside


def _tombstones(files: DataFiles, table: TableCreated, file: ShownFile) -> BitMap:
    """Return the rows that record the deletion of a key."""
    if not file.tombstones:
        return BitMap()
    where = by_predicate(_DELETES, table.time_column)
    return _rows_where(files, table, file.segment, (OP,), _is_delete, where)


def _is_delete(rows: pa.RecordBatch) -> Flags:
    found: Flags = pc.equal(rows.column(OP), DELETE).to_numpy(zero_copy_only=False)
    return found


def _rows_where(
    files: DataFiles,
    table: TableCreated,
    segment: Segment,
    columns: Sequence[str],
    test: Callable[[pa.RecordBatch], Flags | None],
    where: Condition | None = None,
) -> BitMap:
    """Return the rows of a file for which a test of some columns is true; None is true of none."""
    read = SegmentRead(
        files,
        segment,
        schema=files_columns(table.schema, table.kind),
        time_column=table.time_column,
        columns=columns,
        where=where,
    )
    found = BitMap()
    for first, rows in read.numbered():
        flags = test(rows)
        if flags is not None:
            found |= BitMap(np.flatnonzero(flags) + first)
    return found

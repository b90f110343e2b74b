"""The positions in files of rows that a version hides: what other formats call deletes.

1. Deletions name rows by root address. If the log records where each row came from, the positions
   follow from the runs of the segment, and no data file is read. Else its hidden columns are.
2. Clips hide the rows with event times outside of them. Only the time column is read, of row
   groups that may have such rows.
3. In a primary-key table the rows that record the deletion of a key are hidden. Only the column of
   the operation is read, and only row groups whose statistics allow for such a row.
4. In a rollup table the rows that match a delete's predicate are hidden, by the columns it names.
5. Each vector file is read once, several data files at once. Of a file that hides nothing, nothing
   is read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import (
    AllOf,
    AnyOf,
    Compare,
    Compares,
    Moment,
    Predicate,
)
from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.segment import Run, Segment, SegmentId
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.arrow.conditions import Condition, by_predicate
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.deletes.row_bits import Flags
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.deletes.segment_filters import VectorReader
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import files_columns
from airflow_provider_segtable.ports.files import DataFiles

THREADS = 8

_DELETES = Compare(OP, Compares.EQUAL, DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """A read of some columns of a segment's file, which finds hidden rows.

    Attributes:
        segment: the segment.
        columns: the columns.
        test: returns flags of the hidden rows; None if there are none.
        where: a condition that all hidden rows satisfy.
    """

    segment: Segment
    columns: Sequence[str]
    test: Callable[[pa.RecordBatch], Flags | None]
    where: Condition | None = None

    def rows(self, files: DataFiles, table: TableCreated) -> BitMap:
        """Return the positions of the hidden rows."""
        read = SegmentRead(
            files,
            self.segment,
            schema=files_columns(table.schema, table.kind),
            time_column=table.time_column,
            columns=self.columns,
            where=self.where,
        )
        found = BitMap()
        for first, rows in read.numbered():
            flags = self.test(rows)
            if flags is not None:
                found |= BitMap(np.flatnonzero(flags) + first)
        return found


def hidden_rows(
    files: DataFiles,
    table: TableCreated,
    shown: Iterable[ShownFile],
    report: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, BitMap]:
    """Return the positions of the rows that a version hides, of files with any, by path.

    Args:
        files: the table's data files.
        table: its definition.
        shown: files that the version shows.
        report: called with how many reads of files are done, and of how many.

    Raises:
        NotFound, CorruptTable: a vector file, or a file that has to be read, is missing or broken.
    """
    vectors = VectorReader(files)
    found: dict[str, BitMap] = {}
    scans: list[_Scan] = []
    for each in (each for each in shown if not each.whole):
        found[each.path] = _by_runs(each, vectors)
        scans += _scans(table, each, vectors)
    with ThreadPoolExecutor(THREADS) as pool:
        positions = pool.map(lambda scan: scan.rows(files, table), scans)
        for done, (scan, rows) in enumerate(zip(scans, positions, strict=True), 1):
            found[scan.segment.path] |= rows
            report(done, len(scans))
    return {path: rows for path, rows in found.items() if rows}


def _by_runs(file: ShownFile, vectors: VectorReader) -> BitMap:
    """Return the rows that deletions name, if the log records where each row came from."""
    gone = {root: vectors.rows(root, some) for root, some in file.deletions if file.segment.traced}
    return _positions(file.segment.runs, gone) if gone else BitMap()


def _positions(runs: Sequence[Run], gone: Mapping[SegmentId, BitMap]) -> BitMap:
    """Return the positions of addresses in a file of these runs."""
    found, at = BitMap(), 0
    for run in runs:
        rows = gone.get(run.root)
        if rows:
            inside = rows & BitMap(range(run.start, run.start + run.rows))
            found |= inside.shift(at - run.start)
        at += run.rows
    return found


def _scans(table: TableCreated, file: ShownFile, vectors: VectorReader) -> Iterator[_Scan]:
    """Yield the reads that find the hidden rows of a file which the log does not tell."""
    segment, time = file.segment, table.time_column
    if file.deletions and not segment.traced:
        deleted = RowFilter(deleted=vectors.bits(dict(file.deletions)))
        yield _Scan(segment=segment, columns=deleted.reads, test=partial(_left_out, deleted))
    if file.clips:
        yield _Scan(
            segment=segment,
            columns=(time,),
            test=partial(_outside, time, file.clips),
            where=by_predicate(beyond(time, file.clips), time),
        )
    if file.predicates:
        matching = RowFilter(predicates=file.predicates)
        yield _Scan(
            segment=segment,
            columns=matching.reads,
            test=partial(_left_out, matching),
            where=by_predicate(AnyOf(file.predicates), time),
        )
    if file.tombstones:
        yield _Scan(
            segment=segment,
            columns=(OP,),
            test=_is_delete,
            where=by_predicate(_DELETES, time),
        )


def _left_out(row_filter: RowFilter, rows: pa.RecordBatch) -> Flags | None:
    """Return flags of the rows that a filter without runs leaves out; None if it keeps all."""
    kept = row_filter.kept(rows, 0)
    return None if kept is None else ~kept


def beyond(name: str, clips: Sequence[Interval]) -> Predicate:
    """Return the condition that an event time lies outside of disjoint intervals, in order."""

    def at(how: Compares, instant: Instant) -> Compare:
        return Compare(name, how, Moment(instant))

    gaps = (
        AllOf((at(Compares.AT_LEAST, one.end), at(Compares.LESS, next_.start)))
        for one, next_ in pairwise(clips)
    )
    before, after = at(Compares.LESS, clips[0].start), at(Compares.AT_LEAST, clips[-1].end)
    return AnyOf((before, *gaps, after))


def _outside(name: str, clips: Sequence[Interval], rows: pa.RecordBatch) -> Flags:
    times = np.asarray(instants(rows.column(name)))
    inside = np.zeros(len(times), np.bool_)
    for clip in clips:
        inside |= (times >= clip.start) & (times < clip.end)
    return ~inside


def _is_delete(rows: pa.RecordBatch) -> Flags:
    found: Flags = pc.equal(rows.column(OP), DELETE).to_numpy(zero_copy_only=False)
    return found

"""Read statistics of files and positions of hidden rows, for publication in other table formats.

Statistics of files: the statistics of columns in the footers of data files.

1. Only footers are read, of many files at once, and compared with their checksums.
2. Columns are identified by the ids of the schema that the file was written with. Nested columns
   have a size, and nothing else.
3. A bound is true of every row of the file, hidden ones too: the least of the row groups' lower
   bounds, the greatest of the upper ones. If a row group with values has none, the file has none.
4. Parquet's bounds leave out NaN, and no field shows whether a floating column has any
   (``ColumnStats.nan``).
5. A bound of text that is cut inside of a character is left out. A type whose order or unit is not
   certain has no bounds (96-bit times, half floats, intervals).

Hidden rows: the positions in files of rows that a version hides; other formats call them deletes.

6. Deletions name rows by root address. If the log records the rows' lineage, the positions
   follow from the runs of the segment, and no data file is read. Else the hidden columns of the
   file are read.
7. Clips hide the rows with event times outside of them. Only the time column is read, of row
   groups that may have such rows.
8. In a primary-key table the rows that record the deletion of a key are hidden. Only the column of
   the operation is read, and only row groups whose statistics allow for such a row.
9. In a rollup table the rows that match a delete's predicate are hidden; only the columns that it
   names are read.
10. Each vector file is read once, several data files at once. If a file hides no row, nothing of it
    is read.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.predicate import (
    AllOf,
    AnyOf,
    Compare,
    Compares,
    Moment,
    Predicate,
)
from airflow_provider_segtable.core.publishing import ColumnStats, FileStats, ShownFile
from airflow_provider_segtable.core.schema import HIDDEN, Schema
from airflow_provider_segtable.core.segment import Run, Segment, SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.arrow_schema import FIELD_ID, inner_fields
from airflow_provider_segtable.data.conditions import Condition, by_predicate
from airflow_provider_segtable.data.parquet.descriptor import SegmentFiles
from airflow_provider_segtable.data.parquet.footer import MAGIC, read_footer
from airflow_provider_segtable.data.parquet.page_index import TIME_UNITS
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import (
    file_names,
    files_columns,
    stored_columns,
)
from airflow_provider_segtable.data.row_filter import Flags, RowFilter
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.vector_file import VectorReader
from airflow_provider_segtable.ports.files import DataFiles

# Statistics of files
FOOTER_THREADS = 16
BATCH = 256
"""Most footers that are held at once."""

_Bounds: TypeAlias = Callable[[Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A top-level column of files: its id, its place, and the reader of its bounds."""

    id: int
    leaves: range
    nested: bool
    bounds: _Bounds | None
    nan: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The columns of files of one Parquet schema; most files of a table have the same."""

    schema: pq.ParquetSchema
    columns: tuple[_Column, ...]
    numbered: bool
    odd: str


def stats_of(
    files: DataFiles,
    table: TableDefinition,
    segments: Iterable[Segment],
    report: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, FileStats]:
    """Return the statistics of the files of segments, by path; report how many are read.

    Raises:
        NotFound, CorruptTable: a file is missing or broken.
    """
    shapes: dict[int, _Shape] = {}
    found: dict[str, FileStats] = {}
    wanted = tuple(segments)
    for segment, metadata in _footers(files, wanted):
        shape = None if segment.adopted else shapes.get(segment.schema)
        if shape is None or not shape.schema.equals(metadata.schema):
            shape = _shape(metadata.schema, table.schema_of(segment.schema))
            if not segment.adopted:  # equal Parquet schemas may have different types in Arrow
                shapes[segment.schema] = shape
        found[segment.path] = _file_stats(metadata, shape)
        report(len(found), len(wanted))
    return found


def file_stats(files: DataFiles, table: TableDefinition, segment: Segment) -> FileStats:
    """Return the statistics of a segment's file; errors as ``stats_of``."""
    return stats_of(files, table, [segment])[segment.path]


def _footers(
    files: DataFiles, segments: Sequence[Segment]
) -> Iterator[tuple[Segment, pq.FileMetaData]]:
    """Yield the footers of segments' files; many are loaded at once."""
    load = partial(_footer, files)
    if len(segments) <= 1:
        yield from zip(segments, map(load, segments), strict=True)
        return
    with ThreadPoolExecutor(min(FOOTER_THREADS, len(segments))) as pool:
        for at in range(0, len(segments), BATCH):
            some = segments[at : at + BATCH]
            yield from zip(some, pool.map(load, some), strict=True)


def _footer(files: DataFiles, segment: Segment) -> pq.FileMetaData:
    """Return the footer of a segment's file: its last bytes alone are read."""
    try:
        with SegmentFiles(files, [segment]).open(segment.path) as source:
            if segment.footer is None:
                data = read_footer(source).data
                tail = data + len(data).to_bytes(4, "little") + MAGIC
            else:
                start = segment.footer.start
                tail = source.read_at(start, source.size - start)
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptTable(
            f"the footer of {segment.path} cannot be read ({error}): restore the file"
        ) from error


def _shape(schema: pq.ParquetSchema, written: Schema) -> _Shape:
    """Return the columns of files, which were written with a schema of the table."""
    stored = schema.to_arrow_schema()
    names = file_names(stored, stored_columns(written))
    ids = {names[column.name]: column.id for column in written.numbered}
    ends = accumulate((_leaves(field.type) for field in stored), initial=0)
    spans = zip(stored, pairwise(ends), strict=True)
    return _Shape(
        schema=schema,
        columns=tuple(
            _column(schema, ids[field.name], range(*span), nested=_is_nested(field.type))
            for field, span in spans
            if field.name in ids
        ),
        numbered=all(map(_is_numbered, stored)),
        odd=next(_odd(stored, ids), ""),
    )


def _column(schema: pq.ParquetSchema, number: int, leaves: range, *, nested: bool) -> _Column:
    stored = schema.column(leaves.start)
    floating = stored.physical_type in {"FLOAT", "DOUBLE"}
    return _Column(
        id=number,
        leaves=leaves,
        nested=nested,
        bounds=None if nested else _bounds_of(stored),
        nan=not nested and (floating or stored.logical_type.type == "FLOAT16"),
    )


def _file_stats(metadata: pq.FileMetaData, shape: _Shape) -> FileStats:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return FileStats(
        columns={column.id: _column_stats(groups, column) for column in shape.columns},
        numbered=shape.numbered,
        odd=shape.odd,
        split_offsets=tuple(sorted(_start(group.column(0)) for group in groups)),
    )


def _column_stats(groups: Sequence[Any], column: _Column) -> ColumnStats:
    chunks = [[group.column(leaf) for leaf in column.leaves] for group in groups]
    size = sum(chunk.total_compressed_size for some in chunks for chunk in some)
    if column.nested:
        return ColumnStats(size=size)
    statistics = [(chunk.statistics, chunk.num_values) for (chunk,) in chunks]
    low, high = _range(statistics, column.bounds)
    nulls = _nulls(found for found, _ in statistics)
    return ColumnStats(low=low, high=high, nulls=nulls, size=size, nan=column.nan)


def _nulls(statistics: Iterable[Any]) -> int | None:
    total = 0
    for found in statistics:
        if not (found and found.has_null_count):
            return None
        total += found.null_count
    return total


def _range(statistics: Iterable[tuple[Any, int]], bounds: _Bounds | None) -> tuple[Any, Any]:
    """Return the bounds of all row groups; None if one with values has none."""
    if bounds is None:
        return None, None
    found = [
        bounds(s) if s and s.has_min_max else (None, None)
        for s, rows in statistics
        if not (s and s.has_null_count and s.null_count == rows)
    ]
    return _outmost([low for low, _ in found], min), _outmost([high for _, high in found], max)


def _outmost(bounds: list[Any], of: Callable[[list[Any]], Any]) -> Any:
    return of(bounds) if bounds and None not in bounds else None


def _bounds_of(column: Any) -> _Bounds | None:
    """Return the reader of the bounds of a column's statistics; None without reliable ones."""
    match column.logical_type.type, column.physical_type:
        case ("TIMESTAMP" | "TIME", _):
            times, parts = TIME_UNITS[json.loads(column.logical_type.to_json())["timeUnit"]]
            return lambda s: (s.min_raw * times // parts, -(-s.max_raw * times // parts))
        case ("DATE", _):
            return lambda s: (s.min_raw, s.max_raw)
        case ("STRING", _):
            return lambda s: (_text(s.min_raw), _text(s.max_raw))
        case (_, "INT96"):
            return None
        case ("INT" | "DECIMAL" | "NONE", _):
            return lambda s: (s.min, s.max)
    return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _start(chunk: Any) -> int:
    """Return where a column chunk begins: at its dictionary, if it has one."""
    first = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if not first else min(first, chunk.data_page_offset))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _leaves(kind: pa.DataType) -> int:
    """Return the number of columns that a type is stored in."""
    return sum(_leaves(field.type) for field in inner_fields(kind)) if _is_nested(kind) else 1


def _odd(stored: pa.Schema, known: Collection[str | None]) -> Iterator[str]:
    """Yield why pyiceberg cannot read a file: only files of other programs are so."""
    for field in stored:
        bare = FIELD_ID not in (field.metadata or {}) and not field.name.startswith(HIDDEN)
        if bare and field.name not in known:
            yield f"a column {field.name!r} that the table lacks"
        elif bare and pa.types.is_dictionary(field.type):
            yield f"column {field.name!r} as a dictionary of Arrow"


def _is_numbered(field: "pa.Field[Any]") -> bool:
    """Return whether a field and all inside of it have ids."""
    return FIELD_ID in (field.metadata or {}) and all(map(_is_numbered, inner_fields(field.type)))


# Positions of hidden rows
ROW_THREADS = 8

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

    def rows(self, files: DataFiles, table: TableDefinition) -> BitMap:
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
    table: TableDefinition,
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
    with ThreadPoolExecutor(ROW_THREADS) as pool:
        positions = pool.map(lambda scan: scan.rows(files, table), scans)
        for done, (scan, rows) in enumerate(zip(scans, positions, strict=True), 1):
            found[scan.segment.path] |= rows
            report(done, len(scans))
    return {path: rows for path, rows in found.items() if rows}


def _by_runs(file: ShownFile, vectors: VectorReader) -> BitMap:
    """Return the rows that deletions name, if the log records the rows' lineage."""
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


def _scans(table: TableDefinition, file: ShownFile, vectors: VectorReader) -> Iterator[_Scan]:
    """Yield the reads for hidden rows that the log alone does not locate."""
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

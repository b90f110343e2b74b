"""Reading the rows of one segment as Arrow batches.

1. Columns come in the requested order, under the table's present names and in its types, whatever
   the file calls and stores them (``table_file``).
2. ``clip`` keeps rows with event times in the interval; a segment that lies wholly inside (by its
   descriptor) is not filtered.
3. Bytes are compared with their checksums as they are read (``file_checksums``), unless that is
   switched off.
4. Row groups in which no row can match a condition are not read (``row_groups``), nor those in
   which the log says that the row filter keeps no row.
5. Memory holds the bytes of one stretch of row groups, however large the file is.
6. A ``row_filter`` drops deleted rows, and adds the other rows' root addresses on request.
"""

import io
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.segments.segment import ROOT, ROW, Segment
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.deletes.row_filter import ROOT_TYPE, RowFilter
from airflow_provider_segtable.data.files.segment_files import SegmentFiles
from airflow_provider_segtable.data.parquet.checksums.file_checksums import CheckedSource
from airflow_provider_segtable.data.parquet.row_groups import matching_groups
from airflow_provider_segtable.data.parquet.table_file import TableFile, opened, plain_columns
from airflow_provider_segtable.ports.files import DataFiles, Source

BATCH_ROWS = 65_536
"""The rows of a batch, unless a reader asks for fewer."""

READ_AHEAD = 16 << 20
"""The bytes of row groups that are loaded together, unless one alone has more."""


class SourceFile(io.RawIOBase):
    """A ``Source`` as a seekable Python file, for pyarrow."""

    def __init__(self, source: Source) -> None:
        """Read ``source`` from its start."""
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = origin + offset
        return self._at

    def read(self, size: int = -1) -> Any:
        """Return up to ``size`` bytes, or a view of them: pyarrow takes both."""
        source = self._source
        left = max(source.size - self._at, 0)
        length = left if size < 0 else min(size, left)
        at, self._at = self._at, self._at + length
        if not length:
            return b""
        return (
            source.view(at, length)
            if isinstance(source, CheckedSource)
            else source.read_at(at, length)
        )


def read_segment(  # noqa: PLR0913 - each selects data to read
    files: DataFiles,
    segment: Segment,
    *,
    schema: pa.Schema,
    time_column: str,
    columns: Sequence[str] | None = None,
    clip: Interval | None = None,
    row_filter: RowFilter | None = None,
    addressed: bool = False,
    checked: bool = True,
    where: Condition | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield a segment's rows.

    Args:
        files: the data files that hold the segment.
        segment: its descriptor.
        schema: the table's Arrow schema; with ids (``table_file.stored_columns``) to read files of
            earlier schemas.
        time_column: the name of the event time column.
        columns: the columns to read, in order; all if None.
        clip: keep only rows with event times in this interval.
        row_filter: the segment's row filter; no deletes if None.
        addressed: add each row's root address, as the hidden columns ``ROOT`` and ``ROW``.
        checked: compare bytes with their checksums.
        where: leave out row groups in which no row matches; the other rows are not filtered.
        batch_rows: the most rows of a batch.

    Raises:
        NotFound: the file is missing (cleaned, or lost).
        ChecksumMismatch: the file was damaged after it was written.
        CorruptTable: the file differs from its entry in the log.
    """
    row_filter = row_filter or RowFilter.idle(segment)
    wanted = list(schema.names if columns is None else columns)
    if clip is not None and clip.holds(segment.time_min) and clip.holds(segment.time_max):
        clip = None
    target = plain_columns(pa.schema([schema.field(name) for name in wanted]))
    hidden = (ROOT, ROW) if addressed and not row_filter.runs else ()
    read = [*wanted, *([time_column] if clip else []), *row_filter.reads, *hidden]
    words = [ROOT] if ROOT in read else []  # pyarrow requires that the column is read
    if addressed:
        target = target.append(pa.field(ROOT, ROOT_TYPE)).append(pa.field(ROW, pa.int64()))
    try:
        with (
            (SegmentFiles(files, [segment]) if checked else files).open(segment.path) as source,
            opened(SourceFile(source), schema, words=words) as parquet,
        ):
            every = range(parquet.num_row_groups)
            file = SourceFile(source)
            groups = every if where is None else matching_groups(parquet, file, where, schema)
            names = list(dict.fromkeys(read))
            for first, batch in _numbered(parquet, groups, names, row_filter, batch_rows):
                rows = row_filter.addressed(batch, first) if addressed else batch
                kept = row_filter.sifted(rows, first)
                yield _in_schema(_clipped(kept, time_column, clip) if clip else kept, target)
    except NotFound:
        raise NotFound(
            f"{segment.path} of segment {segment.id} is gone: read a newer snapshot, "
            "or run `segtable table segments` to see what the log says"
        ) from None
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise CorruptTable(f"{segment.path} of segment {segment.id}: {error}") from error


def _numbered(
    parquet: pq.ParquetFile | TableFile,
    groups: Sequence[int],
    columns: list[str],
    row_filter: RowFilter,
    batch_rows: int,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of some row groups, each with the number of its first row in the file.

    Row groups are left out in which the row filter keeps no row.
    """
    sizes = [
        parquet.metadata.row_group(number).num_rows for number in range(parquet.num_row_groups)
    ]
    starts = [0, *accumulate(sizes)]
    if not row_filter.passes_all:
        groups = [n for n in groups if row_filter.may_keep(starts[n], sizes[n])]
    for some in _stretches(parquet, groups):
        first = starts[some[0]]
        found = parquet.iter_batches(batch_size=batch_rows, row_groups=some, columns=columns)
        for batch in found:
            yield first, batch
            first += batch.num_rows


def _stretches(parquet: pq.ParquetFile | TableFile, groups: Sequence[int]) -> Iterator[list[int]]:
    """Yield row groups that are read together: neighbours, of so many bytes decoded.

    Parquet's reader loads the bytes of all row groups that it is asked for, before it decodes one.
    """
    held: list[int] = []
    size = 0
    for number in groups:
        more = parquet.metadata.row_group(number).total_byte_size
        if held and (number != held[-1] + 1 or size + more > READ_AHEAD):
            yield held
            held, size = [], 0
        held.append(number)
        size += more
    if held:
        yield held


def _clipped(batch: pa.RecordBatch, time_column: str, clip: Interval) -> pa.RecordBatch:
    times = instants(batch.column(time_column))
    keep = pc.and_(pc.greater_equal(times, clip.start), pc.less(times, clip.end))
    return batch.filter(keep)


def _in_schema(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    if not target.names:
        return batch.select([])  # keeps the row count; an empty batch from arrays would not
    arrays = [batch.column(field.name).cast(field.type) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)

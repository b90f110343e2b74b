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
6. A plan opens the file and chooses row groups and columns in the same way, and reads none.
7. Row groups of a few rows or bytes are decoded in the calling thread: to hand them to others costs
   more than it saves.
8. A ``row_filter`` drops deleted rows, and adds the other rows' root addresses on request.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.reads.read_plan import FilePlan, GroupPlan
from airflow_provider_segtable.core.segments.segment import ROOT, ROW, Segment
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.deletes.row_filter import ROOT_TYPE, RowFilter
from airflow_provider_segtable.data.files.segment_files import SegmentFiles
from airflow_provider_segtable.data.parquet.checksums.file_checksums import CheckedSource
from airflow_provider_segtable.data.parquet.row_groups import GroupChoice, chosen_groups
from airflow_provider_segtable.data.parquet.table_file import (
    TableFile,
    opened,
    plain_columns,
    stored_bytes,
)
from airflow_provider_segtable.ports.files import DataFiles, Source

BATCH_ROWS = 65_536
"""The rows of a batch, unless a reader asks for fewer."""

READ_AHEAD = 16 << 20
"""The bytes of row groups that are loaded together, unless one alone has more."""

SMALL = 256 << 10
"""The most bytes of row groups that the calling thread decodes alone."""


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


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """A read of a segment's rows.

    Attributes:
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
    """

    files: DataFiles
    segment: Segment
    _: KW_ONLY
    schema: pa.Schema
    time_column: str
    columns: Sequence[str] | None = None
    clip: Interval | None = None
    row_filter: RowFilter | None = None
    addressed: bool = False
    checked: bool = True
    where: Condition | None = None
    batch_rows: int = BATCH_ROWS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            NotFound: the file is missing (cleaned, or lost).
            ChecksumMismatch: the file was damaged after it was written.
            CorruptTable: the file differs from its entry in the log.
        """
        target, clip, row_filter = self._target, self._clip, self._filter
        with self._opened() as (parquet, choice):
            names = list(self._read)
            for first, batch in _numbered(parquet, choice, names, self.batch_rows):
                rows = row_filter.addressed(batch, first) if self.addressed else batch
                kept = row_filter.sifted(rows, first)
                clipped = _clipped(kept, self.time_column, clip) if clip else kept
                yield _in_schema(clipped, target)

    def numbered(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows as the file has them, each batch with the number of its first row.

        No row is filtered or clipped, but row groups are left out as in ``batches``; same errors.
        """
        with self._opened() as (parquet, choice):
            yield from _numbered(parquet, choice, list(self._read), self.batch_rows)

    def row_groups(self) -> Iterator[pa.Table]:
        """Yield the rows of each row group, deleted ones among them; errors as ``batches``."""
        target, names = self._target, list(self._read)
        with self._opened() as (parquet, choice):
            for number in range(len(choice.starts)):
                many = parquet.metadata.row_group(number).num_rows > BATCH_ROWS
                found = parquet.iter_batches(row_groups=[number], columns=names, use_threads=many)
                yield pa.Table.from_batches([_in_schema(each, target) for each in found], target)

    def plan(self) -> FilePlan:
        """Return what would be read, by the file's footer; errors as ``batches``."""
        with self._opened() as (parquet, choice):
            return FilePlan(
                path=self.segment.path,
                bytes=self.segment.size,
                columns=self._read,
                groups=tuple(
                    self._group(parquet, choice, number) for number in range(len(choice.starts))
                ),
                compared=choice.compared,
            )

    def _group(
        self, parquet: pq.ParquetFile | TableFile, choice: GroupChoice, number: int
    ) -> GroupPlan:
        size, wanted = stored_bytes(parquet, number, self._read)
        return GroupPlan(
            rows=parquet.metadata.row_group(number).num_rows,
            bytes=size,
            column_bytes=wanted,
            matching=number in choice.matching,
            read=number in choice.read,
        )

    @contextmanager
    def _opened(self) -> Iterator[tuple[pq.ParquetFile | TableFile, GroupChoice]]:
        segment = self.segment
        words = [ROOT] if ROOT in self._read else []  # pyarrow requires that the column is read
        files = SegmentFiles(self.files, [segment]) if self.checked else self.files
        try:
            with (
                files.open(segment.path) as source,
                opened(
                    SourceFile(source),
                    self.schema,
                    words=words,
                    metadata=source.metadata if isinstance(source, CheckedSource) else None,
                ) as parquet,
            ):
                file = SourceFile(source)
                choice = chosen_groups(parquet, file, self.where, self.schema, self._filter)
                yield parquet, choice
        except NotFound:
            raise NotFound(
                f"{segment.path} of segment {segment.id} is gone: read a newer snapshot, "
                "or run `segtable table segments` to see what the log says"
            ) from None
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise CorruptTable(f"{segment.path} of segment {segment.id}: {error}") from error

    @property
    def _wanted(self) -> list[str]:
        return list(self.schema.names if self.columns is None else self.columns)

    @property
    def _filter(self) -> RowFilter:
        return self.row_filter or RowFilter.idle(self.segment)

    @property
    def _clip(self) -> Interval | None:
        """Return the interval to clip to; None if all rows lie inside."""
        clip, segment = self.clip, self.segment
        if clip is None or (clip.holds(segment.time_min) and clip.holds(segment.time_max)):
            return None
        return clip

    @property
    def _read(self) -> tuple[str, ...]:
        """Return the columns to read from the file, under the table's names."""
        row_filter = self._filter
        hidden = (ROOT, ROW) if self.addressed and not row_filter.runs else ()
        times = [self.time_column] if self._clip else []
        return tuple(dict.fromkeys([*self._wanted, *times, *row_filter.reads, *hidden]))

    @property
    def _target(self) -> pa.Schema:
        target = plain_columns(pa.schema([self.schema.field(name) for name in self._wanted]))
        if self.addressed:
            target = target.append(pa.field(ROOT, ROOT_TYPE)).append(pa.field(ROW, pa.int64()))
        return target


def _numbered(
    parquet: pq.ParquetFile | TableFile, choice: GroupChoice, columns: list[str], batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of the chosen row groups, each with the number of its first row."""
    for some in _stretches(parquet, choice.read):
        first = choice.starts[some[0]]
        size = sum(parquet.metadata.row_group(number).total_byte_size for number in some)
        found = parquet.iter_batches(
            batch_size=batch_rows, row_groups=some, columns=columns, use_threads=size > SMALL
        )
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
    arrays = [_as(batch.column(field.name), field.type) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _as(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column in a type: mostly the one it has, which costs no call of a kernel.

    Nested types are equal whatever their items are called, so these are cast.
    """
    same = column.type.equals(wanted) and not pa.types.is_nested(wanted)
    return column if same else column.cast(wanted)

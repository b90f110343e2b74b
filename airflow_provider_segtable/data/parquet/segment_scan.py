"""Read the rows of one segment as Arrow batches, skipping row groups without matching rows.

Reading rows:

1. Columns come in the requested order, under the table's present names and in its types, whatever
   the file calls and stores them (``data.parquet.table_file``).
2. ``clip`` keeps rows with event times in the interval; a segment that lies wholly inside (by its
   descriptor) is not filtered.
3. Bytes are compared with their checksums as they are read (``data.parquet.descriptor``), unless
   that is switched off.
4. Row groups in which no row can match a condition are not read (rules 9 to 11).
5. Memory holds the bytes of one stretch of row groups, however large the file is. From an object
   store the column chunks of a stretch are loaded together: neighbours by one request, the others
   in parallel. A file of up to ``WHOLE`` bytes is one request. On a disk a file of up to
   ``SMALL_FILE`` bytes is one read, unless a condition may leave out its rows.
6. A plan opens the file and chooses row groups and columns in the same way, and reads none.
7. Row groups of a few rows or bytes are decoded in the calling thread: handing them to other
   threads costs more than it saves.
8. A ``row_filter`` drops deleted rows, and adds the other rows' root addresses on request.

Choosing row groups, by the statistics in the file's footer:

9. A predicate is compared with the bounds of its columns (``core.predicate``); an Arrow expression
   by Arrow's own datasets.
10. Statistics are used only for flat columns that the file stores in the table's type, and of
    types whose bounds are exact. For an expression over floating columns none are used: Arrow
    ignores that values may be NaN.
11. Of these row groups, only those are read in which the row filter may keep a row.

Choosing pages, by the page indexes before the footer:

12. If the pages that may match have at most half of a file's rows, or the condition names few
    values, pages are read: first of the columns of the condition, then of the others those with
    rows that match (``data.parquet.page_reader``). So one row of a file that is sorted by the
    condition's column costs a page of each column.
13. This needs the condition as a predicate, and a file whose indexes were compared with a checksum.
    Without them whole row groups are read.
14. Where rows are addressed, or some are left out by position, whole pages stay together, so that
    the positions of rows in a batch follow each other.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from io import RawIOBase
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput, NotFound
from airflow_provider_segtable.core.predicate import (
    Bounds,
    Day,
    Moment,
    Predicate,
    can_be,
    columns_of,
)
from airflow_provider_segtable.core.reads.selection import FilePlan, GroupPlan
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.conditions import Condition, has_many_texts, matches
from airflow_provider_segtable.data.open_files import is_remote, load_ranges, open_known
from airflow_provider_segtable.data.parquet.adopted_source import AdoptedSource
from airflow_provider_segtable.data.parquet.checked_tail import Views
from airflow_provider_segtable.data.parquet.column_extremes import (
    StoredExtremes,
    stored_extremes,
)
from airflow_provider_segtable.data.parquet.descriptor import CheckedSource, SegmentFiles
from airflow_provider_segtable.data.parquet.page_index import (
    TIME_UNITS,
    Flags,
    RowSpans,
)
from airflow_provider_segtable.data.parquet.page_reader import (
    PagedFile,
    PagedGroup,
    Pin,
    paged_file,
)
from airflow_provider_segtable.data.parquet.source_file import SourceFile, seekable
from airflow_provider_segtable.data.parquet.table_file import (
    TableFile,
    column_ranges,
    opened,
    plain_columns,
    repeats,
    stored_as,
    stored_bytes,
    with_words,
)
from airflow_provider_segtable.data.row_filter import ROOT_TYPE, RowFilter
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.ports.files import DataFiles, Source


# Choosing row groups
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChoice:
    """The row groups of a file that are read.

    Attributes:
        starts: the number of each row group's first row.
        matching: row groups that may hold matching rows.
        read: the matching ones in which the row filter may keep a row.
        compared: whether statistics were compared with a condition.
    """

    starts: tuple[int, ...]
    matching: Sequence[int]
    read: Sequence[int]
    compared: bool


def chosen_groups(
    parquet: pq.ParquetFile | TableFile,
    file: RawIOBase,
    condition: Condition | None,
    schema: pa.Schema,
    row_filter: RowFilter,
) -> GroupChoice:
    """Return the row groups to read; arguments as for ``matching_groups``."""
    every = range(parquet.num_row_groups)
    sizes = [parquet.metadata.row_group(number).num_rows for number in every]
    *starts, _ = accumulate(sizes, initial=0)
    found = None if condition is None else matching_groups(parquet, file, condition, schema)
    matching = every if found is None else found
    read = matching
    if not row_filter.passes_all:
        read = [n for n in matching if row_filter.may_keep(starts[n], sizes[n])]
    return GroupChoice(
        starts=tuple(starts), matching=matching, read=read, compared=found is not None
    )


def matching_groups(
    parquet: pq.ParquetFile | TableFile, file: RawIOBase, condition: Condition, schema: pa.Schema
) -> Sequence[int] | None:
    """Return the numbers of the row groups that may hold matching rows.

    None if statistics cannot be compared with the condition: all row groups may.

    Args:
        parquet: the open file.
        file: its bytes.
        condition: the condition.
        schema: the table's schema.
    """
    every = range(parquet.num_row_groups)
    stored = stored_as(parquet, schema)
    if isinstance(condition.test, pc.Expression):
        kinds = [schema.field(name).type for name in condition.columns]
        if not stored.keys() >= {*condition.columns} or any(map(pa.types.is_floating, kinds)):
            return None
        if isinstance(parquet, TableFile):
            return None  # Arrow's datasets know columns by the file's names
        return _by_arrow(file, condition.test, schema)
    if condition.test is None:
        return None
    groups = [_Group(parquet.metadata.row_group(number), stored) for number in every]
    return [number for number in every if can_be(condition.test, groups[number].bounds)]


def _by_arrow(file: RawIOBase, test: pc.Expression, schema: pa.Schema) -> Sequence[int]:
    from pyarrow import dataset  # slow to import

    fragment = dataset.ParquetFileFormat().make_fragment(pa.PythonFile(file, mode="r"))
    found = fragment.subset(filter=test, schema=schema)
    return [group.id for group in found.row_groups]


class _Group:
    """The statistics of one row group."""

    def __init__(self, group: Any, stored: dict[str, int]) -> None:
        self.group, self.stored = group, stored

    def bounds(self, name: str) -> Bounds | None:
        """Return the bounds of a column; None if there are none to rely on."""
        if name not in self.stored:
            return None
        column = self.group.column(self.stored[name])
        found = column.statistics
        if found is None:
            return None
        low, high = _values(found) if found.has_min_max else (None, None)
        return Bounds(
            low=low,
            high=high,
            nulls=found.null_count if found.has_null_count else None,
            rows=self.group.num_rows,
            nan=found.physical_type in {"FLOAT", "DOUBLE"},
        )


def _values(found: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value; None where a type's bounds are not exact."""
    logical = json.loads(found.logical_type.to_json())
    match found.physical_type, logical.get("Type"):
        case (_, "Timestamp"):
            times, parts = TIME_UNITS[logical["timeUnit"]]
            last = -(-found.max_raw * times // parts)
            return Moment(found.min_raw * times // parts), Moment(last)
        case (_, "Date"):
            return Day(found.min_raw), Day(found.max_raw)
        case (("INT32" | "INT64"), "Int") if logical["isSigned"]:
            return found.min_raw, found.max_raw
        case (("INT32" | "INT64" | "FLOAT" | "DOUBLE" | "BOOLEAN"), "None"):
            return found.min_raw, found.max_raw
        case (_, "String") if isinstance(found.min, str) and isinstance(found.max, str):
            return found.min, found.max
    return None, None


# Reading rows
BATCH_ROWS = 65_536
"""The rows of a batch, unless a reader asks for fewer."""

MORE_ROWS = 4 * BATCH_ROWS
"""The rows of a batch if it is compared with many texts."""

PAGED_ROWS = 2 * BATCH_ROWS
"""The most rows that are read together by pages, unless one page has more."""

READ_AHEAD = 16 << 20
"""The bytes of row groups that are loaded together, unless one alone has more."""

WHOLE = 1_000_000
"""The most bytes of a file that a store with round trips sends by one request.

A footer and the column chunks are two requests in a row, the whole file is one: so many bytes take
less time than the round trip. Blocks of checksums, too, would make up much of so small a file.
"""

SMALL = 256 << 10
"""The most bytes of row groups that the calling thread decodes alone."""

SMALL_FILE = 64 << 10
"""The most bytes of a local file that is loaded whole if no condition may leave out its rows.

Parquet's reader then calls no Python code for each column, which takes longer than the other bytes.
"""


_Numbered = tuple[int, pa.RecordBatch, bool]
"""The number of a batch's first row, the batch, and whether all of its rows match."""


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
        views: tails of files that were read before, in bounded memory.
        words: columns of text or bytes to return as dictionaries.
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
    views: Views | None = None
    words: Sequence[str] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            NotFound: the file is missing (cleaned, or lost).
            ChecksumMismatch: the file was damaged after it was written.
            CorruptTable: the file differs from its entry in the log.
        """
        return (batch for batch, _ in self._batches())

    def matching(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which ``where`` holds, whose columns are read; errors as ``batches``.

        Rows that were found by their values are not compared again.
        """
        where = self.where
        for batch, exact in self._batches():
            yield batch if where is None or (exact and where.exact) else where.keep(batch)

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yield the rows, and whether the test of ``where`` holds for all of a batch."""
        target, clip, row_filter = self._target, self._clip, self._filter
        with self._accessed() as source:
            for first, batch, exact in self._rows(source):
                rows = row_filter.addressed(batch, first) if self.addressed else batch
                kept = row_filter.sifted(rows, first)
                clipped = _clipped(kept, self.time_column, clip) if clip else kept
                yield _in_schema(clipped, target), exact

    def numbered(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows as the file has them, each batch with the number of its first row.

        No row is filtered or clipped, but row groups are left out as in ``batches``; same errors.
        """
        with self._opened() as (parquet, choice, source):
            yield from self._in_groups(source, parquet, choice)

    def row_groups(self) -> Iterator[pa.Table]:
        """Yield the rows of each row group, deleted ones among them; errors as ``batches``."""
        target, names = self._target, list(self._read)
        with self._opened() as (parquet, choice, source):
            for number in range(len(choice.starts)):
                self._load(source, parquet, [number])
                many = parquet.metadata.row_group(number).num_rows > BATCH_ROWS
                found = parquet.iter_batches(row_groups=[number], columns=names, use_threads=many)
                yield pa.Table.from_batches([_in_schema(each, target) for each in found], target)

    def extremes(self, name: str) -> StoredExtremes | None:
        """Return bounds of a column by the file's statistics, if there are; errors as ``batches``.

        They are exact only if all rows of the file are read.
        """
        with self._opened(planned=True) as (parquet, _, _):
            found = stored_extremes(parquet, self.schema, name)
        whole = self._clip is None and not self._filter.holds_back and self.where is None
        return found and StoredExtremes(found.values, exact=found.exact and whole)

    def repeating(self) -> set[str]:
        """Return the columns to read of few distinct values, by the first row group; see ``words``.

        Errors as ``batches``.
        """
        with self._opened(planned=True) as (parquet, _, _):
            if not parquet.num_row_groups:
                return set()
            group, stored = parquet.metadata.row_group(0), stored_as(parquet, self.schema)
            return {
                name
                for name in self._read
                if name in stored
                and repeats(group.column(stored[name]), self.schema.field(name).type)
            }

    def plan(self) -> FilePlan:
        """Return the planned read, by the file's footer; errors as ``batches``."""
        with self._opened(planned=True) as (parquet, choice, _):
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

    def _rows(self, source: Source) -> Iterator[_Numbered]:
        """Yield the rows that may match, each batch with the number of its first row.

        The last value is whether the test holds for all of them.
        Rows of a batch follow each other in the file if they are addressed or left out by position.
        """
        test = self._test
        if test is not None and isinstance(source, CheckedSource):
            names = {*self._read, *columns_of(test)}
            paged = paged_file(source, self.schema, names)
            may = None if paged is None else paged.rows_that_may(test, names)
            if paged is not None and may is not None:
                yield from self._in_pages(paged, test, may)
                return
        with self._parquet(source) as (parquet, choice):
            for first, batch in self._in_groups(source, parquet, choice):
                yield first, batch, False

    def _in_groups(
        self, source: Source, parquet: pq.ParquetFile | TableFile, choice: GroupChoice
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield all rows of the chosen row groups, each batch with the number of its first row."""
        stretches = self._stretches(source, parquet, choice)
        yield from _numbered(parquet, choice, list(self._read), self._rows_at_once, stretches)

    def _in_pages(self, paged: PagedFile, test: Predicate, may: RowSpans) -> Iterator[_Numbered]:
        """Yield the rows that match, or the pages that have them."""
        pin, passes_all = paged.pin(test), self._passes_all
        if passes_all and (whole := paged.whole({*self._read, *columns_of(test)})) is not None:
            yield from self._of_group(whole, test, pin, may)
            return
        for group, inside in paged.groups(may):
            if passes_all or self._filter.may_keep(group.first, group.rows):
                for first, batch, exact in self._of_group(group, test, pin, inside):
                    yield group.first + first, batch, exact

    def _of_group(
        self, group: PagedGroup, test: Predicate, pin: Pin | None, may: RowSpans
    ) -> Iterator[_Numbered]:
        """Yield the rows of a row group that match, or those of a page with one."""
        hits = None if pin is None else group.find(pin, may)
        if pin is None or hits is None:
            for some in may.pieces(PAGED_ROWS):
                yield from self._of_pages(group, test, some, {})
            return
        rows, numbers = hits
        if self._together:
            for piece in may.having(rows).pieces(PAGED_ROWS):
                yield from self._of_pages(group, test, piece, {})
            return
        left = None if pin.only else test
        for at in range(0, len(rows), PAGED_ROWS):
            known = {pin.column: numbers.slice(at, PAGED_ROWS)}
            spans = RowSpans.of_rows(rows[at : at + PAGED_ROWS])
            yield from self._of_pages(group, left, spans, known)

    @property
    def _together(self) -> bool:
        """Return whether whole pages stay together, because rows are known by their positions."""
        return self.addressed or not self._passes_all

    @property
    def _passes_all(self) -> bool:
        """Return whether the row filter leaves no row out."""
        return self.row_filter is None or self.row_filter.passes_all

    def _of_pages(
        self,
        group: PagedGroup,
        test: Predicate | None,
        spans: RowSpans,
        known: Mapping[str, pa.Array],
    ) -> Iterator[_Numbered]:
        """Yield the rows of some pages of a row group that match, or those of a page with one.

        Args:
            group: the row group.
            test: the condition; None if all of the rows match.
            spans: the rows.
            known: columns of these rows.
        """
        together, found = self._together, {**known}
        tested = [*known] if test is None else [*dict.fromkeys(columns_of(test))]
        found |= group.read([name for name in tested if name not in found], spans)
        typed = [_as(found[name], self.schema.field(name).type) for name in tested]
        first = pa.record_batch(typed, names=tested)
        if test is not None:
            keep = _matching(first, test)
            keep = spans.whole(keep) if together else keep
            if not keep.any():
                return
            if not keep.all():
                spans, first = RowSpans.of_rows(spans.rows[keep]), first.filter(pa.array(keep))
        words = [ROOT] if ROOT in self._read else []  # pyarrow requires that the column is read
        rest = group.read([name for name in self._read if name not in tested], spans, words)
        columns = {**dict(zip(tested, first.columns, strict=True)), **rest}
        names = self._read or tuple(tested)  # a batch without columns loses its number of rows
        batch = pa.record_batch([columns[name] for name in names], names=list(names))
        if not together:
            yield int(spans.starts[0]), batch, test is None
            return
        at = 0
        for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
            yield start, batch.slice(at, end - start), False
            at += end - start

    @property
    def _rows_at_once(self) -> int:
        """Return the rows of a batch: more for a large set of texts, which each batch prepares."""
        test, whole = self._test, self.batch_rows >= BATCH_ROWS
        large = whole and test is not None and has_many_texts(test)
        return MORE_ROWS if large else self.batch_rows

    @property
    def _test(self) -> Predicate | None:
        """Return a predicate that matching rows satisfy; None if none is known."""
        test = None if self.where is None else self.where.test
        return None if isinstance(test, pc.Expression) else test

    def _stretches(
        self, source: Source, parquet: pq.ParquetFile | TableFile, choice: GroupChoice
    ) -> Iterator[list[int]]:
        """Yield row groups that are read together, with their bytes loaded where that pays."""
        for some in _stretches(parquet, choice.read):
            self._load(source, parquet, some)
            yield some

    def _load(
        self, source: Source, parquet: pq.ParquetFile | TableFile, groups: Sequence[int]
    ) -> None:
        """Load the columns to read of some row groups together, where a read is a round trip."""
        if is_remote(self.files):
            load_ranges(source, column_ranges(parquet, groups, self._read))

    @contextmanager
    def _opened(
        self, *, planned: bool = False
    ) -> Iterator[tuple[pq.ParquetFile | TableFile, GroupChoice, Source]]:
        with (
            self._accessed(planned=planned) as source,
            self._parquet(source, planned=planned) as (parquet, choice),
        ):
            yield parquet, choice, source

    @contextmanager
    def _accessed(self, *, planned: bool = False) -> Iterator[Source]:
        """Open the segment's file, and translate the errors of reading it."""
        segment = self.segment
        whole = 0 if planned else WHOLE
        files = SegmentFiles(self.files, [segment], whole=whole, views=self.views)
        opening = (
            files.open(segment.path)
            if self.checked
            else open_known(self.files, segment.path, segment.size)
        )
        try:
            with opening as source:
                yield source
        except NotFound:
            raise NotFound(
                f"{segment.path} of segment {segment.id} is gone: read a newer snapshot, "
                "or run `segtable table segments` to see the log's segments"
            ) from None
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise CorruptTable(f"{segment.path} of segment {segment.id}: {error}") from error

    @contextmanager
    def _parquet(
        self, source: Source, *, planned: bool = False
    ) -> Iterator[tuple[pq.ParquetFile | TableFile, GroupChoice]]:
        """Open a file as Parquet, and choose its row groups; a plan reads none of its rows."""
        words = [*self.words, *([ROOT] if ROOT in self._read else [])]  # pyarrow: columns it reads
        known = source.metadata if isinstance(source, CheckedSource | AdoptedSource) else None
        schema = self.schema
        file = SourceFile(source)
        some = planned or self.where is not None or file.loads
        given = file if some else seekable(source, SMALL_FILE)
        with opened(given, schema, words=words, metadata=known, ahead=False) as parquet:
            yield parquet, chosen_groups(parquet, file, self.where, schema, self._filter)

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
        target = with_words(target, self.words)
        if self.addressed:
            target = target.append(pa.field(ROOT, ROOT_TYPE)).append(pa.field(ROW, pa.int64()))
        return target


def _matching(rows: pa.RecordBatch, test: Predicate) -> Flags:
    """Return which rows may match; all if a value of the test does not fit its column."""
    try:
        return np.asarray(pc.fill_null(matches(rows, test), False))
    except InvalidInput:  # the test is only necessary: the reader's own condition decides
        return np.ones(rows.num_rows, np.bool_)


def _numbered(
    parquet: pq.ParquetFile | TableFile,
    choice: GroupChoice,
    columns: list[str],
    batch_rows: int,
    stretches: Iterator[list[int]],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of the chosen row groups, each with the number of its first row."""
    for some in stretches:
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

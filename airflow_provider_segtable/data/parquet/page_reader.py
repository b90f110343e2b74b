"""Read some rows of a row group by their pages, without the other pages of its column chunks.

1. Which pages have the rows follows from the offset index (``data.parquet.page_index``). Of a
   column, its dictionary page and these data pages are read, and no other bytes.
2. The pages are put together, unchanged, as a small Parquet file in memory: one row group of fewer
   rows. Its footer is the file's own with other offsets and counts (``data.parquet.thrift``). So
   Parquet's own reader decodes them, of any type and encoding.
3. A column of numbers without nulls and dictionary is an exception: its values are taken from the
   pages (``data.parquet.number_pages``).
4. A column of whole numbers whose least and greatest value in a row group are equal is not read: it
   is filled. So are the operation and the root of most rows of a base file.
5. Columns whose pages begin at the same rows are one such file; pyarrow cuts all columns alike
   unless their values are large. A column with fields whose pages differ is read whole.
6. Bytes are compared with their checksums by the source, as for any other read.

Source of the idea: Parquet's page index in readers that skip pages (parquet-java, arrow-rs); pages
are moved as whole row groups are in ``data.jobs.passthrough``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    Moment,
    Predicate,
    columns_of,
    pinned_values,
)
from airflow_provider_segtable.data.open_files import load_ranges
from airflow_provider_segtable.data.parquet.checked_tail import CheckedTail
from airflow_provider_segtable.data.parquet.descriptor import CheckedSource
from airflow_provider_segtable.data.parquet.footer import MAGIC, Footer, Group, footer_bytes
from airflow_provider_segtable.data.parquet.number_pages import EVERY, NumberPages
from airflow_provider_segtable.data.parquet.page_index import (
    BoundedColumn,
    Numbers,
    Pages,
    RowSpans,
    in_order,
    rows_that_may,
)
from airflow_provider_segtable.data.parquet.source_file import parquet_file
from airflow_provider_segtable.data.parquet.table_file import TableFile, opened, stored_as
from airflow_provider_segtable.data.parquet.thrift import Span, patched

_SCHEMA = b"ARROW:schema"
LEAST_ROWS = 16_384
"""Least number of rows of a file that is read by pages: smaller ones are decoded as fast whole."""
_ROWS_A_VALUE = 256
"""Least number of rows of a file for one value of a condition, for which few pages may match."""
_ROWS_A_NUMBER = 8
"""The same of an ascending column, if all are of numbers that are taken from pages, or constant."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The pages of one leaf column that are read: their numbers, and all pages."""

    column: int
    pages: Pages
    numbers: Numbers

    @property
    def spans(self) -> bytes:
        """Return the rows of the pages, to compare columns by."""
        return self.pages.starts[self.numbers].tobytes() + self.pages.ends[self.numbers].tobytes()

    @property
    def rows(self) -> int:
        """Return the number of rows of the pages."""
        return int((self.pages.ends[self.numbers] - self.pages.starts[self.numbers]).sum())

    def places_of(self, rows: Numbers) -> Numbers:
        """Return where some ascending rows are among the rows of the pages."""
        starts = self.pages.starts[self.numbers]
        before = np.cumsum(self.pages.ends[self.numbers] - starts)
        page = np.searchsorted(starts, rows, side="right") - 1
        places: Numbers = rows - starts[page] + np.append(0, before)[page]
        return places

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return where the file has the pages; neighbours are one range."""
        return self.pages.ranges(self.numbers)


@dataclass(frozen=True, slots=True)
class Pin:
    """A column for which a test names all values.

    Attributes:
        column: the column.
        wanted: the values, ascending.
        only: whether the test is that the column has one of the values, and no more.
    """

    column: str
    wanted: Numbers
    only: bool


def _only(test: Predicate) -> bool:
    match test:
        case AllOf(of=(one,)) | AnyOf(of=(one,)):
            return _only(one)
        case Compare(how=how):
            return how is Compares.EQUAL
        case _:
            return isinstance(test, Among)


@dataclass(frozen=True, slots=True)
class _Shape:
    """How the columns of a target schema are in a file.

    Attributes:
        like: the file as a reader of these columns; it reads nothing.
        kinds: the type that each column is read in, of those that the file has.
        stored: the flat columns that are stored in the target's type, with their numbers.
        paged: whether a column can be read by pages, of those that were asked for.
        numbers: the pages of column chunks of numbers, of those that were asked for.
        constants: the only value of column chunks that have one, of those that were asked for.
    """

    like: pq.ParquetFile | TableFile
    kinds: Mapping[str, pa.DataType]
    stored: Mapping[str, int]
    paged: dict[str, bool] = field(default_factory=dict)
    numbers: dict[tuple[str, int], NumberPages | None] = field(default_factory=dict)
    constants: dict[tuple[str, int], pa.Scalar | None] = field(default_factory=dict)

    @staticmethod
    def of(tail: CheckedTail, schema: pa.Schema) -> "_Shape":
        like = opened(pa.BufferReader(b""), schema, metadata=tail.metadata)
        kinds = {field.name: field.type for field in like.schema_arrow}
        return _Shape(like, kinds, stored_as(like, schema))

    def leaves(self, tail: CheckedTail, name: str) -> Sequence[int] | None:
        """Return the leaves of a column; None if it has no name to read it by alone."""
        stored = self.like.stored([name]) if isinstance(self.like, TableFile) else [name]
        if "" in stored:
            return None
        return [leaf for own in stored for leaf in tail.leaves.get(own, ())]

    def number(self, tail: CheckedTail, name: str, group: int) -> NumberPages | None:
        """Return a column chunk of numbers without nulls and dictionary; None if it is another.

        Pages of such numbers are read without Parquet's reader, which takes four times as long.
        """
        key = name, group
        if key not in self.numbers:
            self.numbers[key] = self._number(tail, name, group)
        return self.numbers[key]

    def _number(self, tail: CheckedTail, name: str, group: int) -> NumberPages | None:
        if group == EVERY:
            firsts = [first for first, _ in tail.group_rows]
            each = (self.number(tail, name, number) for number in range(len(firsts)))
            parts = [part for part in each if part is not None]
            return NumberPages.joined(parts, firsts) if len(parts) == len(firsts) else None
        kind, leaves = self.kinds.get(name), self.leaves(tail, name) or ()
        if kind is None or len(leaves) != 1:
            return None
        (leaf,) = leaves
        column, pages = tail.metadata.schema.column(leaf), tail.pages(group, leaf)
        word, chunk = _WORDS.get(column.physical_type), tail.metadata.row_group(group).column(leaf)
        if not word or pages is None or not _is_stored_so(kind, column):
            return None
        levels = bool(column.max_definition_level)
        if chunk.has_dictionary_page or (levels and _may_be_null(chunk.statistics)):
            return None
        codec = chunk.compression
        return NumberPages(
            chunk=(group, leaf),
            pages=pages,
            kind=kind,
            word=word,
            codec=codec,
            levels=levels,
            bare=codec == "UNCOMPRESSED" and {*chunk.encodings} - _LEVELS == {"PLAIN"},
        )

    def constant(self, tail: CheckedTail, name: str, group: int) -> pa.Scalar | None:
        """Return the only value of a column chunk of whole numbers; None if it may have others."""
        key = name, group
        if key not in self.constants:
            self.constants[key] = self._constant(tail, name, group)
        return self.constants[key]

    def _constant(self, tail: CheckedTail, name: str, group: int) -> pa.Scalar | None:
        if group == EVERY:
            each = range(len(tail.group_rows))
            first, *others = [self.constant(tail, name, number) for number in each]
            return first if all(other == first for other in others) else None
        kind, leaf = self.kinds.get(name), self.stored.get(name)
        if kind is None or leaf is None or not pa.types.is_signed_integer(kind):
            return None
        found = tail.metadata.row_group(group).column(leaf).statistics
        if _may_be_null(found) or not found.has_min_max or found.min_raw != found.max_raw:
            return None
        return pa.scalar(found.min_raw, kind)

    def pin(self, tail: CheckedTail, test: Predicate) -> Pin | None:
        """Return a column of whole numbers for which a test names all values, if there is one."""
        for name in dict.fromkeys(columns_of(test)):
            values, kind = pinned_values(test, name), self.kinds.get(name)
            if values is not None and kind is not None and self.number(tail, name, 0) is not None:
                wanted = in_order(values, _kind_of(kind))
                if wanted is not None:
                    return Pin(name, wanted, _only(test))
        return None

    def is_paged(self, tail: CheckedTail, name: str) -> bool:
        """Return whether a column has an offset index in each row group."""
        if name not in self.paged:
            leaves, groups = self.leaves(tail, name), range(tail.metadata.num_row_groups)
            self.paged[name] = (
                bool(tail.footer.groups)
                and leaves is not None
                and all(tail.pages(group, leaf) is not None for group in groups for leaf in leaves)
            )
        return self.paged[name]


_WORDS = {"INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}
_LEVELS = {"RLE", "BIT_PACKED"}
"""Encodings of levels, which a footer lists among those of numbers."""


def _is_stored_so(kind: pa.DataType, column: Any) -> bool:
    """Return whether a flat column's values are in memory as they are in the file."""
    if column.max_definition_level > 1 or column.max_repetition_level:
        return False
    wide = {"INT32": 32, "INT64": 64, "FLOAT": 32, "DOUBLE": 64}[column.physical_type]
    is_ = pa.types
    if is_.is_timestamp(kind):
        unit = json.loads(column.logical_type.to_json()).get("timeUnit")
        return bool(unit == _UNITS.get(kind.unit, ""))
    same = is_.is_signed_integer(kind) or is_.is_floating(kind) or is_.is_date32(kind)
    return bool(same and kind.bit_width == wide)


def _kind_of(kind: pa.DataType) -> type:
    """Return the kind of values by whose plain numbers a column is searched; else one of none."""
    is_ = pa.types
    if is_.is_timestamp(kind) and kind.unit == "us":
        return Moment
    return Day if is_.is_date32(kind) else int if is_.is_signed_integer(kind) else type(None)


_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def paged_file(
    source: CheckedSource, schema: pa.Schema, names: Iterable[str]
) -> "PagedFile | None":
    """Return an open file as pages; None if it is small, or not all of the columns are indexed.

    Args:
        source: the file.
        schema: the target schema; one that stays the same object is compared once.
        names: the columns to be read.
    """
    tail = source.tail
    if tail.metadata.num_rows < LEAST_ROWS:
        return None
    shape = tail.shape(schema, lambda: _Shape.of(tail, schema))
    if not all(shape.is_paged(tail, name) for name in names):
        return None
    return PagedFile(source=source, shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedFile:
    """An open file with page indexes."""

    source: CheckedSource
    shape: _Shape

    def rows_that_may(self, test: Predicate, names: Iterable[str]) -> RowSpans | None:
        """Return the rows that may match; None if whole row groups should be read.

        So it is if the bounds leave more than half of all rows, unless few rows match anyway: those
        with one of a few values. Then the columns of the condition are read, and few other pages.
        Values of an ascending column of numbers may be many: bisection finds them.

        Args:
            test: the condition.
            names: the columns to be read, and those of the condition.
        """

        def column_of(name: str) -> BoundedColumn | None:
            column = self.shape.stored.get(name)
            return None if column is None else self.source.tail.bounds(column)

        rows = self.source.tail.metadata.num_rows
        found = rows_that_may(test, column_of, rows)
        if found is not None and found.count <= rows // 2:
            return found
        pinned = ((name, pinned_values(test, name)) for name in columns_of(test))
        few = any(
            len(values) * _ROWS_A_VALUE <= rows
            or (len(values) * _ROWS_A_NUMBER <= rows and self._is_searched(name, names))
            for name, values in pinned
            if values is not None
        )
        return found if few else None

    def _is_searched(self, name: str, names: Iterable[str]) -> bool:
        """Return whether a column ascends by its bounds, and all are read without decoding."""
        stored = self.shape.stored.get(name)
        column = None if stored is None else self.source.tail.bounds(stored)
        if column is None or self.whole(names) is None:
            return False
        bounds = column.bounds
        return not bounds.empty.any() and bool((bounds.high[:-1] <= bounds.low[1:]).all())

    def pin(self, test: Predicate) -> Pin | None:
        """Return a column of whole numbers for which a test names all values, if there is one."""
        return self.shape.pin(self.source.tail, test)

    def whole(self, names: Iterable[str]) -> "PagedGroup | None":
        """Return all row groups as one; None unless columns are of numbers, or constant, in all."""
        tail, shape = self.source.tail, self.shape
        simple = all(
            shape.constant(tail, name, EVERY) is not None
            or shape.number(tail, name, EVERY) is not None
            for name in names
        )
        if not simple or self.source.loads:
            return None
        rows = tail.metadata.num_rows
        return PagedGroup(source=self.source, shape=shape, number=EVERY, first=0, rows=rows)

    def groups(self, spans: RowSpans) -> "Iterator[tuple[PagedGroup, RowSpans]]":
        """Yield the row groups that have some rows, with these, numbered in the row group."""
        for number, (first, rows) in enumerate(self.source.tail.group_rows):
            inside = spans.between(first, first + rows)
            if inside.count:
                group = PagedGroup(
                    source=self.source, shape=self.shape, number=number, first=first, rows=rows
                )
                yield group, inside


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedGroup:
    """One row group of a file, whose columns have an offset index.

    Attributes:
        source: the file.
        shape: how the columns are in it.
        number: the number of the row group; ``EVERY`` for all as one.
        first: the number of its first row in the file.
        rows: its rows.
    """

    source: CheckedSource
    shape: _Shape
    number: int
    first: int
    rows: int

    @property
    def tail(self) -> CheckedTail:
        """Return the tail of the file."""
        return self.source.tail

    def read(
        self, names: Sequence[str], spans: RowSpans, words: Sequence[str] = ()
    ) -> dict[str, pa.Array]:
        """Return some rows of columns.

        Args:
            names: the columns, by the target's names.
            spans: the rows, numbered in the row group; at least one.
            words: columns among them that are read as dictionaries, by the file's names.
        """
        found = self._filled(names, spans)
        needed = [name for name in names if name not in found]
        if self.source.loads:
            self._load([part for name in needed for part in self._chosen(name, spans)])
        rows, left = spans.rows, list[str]()
        for name in needed:
            numbers = self.shape.number(self.tail, name, self.number)
            taken = None if numbers is None else numbers.taken(self.source, rows)
            if taken is None:
                left.append(name)
            else:
                found[name] = taken
        for alike, parts in self._together(left, spans):
            found |= self._decoded(alike, parts, spans, words)
        return found

    def _together(
        self, names: Sequence[str], spans: RowSpans
    ) -> Iterator[tuple[list[str], list[_Chosen]]]:
        """Yield columns whose pages begin at the same rows, with their pages."""
        alike: dict[bytes, dict[str, list[_Chosen]]] = {}
        for name in names:
            some = self._chosen(name, spans)
            alike.setdefault(some[0].spans if some else b"", {})[name] = some
        for columns in alike.values():
            yield [*columns], [part for some in columns.values() for part in some]

    def _filled(self, names: Sequence[str], spans: RowSpans) -> dict[str, pa.Array]:
        """Return the columns that have one value in the row group."""
        constants = {name: self.shape.constant(self.tail, name, self.number) for name in names}
        return {
            name: pa.repeat(value, spans.count)
            for name, value in constants.items()
            if value is not None
        }

    def _chosen(self, name: str, spans: RowSpans) -> list[_Chosen]:
        """Return the pages to read of each leaf of a column."""
        leaves = self.shape.leaves(self.tail, name) or ()
        each = [self.tail.pages(self.number, leaf) for leaf in leaves]
        found = [
            _Chosen(leaf, pages, pages.of_spans(spans.starts, spans.ends))
            for leaf, pages in zip(leaves, each, strict=True)
            if pages is not None
        ]
        if len({part.spans for part in found}) > 1:
            return [replace(part, numbers=np.arange(len(part.pages.starts))) for part in found]
        return found

    def _load(self, parts: Sequence[_Chosen]) -> None:
        """Load the pages that are read, where each request is a round trip."""
        dictionaries = (self._dictionary(part) for part in parts)
        wanted = [each for each in dictionaries if each is not None]
        load_ranges(self.source, [*wanted, *(each for part in parts for each in part.ranges)])

    def _dictionary(self, part: _Chosen) -> tuple[int, int] | None:
        """Return where the dictionary page of a column chunk is, which is before its data."""
        spans = self._group.columns[part.column]
        start = spans["dictionary"][2] if "dictionary" in spans else 0
        return (start, int(part.pages.offsets[0])) if start else None

    @property
    def _group(self) -> Group:
        return self.tail.footer.groups[self.number]

    def _decoded(
        self, names: Sequence[str], parts: Sequence[_Chosen], spans: RowSpans, words: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        """Return columns whose pages begin at the same rows."""
        count = parts[0].rows if parts else spans.count
        small = _SmallFile(self.tail.footer, self._group)
        for part in parts:
            small.add(part, self._dictionary(part), self.source.read_at)
        own = [word for word in words if word in self.tail.leaves]
        with small.opened(count, own, self.shape.like) as parquet:
            batches = [
                *parquet.iter_batches(
                    batch_size=count, row_groups=[0], columns=list(names), use_threads=False
                )
            ]
        table = pa.Table.from_batches(batches)
        if spans.count < count:
            table = table.take(pa.array(parts[0].places_of(spans.rows)))
        whole = table.combine_chunks()
        return {name: _one(whole.column(name)) for name in names}

    def find(self, pin: Pin, spans: RowSpans) -> tuple[Numbers, pa.Array] | None:
        """Return the rows among some with a pinned value, and their values.

        None if the column's pages are not of plain numbers. Rows of the same pages may be among
        them.
        """
        numbers = self.shape.number(self.tail, pin.column, self.number)
        if numbers is None:
            return None
        if self.source.loads:
            load_ranges(self.source, numbers.unkept(self.source, spans))
        return numbers.find(self.source, pin.wanted, spans)


def _may_be_null(found: Any) -> bool:
    return found is None or not found.has_null_count or found.null_count > 0


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


class _SmallFile:
    """Pages of a row group, as a file of its own."""

    def __init__(self, footer: Footer, group: Group) -> None:
        self._footer = footer
        self._group = group
        self._pieces: list[bytes] = [MAGIC]
        self._size = len(MAGIC)
        self._edits: list[tuple[Span, int]] = []

    def add(
        self,
        part: _Chosen,
        dictionary: tuple[int, int] | None,
        read_at: Callable[[int, int], bytes],
    ) -> None:
        """Add the pages of a column."""
        spans, begin = self._group.columns[part.column], self._size
        if dictionary is not None:
            self._edits.append((spans["dictionary"], begin))
            self._copy(dictionary, read_at)
        self._edits.append((spans["data"], self._size))
        for each in part.ranges:
            self._copy(each, read_at)
        self._edits.append((spans["size"], self._size - begin))

    def _copy(self, place: tuple[int, int], read_at: Callable[[int, int], bytes]) -> None:
        start, end = place
        self._pieces.append(read_at(start, end - start))
        self._size += end - start

    def opened(self, rows: int, words: Sequence[str], like: Any) -> Any:
        """Open the file, which has so many rows, with the columns of another reader."""
        group, footer = self._group, self._footer
        edits = sorted([*self._edits, (group.spans["rows"], rows)])
        entries = [(key, value) for key, value in footer.metadata.items() if key == _SCHEMA]
        end = footer_bytes(
            footer,
            version=footer.version,
            groups=[patched(footer.data, group.start, group.end, edits)],
            rows=rows,
            metadata=entries,
            created_by=footer.created_by,
        )
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + end))
        data = pa.BufferReader(b"".join(self._pieces))
        parquet = parquet_file(data, words=words, metadata=metadata)
        return like.over(parquet) if isinstance(like, TableFile) else parquet

"""Read some rows of a row group by their pages, without the other pages of its column chunks.

1. Which pages have the rows follows from the offset index (``data.parquet.page_index``). Of a
   column, its dictionary page and these data pages are read, and no other bytes.
2. The pages are put together, unchanged, as a small Parquet file in memory: one row group of fewer
   rows. Its footer is the file's own with other offsets and counts (``data.parquet.thrift``). So
   Parquet's own reader decodes them, of any type and encoding.
3. A column of numbers without nulls and dictionary is an exception: its values are in the pages as
   they are in memory, so they are taken from there.
4. Columns whose pages begin at the same rows are one such file; pyarrow cuts all columns alike
   unless their values are large. A column with fields whose pages differ is read whole.
5. Bytes are compared with their checksums by the source, as for any other read.

Source of the idea: Parquet's page index in readers that skip pages (parquet-java, arrow-rs); pages
are moved as whole row groups are in ``data.jobs.passthrough``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import (
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
from airflow_provider_segtable.data.parquet.page_index import (
    BoundedColumn,
    Numbers,
    Pages,
    RowSpans,
    in_order,
    plain_values,
    rows_that_may,
)
from airflow_provider_segtable.data.parquet.table_file import TableFile, opened, stored_as
from airflow_provider_segtable.data.parquet.thrift import Span, patched

_SCHEMA = b"ARROW:schema"
LEAST_ROWS = 16_384
"""Least number of rows of a file that is read by pages: smaller ones are decoded as fast whole."""
_ROWS_A_VALUE = 256
"""Least number of rows of a file for one value of a condition, for which few pages may match."""


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

    def between(self, start: int, end: int) -> list[int]:
        """Return the numbers of the pages within a range of the file."""
        offsets = self.pages.offsets[self.numbers]
        found: list[int] = self.numbers[slice(*offsets.searchsorted([start, end]))].tolist()
        return found

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return where the file has the pages; neighbours are one range."""
        offsets = self.pages.offsets[self.numbers]
        ends = offsets + self.pages.sizes[self.numbers]
        if len(offsets) == 1:
            return [(int(offsets[0]), int(ends[0]))]
        (breaks,) = np.nonzero(offsets[1:] != ends[:-1])
        firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(ends) - 1)
        return [*zip(offsets[firsts].tolist(), ends[lasts].tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class _Shape:
    """How the columns of a target schema are in a file.

    Attributes:
        like: the file as a reader of these columns; it reads nothing.
        stored: the flat columns that are stored in the target's type, with their numbers.
        paged: whether a column can be read by pages, of those that were asked for.
        numbers: the Arrow type and the form of a column of numbers, of those that were asked for.
    """

    like: pq.ParquetFile | TableFile
    stored: Mapping[str, int]
    paged: dict[str, bool] = field(default_factory=dict)
    numbers: dict[str, tuple[pa.DataType, str] | None] = field(default_factory=dict)

    @staticmethod
    def of(tail: CheckedTail, schema: pa.Schema) -> "_Shape":
        like = opened(pa.BufferReader(b""), schema, metadata=tail.metadata)
        return _Shape(like, stored_as(like, schema))

    def leaves(self, tail: CheckedTail, name: str) -> Sequence[int] | None:
        """Return the leaves of a column; None if it has no name to read it by alone."""
        stored = self.like.stored([name]) if isinstance(self.like, TableFile) else [name]
        if "" in stored:
            return None
        return [leaf for own in stored for leaf in tail.leaves.get(own, ())]

    def number(self, tail: CheckedTail, name: str) -> tuple[pa.DataType, str] | None:
        """Return the Arrow type and the form of a column of numbers as wide as in memory, or None.

        Pages of such numbers are read without Parquet's reader, which takes four times as long.
        """
        if name not in self.numbers:
            at = self.like.schema_arrow.get_field_index(name)
            kind = pa.null() if at < 0 else self.like.schema_arrow.field(at).type
            leaves = self.leaves(tail, name) or ()
            columns = [tail.metadata.schema.column(leaf) for leaf in leaves]
            word = _WORDS.get(columns[0].physical_type, "") if len(columns) == 1 else ""
            same = word and _is_stored_so(kind, columns[0])
            self.numbers[name] = (kind, word) if same else None
        return self.numbers[name]

    def pin(self, tail: CheckedTail, test: Predicate) -> tuple[str, Numbers] | None:
        """Return a column of numbers for which a test names all values, and these, if any."""
        for name in dict.fromkeys(columns_of(test)):
            values, number = pinned_values(test, name), self.number(tail, name)
            if values is not None and number is not None:
                wanted = in_order(values, _kind_of(number[0]))
                if wanted is not None:
                    return name, wanted
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

    def rows_that_may(self, test: Predicate) -> RowSpans | None:
        """Return the rows that may match; None if whole row groups should be read.

        So it is if the bounds leave more than half of all rows, unless few rows match anyway: those
        with one of a few values. Then the columns of the condition are read, and few other pages.
        """

        def column_of(name: str) -> BoundedColumn | None:
            column = self.shape.stored.get(name)
            return None if column is None else self.source.tail.bounds(column)

        rows = self.source.tail.metadata.num_rows
        found = rows_that_may(test, column_of, rows)
        if found is not None and found.count <= rows // 2:
            return found
        few = any(
            values is not None and len(values) * _ROWS_A_VALUE <= rows
            for values in (pinned_values(test, name) for name in columns_of(test))
        )
        return found if few else None

    def groups(self) -> "Iterator[PagedGroup]":
        """Yield the row groups."""
        first, metadata = 0, self.source.tail.metadata
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            yield PagedGroup(
                source=self.source, shape=self.shape, number=number, first=first, rows=rows
            )
            first += rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedGroup:
    """One row group of a file, whose columns have an offset index.

    Attributes:
        source: the file.
        shape: how the columns are in it.
        number: the number of the row group.
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
        chosen = {name: self._chosen(name, spans) for name in names}
        together: dict[bytes, list[str]] = {}
        self._load([part for some in chosen.values() for part in some])
        found: dict[str, pa.Array] = {}
        for name, some in chosen.items():
            numbers = self._plain(name, some, spans)
            if numbers is None:
                together.setdefault(some[0].spans if some else b"", []).append(name)
            else:
                found[name] = numbers
        for alike in together.values():
            parts = [part for name in alike for part in chosen[name]]
            found |= self._decoded(alike, parts, spans, words)
        return found

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
        if not self.source.loads:
            return
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

    def _plain(self, name: str, parts: Sequence[_Chosen], spans: RowSpans) -> pa.Array | None:
        """Return some rows of a column of plain numbers; None if it is stored in another way."""
        if len(parts) != 1 or (number := self.shape.number(self.tail, name)) is None:
            return None
        part, (kind, word) = parts[0], number
        levels = self._levels(part)
        if levels is None:
            return None
        rows, found = spans.rows, []
        for first, values in self._values(part, word, levels=levels):
            if values is None:
                return None
            inside = slice(*rows.searchsorted([first, first + len(values)]))
            found.append(values[rows[inside] - first])
        whole = np.concatenate(found)
        return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole)])

    def _values(
        self, part: _Chosen, word: str, *, levels: bool
    ) -> Iterator[tuple[int, npt.NDArray[Any] | None]]:
        """Yield the first row of each page, and its numbers; None if they are not plain."""
        pages, size = part.pages, np.dtype(word).itemsize
        codec = self.tail.metadata.row_group(self.number).column(part.column).compression
        for start, end in part.ranges:
            data = self.source.view(start, end - start)
            for page in part.between(start, end):
                first, count = int(pages.starts[page]), int(pages.ends[page] - pages.starts[page])
                at, bytes_ = int(pages.offsets[page]) - start, int(pages.sizes[page])
                found = plain_values(data[at : at + bytes_], codec, count * size, levels=levels)
                yield first, None if found is None else np.frombuffer(found, word)

    def find(self, name: str, wanted: Numbers, spans: RowSpans) -> tuple[Numbers, pa.Array] | None:
        """Return the rows with one of some numbers in a column, and their numbers.

        None if the column's pages are not of plain numbers. A page of ascending numbers, as of a
        key, is searched for each wanted number.

        Args:
            name: the column.
            wanted: the numbers, ascending.
            spans: the rows to look at.
        """
        parts, number = self._chosen(name, spans), self.shape.number(self.tail, name)
        if number is None or len(parts) != 1 or (levels := self._levels(parts[0])) is None:
            return None
        rows, found = [], []
        for first, values in self._values(parts[0], number[1], levels=levels):
            if values is None:
                return None
            inside = _found(values, wanted)
            rows.append(inside + first)
            found.append(values[inside])
        whole = np.concatenate(found)
        array = pa.Array.from_buffers(number[0], len(whole), [None, pa.py_buffer(whole)])
        return np.concatenate(rows), array

    def _levels(self, part: _Chosen) -> bool | None:
        """Return whether pages have levels before values; None if they have nulls or codes."""
        chunk = self.tail.metadata.row_group(self.number).column(part.column)
        levels = bool(self.tail.metadata.schema.column(part.column).max_definition_level)
        if chunk.has_dictionary_page or (levels and _may_be_null(chunk.statistics)):
            return None
        return levels


def _found(values: npt.NDArray[Any], wanted: Numbers) -> Numbers:
    """Return the places of the wanted numbers among others, ascending."""
    if len(values) > 1 and not (values[1:] >= values[:-1]).all():
        return np.flatnonzero(np.isin(values, wanted))
    near = wanted[slice(wanted.searchsorted(values[0]), wanted.searchsorted(values[-1], "right"))]
    firsts, ends = values.searchsorted(near), values.searchsorted(near, side="right")
    if (ends - firsts <= 1).all():
        return firsts[ends > firsts]
    return RowSpans(firsts, ends).rows


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
        parquet = pq.ParquetFile(data, metadata=metadata, read_dictionary=[*words])
        return like.over(parquet) if isinstance(like, TableFile) else parquet

"""The page index of a Parquet file: where the pages of a column are, and which may match.

1. A column chunk is divided into data pages. The *offset index* has the place and the first row of
   each, the *column index* the least and the greatest value of each, and which have nulls alone.
2. Bounds are used of whole numbers, times, dates and text, whose order is the same here and in the
   file. They are inclusive, and may be wider than the values: other writers cut text.
3. ``rows_that_may`` says which rows of a row group may match a predicate, by the bounds of its
   columns' pages. It never leaves out a row that matches. Columns need not be cut at equal rows: a
   predicate is judged between all cuts of its columns.
4. A comparison that the bounds cannot judge (another kind of value, ``NOT``, a test for null) may
   match everywhere.

Source: apache/parquet-format, ``PageIndex.md``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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
    Value,
    columns_of,
)
from airflow_provider_segtable.data.parquet.thrift import (
    LIST,
    BrokenThrift,
    read_binary,
    read_field,
    read_list,
    read_number,
    skip,
)

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

TIME_UNITS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
"""By Parquet's unit of time: a value times the first, divided by the second, is microseconds."""

_MOST = 2**62
"""The greatest time that is converted: beyond it 64 bits might not hold the result."""


# Places of pages
@dataclass(frozen=True, slots=True)
class Pages:
    """The data pages of a column chunk.

    Attributes:
        starts: the number of each page's first row in its row group.
        ends: the number of the row after its last one.
        offsets: where each page begins in the file.
        sizes: its bytes, with its header.
    """

    starts: Numbers
    ends: Numbers
    offsets: Numbers
    sizes: Numbers

    def shifted(self, rows: int) -> "Pages":
        """Return the pages with other numbers of rows."""
        return replace(self, starts=self.starts + rows, ends=self.ends + rows)

    @staticmethod
    def joined(parts: Sequence["Pages"]) -> "Pages":
        """Return the pages of some parts in turn."""
        starts, ends, offsets, sizes = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("starts", "ends", "offsets", "sizes")
        )
        return Pages(starts, ends, offsets, sizes)

    def of_spans(self, starts: Numbers, ends: Numbers) -> Numbers:
        """Return the numbers of the pages that have rows of ascending spans."""
        firsts = self.starts.searchsorted(starts, side="right") - 1
        lasts = self.starts.searchsorted(ends, side="left") - 1
        if len(firsts) == 1:
            return np.arange(firsts[0], lasts[0] + 1)
        if (firsts == lasts).all():
            return firsts[np.flatnonzero(np.diff(firsts, prepend=-1))]
        used = np.zeros(len(self.starts) + 1, np.int64)
        np.add.at(used, firsts, 1)
        np.add.at(used, lasts + 1, -1)
        return np.flatnonzero(used.cumsum()[:-1])

    def ranges(self, numbers: Numbers) -> list[tuple[int, int]]:
        """Return where the file has some pages; neighbours are one range."""
        offsets = self.offsets[numbers]
        ends = offsets + self.sizes[numbers]
        if len(offsets) == 1:
            return [(int(offsets[0]), int(ends[0]))]
        (breaks,) = np.nonzero(offsets[1:] != ends[:-1])
        firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(ends) - 1)
        return [*zip(offsets[firsts].tolist(), ends[lasts].tolist(), strict=True)]


def decoded_pages(data: bytes, rows: int) -> Pages | None:
    """Return the pages that an offset index describes; None if it describes none.

    Args:
        data: the index.
        rows: the rows of the row group.

    Raises:
        BrokenThrift: it is garbled.
    """
    places = _places(data)
    if not places:
        return None
    offsets, sizes, starts = (np.array(each, np.int64) for each in zip(*places, strict=True))
    ends = np.append(starts[1:], rows)
    if starts[0] != 0 or (starts >= ends).any():
        raise BrokenThrift("the pages of a column do not follow each other")
    return Pages(starts, ends, offsets, sizes)


def _places(data: bytes) -> list[tuple[int, int, int]]:
    """Return the offset, size and first row of each page."""
    field, kind, at = read_field(data, 0, 0)
    if (field, kind) != (1, LIST):
        raise BrokenThrift("an offset index does not begin with its pages")
    count, _, at = read_list(data, at)
    found = []
    for _ in range(count):
        numbers, field = [0, 0, 0, 0], 0
        while True:
            field, kind, at = read_field(data, at, field)
            if not kind:
                break
            if not 0 < field < len(numbers):
                raise BrokenThrift(f"field {field} of a page is not known")
            numbers[field], at = read_number(data, at)
        found.append((numbers[1], numbers[2], numbers[3]))
    return found


# Bounds of pages
@dataclass(frozen=True, slots=True)
class PageBounds:
    """The bounds of a column in each of its pages.

    Attributes:
        kind: the type of value that can be compared with them.
        low: the least value: numbers, microseconds, days or UTF-8.
        high: the greatest value.
        empty: which pages have nulls alone.
    """

    kind: type
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    empty: Flags

    def may(self, test: Compare | Among) -> Flags:
        """Return in which pages a comparison may be true."""
        if isinstance(test, Compare):
            if test.value is None:
                return np.zeros(len(self.empty), np.bool_)
            if type(test.value) is not self.kind:
                return ~self.empty
            return ~self.empty & self._compared(test.how, plain_value(test.value))
        values = in_order(test.values, self.kind)
        return ~self.empty if values is None else ~self.empty & self._among(values)

    def _compared(self, how: Compares, value: Any) -> Flags:
        match how:
            case Compares.EQUAL:
                found = (self.low <= value) & (self.high >= value)
            case Compares.UNEQUAL:
                found = (self.low != value) | (self.high != value)
            case Compares.LESS:
                found = self.low < value
            case Compares.AT_MOST:
                found = self.low <= value
            case Compares.MORE:
                found = self.high > value
            case Compares.AT_LEAST:
                found = self.high >= value
        return np.asarray(found, np.bool_)

    def _among(self, values: npt.NDArray[Any]) -> Flags:
        if not len(values):
            return np.zeros(len(self.empty), np.bool_)
        places = np.searchsorted(values, self.low)
        there = values[np.minimum(places, len(values) - 1)]
        return np.asarray((places < len(values)) & (there <= self.high), np.bool_)


def plain_value(value: Value) -> Any:
    """Return a value as bounds have it."""
    match value:
        case Moment(us=us):
            return us
        case Day(days=days):
            return days
        case str():
            return value.encode(errors="surrogatepass")
        case _:
            return value


@lru_cache(maxsize=8)  # a set of thousands is asked for each row group of a table
def in_order(values: tuple[Value, ...], kind: type) -> npt.NDArray[Any] | None:
    """Return the values of a set in order, without nulls; None if one is of another kind."""
    given = {value for value in values if value is not None}
    if any(type(value) is not kind for value in given):
        return None
    ordered = sorted(map(plain_value, given))
    if kind is str:
        found = np.empty(len(ordered), object)
        found[:] = ordered
        return found
    limits = np.iinfo(np.int64)
    return np.array([v for v in ordered if limits.min <= v <= limits.max], np.int64)


def decoded_bounds(data: bytes, column: Any) -> PageBounds | None:
    """Return the bounds that a column index has; None for a type whose bounds are not used.

    Args:
        data: the index.
        column: the column of the file's Parquet schema.

    Raises:
        BrokenThrift: it is garbled.
    """
    logical = json.loads(column.logical_type.to_json())
    word = {"INT32": "<i4", "INT64": "<i8"}.get(column.physical_type)
    match logical.get("Type"):
        case "Timestamp":
            times, parts = TIME_UNITS[logical["timeUnit"]]
            low, high, empty = _numbers(data, word)
            if max(abs(int(low.min())), abs(int(high.max()))) > _MOST // times:
                return None
            return PageBounds(Moment, low * times // parts, -(-high * times // parts), empty)
        case "Date":
            return PageBounds(Day, *_numbers(data, word))
        case "Int" if word and logical["isSigned"]:
            return PageBounds(int, *_numbers(data, word))
        case "None" if word:
            return PageBounds(int, *_numbers(data, word))
        case "String":
            return PageBounds(str, *_texts(data))
    return None


def _numbers(data: bytes, word: str | None) -> tuple[Numbers, Numbers, Flags]:
    empty, lows, highs = _index(data)
    size = np.dtype(word).itemsize
    found = [
        np.frombuffer(b"".join(each or bytes(size) for each in some), word).astype(np.int64)
        for some in (lows, highs)
    ]
    return found[0], found[1], empty


def _texts(data: bytes) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Flags]:
    empty, lows, highs = _index(data)
    found = [np.empty(len(empty), object) for _ in range(2)]
    found[0][:], found[1][:] = lows, highs
    return found[0], found[1], empty


def _index(data: bytes) -> tuple[Flags, list[bytes], list[bytes]]:
    """Return which pages are empty, and the least and the greatest value of each."""
    lists: dict[int, list[Any]] = {1: [], 2: [], 3: []}
    at = field = 0
    while True:
        field, kind, at = read_field(data, at, field)
        if not kind:
            break
        if field not in lists:
            at = skip(data, at, kind)
            continue
        count, _, at = read_list(data, at)
        if field == 1:
            lists[1], at = [value == 1 for value in data[at : at + count]], at + count
            continue
        for _ in range(count):
            value, at = read_binary(data, at)
            lists[field].append(value)
    empty = np.array(lists[1], np.bool_)
    if not len(empty) == len(lists[2]) == len(lists[3]):
        raise BrokenThrift("a column index has not one value a page")
    return empty, lists[2], lists[3]


# Rows that may match
@dataclass(frozen=True, slots=True)
class BoundedColumn:
    """The bounds of a column's pages, and where these begin and end."""

    pages: Pages
    bounds: PageBounds

    @staticmethod
    def joined(parts: Sequence["BoundedColumn"]) -> "BoundedColumn | None":
        """Return the pages of some parts in turn; None if their bounds do not belong to them."""
        if any(len(part.pages.starts) != len(part.bounds.empty) for part in parts):
            return None
        bounds = (
            np.concatenate([getattr(part.bounds, name) for part in parts])
            for name in ("low", "high", "empty")
        )
        pages = Pages.joined([part.pages for part in parts])
        return BoundedColumn(pages, PageBounds(parts[0].bounds.kind, *bounds))


@dataclass(frozen=True, slots=True)
class RowSpans:
    """Some rows of a row group, as ascending spans; each ends before its end.

    Neighbours are not joined: spans lie between the cuts of pages.
    """

    starts: Numbers
    ends: Numbers

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return int((self.ends - self.starts).sum())

    @property
    def rows(self) -> Numbers:
        """Return the numbers of the rows."""
        lengths = self.ends - self.starts
        before = lengths.cumsum() - lengths
        found: Numbers = np.arange(lengths.sum()) + np.repeat(self.starts - before, lengths)
        return found

    def having(self, rows: Numbers) -> "RowSpans":
        """Return the spans that have some ascending rows."""
        places = np.unique(self.starts.searchsorted(rows, side="right") - 1)
        return RowSpans(self.starts[places], self.ends[places])

    def between(self, first: int, end: int) -> "RowSpans":
        """Return the rows from ``first`` to ``end``, numbered from ``first`` on."""
        some = slice(np.searchsorted(self.starts, first), np.searchsorted(self.starts, end))
        return RowSpans(self.starts[some] - first, self.ends[some] - first)

    def pieces(self, most: int) -> "Iterator[RowSpans]":
        """Yield the spans in pieces of at most so many rows, or of one span."""
        first, rows = 0, (self.ends - self.starts).cumsum()
        while first < len(rows):
            before = rows[first - 1] if first else 0
            end = max(first + 1, int(np.searchsorted(rows, before + most, side="right")))
            yield RowSpans(self.starts[first:end], self.ends[first:end])
            first = end

    @staticmethod
    def of_rows(rows: Numbers) -> "RowSpans":
        """Return the spans of some ascending rows."""
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        starts = rows[np.concatenate([[0], cuts])]
        return RowSpans(starts, rows[np.concatenate([cuts - 1, [len(rows) - 1]])] + 1)

    def whole(self, some: Flags) -> Flags:
        """Return, of flags of the rows, flags of all rows of spans with a flagged row."""
        lengths = self.ends - self.starts
        return np.repeat(np.logical_or.reduceat(some, lengths.cumsum() - lengths), lengths)


def rows_that_may(
    predicate: Predicate, column_of: Callable[[str], BoundedColumn | None], rows: int
) -> RowSpans | None:
    """Return the rows of a file that may match; None if no column has bounds.

    Args:
        predicate: the predicate.
        column_of: returns the bounds of a column; None if they are not known.
        rows: the rows of the file.
    """
    known = {name: column_of(name) for name in dict.fromkeys(columns_of(predicate))}
    columns = {name: column for name, column in known.items() if column is not None}
    if not columns:
        return None
    cuts = reduce(np.union1d, (column.pages.starts for column in columns.values()))
    may = _may(predicate, columns, cuts)
    return RowSpans(cuts[may], np.append(cuts[1:], rows)[may])


def _may(predicate: Predicate, columns: Mapping[str, BoundedColumn], cuts: Numbers) -> Flags:
    """Return between which cuts a predicate may be true."""
    match predicate:
        case Compare(column=name) | Among(column=name) if name in columns:
            column = columns[name]
            places = np.searchsorted(column.pages.starts, cuts, side="right") - 1
            return column.bounds.may(predicate)[places]
        case AllOf(of=some):
            parts = (_may(one, columns, cuts) for one in some)
            return reduce(np.logical_and, parts, np.ones(len(cuts), np.bool_))
        case AnyOf(of=some):
            parts = (_may(one, columns, cuts) for one in some)
            return reduce(np.logical_or, parts, np.zeros(len(cuts), np.bool_))
        case _:
            return np.ones(len(cuts), np.bool_)

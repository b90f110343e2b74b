"""Columns of numbers, read from their pages without Parquet's reader.

1. Numbers, dates and times without nulls and dictionary lie in a decompressed page as they do in
   memory. So they are taken from there, page by page. A page of another form says so, and its
   column is read by Parquet's reader.
2. To *find* numbers is to search each page that may have them; a page of ascending numbers, as of a
   key, by bisection.
3. Ascending pages are kept, if the reader has a place for them (``Views.pages``): decompressing one
   takes much longer than its search. A page is kept as its least number and the differences to it,
   of two or four bytes if they fit. Other pages are not kept: a search of a column in any order
   reads all of them, and would displace those of keys.
4. If half of the pages of a column chunk are to be read, all of them are, and are kept as one: many
   numbers are then searched at once.
5. Kept pages were compared with their checksums when they were read, and a data file never changes.
   They are known by the file's path and the checksum of its footer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.parquet.descriptor import CheckedSource
from airflow_provider_segtable.data.parquet.page_index import Numbers, Pages, RowSpans
from airflow_provider_segtable.data.parquet.thrift import STRUCT, read_number

Values = npt.NDArray[Any]


# Values of pages
_DATA_PAGE, _PLAIN = 0, 0
_KIND, _WHOLE, _STORED, _VALUES = 1, 2, 3, 5


def plain_values(page: memoryview, codec: str, size: int, *, levels: bool) -> pa.Buffer | None:
    """Return the values of a data page without nulls that stores them as they are.

    None of a page of another form.

    Args:
        page: the page with its header.
        codec: the compression of its column.
        size: the bytes of the values.
        levels: whether the page has levels before its values: of a column that may have nulls.
    """
    kind, whole, stored, encoding = _header(page)
    if (kind, encoding) != (_DATA_PAGE, _PLAIN) or not 0 < stored < len(page):
        return None
    data = pa.py_buffer(page[len(page) - stored :])
    if codec != "UNCOMPRESSED":
        data = _codec(codec).decompress(data, decompressed_size=whole)
    before = 4 + int.from_bytes(memoryview(data)[:4], "little") if levels else 0
    return data.slice(before) if before + size == whole else None


@lru_cache(maxsize=8)
def _codec(name: str) -> pa.Codec:
    return pa.Codec(name.lower())


def _header(page: memoryview) -> tuple[int, int, int, int]:
    """Return the kind of a page, its bytes decoded and stored, and the encoding of its values.

    -1 stands for what it does not say in the usual form. The header is read so far only.
    """
    head_bytes = bytes(page[:_MOST_HEADER])
    found = {_KIND: -1, _WHOLE: -1, _STORED: -1}
    at = field = 0
    while field < _VALUES and (head := head_bytes[at]) > _LONG:
        at, field = at + 1, field + (head >> 4)
        if head & _LONG == STRUCT:
            break
        found[field], at = read_number(head_bytes, at)
    encoding = -1
    if field == _VALUES and head_bytes[at] >> 4 == 1:
        _, at = read_number(head_bytes, at + 1)  # the number of values
        encoding = read_number(head_bytes, at + 1)[0] if head_bytes[at] >> 4 == 1 else -1
    return found[_KIND], found[_WHOLE], found[_STORED], encoding


_MOST_HEADER = 64
"""The bytes in which the fields of a header are that are read."""
_LONG = 15
"""A field's head up to which its number is written in the long form, and the mask of its kind."""


# Pages of ascending numbers
@dataclass(frozen=True, slots=True)
class Ascending:
    """A page of ascending numbers, or several in turn.

    Attributes:
        low: the least number.
        high: the greatest number.
        above: the difference of each number to the least one.
    """

    low: int
    high: int
    above: Values

    @staticmethod
    def of(values: Values) -> "Ascending | None":
        """Return the page of some numbers; None if they do not ascend, or are no whole numbers."""
        if values.dtype.kind != "i" or not len(values) or (values[1:] < values[:-1]).any():
            return None
        low, high = int(values[0]), int(values[-1])
        return Ascending(low, high, _above(values, low, _narrowest(high - low)))

    @property
    def size(self) -> int:
        """Return its bytes in memory."""
        return _OVERHEAD + int(self.above.nbytes)

    def find(self, wanted: Numbers) -> tuple[Numbers, Numbers]:
        """Return the places of numbers that are wanted, ascending, and these numbers."""
        near = wanted[wanted.searchsorted(self.low) : wanted.searchsorted(self.high, "right")]
        if not len(near):
            return near, near
        above = _above(near, self.low, self.above.dtype)
        firsts, ends = self.above.searchsorted(above), self.above.searchsorted(above, "right")
        present = ends > firsts
        firsts, ends, near = firsts[present], ends[present], near[present]
        if len(firsts) == 0 or int((ends - firsts).max()) == 1:
            return firsts, near
        return RowSpans(firsts, ends).rows, np.repeat(near, ends - firsts)


_OVERHEAD = 400
"""Bytes in memory of a page besides its numbers."""


def _narrowest(span: int) -> npt.DTypeLike:
    return np.uint16 if span < 1 << 16 else np.uint32 if span < 1 << 32 else np.uint64


def _above(values: Values, low: int, kind: npt.DTypeLike) -> Values:
    """Return differences to the least number, by arithmetic modulo 2^64: none overflows."""
    numbers = values.astype(np.int64).view(np.uint64)
    found: Values = (numbers - np.uint64(low % (1 << 64))).astype(kind)
    return found


# Columns of numbers
EVERY = -1
"""Stands for the number of a row group: all of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberPages:
    """The pages of a column chunk of numbers without nulls and dictionary.

    Or of a whole column, whose chunks are all so.

    Attributes:
        chunk: the number of the row group (``EVERY`` for all), and of the column.
        pages: where its pages are.
        kind: the Arrow type.
        word: the form of a number.
        codec: the compression.
        levels: whether pages have levels before their values.
        bare: whether the values are at the end of each page as they are, by the footer: a page's
            header need not be read then.
    """

    chunk: tuple[int, int]
    pages: Pages
    kind: pa.DataType
    word: str
    codec: str
    levels: bool
    bare: bool = False

    @staticmethod
    def joined(parts: Sequence["NumberPages"], firsts: Sequence[int]) -> "NumberPages | None":
        """Return the chunks of a column as one; None if they are not alike.

        Args:
            parts: the chunks.
            firsts: the number of each one's first row in the file.
        """
        one = parts[0]
        if len({(part.codec, part.levels, part.bare) for part in parts}) > 1:
            return None
        pages = [part.pages.shifted(first) for part, first in zip(parts, firsts, strict=True)]
        return replace(one, chunk=(EVERY, one.chunk[1]), pages=Pages.joined(pages))

    def decoded(self, source: CheckedSource, numbers: Sequence[int]) -> Iterator[Values | None]:
        """Yield the values of some pages in turn; None of a page that is of another form."""
        pages, size, some = self.pages, np.dtype(self.word).itemsize, np.array(numbers, np.int64)
        rows = (pages.ends - pages.starts)[some].tolist()
        places = zip(pages.offsets[some].tolist(), pages.sizes[some].tolist(), rows, strict=True)
        end = 0
        ranges = iter(pages.ranges(some) if numbers else ())
        for first, stored, count in places:
            if first >= end:
                start, end = next(ranges)
                data = source.view(start, end - start)
            page = data[first - start : first - start + stored]
            yield self._values(page, count * size)

    def _values(self, page: memoryview, size: int) -> Values | None:
        if self.bare and size < len(page):
            return np.frombuffer(page[len(page) - size :], self.word)
        found = plain_values(page, self.codec, size, levels=self.levels)
        return None if found is None else np.frombuffer(found, self.word)

    def taken(self, source: CheckedSource, rows: Numbers) -> pa.Array | None:
        """Return some ascending rows; None if a page is of another form."""
        starts = self.pages.starts
        page = starts.searchsorted(rows, side="right") - 1
        used, firsts = np.unique(page, return_index=True)
        ends, within = np.append(firsts[1:], len(rows)), rows - starts[page]
        found = np.empty(len(rows), self.word)
        spans = zip(firsts.tolist(), ends.tolist(), strict=True)
        for (first, end), values in zip(spans, self.decoded(source, used.tolist()), strict=True):
            if values is None:
                return None
            found[first:end] = values[within[first:end]]
        return self._array(found)

    def find(
        self, source: CheckedSource, wanted: Numbers, spans: RowSpans
    ) -> tuple[Numbers, pa.Array] | None:
        """Return the rows with one of some numbers, and their numbers; None as of ``taken``.

        Args:
            source: the file.
            wanted: the numbers, ascending.
            spans: the rows whose pages are searched.
        """
        whole = self._kept(source, _WHOLE_CHUNK)
        if whole is None:
            numbers = self.pages.of_spans(spans.starts, spans.ends).tolist()
            known = {page: self._kept(source, page) for page in numbers}
            missing = [page for page in numbers if known[page] is None]
            if 1 < len(self.pages.starts) <= 2 * len(missing):
                whole = self._loaded(source)
            if whole is None:
                return self._by_page(source, wanted, known)
        rows, values = whole.find(wanted)
        return rows, self._array(values)

    def _loaded(self, source: CheckedSource) -> Ascending | None:
        """Return all numbers of the chunk, and keep them; None if they do not ascend."""
        found: list[Values] = []
        for values in self.decoded(source, range(len(self.pages.starts))):
            if values is None or (values[1:] < values[:-1]).any():
                return None
            found.append(values)
        whole = Ascending.of(np.concatenate(found))
        if whole is not None:
            self._keep(source, _WHOLE_CHUNK, whole)
        return whole

    def _by_page(
        self, source: CheckedSource, wanted: Numbers, known: Mapping[int, Ascending | None]
    ) -> tuple[Numbers, pa.Array] | None:
        """Return the rows with wanted numbers; ``known`` has the pages to search, if kept."""
        decoded = self.decoded(source, [page for page, kept in known.items() if kept is None])
        rows, found = [_NONE], [_NONE]
        for page, kept in known.items():
            values = next(decoded) if kept is None else None
            if kept is None and values is None:
                return None
            inside, there = self._search(source, wanted, page, kept, values)
            if len(inside):
                rows.append(inside + self.pages.starts[page])
                found.append(there)
        return np.concatenate(rows), self._array(np.concatenate(found))

    def _search(
        self,
        source: CheckedSource,
        wanted: Numbers,
        page: int,
        kept: Ascending | None,
        values: Values | None,
    ) -> tuple[Numbers, Values]:
        """Return the places and the numbers found in a page; keep it if it ascends."""
        if kept is not None or values is None:
            return (_NONE, _NONE) if kept is None else kept.find(wanted)
        ascending = Ascending.of(values)
        if ascending is None:
            inside = np.flatnonzero(np.isin(values, wanted))
            return inside, values[inside]
        self._keep(source, page, ascending)
        return ascending.find(wanted)

    def unkept(self, source: CheckedSource, spans: RowSpans) -> list[tuple[int, int]]:
        """Return the bytes that ``find`` will read."""
        if self._kept(source, _WHOLE_CHUNK) is not None:
            return []
        numbers = self.pages.of_spans(spans.starts, spans.ends).tolist()
        missing = [page for page in numbers if self._kept(source, page) is None]
        return self.pages.ranges(np.array(missing)) if missing else []

    def _kept(self, source: CheckedSource, page: int) -> Ascending | None:
        if source.pages is None:
            return None
        found: Ascending | None = source.pages.kept((source.identity, self.chunk, page))
        return found

    def _keep(self, source: CheckedSource, page: int, ascending: Ascending) -> None:
        if source.pages is not None:
            key = source.identity, self.chunk, page
            source.pages.view(key, lambda: (ascending, ascending.size))

    def _array(self, values: Values) -> pa.Array:
        data = values.astype(self.word, copy=False)
        return pa.Array.from_buffers(self.kind, len(data), [None, pa.py_buffer(data)])


_WHOLE_CHUNK = -1
"""The number that stands for all pages of a column chunk."""
_NONE: Numbers = np.zeros(0, np.int64)

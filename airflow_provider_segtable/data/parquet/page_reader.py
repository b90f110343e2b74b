"""Read some rows of a row group by their pages, without the other pages of its column chunks.

1. Which pages have the rows follows from the offset index (``data.parquet.page_index``). Of a
   column, its dictionary page and these data pages are read, and no other bytes.
2. The pages are put together, unchanged, as a small Parquet file in memory: one row group of fewer
   rows. Its footer is the file's own with other offsets and counts (``data.parquet.thrift``). So
   Parquet's own reader decodes them, of any type and encoding.
3. Columns whose pages begin at the same rows are one such file; pyarrow cuts all columns alike
   unless their values are large. A column with fields whose pages differ is read whole.
4. Bytes are compared with their checksums by the source, as for any other read.

Source of the idea: Parquet's page index in readers that skip pages (parquet-java, arrow-rs); pages
are moved as whole row groups are in ``data.jobs.passthrough``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.data.open_files import load_ranges
from airflow_provider_segtable.data.parquet.checked_tail import CheckedTail
from airflow_provider_segtable.data.parquet.footer import MAGIC, Footer, Group, footer_bytes
from airflow_provider_segtable.data.parquet.page_index import Numbers, Pages
from airflow_provider_segtable.data.parquet.table_file import TableFile
from airflow_provider_segtable.data.parquet.thrift import Span, patched
from airflow_provider_segtable.ports.files import Source

_SCHEMA = b"ARROW:schema"


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
        return rows - starts[page] + np.append(0, before)[page]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield where the file has the pages; neighbours are one range."""
        offsets, ends = self.pages.offsets[self.numbers], self._ends
        (breaks,) = np.nonzero(offsets[1:] != ends[:-1])
        firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(ends) - 1)
        yield from zip(offsets[firsts].tolist(), ends[lasts].tolist(), strict=True)

    @property
    def _ends(self) -> Numbers:
        return self.pages.offsets[self.numbers] + self.pages.sizes[self.numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedGroup:
    """One row group of an open file, whose columns all have an offset index.

    Attributes:
        source: the file.
        tail: its tail.
        number: the number of the row group.
        like: the open file as a reader of the columns that are asked for.
        words: columns that are read as dictionaries.
    """

    source: Source
    tail: CheckedTail
    number: int
    like: pq.ParquetFile | TableFile
    words: Sequence[str] = ()

    def has(self, names: Iterable[str]) -> bool:
        """Return whether the columns can be read by pages: each has an offset index."""
        leaves = [self._leaves(name) for name in names]
        return all(
            some is not None and all(self.tail.pages(self.number, leaf) for leaf in some)
            for some in leaves
        )

    def read(self, names: Sequence[str], rows: Numbers) -> dict[str, pa.Array]:
        """Return some rows of columns.

        Args:
            names: the columns, as ``like`` calls them; ``has`` is true of them.
            rows: the numbers of the rows in the row group, ascending; at least one.
        """
        chosen = {name: self._chosen(name, rows) for name in names}
        together: dict[bytes, list[str]] = {}
        for name, some in chosen.items():
            together.setdefault(some[0].spans if some else b"", []).append(name)
        self._load([part for some in chosen.values() for part in some])
        found: dict[str, pa.Array] = {}
        for alike in together.values():
            found |= self._decoded(alike, [part for name in alike for part in chosen[name]], rows)
        return found

    def _chosen(self, name: str, rows: Numbers) -> list[_Chosen]:
        """Return the pages to read of each leaf of a column."""
        leaves = self._leaves(name) or ()
        each = [self.tail.pages(self.number, leaf) for leaf in leaves]
        found = [
            _Chosen(leaf, pages, pages.of_rows(rows))
            for leaf, pages in zip(leaves, each, strict=True)
            if pages is not None
        ]
        if len({part.spans for part in found}) > 1:
            return [replace(part, numbers=np.arange(len(part.pages.starts))) for part in found]
        return found

    def _leaves(self, name: str) -> Sequence[int] | None:
        """Return the leaves of a column; None if it has no name to read it by alone."""
        stored = self.like.stored([name]) if isinstance(self.like, TableFile) else [name]
        if "" in stored:
            return None
        return [leaf for own in stored for leaf in self.tail.leaves.get(own, ())]

    def _load(self, parts: Sequence[_Chosen]) -> None:
        dictionaries = (self._dictionary(part) for part in parts)
        wanted = [each for each in dictionaries if each is not None]
        load_ranges(self.source, [*wanted, *(each for part in parts for each in part.ranges())])

    def _dictionary(self, part: _Chosen) -> tuple[int, int] | None:
        """Return where the dictionary page of a column chunk is, which is before its data."""
        spans = self._group.columns[part.column]
        start = spans["dictionary"][2] if "dictionary" in spans else 0
        return (start, int(part.pages.offsets[0])) if start else None

    @property
    def _group(self) -> Group:
        return self.tail.footer.groups[self.number]

    def _decoded(
        self, names: Sequence[str], parts: Sequence[_Chosen], rows: Numbers
    ) -> Mapping[str, pa.Array]:
        """Return columns whose pages begin at the same rows."""
        count = parts[0].rows if parts else len(rows)
        small = _SmallFile(self.tail.footer, self._group)
        for part in parts:
            small.add(part, self._dictionary(part), self.source.read_at)
        with small.opened(count, self.words, self.like) as parquet:
            batches = [
                *parquet.iter_batches(
                    batch_size=count, row_groups=[0], columns=list(names), use_threads=False
                )
            ]
        table = pa.Table.from_batches(batches)
        if len(rows) < count:
            table = table.take(pa.array(parts[0].places_of(rows)))
        whole = table.combine_chunks()
        return {name: _one(whole.column(name)) for name in names}


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
        for each in part.ranges():
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

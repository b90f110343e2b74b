"""The tail of a data file: its page indexes and its footer, compared with the log's checksum.

1. The tail is everything after the last page (``data.parquet.descriptor``). Its bytes were compared
   when it was loaded; what is decoded from them is kept with them, each part when first needed.
2. A tail is never changed: a data file is written once. So a process may keep the tails of files
   that it reads again (``Views``), and opens these files without reading their footers.
3. CRC-32 is computed by ISA-L if it is installed (extra ``fast``), five times as fast as by zlib.
"""

import struct
from base64 import b64decode
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable
from airflow_provider_segtable.core.segment import FooterChecksum
from airflow_provider_segtable.data.open_files import MemorySource
from airflow_provider_segtable.data.parquet.footer import Footer, read_footer
from airflow_provider_segtable.data.parquet.page_index import (
    BoundedColumn,
    Pages,
    decoded_bounds,
    decoded_pages,
)
from airflow_provider_segtable.data.parquet.thrift import BrokenThrift
from airflow_provider_segtable.ports.files import Source

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this machine, or a bare executor: same values, but slower
    from zlib import crc32

__all__ = ["crc32"]

CHECKSUMS_KEY = b"segtable.checksums"
ENTRY = struct.Struct("<II")

Block = tuple[int, int]
"""The length and CRC-32 of consecutive bytes."""

Value = TypeVar("Value")
Shape = TypeVar("Shape")

_SHAPES = 4
"""Schemas for which a tail keeps how the file is read."""


class KeptViews(Protocol):
    """Computed views of immutable files, which a process keeps in bounded memory."""

    def kept(self, key: Hashable) -> Any:
        """Return the view of a key; None if it is not kept."""
        ...

    def view(self, key: Hashable, made: Callable[[], tuple[Value, int]]) -> Value:
        """Return the view of a key; ``made`` makes it, with its bytes."""
        ...


class Views(KeptViews, Protocol):
    """What a process keeps of a table's files."""

    @property
    def pages(self) -> KeptViews:
        """Decoded pages of keys, apart from the rest: many of them displace nothing else."""
        ...


class CheckedTail:
    """The compared tail of a file; offsets are those of the file."""

    def __init__(self, path: str, start: int, data: bytes) -> None:
        """Keep ``data``, which begins at ``start`` in the file."""
        self.path = path
        self.start = start
        self.data = data
        self._pages: dict[tuple[int, int], Pages | None] = {}
        self._bounds: dict[int, BoundedColumn | None] = {}
        self._shapes: list[tuple[pa.Schema, Any]] = []

    @staticmethod
    def loaded(source: Source, footer: FooterChecksum) -> "CheckedTail":
        """Load and compare the tail of an open file.

        Raises:
            ChecksumMismatch: it differs from the log's checksum.
        """
        if not 0 < footer.start < source.size:
            raise mismatch(source.path, f"its {source.size} bytes end before the footer")
        data = source.read_at(footer.start, source.size - footer.start)
        if crc32(data) != footer.crc:
            raise mismatch(source.path, "the footer, or an index before it")
        return CheckedTail(source.path, footer.start, data)

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The file's metadata.

        Raises:
            ArrowException: it is no Parquet footer.
        """
        return pq.read_metadata(pa.BufferReader(self.data))

    @cached_property
    def entries(self) -> Mapping[bytes, bytes]:
        """The key-value metadata; errors as of ``metadata``."""
        return self.metadata.metadata or {}

    @cached_property
    def group_rows(self) -> Sequence[tuple[int, int]]:
        """The number of each row group's first row, and its rows."""
        every = range(self.metadata.num_row_groups)
        rows = [self.metadata.row_group(number).num_rows for number in every]
        return [*zip(accumulate(rows, initial=0), rows, strict=False)]

    @cached_property
    def leaves(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the leaf columns by their path, and by each path that they are within."""
        found: dict[str, list[int]] = {}
        schema = self.metadata.schema
        for number in range(len(schema)):
            path = schema.column(number).path
            found.setdefault(path, []).append(number)
            while "." in path:
                path = path.rpartition(".")[0]
                found.setdefault(path, []).append(number)
        return found

    @cached_property
    def footer(self) -> Footer:
        """The footer, with the places of its numbers.

        Raises:
            CorruptTable, UnsupportedFormat: as ``read_footer``.
        """
        return read_footer(_TailSource(self))

    @cached_property
    def blocks(self) -> tuple[list[int], list[int]]:
        """The ends of the blocks before the tail, and their checksums.

        Raises:
            CorruptTable: the footer has none.
            ChecksumMismatch: they are not those of this file.
        """
        try:
            table = decoded_blocks(self.path, self.entries[CHECKSUMS_KEY])
        except (pa.ArrowException, KeyError) as error:
            problem = f"{self.path} has no checksums of its blocks ({error!r}): restore it"
            raise CorruptTable(problem) from None
        ends = [*accumulate(length for length, _ in table)]
        if not ends or ends[-1] != self.start:
            raise mismatch(self.path, "its blocks do not end where its footer begins")
        return ends, [crc for _, crc in table]

    def pages(self, group: int, column: int) -> Pages | None:
        """Return the data pages of a column chunk; None if the file has no index of them."""
        key = group, column
        if key not in self._pages:
            rows = self.metadata.row_group(group).num_rows
            self._pages[key] = self._decoded(
                key, "offset_index", lambda index: decoded_pages(index, rows)
            )
        return self._pages[key]

    def bounds(self, column: int) -> BoundedColumn | None:
        """Return the bounds of a column in the pages of all row groups; None if not all are known.

        The rows of its pages are numbered in the file.
        """
        if column not in self._bounds:
            stored = self.metadata.schema.column(column)
            parts, first = [], 0
            for group in range(self.metadata.num_row_groups):
                pages = self.pages(group, column)
                bounds = self._decoded(
                    (group, column), "column_index", lambda index: decoded_bounds(index, stored)
                )
                if pages is not None and bounds is not None:
                    parts.append(BoundedColumn(pages.shifted(first), bounds))
                first += self.metadata.row_group(group).num_rows
            known = len(parts) == self.metadata.num_row_groups
            self._bounds[column] = BoundedColumn.joined(parts) if parts and known else None
        return self._bounds[column]

    def shape(self, schema: pa.Schema, made: Callable[[], Shape]) -> Shape:
        """Return what ``made`` returns for a schema; kept for the schemas that are read."""
        for known, shape in self._shapes:
            if known is schema:
                found: Shape = shape
                return found
        new = made()
        self._shapes = [(schema, new), *self._shapes[: _SHAPES - 1]]
        return new

    def _decoded(
        self, key: tuple[int, int], name: str, decode: Callable[[bytes], Value | None]
    ) -> Value | None:
        """Return an index of a column chunk decoded; None if it is absent, or of a later format."""
        found = self._index(*key, name)
        try:
            return None if found is None else decode(found)
        except (BrokenThrift, IndexError):
            return None

    def _index(self, group: int, column: int, name: str) -> bytes | None:
        """Return the bytes of an index; None if the tail does not have them."""
        groups = self.footer.groups
        spans = groups[group].columns[column] if groups else {}
        if name not in spans or f"{name}_length" not in spans:
            return None
        at, length = spans[name][2] - self.start, spans[f"{name}_length"][2]
        return self.data[at : at + length] if at >= 0 else None


class _TailSource(MemorySource):
    """The tail as the end of a file, for a reader of its footer."""

    def __init__(self, tail: CheckedTail) -> None:
        super().__init__(tail.path, tail.data)
        self.size = tail.start + len(tail.data)
        self.tail_size = len(tail.data)
        self._start = tail.start

    def read_at(self, offset: int, length: int) -> bytes:
        at = offset - self._start
        return self._data[at : at + length]


def kept_tail(views: Views | None, source: Source, footer: FooterChecksum) -> CheckedTail:
    """Return the tail of an open file, as it is kept, or loaded now; errors as ``loaded``."""
    if views is None:
        return CheckedTail.loaded(source, footer)

    def made() -> tuple[CheckedTail, int]:
        tail = CheckedTail.loaded(source, footer)
        return tail, _DECODED * len(tail.data)

    return views.view((CheckedTail, source.path, source.size, footer), made)


_DECODED = 4
"""Bytes in memory for a byte of a tail, with what is decoded from it."""


def decoded_blocks(path: str, entry: bytes) -> list[Block]:
    """Return the blocks that a footer's entry describes.

    Raises:
        CorruptTable: it is garbled.
    """
    try:
        return [*ENTRY.iter_unpack(b64decode(entry, validate=True))]
    except (ValueError, struct.error) as error:
        raise CorruptTable(f"{path}: its checksums are garbled ({error}): restore it") from None


def mismatch(path: str, where: str) -> ChecksumMismatch:
    """Return the error of a file that was damaged."""
    return ChecksumMismatch(
        f"{path} was damaged after it was written ({where}): restore it from a backup; "
        "`segtable verify --deep` finds all such files"
    )

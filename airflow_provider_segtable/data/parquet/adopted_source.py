"""Adopted files: open one whose footer is still the one that the log knows.

Other programs wrote them, so they have neither a descriptor nor checksums of their blocks. Their
footer has the places, sizes and bounds of all pages: a file that was written again has another one,
even of the same size. Its start and CRC-32 are in the log, and in the record of the adoption.
"""

from collections.abc import Iterable
from functools import cached_property
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import ChecksumMismatch
from airflow_provider_segtable.core.segment import FooterChecksum
from airflow_provider_segtable.data.open_files import Range, load_ranges
from airflow_provider_segtable.data.parquet.footer import MAGIC, Footer
from airflow_provider_segtable.ports.files import Source


def own_checksum(footer: Footer) -> FooterChecksum:
    """Return the checksum of the footer alone, which identifies a file without other checksums."""
    tail = footer.data + len(footer.data).to_bytes(4, "little") + MAGIC
    return FooterChecksum(footer.start, crc32(tail))


class AdoptedSource:
    """An adopted file, whose footer was loaded and compared; other bytes have no checksum."""

    def __init__(self, source: Source, footer: FooterChecksum) -> None:
        """Load and compare the footer; no page is read.

        Raises:
            ChecksumMismatch: it differs from the log's checksum.
        """
        self.path = source.path
        self.size = source.size
        self._source = source
        self._start = footer.start
        inside = 0 < footer.start < source.size
        self._tail = source.read_at(footer.start, source.size - footer.start) if inside else b""
        if crc32(self._tail) != footer.crc:
            raise ChecksumMismatch(
                f"{source.path} was written again, or damaged, after it was adopted (its footer "
                "differs): restore it from a backup; `segtable verify` finds all such files"
            )

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The file's metadata; errors as of ``CheckedSource``."""
        return pq.read_metadata(pa.BufferReader(self._tail))

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        if offset >= self._start and offset + length <= self.size:
            return self._tail[offset - self._start : offset - self._start + length]
        return self._source.read_at(offset, length)

    def load(self, ranges: Iterable[Range]) -> None:
        """Load ranges that are read soon, if that is a gain."""
        load_ranges(self._source, ranges)

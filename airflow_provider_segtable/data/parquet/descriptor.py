"""Descriptors, table definitions and checksums in the footers of data files.

Checksums cover every byte of a data file, by a chain that begins in the log:

::

    event         footer: [start, CRC-32]  ----.
                                               v
    file   PAR1 | pages ................... | indexes | footer: key-value segtable.checksums |
                 ^ blocks of 128 KiB <------------------------- their lengths and CRC-32s

1. The *body*, from the file's first byte to the last page, is cut into blocks. Their lengths and
   CRC-32s are in the footer's key-value metadata, which is written after the last page.
2. The *tail* is everything after the body: page indexes, footer, its length, the magic number.
   Its start and CRC-32 are in the descriptor of the event that publishes the file.
3. ``CheckedSource`` compares a block before it returns any byte of the block, so its readers get
   the bytes that were written, or ``ChecksumMismatch``. Blocks are small, so that reading one
   column does not read the whole file.
4. A block that is copied whole from a checked file keeps its checksum: it was just compared.
5. A file without a footer checksum in its descriptor is read unchecked: an older version wrote it.
6. What is known of a file's tail is kept apart (``data.parquet.checked_tail``): a process that
   reads a file again may have its tail.
7. Parquet's own page checksums are also written, for readers that do not use this module (Spark's,
   other engines). They cover pages without their headers, and neither indexes nor footer.

Segment descriptors and table definitions:

8. The footer's key-value metadata has a ``segtable`` entry: the segment's descriptor as JSON.
   Readers check its ``format`` first. If the log is lost, the table can be rebuilt from it.
9. The entry omits properties of the file itself: path, size, number of row groups and checksum.
10. A file is accepted as a segment's only if this entry names that segment.
11. A second entry, ``segtable.table``, is the table's definition and the version of its first
    appends. Compaction copies it from an input; files of older writers have none.

Files of segments, checked against the log when they are read:

12. An *adopted* file was written by another program: it has neither entry. The log knows its
    footer's start and CRC-32, which are compared when it is opened; other bytes have no checksum.
    The record of its adoption stands in for the entries (``table.adopted_files``).
13. A file of another size is refused, and so is one whose footer fails its checksum. If that footer
    names another segment, the error reports the segment instead: that is the more useful message.
14. A reader that needs a file several times opens and checks it once (``OpenedOnce``). A process
    that keeps the file's tail opens it when a byte is needed that it does not keep.

Source of the idea: HDFS, which keeps a CRC for every chunk of a block; Iceberg's manifests, which
record a file's expected properties outside the file.
"""

import json
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    ChecksumMismatch,
    CorruptTable,
    InvalidInput,
    SegtableError,
    StorageError,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import FooterChecksum, Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_segment, encode_segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.local_files import PIECE, copy_in_pieces
from airflow_provider_segtable.data.open_files import (
    MemorySource,
    OpenedLater,
    Range,
    is_remote,
    load_ranges,
    open_known,
)
from airflow_provider_segtable.data.parquet.adopted_source import AdoptedSource, own_checksum
from airflow_provider_segtable.data.parquet.checked_tail import (
    CHECKSUMS_KEY,
    ENTRY,
    Block,
    KeptViews,
    Views,
    crc32,
    decoded_blocks,
    kept_tail,
    mismatch,
)
from airflow_provider_segtable.data.parquet.footer import Footer, read_footer
from airflow_provider_segtable.ports.files import DataFiles, Ready, Sink, Source

__all__ = ["crc32"]


# Checksums of data files
BLOCK = 128 << 10
SMALL_BLOCK = 32 << 10
"""The bytes of a block of files whose rows are looked up: a block is read and compared whole."""
_FEW = 4
"""The most blocks to join to the held block; beyond that the held block is loaded again."""


class ChecksumSink:
    """A ``Sink`` that computes checksums of the bytes written; ``entry`` ends the body."""

    def __init__(self, sink: Sink, block: int | None = None) -> None:
        """Write to ``sink``, which must be empty, with blocks of so many bytes."""
        self._sink = sink
        self._most = block or BLOCK
        self._blocks: list[Block] = []
        self._length = self._crc = 0
        self._tail_start = -1

    @property
    def path(self) -> str:
        """Return the path relative to the table's root."""
        return self._sink.path

    @property
    def position(self) -> int:
        """Return the number of bytes written so far."""
        return self._sink.position

    @property
    def footer(self) -> FooterChecksum:
        """Return the checksum of the tail."""
        return FooterChecksum(self._tail_start, self._crc)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._sink.write(data)
        left = memoryview(data)
        if self._tail_start >= 0:
            self._crc = crc32(left, self._crc)
            return
        while left:
            some = left[: self._most - self._length]
            self._crc = crc32(some, self._crc)
            self._length += len(some)
            left = left[len(some) :]
            if self._length == self._most:
                self._end_block()

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file; whole blocks of a checked file keep their checksums."""
        if not isinstance(source, CheckedSource) or self._tail_start >= 0:
            copy_in_pieces(source, self, offset, length)
            return
        for data, blocks in source.pieces(offset, length):
            if blocks:
                self._sink.write(data)
                self._end_block()
                self._blocks += blocks
            else:
                self.write(data)

    def commit(self) -> None:
        """Make the file readable under its path, durably."""
        self._sink.commit()

    def begin_commit(self, threads: Executor) -> Ready | None:
        """Begin to make the file readable."""
        return self._sink.begin_commit(threads)

    def entry(self) -> dict[bytes, bytes]:
        """End the body; return the key-value metadata with its checksums."""
        self._end_block()
        self._tail_start = self._sink.position
        table = b"".join(ENTRY.pack(*block) for block in self._blocks)
        return {CHECKSUMS_KEY: b64encode(table)}

    def _end_block(self) -> None:
        if self._length:
            self._blocks.append((self._length, self._crc))
        self._length = self._crc = 0


@dataclass(frozen=True, slots=True)
class _Held:
    """A compared block: its number and its bytes."""

    number: int
    data: bytes


class CheckedSource:
    """A ``Source`` that compares bytes with their checksums before it returns them."""

    def __init__(self, source: Source, footer: FooterChecksum, views: Views | None = None) -> None:
        """Load and compare the tail, unless it is kept.

        Raises:
            ChecksumMismatch: it differs from the log's checksum.
        """
        self.path = source.path
        self.size = source.size
        self.tail = kept_tail(views, source, footer)
        self.pages: KeptViews | None = None if views is None else views.pages
        self.identity = (source.path, source.size, footer.start, footer.crc)
        self._source = source
        self._start = footer.start
        self._held = _Held(-1, b"")

    @property
    def tail_size(self) -> int:
        """Return the number of bytes of page indexes and footer."""
        return len(self.tail.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``; errors as ``view``."""
        found = self.view(offset, length)
        whole = found.obj
        return whole if isinstance(whole, bytes) and len(whole) == len(found) else bytes(found)

    @property
    def loads(self) -> bool:
        """Return whether ranges can be loaded together, because each request is a round trip."""
        return hasattr(self._source, "load")

    def open_now(self) -> None:
        """Open the file, if that was left for the first read; errors as of opening it."""
        if isinstance(self._source, OpenedLater):
            self._source.opened()

    def load(self, ranges: Iterable[Range]) -> None:
        """Load the blocks of ranges that are read soon, if that is a gain."""
        ends, _ = self.tail.blocks
        wanted = []
        for start, end in ranges:
            if 0 <= start < end <= self._start:
                first, last = bisect_right(ends, start), bisect_left(ends, end)
                wanted.append((ends[first - 1] if first else 0, ends[last]))
        load_ranges(self._source, wanted)

    def view(self, offset: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``offset``, without a copy where possible.

        Raises:
            ChecksumMismatch: a block in the range differs from the bytes written.
        """
        end = offset + length
        if offset < 0 or length <= 0 or end > self.size:
            return memoryview(self._source.read_at(offset, length))  # raises the right error
        tail = memoryview(self.tail.data)
        if offset >= self._start:
            return tail[offset - self._start : end - self._start]
        body = self._body(offset, min(end, self._start))
        return body if end <= self._start else _joined(body, tail[: end - self._start])

    @property
    def metadata(self) -> pq.FileMetaData:
        """The file's metadata, decoded from the tail when first needed.

        Raises:
            ArrowException: it is no Parquet footer.
        """
        return self.tail.metadata

    def check(self) -> None:
        """Compare every byte.

        Raises:
            ChecksumMismatch: a block differs from the bytes written.
        """
        for offset in range(0, self._start, PIECE):
            self._body(offset, min(offset + PIECE, self._start))

    def pieces(self, offset: int, length: int) -> Iterator[tuple[bytes, list[Block]]]:
        """Yield a range in compared pieces, each with the whole blocks that it consists of.

        A piece that is only part of a block has no blocks.
        """
        end = offset + length
        ends, crcs = self.tail.blocks
        while offset < end:
            if end > self._start:
                raise CorruptTable(f"{self.path}: row groups reach into the footer: restore it")
            first = bisect_right(ends, offset)
            begin = ends[first - 1] if first else 0
            last = bisect_right(ends, min(end, offset + PIECE))
            if begin == offset and first < last:
                stop = ends[last - 1]
                bounds = [offset, *ends[first:last]]
                blocks = [
                    (b - a, crc)
                    for a, b, crc in zip(bounds, bounds[1:], crcs[first:last], strict=False)
                ]
            else:
                stop, blocks = min(end, ends[first]), []
            yield self.read_at(offset, stop - offset), blocks
            offset = stop

    def _body(self, offset: int, end: int) -> memoryview:
        ends, _ = self.tail.blocks
        first, last = bisect_right(ends, offset), bisect_left(ends, end)
        begin, held = ends[first - 1] if first else 0, self._held
        if held.number != first or last - first > _FEW:  # loading a block again copies less
            whole = self._blocks(first, last)
        elif first == last:
            whole = memoryview(held.data)
        else:
            whole = _joined(held.data, self._blocks(first + 1, last))
        return whole[offset - begin : end - begin]

    def _blocks(self, first: int, last: int) -> memoryview:
        """Load and compare blocks ``first`` to ``last``; hold the last one for the next read.

        Raises:
            ChecksumMismatch: a block differs from the bytes written.
        """
        ends, crcs = self.tail.blocks
        start, at = ends[first - 1] if first else 0, 0
        raw = memoryview(self._source.read_at(start, ends[last] - start))
        for number in range(first, last + 1):
            end = ends[number] - start
            if crc32(raw[at:end]) != crcs[number]:
                raise mismatch(self.path, f"bytes {start + at} to {start + end - 1}")
            if number == last:
                self._held = _Held(number, bytes(raw[at:end]))
            at = end
        return raw


def _joined(*parts: bytes | memoryview) -> memoryview:
    return memoryview(b"".join(parts))


def footer_checksum(source: Source, metadata: Mapping[bytes, bytes]) -> FooterChecksum | None:
    """Compute the checksum of a file's current tail; None if an older version wrote the file.

    Args:
        source: the open file.
        metadata: the key-value metadata of its footer.
    """
    if CHECKSUMS_KEY not in metadata:
        return None
    start = sum(length for length, _ in decoded_blocks(source.path, metadata[CHECKSUMS_KEY]))
    if start > source.size:
        raise mismatch(source.path, "its blocks pass its end")
    return FooterChecksum(start, crc32(source.read_at(start, source.size - start)))


# Segment descriptors and table definitions
KEY = b"segtable"
TABLE_KEY = b"segtable.table"
FORMAT = 1
_TOLD_BY_THE_FILE = ("path", "size", "row_groups", "footer")


def segment_path(segment_id: SegmentId, token: str) -> str:
    """Return the path of a segment's file; ``token`` makes it unguessable."""
    return f"data/{segment_id.interval.name}/{segment_id.partition:05d}-{token}.parquet"


def encode_descriptor(segment: Segment) -> bytes:
    """Return the footer entry of a segment."""
    body = {"format": FORMAT, **encode_segment(segment)}
    for name in _TOLD_BY_THE_FILE:
        body.pop(name, None)
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode_descriptor(data: bytes, *, path: str, size: int, row_groups: int) -> Segment:
    """Parse a footer entry.

    Args:
        data: the entry's value.
        path: the file's path, relative to the table's root.
        size: the file's size, in bytes.
        row_groups: the file's number of row groups.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is not a descriptor.
    """
    try:
        body = json.loads(data)
        found = body["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(f"{path}: the footer's descriptor is broken ({error!r})") from None
    if found != FORMAT:
        raise UnsupportedFormat(
            f"{path}: descriptor has format {found!r}, this segtable reads {FORMAT}: "
            "upgrade segtable"
        )
    try:
        return decode_segment({**body, "path": path, "size": size, "row_groups": row_groups})
    except (ValueError, KeyError, TypeError, IndexError, InvalidInput) as error:
        raise CorruptTable(f"{path}: the footer's descriptor is broken ({error!r})") from None


def read_observed(files: DataFiles, segment: Segment) -> Segment:
    """Return an adopted segment with the properties that its file has now.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is not a Parquet file, or has another number of rows.
    """
    with files.open(segment.path) as source:
        footer = read_footer(source)
        check_identity(segment, rows=footer.rows, row_groups=footer.group_count, entry=None)
        return replace(
            segment,
            size=source.size,
            row_groups=footer.group_count,
            footer=own_checksum(footer),
        )


def read_descriptor(files: DataFiles, path: str) -> Segment:
    """Load the descriptor from a data file.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is not a Parquet file, or has no descriptor.
        UnsupportedFormat: written by a newer segtable.
    """
    with files.open(path) as source:
        footer = read_footer(source)
        if KEY not in footer.metadata:
            raise CorruptTable(f"{path} carries no segtable descriptor: it is not a segment's file")
        return described(source, footer)


def described(source: Source, footer: Footer) -> Segment:
    """Return the segment that a footer describes, with the file's own path, size and checksum.

    Raises:
        CorruptTable: the footer has no descriptor, or a broken one.
        UnsupportedFormat: written by a newer segtable.
    """
    segment = decode_descriptor(
        footer.metadata.get(KEY, b"null"),
        path=source.path,
        size=source.size,
        row_groups=footer.group_count,
    )
    return replace(segment, footer=footer_checksum(source, footer.metadata))


def check_identity(segment: Segment, *, rows: int, row_groups: int, entry: bytes | None) -> None:
    """Compare the footer of a segment's file with the log.

    Args:
        segment: the segment, as the log has it.
        rows: the number of rows of the file.
        row_groups: its number of row groups.
        entry: its descriptor, if it has one.

    Raises:
        CorruptTable: it is another segment's file, or broken.
    """
    path = segment.path
    if rows != segment.rows:
        raise CorruptTable(
            f"{path} has {rows} rows, segment {segment.id} has {segment.rows}: restore the file"
        )
    if segment.adopted:
        return  # it has no descriptor; its footer was compared with the log
    found = decode_descriptor(entry or b"null", path=path, size=segment.size, row_groups=row_groups)
    if found.id != segment.file_id:
        raise CorruptTable(
            f"{path} says it is segment {found.id}, the log says {segment.file_id}: "
            "restore the file"
        )


def encode_definition(table: TableDefinition, base_version: Instant) -> bytes:
    """Return the footer entry that defines a file's table."""
    body = {"format": FORMAT, "base_version": base_version, **encode_table(table)}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode_definition(data: bytes, where: str) -> tuple[TableDefinition, Instant]:
    """Parse the output of ``encode_definition``: the table, and its base version.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: it is not a definition.
    """
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise UnsupportedFormat(
                f"{where}: the table's definition has format {body['format']!r}, this segtable "
                f"reads {FORMAT}: upgrade segtable"
            )
        return decode_table(body), int(body["base_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(f"{where}: the table's definition is broken ({error!r})") from None


def file_definition(metadata: Mapping[bytes, bytes]) -> TableDefinition | None:
    """Return the table's definition in a file's key-value metadata; None if it has none."""
    data = metadata.get(TABLE_KEY)
    return decode_definition(data, "a footer")[0] if data else None


def file_schema(metadata: Mapping[bytes, bytes]) -> Schema:
    """Return the table's schema in a file's key-value metadata; an empty one if it has none."""
    table = file_definition(metadata)
    return table.schema if table else Schema(())


def definition_entry(data: bytes | None) -> dict[bytes, bytes]:
    """Return the key-value metadata for a definition; empty without one."""
    return {TABLE_KEY: data} if data else {}


def read_definition(files: DataFiles, path: str) -> bytes:
    """Load the raw definition from a data file; empty if it has none.

    Raises:
        NotFound: there is no such file.
        CorruptTable: it is not a Parquet file.
    """
    with files.open(path) as source:
        return read_footer(source).metadata.get(TABLE_KEY, b"")


THREADS = 16


class SegmentFiles:
    """``DataFiles`` that check the files of given segments only.

    ``whole`` is the most bytes of a file that is loaded by one request where one is a round trip;
    ``views`` has tails of files that were read before.
    """

    def __init__(
        self,
        files: DataFiles,
        segments: Iterable[Segment],
        *,
        whole: int = 0,
        views: Views | None = None,
    ) -> None:
        """Check the files of ``segments``."""
        self._views = views
        self.remote = is_remote(files)
        self._files = files
        self._segments = {segment.path: segment for segment in segments}
        self._whole = whole if self.remote else 0

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading.

        Raises:
            NotFound: the file is missing.
            CorruptTable: it differs from its entry in the log.
            ChecksumMismatch: its footer was damaged after it was written.
        """
        segment = self._segments.get(path)
        if segment is None or segment.footer is None:  # nothing is read to find a missing file
            with self._files.open(path) as source:
                yield checked_source(source, segment) if segment else source
            return
        if self._views is not None and not self.remote:
            with ExitStack() as until:
                later = OpenedLater(self._files, path, segment.size, until)
                yield checked_source(later, segment, self._views)
            return
        with open_known(self._files, path, segment.size) as source:
            small = source.size <= self._whole
            held = MemorySource(path, source.read_at(0, source.size)) if small else source
            yield checked_source(held, segment, self._views)

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self._files.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        self._files.delete(path)


class OpenedOnce:
    """``DataFiles`` that open each file once: it stays open until all are closed."""

    def __init__(self, files: DataFiles, until: ExitStack) -> None:
        """Open files of ``files``, and close them with ``until``."""
        self.remote = is_remote(files)
        self._files = files
        self._until = until
        self._open: dict[str, Source] = {}

    def open_all(self, paths: Iterable[str]) -> None:
        """Open files beside each other; the error of one is raised when it is read."""

        def begin(path: str) -> None:
            with suppress(SegtableError, OSError), self.open(path):
                pass

        with ThreadPoolExecutor(THREADS, "segtable-open") as pool:
            list(pool.map(begin, dict.fromkeys(paths)))

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading; errors as of the files."""
        if path not in self._open:
            self._open[path] = self._until.enter_context(self._files.open(path))
        yield self._open[path]

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self._files.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        self._files.delete(path)


def discard(files: DataFiles, segments: Iterable[Segment]) -> None:
    """Delete the files that a failed job wrote; its own error is the one to report."""
    for segment in segments:
        if segment.path and not segment.adopted:
            with suppress(StorageError):
                files.delete(segment.path)


def check_footers(files: DataFiles, segments: Iterable[Segment]) -> None:
    """Compare the footers of segments' files, in parallel, for a reader without checks.

    Raises:
        NotFound, CorruptTable, ChecksumMismatch: as ``SegmentFiles.open``, for the first bad file.
    """
    summed = [segment for segment in segments if segment.footer]
    some = SegmentFiles(files, summed)

    def check(segment: Segment) -> None:
        with some.open(segment.path):
            pass

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(check, summed):
            pass


def check_bytes(files: DataFiles, segment: Segment) -> None:
    """Compare every byte of a segment's file; errors as ``SegmentFiles.open``."""
    with SegmentFiles(files, [segment]).open(segment.path) as source:
        if isinstance(source, CheckedSource):
            source.check()


def check_whole(files: DataFiles, segment: Segment) -> None:
    """Check a segment's file for a reader without checks: its id, its row count, every byte.

    Raises:
        NotFound, CorruptTable, ChecksumMismatch: as ``SegmentFiles.open``.
    """
    if segment.adopted:
        read_observed(files, segment)
        return check_bytes(files, segment)
    found = read_descriptor(files, segment.path)
    if (found.id, found.rows) != (segment.file_id, segment.rows):
        raise CorruptTable(
            f"{segment.path} says it is segment {found.id} of {found.rows} rows, the log says "
            f"{segment.file_id} of {segment.rows}: restore the file"
        )
    return check_bytes(files, segment)


def checked_source(source: Source, segment: Segment, views: Views | None = None) -> Source:
    """Return a segment's open file, checked; errors as ``SegmentFiles.open``."""
    if source.size != segment.size:
        raise CorruptTable(
            f"{source.path} has {source.size} bytes, segment {segment.id} has {segment.size}: "
            "restore the file"
        )
    if segment.footer is None:
        return source
    if segment.adopted:
        return AdoptedSource(source, segment.footer)
    try:
        return CheckedSource(source, segment.footer, views)
    except ChecksumMismatch:
        found = described(source, read_footer(source))
        if found.id != segment.file_id:
            raise CorruptTable(
                f"{source.path} says it is segment {found.id}, the log says {segment.file_id}: "
                "restore the file"
            ) from None
        raise

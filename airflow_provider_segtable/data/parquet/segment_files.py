"""Files of segments, checked against the log: damage is detected when they are read.

1. A file of another size is refused, and so is one whose footer fails its checksum. If that footer
   names another segment, the error reports the segment instead: that is the more useful message.
2. Other bytes are compared when they are read (``data.parquet.descriptor``).
3. A reader that needs a file several times opens and checks it once (``OpenedOnce``).
4. Files of segments without a checksum, written by older versions, are opened unchecked.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable, StorageError
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.parquet.descriptor import (
    CheckedSource,
    described,
    read_descriptor,
)
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

THREADS = 16


class SegmentFiles:
    """``DataFiles`` that check the files of given segments only."""

    def __init__(self, files: DataFiles, segments: Iterable[Segment]) -> None:
        """Check the files of ``segments``."""
        self._files = files
        self._segments = {segment.path: segment for segment in segments}

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading.

        Raises:
            NotFound: the file is missing.
            CorruptTable: it differs from its entry in the log.
            ChecksumMismatch: its footer was damaged after it was written.
        """
        with self._files.open(path) as source:
            segment = self._segments.get(path)
            yield checked_source(source, segment) if segment else source

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
        self._files = files
        self._until = until
        self._open: dict[str, Source] = {}

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
        if segment.path:
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
    found = read_descriptor(files, segment.path)
    if (found.id, found.rows) != (segment.file_id, segment.rows):
        raise CorruptTable(
            f"{segment.path} says it is segment {found.id} of {found.rows} rows, the log says "
            f"{segment.file_id} of {segment.rows}: restore the file"
        )
    check_bytes(files, segment)


def checked_source(source: Source, segment: Segment) -> Source:
    """Return a segment's open file, checked; errors as ``SegmentFiles.open``."""
    if source.size != segment.size:
        raise CorruptTable(
            f"{source.path} has {source.size} bytes, segment {segment.id} has {segment.size}: "
            "restore the file"
        )
    if segment.footer is None:
        return source
    try:
        return CheckedSource(source, segment.footer)
    except ChecksumMismatch:
        found = described(source, read_footer(source))
        if found.id != segment.file_id:
            raise CorruptTable(
                f"{source.path} says it is segment {found.id}, the log says {segment.file_id}: "
                "restore the file"
            ) from None
        raise

"""The files of some segments, as the log knows them: damage is noticed when they are read.

1. A file of another size is refused, and so is one whose footer fails its checksum. What the footer
   says then comes first: that it is another segment's file says more than that bytes differ.
2. Everything else is compared when it is read (``checksums``).
3. Files of segments without a checksum, which older versions wrote, are opened as they are.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.parquet.descriptor import described, read_descriptor
from airflow_provider_segtable.data.parquet.file_checksums import CheckedSource
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

THREADS = 16


class SegmentFiles:
    """``DataFiles`` that check the files of some segments, and no others."""

    def __init__(self, files: DataFiles, segments: Iterable[Segment]) -> None:
        """Check the files of ``segments``."""
        self._files = files
        self._segments = {segment.path: segment for segment in segments}

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading.

        Raises:
            NotFound: it is not there.
            CorruptTable: it is not what the log says.
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
        """Delete a file; no error if it is not there."""
        self._files.delete(path)


def check_footers(files: DataFiles, segments: Iterable[Segment]) -> None:
    """Compare the footers of segments' files, several at once, for a reader that does not.

    Raises:
        NotFound, CorruptTable, ChecksumMismatch: as ``SegmentFiles.open``, for the first such file.
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
    """Compare every byte of a segment's file, and what its footer says, for another reader.

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

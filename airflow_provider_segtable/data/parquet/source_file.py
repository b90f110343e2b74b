"""Open data files as pyarrow takes them.

Arrow's Parquet reader can load the bytes of all columns ahead, in its I/O threads. We leave that
to files whose reads are round trips:

1. A local file is read a fifth slower with it: the threads only wait for each other.
2. What such a thread was handed is a Python object, and the thread may let it go last. If it comes
   to that while the interpreter ends, Python stops the thread, and C++ aborts the process
   (``terminate called without an active exception``): on a busy machine two of a hundred commands
   died after they had printed their answer.
"""

import io
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.data.parquet.descriptor import CheckedSource
from airflow_provider_segtable.ports.files import Source


class SourceFile(io.RawIOBase):
    """A ``Source`` as a seekable Python file, for pyarrow."""

    def __init__(self, source: Source) -> None:
        """Read ``source`` from its start, perhaps in another thread; open it in this one."""
        if isinstance(source, CheckedSource):
            source.open_now()
        self._source = source
        self._at = 0

    @property
    def loads(self) -> bool:
        """Return whether ranges can be loaded together, because each request is a round trip."""
        source = self._source
        return source.loads if isinstance(source, CheckedSource) else hasattr(source, "load")

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = origin + offset
        return self._at

    def read(self, size: int = -1) -> Any:
        """Return up to ``size`` bytes, or a view of them: pyarrow takes both."""
        source = self._source
        left = max(source.size - self._at, 0)
        length = left if size < 0 else min(size, left)
        at, self._at = self._at, self._at + length
        if not length:
            return b""
        return (
            source.view(at, length)
            if isinstance(source, CheckedSource)
            else source.read_at(at, length)
        )


ArrowInput: TypeAlias = pa.BufferReader | SourceFile
"""A data file as pyarrow takes it: its bytes in memory, or read by ranges."""


def seekable(source: Source, whole: int) -> ArrowInput:
    """Return a data file as a pyarrow input, in memory if it has at most ``whole`` bytes."""
    if source.size <= whole:
        return pa.BufferReader(source.read_at(0, source.size))
    return SourceFile(source)


def parquet_file(
    file: ArrowInput,
    *,
    words: Sequence[str] = (),
    metadata: pq.FileMetaData | None = None,
    ahead: bool = True,
) -> pq.ParquetFile:
    """Open a data file as Parquet.

    Args:
        file: the file.
        words: columns to read as dictionaries.
        metadata: the file's metadata, if it is known.
        ahead: whether columns are loaded together where a read is a round trip; no if the caller
            loads them.

    Raises:
        ArrowException: it is not a Parquet file.
    """
    ahead = ahead and isinstance(file, SourceFile) and file.loads
    return pq.ParquetFile(file, metadata=metadata, read_dictionary=[*words], pre_buffer=ahead)

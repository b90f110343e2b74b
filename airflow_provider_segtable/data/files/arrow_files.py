"""Data files on object stores, through ``pyarrow.fs``.

1. Closing an object's stream is the commit: it makes the whole object visible.
2. pyarrow cannot abort an upload: an uncommitted sink is closed and its object deleted. If the
   process dies before that, it leaves an object that the log never names, or an unfinished
   multipart upload: both are garbage.
3. ``create`` checks whether the name is taken. The check is not a lock, and none is needed: names
   include a random token.
"""

import contextlib
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pyarrow import fs

from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.data.files.local_files import copy_in_pieces, truncated
from airflow_provider_segtable.disk.os_failures import accessing
from airflow_provider_segtable.ports.files import Sink, Source


class _Input(Protocol):
    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int) -> bytes: ...


class _Output(Protocol):
    def write(self, data: bytes) -> int: ...

    def close(self) -> None: ...


class ArrowSource:
    """An open object."""

    def __init__(self, path: str, file: _Input) -> None:
        """Read from an Arrow random access file."""
        self.path = path
        self.size = file.size()
        self._file = file

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        with accessing(self.path):
            data = self._file.read_at(length, offset) if length else b""
        if len(data) != length:
            raise truncated(self.path, offset + len(data), length - len(data))
        return data


class ArrowSink:
    """An object being uploaded."""

    def __init__(self, path: str, stream: _Output) -> None:
        """Write to an Arrow output stream."""
        self.path = path
        self.position = 0
        self.committed = False
        self._stream = stream

    def write(self, data: bytes) -> None:
        """Append bytes."""
        with accessing(self.path):
            self._stream.write(data)
        self.position += len(data)

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file, streamed in bounded pieces."""
        copy_in_pieces(source, self, offset, length)

    def commit(self) -> None:
        """Finish the upload; the object is visible afterwards."""
        with accessing(self.path):
            self._stream.close()
        self.committed = True

    def begin_commit(self) -> None:
        """Commit: finishing an upload is one request."""
        self.commit()


class ArrowFiles:
    """``ports.files.DataFiles`` on any ``pyarrow.fs`` file system."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        """Keep data files below ``root`` (``bucket/prefix``)."""
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open an object for reading."""
        with accessing(path):
            file = self._filesystem.open_input_file(self._full(path))
            source = ArrowSource(path, file)
        with file:
            yield source

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new object."""
        target = self._full(path)
        with accessing(path):
            if self._filesystem.get_file_info(target).type != fs.FileType.NotFound:
                raise FileExistsError(errno.EEXIST, "exists", target)
            sink = ArrowSink(path, self._filesystem.open_output_stream(target))
        try:
            yield sink
        finally:
            if not sink.committed:
                with contextlib.suppress(OSError):  # garbage at worst, see rule 2
                    sink._stream.close()  # noqa: SLF001 - same module
                    self._filesystem.delete_file(target)

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is missing."""
        with accessing(path), contextlib.suppress(FileNotFoundError):
            self._filesystem.delete_file(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self._root}/{inside(path, self._root)}"

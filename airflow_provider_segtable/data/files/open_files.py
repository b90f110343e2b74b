"""Opening a table's data files from its URI and storage options alone, in any process.

1. Options are those of ``data.files.filesystems``.
2. ``memory://name`` is one store per process, shared by all its users; for tests.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from airflow_provider_segtable.core.errors import AlreadyExists, InvalidName, NotFound
from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.data.files.arrow_files import ArrowFiles
from airflow_provider_segtable.data.files.filesystems import STORES, object_store
from airflow_provider_segtable.data.files.local_files import LocalFiles, copy_in_pieces, truncated
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

__all__ = ["ArrowFiles", "JoiningFile", "LocalFiles", "MemoryFiles", "SinkFile", "open_files"]


HELD = 64 << 10
"""The most bytes that ``JoiningFile`` holds."""


class MemorySource:
    """Bytes as a data file."""

    def __init__(self, path: str, data: bytes) -> None:
        """Serve ``data``."""
        self.path = path
        self.size = len(data)
        self._data = data

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        if offset < 0 or offset + length > self.size:
            missing = offset + length - self.size
            raise truncated(self.path, self.size, missing)
        return self._data[offset : offset + length]


class MemorySink:
    """A file being collected in memory."""

    def __init__(self, path: str, store: dict[str, bytes]) -> None:
        """Publish into ``store`` on commit."""
        self.path = path
        self._store = store
        self._data = bytearray()

    @property
    def position(self) -> int:
        """Return the number of bytes written so far."""
        return len(self._data)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._data += data

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file."""
        copy_in_pieces(source, self, offset, length)

    def commit(self) -> None:
        """Make the file visible."""
        if self._store.setdefault(self.path, data := bytes(self._data)) is not data:
            raise AlreadyExists(f"{self.path} exists already; data files are never overwritten")

    def begin_commit(self) -> None:
        """Commit."""
        self.commit()


class MemoryFiles:
    """``ports.files.DataFiles`` in this process's memory."""

    def __init__(self) -> None:
        """Start empty."""
        self.store: dict[str, bytes] = {}

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        if inside(path, "memory") not in self.store:
            raise NotFound(f"{path} is not there")
        yield MemorySource(path, self.store[path])

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        if inside(path, "memory") in self.store:
            raise AlreadyExists(f"{path} exists already; data files are never overwritten")
        yield MemorySink(path, self.store)

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        self.store.pop(inside(path, "memory"), None)


class SinkFile(io.RawIOBase):
    """A ``Sink`` as a writable Python file, for pyarrow; closing it commits nothing."""

    def __init__(self, sink: Sink) -> None:
        """Append to ``sink``."""
        self._sink = sink

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._sink.position

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._sink.write(data)
        return len(data)


class JoiningFile(SinkFile):
    """A ``SinkFile`` that joins small writes; whoever uses the sink itself calls ``settle`` first.

    It does not write when it is closed or collected: then the sink may be closed, too.
    """

    def __init__(self, sink: Sink) -> None:
        """Append to ``sink``."""
        super().__init__(sink)
        self._held = bytearray()

    def tell(self) -> int:
        """Return the number of bytes written, including those still held."""
        return self._sink.position + len(self._held)

    def write(self, data: Any) -> int:
        """Append bytes, now or later."""
        if len(self._held) + len(data) > HELD:
            self.settle()
        if len(data) > HELD:
            return super().write(data)
        self._held += data
        return len(data)

    def settle(self) -> None:
        """Pass on what is held."""
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            self._sink.write(held)


_MEMORY: dict[str, MemoryFiles] = {}


def open_files(uri: str, storage_options: Mapping[str, str] | None = None) -> DataFiles:
    """Open the data files of the table at ``uri``.

    Args:
        uri: a path, ``file://``, ``s3://``, ``gs://``, ``az://``, ``abfs[s]://`` or ``memory://``.
        storage_options: options by obstore's names, e.g. ``aws_access_key_id``, ``endpoint``,
            ``region``, ``allow_http``, ``account_name``, ``account_key``, ``skip_signature``.

    Raises:
        InvalidName: for any other scheme.
    """
    if "://" not in uri:
        return LocalFiles(Path(uri).absolute())
    parts = urlsplit(uri)
    if parts.scheme in _SCHEMES:
        return _SCHEMES[parts.scheme](parts)
    if parts.scheme not in STORES:
        known = ", ".join(f"{scheme}://" for scheme in (*_SCHEMES, *STORES))
        raise InvalidName(f"{redacted(uri)!r} has an unknown scheme: use a path or one of {known}")
    return ArrowFiles(*object_store(uri, storage_options or {}))


def _object_root(parts: SplitResult) -> str:
    return f"{parts.netloc}{unquote(parts.path)}".rstrip("/")


def _local(parts: SplitResult) -> DataFiles:
    return LocalFiles(Path(unquote(parts.netloc + parts.path)))


def _memory(parts: SplitResult) -> DataFiles:
    return _MEMORY.setdefault(_object_root(parts), MemoryFiles())


_SCHEMES: dict[str, Callable[[SplitResult], DataFiles]] = {"file": _local, "memory": _memory}

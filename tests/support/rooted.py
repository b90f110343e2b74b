"""Keep data files in memory below the log's root, so that a listing shows them.

``data.open_files.MemoryFiles`` has no listing; cleaning must find files that the log does not
name, with their age by the storage's clock.
"""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_segtable.core.errors import AlreadyExists, NotFound
from airflow_provider_segtable.data.open_files import MemorySink, MemorySource
from airflow_provider_segtable.ports.files import Sink, Source
from airflow_provider_segtable.ports.storage import Storage


class RootedFiles:
    """``ports.files.DataFiles`` whose files are objects of a ``Storage``."""

    def __init__(self, storage: Storage) -> None:
        """Keep the files in any ``storage``."""
        self._storage = storage

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        yield MemorySource(path, self._storage.read(path))

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with contextlib.suppress(NotFound):
            self._storage.read(path)
            raise AlreadyExists(f"{path} exists already; data files are never overwritten")
        yield _RootedSink(path, self._storage)

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is absent."""
        self._storage.delete(path)


class _RootedSink(MemorySink):
    """A new file, buffered in memory."""

    def __init__(self, path: str, storage: Storage) -> None:
        super().__init__(path, {})
        self._storage = storage

    def commit(self) -> None:
        self._storage.create(self.path, bytes(self._data))

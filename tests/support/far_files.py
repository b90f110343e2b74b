"""Files of a disk as those of an object store, each request of which is announced."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from airflow_provider_segtable.data.open_files import ArrowSource
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

Request = Callable[[str], AbstractContextManager[None]]
"""Begins a request for bytes of a file; its context lasts until the answer."""


@dataclass(frozen=True)
class FarFiles:
    """``DataFiles`` where a request is a round trip."""

    files: DataFiles
    request: Request
    remote: bool = True

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        with self.files.open(path) as source:
            yield ArrowSource(path, _FarFile(source, self.request), source.size)

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self.files.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.files.delete(path)


@dataclass(frozen=True)
class _FarFile:
    """An open file as Arrow's."""

    source: Source
    request: Request

    def size(self) -> int:
        """Return its bytes."""
        return self.source.size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return bytes."""
        with self.request(self.source.path):
            return self.source.read_at(offset, nbytes)

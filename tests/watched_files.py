"""Data files that note which of them are opened, and which bytes are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from airflow_provider_segtable.ports.files import DataFiles, Sink, Source
from airflow_provider_segtable.table.table import Table

AnyTable = TypeVar("AnyTable", bound=Table)


@dataclass(slots=True)
class WatchedSource:
    """An open file; read ranges are noted."""

    inner: Source
    ranges: list[tuple[int, int]]

    @property
    def path(self) -> str:
        """Return the path."""
        return self.inner.path

    @property
    def size(self) -> int:
        """Return the size."""
        return self.inner.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return bytes, and note where they are."""
        self.ranges.append((offset, offset + length))
        return self.inner.read_at(offset, length)


@dataclass(slots=True)
class WatchedFiles:
    """``DataFiles``; the ranges that were read of each opened file, by its path."""

    inner: DataFiles
    opened: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file."""
        with self.inner.open(path) as source:
            yield WatchedSource(source, self.opened.setdefault(path, []))

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self.inner.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.inner.delete(path)

    def body_bytes(self, path: str, end: int) -> int:
        """Return how many bytes of a file's body, which ends at ``end``, were read, each once.

        Row groups begin after four bytes. A read that reaches beyond them and the body is one of
        the footer: readers load it with the bytes before it.
        """
        body = (found for found in self.opened[path] if found[0] >= 4 and found[1] <= end)
        return len({at for first, last in body for at in range(first, last)})


def watched(table: AnyTable) -> tuple[AnyTable, WatchedFiles]:
    """Return the table over watched files."""
    files = WatchedFiles(table.ports.files)
    return type(table)(replace(table.ports, files=files)), files

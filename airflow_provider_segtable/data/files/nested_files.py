"""A folder of data files as data files of their own: for a table that lies inside another one."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source


class NestedFiles:
    """``ports.files.DataFiles`` below a folder of other files, with their guarantees.

    A file that is read has its path below the folder: what is in its footer goes by it. One that is
    being written names itself by its path from the outer root, in messages.
    """

    def __init__(self, outer: DataFiles, folder: str) -> None:
        """Use the files of ``outer`` below ``folder``."""
        self._outer = outer
        self._folder = inside(folder, "the table")

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        with self._outer.open(self._at(path)) as source:
            yield _InnerSource(path, source)

    def create(self, path: str) -> AbstractContextManager[Sink]:
        """Start a new file."""
        return self._outer.create(self._at(path))

    def delete(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        self._outer.delete(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._folder}/{inside(path, self._folder)}"


class _InnerSource:
    """An open file under its path below a folder."""

    def __init__(self, path: str, source: Source) -> None:
        """Read from ``source``."""
        self.path = path
        self.size = source.size
        self._source = source

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        return self._source.read_at(offset, length)

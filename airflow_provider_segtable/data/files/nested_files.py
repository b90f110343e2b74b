"""A folder of data files as data files of their own: for a table that lies inside another one."""

from contextlib import AbstractContextManager

from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source


class NestedFiles:
    """``ports.files.DataFiles`` below a folder of other files, with their guarantees.

    Open files name themselves by their path from the outer root.
    """

    def __init__(self, outer: DataFiles, folder: str) -> None:
        """Use the files of ``outer`` below ``folder``."""
        self._outer = outer
        self._folder = inside(folder, "the table")

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file for reading."""
        return self._outer.open(self._at(path))

    def create(self, path: str) -> AbstractContextManager[Sink]:
        """Start a new file."""
        return self._outer.create(self._at(path))

    def delete(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        self._outer.delete(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._folder}/{inside(path, self._folder)}"

"""Data files over others that are only read: new files stay in memory.

The files in memory are plain bytes by path, so that a task in another process may have them, too.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_provider_segtable.data.files.open_files import MemoryFiles
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source


class LayeredFiles:
    """``ports.files.DataFiles`` whose new files end with the process."""

    def __init__(self, below: DataFiles, held: Mapping[str, bytes] | None = None) -> None:
        """Read ``below``; begin with the files ``held`` in memory."""
        self._below = below
        self._above = MemoryFiles()
        self._above.store.update(held or {})

    @property
    def held(self) -> Mapping[str, bytes]:
        """Return the files in memory."""
        return self._above.store

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file of either layer for reading."""
        layer = self._above if path in self._above.store else self._below
        with layer.open(path) as source:
            yield source

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file in memory."""
        with self._above.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file in memory; those below stay."""
        self._above.delete(path)


def held_files(files: DataFiles) -> Mapping[str, bytes]:
    """Return the data files that only this process has."""
    return files.held if isinstance(files, LayeredFiles) else {}

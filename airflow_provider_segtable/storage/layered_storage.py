"""Storage over another one that is only read: what is written stays in this process's memory.

1. An object of the upper layer hides the one below it. A deletion hides nothing below.
2. Objects below for which ``hidden`` holds are not there. So a log can be read as it was after an
   event, whatever other writers append to it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from heapq import merge

from airflow_provider_segtable.core.errors import AlreadyExists, NotFound
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.storage import Entry, Storage
from airflow_provider_segtable.storage.memory_storage import MemoryStorage


class LayeredStorage:
    """``ports.storage.Storage`` whose writes end with the process."""

    def __init__(self, below: Storage, clock: Clock, hidden: Callable[[str], bool]) -> None:
        """Read ``below``, but not the paths that are hidden; write to memory."""
        self._below = below
        self._above = MemoryStorage(below.uri, clock=clock)
        self._hidden = hidden

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self._below.uri

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        try:
            return self._above.read(path)
        except NotFound:
            if self._hidden(path):
                raise
            return self._below.read(path)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet, in memory."""
        try:
            self.read(path)
        except NotFound:
            self._above.create(path, data, ready=ready)
        else:
            raise AlreadyExists(f"{self.uri}/{path} exists already")

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint, in memory."""
        self._above.replace(path, data)

    def settle(self, prefix: str) -> None:
        """Do nothing: memory survives no power cut."""
        self._above.settle(prefix)

    def turn(self, prefix: str, *, wait_s: float) -> AbstractContextManager[None]:
        """Take no turns: nobody else writes here."""
        return self._above.turn(prefix, wait_s=wait_s)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects of both layers below a folder, in ascending order."""
        above = list(self._above.list(prefix, after=after))
        own = {entry.path for entry in above}
        below = (
            entry
            for entry in self._below.list(prefix, after=after)
            if entry.path not in own and not self._hidden(entry.path)
        )
        return merge(above, below, key=lambda entry: entry.path)

    def delete(self, path: str) -> None:
        """Delete an object of the upper layer; no error if it is missing."""
        self._above.delete(path)

    def prune(self, prefix: str) -> None:
        """Do nothing: memory has no folders."""
        self._above.prune(prefix)

"""Storage in this process's memory: for tests, simulation, and as the smallest example.

Deterministic: without a clock, modification times count the writes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from airflow_provider_segtable.core.errors import AlreadyExists, NotFound
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.storage.table_paths import checked, folder, within


class MemoryStorage:
    """``ports.storage.Storage`` in memory; safe among threads."""

    def __init__(self, uri: str = "memory://", *, clock: Clock | None = None) -> None:
        """Start empty; ``uri`` is for messages."""
        self._uri = uri
        self._clock = clock
        self._mutex = threading.Lock()
        self._objects: dict[str, tuple[bytes, Instant]] = {}
        self._writes = 0

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self._uri

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        found = self._objects.get(checked(path, self._uri))
        if found is None:
            raise NotFound(f"{self._uri}/{path} is not there")
        return found[0]

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet."""
        if ready is not None:
            ready()
        with self._mutex:
            if checked(path, self._uri) in self._objects:
                raise AlreadyExists(f"{self._uri}/{path} exists already")
            self._put(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        with self._mutex:
            self._put(checked(path, self._uri), data)

    def settle(self, prefix: str) -> None:
        """Do nothing: memory survives no power cut."""
        folder(prefix, self._uri)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, as they were at the call, in ascending order."""
        below = folder(prefix, self._uri)
        with self._mutex:
            found = [each for each in self._objects.items() if within(each[0], below)]
        return (
            Entry(path=path, size=len(data), modified=modified)
            for path, (data, modified) in sorted(found)
            if after is None or path > after
        )

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is missing."""
        with self._mutex:
            self._objects.pop(checked(path, self._uri), None)

    def turn(self, prefix: str, *, wait_s: float) -> AbstractContextManager[None]:  # noqa: ARG002
        """Take no turns: memory is fast enough for races."""
        return nullcontext()

    def prune(self, prefix: str) -> None:
        """Do nothing: memory has no folders."""
        folder(prefix, self._uri)

    def _put(self, path: str, data: bytes) -> None:
        self._writes += 1
        modified = self._clock.now() if self._clock else self._writes
        self._objects[path] = (bytes(data), modified)

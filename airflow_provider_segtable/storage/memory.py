"""Objects in this process's memory, for tests and simulation."""

import threading
from collections.abc import Iterator

from airflow_provider_segtable.core.errors import AlreadyExists, NotFound
from airflow_provider_segtable.core.interval import Instant
from airflow_provider_segtable.ports.storage import Entry


class MemoryStorage:
    """``ports.storage.Storage`` over a dictionary; ``modified`` counts writes."""

    def __init__(self, uri: str = "memory://") -> None:
        """Start empty."""
        self._uri = uri
        self._objects: dict[str, tuple[bytes, Instant]] = {}
        self._writes = 0
        self._mutex = threading.Lock()

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self._uri

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        found = self._objects.get(path)
        if found is None:
            raise NotFound(f"{self._uri}/{path} is not there")
        return found[0]

    def create(self, path: str, data: bytes) -> None:
        """Create an object that must not exist yet."""
        with self._mutex:
            if path in self._objects:
                raise AlreadyExists(f"{self._uri}/{path} exists already")
            self._put(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        with self._mutex:
            self._put(path, data)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, ascending."""
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        for path in sorted(self._objects):
            if path.startswith(folder) and (after is None or path > after):
                data, modified = self._objects[path]
                yield Entry(path=path, size=len(data), modified=modified)

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is not there."""
        with self._mutex:
            self._objects.pop(path, None)

    def _put(self, path: str, data: bytes) -> None:
        self._writes += 1
        self._objects[path] = (bytes(data), self._writes)

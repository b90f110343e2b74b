"""A folder of a storage as a storage of its own: for a table that lies inside another one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.ports.storage import Entry, Storage


class NestedStorage:
    """``ports.storage.Storage`` below a folder of another storage, with its guarantees."""

    def __init__(self, outer: Storage, folder: str) -> None:
        """Use the objects of ``outer`` below ``folder``."""
        self._outer = outer
        self._folder = inside(folder, outer.uri)

    @property
    def uri(self) -> str:
        """Return the URI of the folder, for messages."""
        return f"{self._outer.uri.rstrip('/')}/{self._folder}"

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        return self._outer.read(self._at(path))

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet."""
        if ready is None:
            self._outer.create(self._at(path), data)
        else:
            self._outer.create(self._at(path), data, ready=ready)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        self._outer.replace(self._at(path), data)

    def settle(self, prefix: str) -> None:
        """Make all names in a folder durable."""
        self._outer.settle(self._at(prefix))

    def turn(self, prefix: str, *, wait_s: float) -> AbstractContextManager[None]:
        """Wait for this writer's turn in a folder, and hold it."""
        return self._outer.turn(self._at(prefix), wait_s=wait_s)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, in ascending order."""
        start = None if after is None else self._at(after)
        cut = len(self._folder) + 1
        for entry in self._outer.list(self._at(prefix), after=start):
            yield Entry(path=entry.path[cut:], size=entry.size, modified=entry.modified)

    def delete(self, path: str) -> None:
        """Delete an object; no error if it does not exist."""
        self._outer.delete(self._at(path))

    def prune(self, prefix: str) -> None:
        """Remove the empty folders below a folder, and itself."""
        self._outer.prune(self._at(prefix))

    def _at(self, path: str) -> str:
        return f"{self._folder}/{inside(path, self.uri)}"

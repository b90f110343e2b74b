"""Storage in this process's memory, layers over another storage, and folders as storages.

``MemoryStorage``, for tests, simulation, and as the smallest example:

1. It is deterministic: without a clock, modification times count the writes.

``LayeredStorage`` writes to memory over another storage that is only read:

2. An object of the upper layer hides the one below it. A deletion hides nothing below.
3. Objects below for which ``hidden`` holds are absent. So a log can be read as of an event, while
   other writers append to it.

``NestedStorage`` is a folder of a storage, for a table that lies inside another one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from heapq import merge

from airflow_provider_segtable.core.errors import AlreadyExists, NotFound
from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.storage import Entry, NoTurn, Storage, Turn
from airflow_provider_segtable.storage.table_paths import checked, folder, named_folders, within


class MemoryStorage:
    """``ports.storage.Storage`` in memory; safe among threads."""

    def __init__(
        self, uri: str = "memory://", *, clock: Clock | None = None, remote: bool = False
    ) -> None:
        """Start empty; ``uri`` is for messages, ``remote`` as in ``ports.storage``."""
        self._remote = remote
        self._uri = uri
        self._clock = clock
        self._mutex = threading.Lock()
        self._objects: dict[str, tuple[bytes, Instant]] = {}
        self._writes = 0

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self._uri

    @property
    def remote(self) -> bool:
        """Return whether it is to be used as if each request cost a round trip."""
        return self._remote

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        found = self._objects.get(checked(path, self._uri))
        if found is None:
            raise NotFound(f"{self._uri}/{path} is not there")
        return found[0]

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        return checked(path, self._uri) in self._objects

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

    def flush(self, prefix: str) -> None:
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

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the folders directly below a folder."""
        below = folder(prefix, self._uri)
        start = len(below) + 1 if below else 0
        rests = (entry.path[start:] for entry in self.list(prefix))
        return named_folders(rest.partition("/")[0] for rest in rests if "/" in rest)

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is missing."""
        with self._mutex:
            self._objects.pop(checked(path, self._uri), None)

    def turn(
        self,
        prefix: str,  # noqa: ARG002
        *,
        wait_s: float,  # noqa: ARG002
        offer: Callable[[], bytes | None] | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Turn]:
        """Take no turns: memory is fast enough for races."""
        return nullcontext(NoTurn())

    def prune(self, prefix: str) -> None:
        """Do nothing: memory has no folders."""
        folder(prefix, self._uri)

    def _put(self, path: str, data: bytes) -> None:
        self._writes += 1
        modified = self._clock.now() if self._clock else self._writes
        self._objects[path] = (bytes(data), modified)


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

    @property
    def remote(self) -> bool:
        """Return whether a request below costs a round trip."""
        return self._below.remote

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        try:
            return self._above.read(path)
        except NotFound:
            if self._hidden(path):
                raise
            return self._below.read(path)

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        below = not self._hidden(path) and self._below.exists(path)
        return self._above.exists(path) or below

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

    def flush(self, prefix: str) -> None:
        """Do nothing: memory survives no power cut."""
        self._above.flush(prefix)

    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> AbstractContextManager[Turn]:
        """Take no turns: there is no other writer."""
        return self._above.turn(prefix, wait_s=wait_s, offer=offer)

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

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the folders directly below a folder, in both layers.

        A folder whose objects are hidden is still there.
        """
        return named_folders((*self._above.folders(prefix), *self._below.folders(prefix)))

    def delete(self, path: str) -> None:
        """Delete an object of the upper layer; no error if it is missing."""
        self._above.delete(path)

    def prune(self, prefix: str) -> None:
        """Do nothing: memory has no folders."""
        self._above.prune(prefix)


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

    @property
    def remote(self) -> bool:
        """Return whether a request costs a round trip."""
        return self._outer.remote

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        return self._outer.read(self._at(path))

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        return self._outer.exists(self._at(path))

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet."""
        if ready is None:
            self._outer.create(self._at(path), data)
        else:
            self._outer.create(self._at(path), data, ready=ready)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        self._outer.replace(self._at(path), data)

    def flush(self, prefix: str) -> None:
        """Make all names in a folder durable."""
        self._outer.flush(self._at(prefix))

    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> AbstractContextManager[Turn]:
        """Wait for this writer's turn in a folder, and hold it."""
        return self._outer.turn(self._at(prefix), wait_s=wait_s, offer=offer)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, in ascending order."""
        start = None if after is None else self._at(after)
        cut = len(self._folder) + 1
        for entry in self._outer.list(self._at(prefix), after=start):
            yield Entry(path=entry.path[cut:], size=entry.size, modified=entry.modified)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the folders directly below a folder."""
        return self._outer.folders(self._at(prefix))

    def delete(self, path: str) -> None:
        """Delete an object; no error if it does not exist."""
        self._outer.delete(self._at(path))

    def prune(self, prefix: str) -> None:
        """Remove the empty folders below a folder, and itself."""
        self._outer.prune(self._at(prefix))

    def _at(self, path: str) -> str:
        return f"{self._folder}/{inside(path, self.uri)}"

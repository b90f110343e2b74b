"""Cache of index entries in a process, so that it does not read them for each scan.

1. The key of a view includes the events that fed the index. So a later feed makes another key, and
   nothing has to be invalidated.
2. The kept views have at most ``MOST_BYTES`` of entries; the least recently used are dropped first.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import field
from threading import Lock
from typing import Any, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass

MOST_BYTES = 64 << 20
"""Bytes of entries, as Arrow holds them, that a table's process keeps."""

MOST_KNOWN = 128 << 20
"""Bytes of the entries about records that a process keeps for a table that it writes to."""

View = TypeVar("View")


@dataclass(slots=True)
class EntryCache:
    """Views of entries by their keys, and the indexes named by a warning."""

    most: int = MOST_BYTES
    held: int = 0
    warned: set[str] = field(default_factory=set)
    _views: OrderedDict[Hashable, tuple[Any, int]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def view(self, key: Hashable, made: Callable[[], tuple[View, int]]) -> View:
        """Return the view of a key; ``made`` makes it, with the bytes of its entries."""
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                found: View = self._views[key][0]
                return found
        new, size = made()
        with self._lock:
            self._keep(key, new, size)
        return new

    def found(self, key: Hashable) -> object | None:
        """Return the view of a key, or None."""
        with self._lock:
            if key not in self._views:
                return None
            self._views.move_to_end(key)
            view: object = self._views[key][0]
            return view

    def replace(self, key: Hashable, view: object, size: int) -> None:
        """Keep a newer view of a key in place of the one that is there."""
        with self._lock:
            if key in self._views:
                self.held -= self._views.pop(key)[1]
            self._keep(key, view, size)

    def warns(self, index: str) -> bool:
        """Return whether an index is named for the first time."""
        with self._lock:
            new = index not in self.warned
            self.warned.add(index)
            return new

    def _keep(self, key: Hashable, view: object, size: int) -> None:
        """Keep a view in place of the least recently used; a view that is too large is not kept."""
        if size > self.most or key in self._views:
            return
        self._views[key] = (view, size)
        self.held += size
        while self.held > self.most:
            _, (_, gone) = self._views.popitem(last=False)
            self.held -= gone

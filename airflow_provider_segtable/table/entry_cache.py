"""Caches of what a process reads of a table's files, so that it does not read them for each scan.

1. The key of a view includes the events that fed the index. So a later feed makes another key, and
   nothing has to be invalidated.
2. The kept views have at most ``MOST_BYTES`` of entries; the least recently used are dropped first.
3. Decoded pages of keys (``data.parquet.number_pages``) have a cache of their own, of equal size.
   Look-ups of random keys fill it, and displace no tails of files, fates or entries.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import field
from threading import Lock
from typing import Any, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass

MOST_BYTES = 64 << 20
"""Bytes of entries, as Arrow holds them, that a table's process keeps."""

View = TypeVar("View")


@dataclass(slots=True)
class ViewCache:
    """Views by their keys, of at most so many bytes."""

    most: int = MOST_BYTES
    held: int = 0
    _views: OrderedDict[Hashable, tuple[Any, int]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def kept(self, key: Hashable) -> Any:
        """Return the view of a key; None if it is not kept."""
        with self._lock:
            found = self._views.get(key)
            if found is None:
                return None
            self._views.move_to_end(key)
            return found[0]

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

    def _keep(self, key: Hashable, view: object, size: int) -> None:
        """Keep a view in place of the least recently used; a view that is too large is not kept."""
        if size > self.most or key in self._views:
            return
        self._views[key] = (view, size)
        self.held += size
        while self.held > self.most:
            _, (_, gone) = self._views.popitem(last=False)
            self.held -= gone


@dataclass(slots=True)
class EntryCache(ViewCache):
    """Views of entries by their keys, decoded pages, and the indexes named by a warning."""

    warned: set[str] = field(default_factory=set)
    pages: ViewCache = field(default_factory=ViewCache)

    def warns(self, index: str) -> bool:
        """Return whether an index is named for the first time."""
        with self._lock:
            new = index not in self.warned
            self.warned.add(index)
            return new

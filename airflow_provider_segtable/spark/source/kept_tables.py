"""Keep the tables that a driver reads open: the next read begins with what is known of them.

1. Of a kept table, a read reads the log's new events alone. What earlier reads have found of its
   files is at hand: deleted and hidden rows, footers, entries of indexes (``table.entry_cache``).
2. Tables are kept by URI, storage options and environment, from which stores take what the options
   lack. So with other credentials another table is opened.
3. A read is answered by a kept table only if its log has gone on from the events that were known.
   If these are not in the log any more, another table is there, or the same one repaired or copied
   back from elsewhere: numbers of events may have another meaning, so the table is opened anew. It
   is, too, after any error, which is then the one of a new table.
4. The least recently read tables are closed, beyond ``MOST`` of them or ``MOST_BYTES`` of what is
   known. DataFrames that read such a table go on with it.
5. Only reads keep tables. A stream or a write has a table of its own for as long as it lasts.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.spark.source.source_options import Place
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table

MOST = 8
"""Most tables that are kept."""
MOST_BYTES = 256 << 20
"""Most bytes of what is known of their files; one table may have 128 MiB."""

Found = TypeVar("Found")


def _opened(place: Place) -> TableContext:
    return Table.connect(place.uri, None, place.storage_options, None)


class KeptTables:
    """The tables that reads have opened, by their places."""

    def __init__(self, opened: Callable[[Place], TableContext] = _opened) -> None:
        """Start without tables; ``opened`` opens one, without reading it."""
        self._opened = opened
        self._kept: OrderedDict[Hashable, TableContext] = OrderedDict()
        self._lock = Lock()

    def read(self, place: Place, look: Callable[[TableContext], Found]) -> Found:
        """Return what ``look`` finds, which loads the table's log; its errors are raised.

        It may be called twice.
        """
        key = _key(place)
        kept = self._of(key)
        if kept is not None:
            with suppress(SegtableError):
                found = look(kept)
                if kept.log.openings == 1:
                    self._drop_oldest()
                    return found
            self._close(key)
        new = self._opened(place)
        found = look(new)
        self._keep(key, new)
        return found

    def _of(self, key: Hashable) -> TableContext | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _close(self, key: Hashable) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _keep(self, key: Hashable, new: TableContext) -> None:
        with self._lock:
            self._kept[key] = new
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Close tables until the others are few enough; what is known grows while they are read."""
        with self._lock:
            while len(self._kept) > MOST or (len(self._kept) > 1 and self._held() > MOST_BYTES):
                self._kept.popitem(last=False)

    def _held(self) -> int:
        """Return the bytes of what is known of the files."""
        outer = [*self._kept.values()]
        every = [*outer, *(each for ports in outer for each in [*ports.inner.values()])]
        return sum(each.entries.held + each.entries.pages.held for each in every)


def _key(place: Place) -> Hashable:
    options = frozenset(place.storage_options.items())
    return absolute(place.uri), options, frozenset(os.environ.items())


OF_THIS_DRIVER = KeptTables()

"""Values that were made once, by key: the last used ones are kept. Shared by threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most ``most`` values. Two threads may make one value at once; the later one is kept."""

    def __init__(self, most: int) -> None:
        """Keep nothing yet."""
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return a value that is kept, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def keep(self, key: K, value: V) -> V:
        """Keep a value, and return it."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def of(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; it is made if it is not kept."""
        found = self.get(key)
        return self.keep(key, make()) if found is None else found

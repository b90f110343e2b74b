"""A persistent mapping: a change does not copy the whole mapping.

1. A mapping is a shared ``base`` that never changes, and a small ``delta`` over it. A change copies
   the delta; once that exceeds the square root of the base, both are merged into a new base. So
   a change among n entries costs O(sqrt(n)) on average.
2. Iteration is in the order of first insertion, as in a ``dict``.
3. Two mappings are equal if their entries are equal.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

LEAST_DELTA = 32


class PersistentMap(Mapping[K, V]):
    """An immutable mapping; see the module."""

    __slots__ = ("_base", "_delta", "_length")

    def __init__(self, base: Mapping[K, V] | None = None) -> None:
        """Wrap ``base``, which must not change from now on."""
        self._base: Mapping[K, V] = {} if base is None else base
        self._delta: dict[K, V] = {}
        self._length = len(self._base)

    def __getitem__(self, key: K) -> V:
        """Return the value of a key."""
        return self._delta[key] if key in self._delta else self._base[key]

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in the order of first insertion."""
        yield from self._base
        yield from (key for key in self._delta if key not in self._base)

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._length

    def __contains__(self, key: object) -> bool:
        """Return whether the key is present."""
        return key in self._delta or key in self._base

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal entries."""
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the number of entries."""
        return f"PersistentMap({self._length} entries)"

    def with_entries(
        self, entries: Mapping[K, V], keep: Callable[[V], bool] | None = None
    ) -> "PersistentMap[K, V]":
        """Return the mapping with entries added or replaced.

        Values that ``keep`` rejects are removed when the base is rebuilt, so some may stay for a
        while.
        """
        if not entries:
            return self
        delta = {**self._delta, **entries}
        if len(delta) ** 2 > max(len(self._base), LEAST_DELTA**2):
            merged = {**self._base, **delta}
            wanted = merged if keep is None else {k: v for k, v in merged.items() if keep(v)}
            return PersistentMap(wanted)
        changed: PersistentMap[K, V] = PersistentMap(self._base)
        changed._delta = delta
        changed._length = len(self._base) + sum(key not in self._base for key in delta)
        return changed

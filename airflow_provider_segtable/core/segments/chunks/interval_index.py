"""A persistent sorted index of items whose ranges may overlap, such as time chunks.

1. Items are sorted by ``key``, and keys sort by start first. An item replaces one of equal key.
2. Items lie in blocks of at most ``2 * BLOCK``; each block stores the highest end of its items. A
   range query skips blocks that end before the range, so one wide item costs only its own block.
   It begins at the first block up to which an end passes the start of the range.
3. Each change returns a new value that shares all untouched blocks: among n items it copies
   n / BLOCK + BLOCK references, not n.

``Spans`` is for ranges that rarely overlap, and joins overlapping ones; this index is for any.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import Any, Generic, TypeVar

from airflow_provider_segtable.core.segments.chunks.spans import Ranged

BLOCK = 64

T = TypeVar("T", bound=Ranged)

_key = attrgetter("key")


@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """Neighbouring items (at least one) and their highest end."""

    items: tuple[T, ...]
    end: int

    @property
    def first(self) -> Any:
        """Return the lowest key."""
        return self.items[0].key

    @property
    def start(self) -> int:
        """Return the lowest start."""
        return self.items[0].start


_first = attrgetter("first")
_start = attrgetter("start")
_end = attrgetter("end")


@dataclass(frozen=True, slots=True, eq=False)
class IntervalIndex(Generic[T]):
    """An immutable index; see the module. Equal indexes may be split into different blocks."""

    blocks: tuple[Block[T], ...] = ()
    _ends: list[int] = field(default_factory=list, repr=False)

    @staticmethod
    def of(items: Iterable[T]) -> "IntervalIndex[T]":
        """Build the index from items with distinct keys."""
        return IntervalIndex(_blocks(tuple(sorted(items, key=_key))))

    def __eq__(self, other: object) -> bool:
        """Return whether both indexes contain the same items."""
        return isinstance(other, IntervalIndex) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[T]:
        """Yield all items by key."""
        return (item for block in self.blocks for item in block.items)

    def __bool__(self) -> bool:
        """Return whether the index has any items."""
        return bool(self.blocks)

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        """Yield the items that overlap a range, by key; touching ranges do not overlap."""
        until = bisect_left(self.blocks, end, key=_start)
        for block in self.blocks[bisect_right(self._highest_ends(), start, 0, until) : until]:
            if block.end > start:
                for item in block.items:
                    if item.start >= end:
                        break
                    if start < item.end:
                        yield item

    def _highest_ends(self) -> list[int]:
        """Return the highest end up to each block; computed at the first query."""
        if len(self._ends) != len(self.blocks):
            self._ends[:] = accumulate(map(_end, self.blocks), max)
        return self._ends

    def find(self, key: Any) -> T | None:
        """Return the item with this key, or None."""
        at = self._block(key)
        if at < 0:
            return None
        items = self.blocks[at].items
        index = bisect_left(items, key, key=_key)
        return items[index] if index < len(items) and items[index].key == key else None

    def changed(self, before: "IntervalIndex[T]") -> Iterator[T]:
        """Yield the items that an earlier index has not, and its items that this one has not.

        An item that was replaced by another one of its key is yielded once. Blocks that both share
        are not looked at.
        """
        now, then = (_outside(*pair) for pair in ((self, before), (before, self)))
        for key in {**now, **then}:
            ours, theirs = now.get(key), then.get(key)
            if ours is not theirs and ours != theirs:
                yield theirs if ours is None else ours  # type: ignore[misc]  # one is an item

    def put(self, item: T) -> "IntervalIndex[T]":
        """Add an item, replacing an item with an equal key."""
        at = max(self._block(item.key), 0)
        items = self.blocks[at].items if self.blocks else ()
        index = bisect_left(items, item.key, key=_key)
        same = index < len(items) and items[index].key == item.key
        return self._with(at, (*items[:index], item, *items[index + same :]))

    def drop(self, key: Any) -> "IntervalIndex[T]":
        """Remove the item with this key, if present."""
        if self.find(key) is None:
            return self
        at = self._block(key)
        return self._with(at, tuple(i for i in self.blocks[at].items if i.key != key))

    def _block(self, key: Any) -> int:
        """Return the index of the block that this key belongs in; -1 before the first block."""
        return bisect_right(self.blocks, key, key=_first) - 1

    def _with(self, at: int, items: tuple[T, ...]) -> "IntervalIndex[T]":
        return IntervalIndex(self.blocks[:at] + _blocks(items) + self.blocks[at + 1 :])


def _outside(index: IntervalIndex[T], other: IntervalIndex[T]) -> dict[Any, T]:
    """Return the items in blocks that the other index does not share, by key."""
    shared = {id(block) for block in other.blocks}
    return {item.key: item for b in index.blocks if id(b) not in shared for item in b.items}


def _blocks(items: tuple[T, ...]) -> tuple[Block[T], ...]:
    if not items:
        return ()
    size = len(items) if len(items) <= 2 * BLOCK else BLOCK
    parts = (items[at : at + size] for at in range(0, len(items), size))
    return tuple(Block(part, max(item.end for item in part)) for part in parts)

"""A persistent sorted index of items with ranges that may overlap, as time chunks do.

1. Items are sorted by ``key``, and keys sort by start first. Equal keys replace each other.
2. Items lie in blocks of at most ``2 * BLOCK``; each block knows the highest end of its items. A
   range query skips blocks that end before the range, so one wide item costs its own block only.
3. Each change returns a new value that shares all untouched blocks: among n items it copies
   n / BLOCK + BLOCK references, not n.

``Spans`` serves ranges that hardly overlap, and joins those that do; this serves any.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from airflow_provider_segtable.core.segments.spans import Ranged

BLOCK = 64

T = TypeVar("T", bound=Ranged)

_key = attrgetter("key")


@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """Neighbouring items, at least one, and the highest end among them."""

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


@dataclass(frozen=True, slots=True, eq=False)
class IntervalIndex(Generic[T]):
    """A value; see the module. Equal sets may be cut into different blocks."""

    blocks: tuple[Block[T], ...] = ()

    @staticmethod
    def of(items: Iterable[T]) -> "IntervalIndex[T]":
        """Build from items of different keys at once."""
        return IntervalIndex(_blocks(tuple(sorted(items, key=_key))))

    def __eq__(self, other: object) -> bool:
        """Tell whether both hold the same items."""
        return isinstance(other, IntervalIndex) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[T]:
        """Yield all items by key."""
        return (item for block in self.blocks for item in block.items)

    def __bool__(self) -> bool:
        """Tell whether there is any item."""
        return bool(self.blocks)

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        """Yield the items that overlap a range, by key; touching is not overlapping."""
        for block in self.blocks[: bisect_left(self.blocks, end, key=_start)]:
            if block.end > start:
                for item in block.items:
                    if item.start < end and start < item.end:
                        yield item

    def find(self, key: Any) -> T | None:
        """Return the item of this key."""
        at = self._block(key)
        if at < 0:
            return None
        items = self.blocks[at].items
        index = bisect_left(items, key, key=_key)
        return items[index] if index < len(items) and items[index].key == key else None

    def put(self, item: T) -> "IntervalIndex[T]":
        """Add an item, or replace the one of equal key."""
        at = max(self._block(item.key), 0)
        items = self.blocks[at].items if self.blocks else ()
        index = bisect_left(items, item.key, key=_key)
        same = index < len(items) and items[index].key == item.key
        return self._with(at, (*items[:index], item, *items[index + same :]))

    def drop(self, key: Any) -> "IntervalIndex[T]":
        """Take away the item of this key, if there is one."""
        if self.find(key) is None:
            return self
        at = self._block(key)
        return self._with(at, tuple(i for i in self.blocks[at].items if i.key != key))

    def _block(self, key: Any) -> int:
        """Return the number of the block that an item of this key lies in; -1 before the first."""
        return bisect_right(self.blocks, key, key=_first) - 1

    def _with(self, at: int, items: tuple[T, ...]) -> "IntervalIndex[T]":
        return IntervalIndex(self.blocks[:at] + _blocks(items) + self.blocks[at + 1 :])


def _blocks(items: tuple[T, ...]) -> tuple[Block[T], ...]:
    if not items:
        return ()
    size = len(items) if len(items) <= 2 * BLOCK else BLOCK
    parts = (items[at : at + size] for at in range(0, len(items), size))
    return tuple(Block(part, max(item.end for item in part)) for part in parts)

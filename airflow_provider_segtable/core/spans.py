"""Persistent sorted collections of ranged items: ``Spans`` and ``IntervalIndex``.

They serve both dimensions of the timeline: groups by root range, chunks by interval. ``Spans`` is
for ranges that rarely overlap, and joins overlapping ones; ``IntervalIndex`` is for any ranges.

1. Items are sorted by ``key``, and keys sort by start first. So iteration is by start.
2. Each change returns a new value that shares all untouched parts. The parts lie in blocks of at
   most ``2 * BLOCK``, so a change among n of them copies n / BLOCK + BLOCK references, not n.
3. The parts of ``Spans`` are *cells*, disjoint and sorted. The items of a cell are connected by
   overlaps, and the cell's range is the union of theirs. Touching ranges do not overlap.
4. The parts of ``IntervalIndex`` are the items, such as time chunks; their ranges may overlap. An
   item replaces one of equal key.
5. Each block of ``IntervalIndex`` stores the highest end of its items. A range query skips blocks
   that end before the range, so one wide item costs only its own block. It begins at the first
   block up to which an end passes the start of the range.
6. A block never changes, so what was once computed from its items holds as long as it is there.
   ``notes`` has room for it.
7. A ``StoredBlock`` loads its items at the first question about them. Its keys and its range are
   known before, so questions about other items do not load it. A change inside it replaces it by
   loaded blocks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass

BLOCK = 64


class Ranged(Protocol):
    """An item with a half-open range and an ordered key that determines the range."""

    @property
    def key(self) -> Any:
        """Return the unique key of the item; keys sort by start first."""

    @property
    def start(self) -> int:
        """Return the first position of the range."""

    @property
    def end(self) -> int:
        """Return the first position after the range."""


T = TypeVar("T", bound=Ranged)

_key = attrgetter("key")
_start = attrgetter("start")
_end = attrgetter("end")


# Items that overlap share a cell
@dataclass(frozen=True, slots=True)
class Cell(Generic[T]):
    """Items connected by overlaps, sorted by key, and the union of their ranges."""

    start: int
    end: int
    items: tuple[T, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Spans(Generic[T]):
    """An immutable set; see the module. Equal sets may be split into different blocks."""

    blocks: tuple[tuple[Cell[T], ...], ...] = ()

    @staticmethod
    def of(items: Iterable[T]) -> "Spans[T]":
        """Build the set from items in any order."""
        return Spans(_blocks(_cells(sorted(items, key=_key))))

    def __eq__(self, other: object) -> bool:
        """Return whether both sets contain the same items."""
        return isinstance(other, Spans) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[T]:
        """Yield all items by start."""
        return (item for block in self.blocks for cell in block for item in cell.items)

    def __bool__(self) -> bool:
        """Return whether the set has any items."""
        return bool(self.blocks)

    def cells(self, start: int, end: int) -> Iterator[Cell[T]]:
        """Yield the cells that overlap a range."""
        at, index = self._first_ending_after(start)
        while at < len(self.blocks):
            block = self.blocks[at]
            while index < len(block):
                cell = block[index]
                if cell.start >= end:
                    return
                yield cell
                index += 1
            at, index = at + 1, 0

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        """Yield the items that overlap a range."""
        for cell in self.cells(start, end):
            for item in cell.items:
                if item.start < end and start < item.end:
                    yield item

    def find(self, start: int, end: int, key: Any) -> T | None:
        """Return the item with this range and key, or None."""
        for cell in self.cells(start, end):
            at = bisect_left(cell.items, key, key=_key)
            if at < len(cell.items) and cell.items[at].key == key:
                return cell.items[at]
        return None

    def put(self, item: T) -> "Spans[T]":
        """Add an item, replacing an item with an equal key."""
        touched = tuple(self.cells(item.start, item.end))
        if not touched:
            return self.splice(item.start, item.end, (item,))
        items = touched[0].items
        if len(touched) > 1:
            items = tuple(sorted(chain.from_iterable(c.items for c in touched), key=_key))
        at = bisect_left(items, item.key, key=_key)
        same = at < len(items) and items[at].key == item.key
        start, end = min(touched[0].start, item.start), max(touched[-1].end, item.end)
        joined = Cell(start, end, (*items[:at], item, *items[at + same :]))
        return self._spliced(start, end, (joined,))

    def drop(self, item: T) -> "Spans[T]":
        """Remove the item with an equal range and key, if present."""
        for cell in self.cells(item.start, item.end):
            rest = [other for other in cell.items if other.key != item.key]
            if len(rest) < len(cell.items):
                return self._spliced(cell.start, cell.end, _cells(rest))
        return self

    def splice(self, start: int, end: int, items: Sequence[T]) -> "Spans[T]":
        """Replace all cells that overlap a range by items within it, sorted by key."""
        return self._spliced(start, end, _cells(items))

    def without(self, other: "Spans[T]") -> Iterator[T]:
        """Yield the items that are not in another set; shared blocks are not looked at."""
        shared = {id(block) for block in other.blocks}
        for block in (block for block in self.blocks if id(block) not in shared):
            for item in (item for cell in block for item in cell.items):
                known = other.find(item.start, item.end, item.key)
                if known is not item and known != item:
                    yield item

    def _spliced(self, start: int, end: int, cells: Sequence[Cell[T]]) -> "Spans[T]":
        blocks = self.blocks
        left, left_index = self._first_ending_after(start)
        right = bisect_left(blocks, end, key=lambda block: block[-1].start)
        after: tuple[Cell[T], ...] = ()
        if right < len(blocks):
            after = blocks[right][bisect_left(blocks[right], end, key=_start) :]
        if left == len(blocks) and blocks:
            left, left_index = left - 1, len(blocks[-1])
        before = blocks[left][:left_index] if blocks else ()
        middle = (*before, *cells, *after)
        return Spans(blocks[:left] + _blocks(middle) + blocks[right + 1 :])

    def _first_ending_after(self, position: int) -> tuple[int, int]:
        at = bisect_right(self.blocks, position, key=lambda block: block[-1].end)
        if at == len(self.blocks):
            return at, 0
        return at, bisect_right(self.blocks[at], position, key=_end)


def _blocks(cells: Sequence[Cell[T]]) -> tuple[tuple[Cell[T], ...], ...]:
    if len(cells) <= 2 * BLOCK:
        return (tuple(cells),) if cells else ()
    return tuple(tuple(cells[at : at + BLOCK]) for at in range(0, len(cells), BLOCK))


def _cells(items: Sequence[T]) -> list[Cell[T]]:
    cells: list[Cell[T]] = []
    members: list[T] = []
    start = end = 0
    for item in items:
        if members and item.start < end:
            members.append(item)
            end = max(end, item.end)
            continue
        if members:
            cells.append(Cell(start, end, tuple(members)))
        members, start, end = [item], item.start, item.end
    if members:
        cells.append(Cell(start, end, tuple(members)))
    return cells


# Items of any ranges, in blocks that know their highest end
@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """Neighbouring items (at least one) and their highest end; ``notes`` as rule 6."""

    items: tuple[T, ...]
    end: int
    notes: list[Any] = field(default_factory=list, compare=False, repr=False)

    @property
    def first(self) -> Any:
        """Return the lowest key."""
        return self.items[0].key

    @property
    def start(self) -> int:
        """Return the lowest start."""
        return self.items[0].start

    @property
    def name(self) -> None:
        """Return None: no other block is known to have equal items."""
        return None

    def find(self, key: Any) -> T | None:
        """Return the item with this key, or None."""
        items = self.items
        index = bisect_left(items, key, key=_key)
        return items[index] if index < len(items) and items[index].key == key else None

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        """Yield the items that overlap a range, by key."""
        for item in self.items:
            if item.start >= end:
                break
            if start < item.end:
                yield item

    def put(self, item: T) -> "tuple[AnyBlock[T], ...]":
        """Return the blocks with an item more, or in the place of one of its key."""
        items = self.items
        index = bisect_left(items, item.key, key=_key)
        same = index < len(items) and items[index].key == item.key
        return _interval_blocks((*items[:index], item, *items[index + same :]))

    def drop(self, key: Any) -> "tuple[AnyBlock[T], ...]":
        """Return the blocks without the item of this key."""
        return _interval_blocks(tuple(item for item in self.items if item.key != key))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlock(Generic[T]):
    """Neighbouring items (at least one) that are loaded on demand; rule 7.

    Attributes:
        first: the lowest key.
        last: the highest key.
        start: the lowest start.
        end: the highest end.
        name: equal for blocks with equal items; None if that is not known.
        load: returns the items. It may keep them for the next question.
    """

    first: Any
    last: Any
    start: int
    end: int
    name: str | None = None
    load: "Callable[[], IntervalIndex[T]]"
    notes: list[Any] = field(default_factory=list, compare=False, repr=False)

    @property
    def items(self) -> tuple[T, ...]:
        """Return all items by key."""
        return tuple(self.load())

    def find(self, key: Any) -> T | None:
        """Return the item with this key, or None."""
        return self.load().find(key) if self._spans(key) else None

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        """Yield the items that overlap a range, by key."""
        return self.load().overlapping(start, end)

    def put(self, item: T) -> "tuple[AnyBlock[T], ...]":
        """Return the blocks with an item more, or in the place of one of its key."""
        if self._spans(item.key):
            return self.load().put(item).blocks
        alone = _interval_blocks((item,))
        return (self, *alone) if self.first < item.key else (*alone, self)

    def drop(self, key: Any) -> "tuple[AnyBlock[T], ...]":
        """Return the blocks without the item of this key."""
        return self.load().drop(key).blocks

    def _spans(self, key: Any) -> bool:
        return not (key < self.first or self.last < key)


AnyBlock = Block[T] | StoredBlock[T]
_first = attrgetter("first")


@dataclass(frozen=True, slots=True, eq=False)
class IntervalIndex(Generic[T]):
    """An immutable index; see the module. Equal indexes may be split into different blocks."""

    blocks: tuple[AnyBlock[T], ...] = ()
    _ends: list[int] = field(default_factory=list, repr=False)

    @staticmethod
    def of(items: Iterable[T]) -> "IntervalIndex[T]":
        """Build the index from items with distinct keys."""
        return IntervalIndex(_interval_blocks(tuple(sorted(items, key=_key))))

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

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the lowest start and the highest end; None if the index is empty."""
        return (self.blocks[0].start, self._highest_ends()[-1]) if self.blocks else None

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        """Yield the items that overlap a range, by key; touching ranges do not overlap."""
        for block in self.blocks_over(start, end):
            yield from block.overlapping(start, end)

    def blocks_over(self, start: int, end: int) -> list[AnyBlock[T]]:
        """Return the blocks whose ranges overlap a range; they may have no item that does."""
        until = bisect_left(self.blocks, end, key=_start)
        first = bisect_right(self._highest_ends(), start, 0, until)
        return [block for block in self.blocks[first:until] if block.end > start]

    def _highest_ends(self) -> list[int]:
        """Return the highest end up to each block; computed at the first query."""
        if len(self._ends) != len(self.blocks):
            self._ends[:] = accumulate(map(_end, self.blocks), max)
        return self._ends

    def find(self, key: Any) -> T | None:
        """Return the item with this key, or None."""
        at = self._block(key)
        return None if at < 0 else self.blocks[at].find(key)

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
        new = self.blocks[at].put(item) if self.blocks else _interval_blocks((item,))
        return self._with(at, new)

    def drop(self, key: Any) -> "IntervalIndex[T]":
        """Remove the item with this key, if present."""
        if self.find(key) is None:
            return self
        at = self._block(key)
        return self._with(at, self.blocks[at].drop(key))

    def _block(self, key: Any) -> int:
        """Return the index of the block that this key belongs in; -1 before the first block."""
        return bisect_right(self.blocks, key, key=_first) - 1

    def _with(self, at: int, new: tuple[AnyBlock[T], ...]) -> "IntervalIndex[T]":
        return IntervalIndex(self.blocks[:at] + new + self.blocks[at + 1 :])


def _outside(index: IntervalIndex[T], other: IntervalIndex[T]) -> dict[Any, T]:
    """Return the items in blocks that the other index does not share, by key."""
    shared = {_identity(block) for block in other.blocks}
    own = (block for block in index.blocks if _identity(block) not in shared)
    return {item.key: item for block in own for item in block.items}


def _identity(block: AnyBlock[T]) -> int | str:
    """Return a value that only blocks with equal items share."""
    return id(block) if block.name is None else block.name


def _interval_blocks(items: tuple[T, ...]) -> tuple[AnyBlock[T], ...]:
    if not items:
        return ()
    size = len(items) if len(items) <= 2 * BLOCK else BLOCK
    parts = (items[at : at + size] for at in range(0, len(items), size))
    return tuple(Block(part, max(item.end for item in part)) for part in parts)

"""The persistent sorted set, against a plain list, over more items than fit into one block."""

import random
from dataclasses import dataclass

from airflow_provider_segtable.core.spans import BLOCK, Spans

MANY = 5 * BLOCK


@dataclass(frozen=True, slots=True)
class Item:
    """An item whose key is its range and a mark."""

    start: int
    end: int
    mark: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """Return the key."""
        return self.start, self.end, self.mark


def check(spans: Spans[Item], items: set[Item]) -> None:
    """Compare every answer with the list."""
    every = sorted(items, key=lambda item: item.key)
    assert list(spans) == every
    assert bool(spans) == bool(every)
    assert spans == Spans.of(reversed(every))
    assert max(map(len, spans.blocks), default=0) <= 2 * BLOCK
    for start in range(-1, 10 * MANY + 1, 7 * BLOCK - 1):
        end = start + 20 * BLOCK
        wanted = [each for each in every if each.start < end and start < each.end]
        assert list(spans.overlapping(start, end)) == wanted


def test_two_sets_are_equal_if_their_items_are() -> None:
    """However they are split into blocks; other values are no sets."""
    some = Spans.of([Item(0, 2), Item(5, 7)])
    assert some == Spans.of([Item(0, 2)]).put(Item(5, 7))
    assert some != Spans.of([Item(0, 2)])
    assert some != Spans.of([Item(0, 2), Item(5, 8)])
    assert some != [Item(0, 2), Item(5, 7)]


def test_items_of_all_blocks_are_found() -> None:
    """The first and the last of each, too."""
    items = {Item(10 * at, 10 * at + 5) for at in range(MANY)}
    spans = Spans.of(items)
    assert len(spans.blocks) == 5
    check(spans, items)
    for item in items:
        assert spans.find(item.start, item.end, item.key) == item
        assert spans.find(item.start, item.end, (item.start, item.end, 1)) is None


def test_blocks_are_split_above_twice_their_size() -> None:
    """Up to it the items stay together."""
    items = [Item(at, at + 1) for at in range(2 * BLOCK + 1)]
    assert [len(block) for block in Spans.of(items[:-1]).blocks] == [2 * BLOCK]
    assert [len(block) for block in Spans.of(items).blocks] == [BLOCK, BLOCK, 1]


def test_a_cell_is_what_overlaps() -> None:
    """Touching items do not; an item joins all cells that it overlaps."""
    spans = Spans.of([Item(0, 2), Item(2, 4), Item(6, 8)])
    assert [(cell.start, cell.end) for cell in spans.cells(0, 8)] == [(0, 2), (2, 4), (6, 8)]
    joined = spans.put(Item(1, 7))
    assert [(cell.start, cell.end) for cell in joined.cells(0, 8)] == [(0, 8)]
    assert joined.drop(Item(1, 7)) == spans
    assert len(list(joined.drop(Item(1, 7)).cells(0, 8))) == 3
    assert spans.drop(Item(6, 9)) == spans


def test_any_changes_give_what_a_list_gives() -> None:
    """Items are put, put again, and dropped, among many."""
    draw = random.Random(7)
    items = {Item(10 * at, 10 * at + 5) for at in range(MANY)}
    spans = Spans.of(items)
    for turn in range(400):
        start = draw.randrange(10 * MANY)
        item = Item(start, start + draw.choice((1, 5, 30)), draw.randrange(2))
        present = draw.choice(sorted(items, key=lambda each: each.key))
        if draw.random() < 0.5:
            spans, items = spans.put(item), items | {item}
        else:
            spans, items = spans.drop(present), items - {present}
        if turn % 40 == 0:
            check(spans, items)
    check(spans, items)

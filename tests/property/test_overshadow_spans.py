"""The persistent sorted set of ranged items, against a plain list."""

import random
from itertools import chain, pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.spans import BLOCK, Spans
from tests.examples import examples


class Item(NamedTuple):
    """A ranged item; ``tag`` tells equal ranges apart, ``value`` is what put replaces."""

    start: int
    end: int
    tag: int
    value: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Return everything but the value."""
        return self.start, self.end, self.tag


def item(draw: random.Random, positions: int, width: int) -> Item:
    start = draw.randrange(positions)
    return Item(start, start + draw.randint(1, width), draw.randrange(2), draw.randrange(100))


def check(spans: Spans[Item], naive: dict[tuple[int, int, int], Item]) -> None:
    items = sorted(naive.values())
    assert list(spans) == items
    assert bool(spans) == bool(items)
    assert spans == Spans.of(items)
    cells = list(chain.from_iterable(spans.blocks))
    assert cells == list(chain.from_iterable(Spans.of(items).blocks)), "cells are not canonical"
    assert all(a.end <= b.start for a, b in pairwise(cells))
    assert all(0 < len(block) <= 2 * BLOCK for block in spans.blocks)


@examples(60)
@given(st.randoms(use_true_random=False), st.sampled_from([(8, 4), (40, 6), (1000, 2)]))
def test_any_puts_and_drops_equal_a_plain_list(draw: random.Random, shape: tuple[int, int]) -> None:
    """After each change the items, their cells and every query are those of a fresh build."""
    spans, naive = Spans[Item].of(()), dict[tuple[int, int, int], Item]()
    for _ in range(40):
        before, old = spans, list(spans)
        new = item(draw, *shape)
        if draw.random() < 0.6:
            spans, naive[new.key] = spans.put(new), new
        else:
            gone = draw.choice(list(naive.values())) if naive else new
            spans = spans.drop(gone)
            naive.pop(gone.key, None)
        check(spans, naive)
        assert list(before) == old, "a change reached into the old value"
        start, end = new.start, new.start + draw.randint(1, 2 * shape[1])
        expected = [i for i in sorted(naive.values()) if i.start < end and start < i.end]
        assert list(spans.overlapping(start, end)) == expected
        assert spans.find(new.start, new.end, new.key) == naive.get(new.key)


@examples(15)
@given(st.randoms(use_true_random=False))
def test_splices_across_many_blocks_equal_a_plain_list(draw: random.Random) -> None:
    """A range is emptied and refilled at once, wherever it begins and ends."""
    naive = {i.key: i for i in (Item(at, at + 1, 0, 0) for at in range(0, 1000, 2))}
    spans = Spans.of(naive.values())
    for value in range(1, 10):
        start, end = sorted(draw.sample(range(-5, 1010), 2))
        for cell in spans.cells(start, end):
            start, end = min(start, cell.start), max(end, cell.end)
        step = draw.choice([1, 2, 50, 5000])
        new = [Item(at, at + 1, 0, value) for at in range(start, end, step)]
        spans = spans.splice(start, end, new)
        naive = {k: i for k, i in naive.items() if i.end <= start or end <= i.start}
        naive |= {i.key: i for i in new}
        check(spans, naive)


def test_a_change_copies_one_block_and_shares_the_rest() -> None:
    """Of ten thousand cells, putting one rebuilds a single block."""
    spans = Spans.of(Item(at, at + 1, 0, 0) for at in range(10_000))
    changed = spans.put(Item(5000, 5001, 0, 1))
    same = [a is b for a, b in zip(spans.blocks, changed.blocks, strict=True)]
    assert same.count(False) == 1

"""The persistent index of overlapping ranges, against a plain dictionary."""

import random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.spans import BLOCK, IntervalIndex
from tests.examples import examples
from tests.property.test_overshadow_spans import Item, item


def check(index: IntervalIndex[Item], naive: dict[tuple[int, int, int], Item]) -> None:
    items = sorted(naive.values())
    assert list(index) == items
    assert bool(index) == bool(items)
    assert index == IntervalIndex.of(items)
    assert all(0 < len(block.items) <= 2 * BLOCK for block in index.blocks)
    assert all(block.end == max(i.end for i in block.items) for block in index.blocks)


@examples(60)
@given(st.randoms(use_true_random=False), st.sampled_from([(8, 4), (40, 30), (1000, 2)]))
def test_any_puts_and_drops_equal_a_plain_dictionary(
    draw: random.Random, shape: tuple[int, int]
) -> None:
    """After each change the items and every query are those of a dictionary."""
    index, naive = IntervalIndex[Item].of(()), dict[tuple[int, int, int], Item]()
    for _ in range(40):
        before, old = index, list(index)
        new = item(draw, *shape)
        if draw.random() < 0.6:
            index, naive[new.key] = index.put(new), new
        else:
            gone = draw.choice(list(naive.values())) if naive else new
            index = index.drop(gone.key)
            naive.pop(gone.key, None)
        check(index, naive)
        assert list(before) == old, "a change reached into the old value"
        start, end = new.start, new.start + draw.randint(1, 2 * shape[1])
        expected = [i for i in sorted(naive.values()) if i.start < end and start < i.end]
        assert list(index.overlapping(start, end)) == expected
        assert index.find(new.key) == naive.get(new.key)


@given(st.integers(0, 2**32))
@examples(5)
def test_a_wide_item_over_many_narrow_ones_costs_one_block(seed: int) -> None:
    """A query beside one wide item looks into few blocks, however many items there are."""
    draw = random.Random(seed)
    narrow = [Item(at, at + 1, 0, 0) for at in range(40 * BLOCK)]
    index = IntervalIndex.of([Item(0, 40 * BLOCK, 1, 7), *narrow])
    at = draw.randrange(10 * BLOCK, 40 * BLOCK)
    assert [i.value for i in index.overlapping(at, at + 1)] == [7, 0]
    touched = [b for b in index.blocks if b.end > at and b.start < at + 1]
    assert len(touched) <= 3

"""Blocks of rows are skipped by values that they do not have, and matching rows are never lost."""

from itertools import product

import pytest

from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    IsNull,
    Not,
    Predicate,
    Value,
    can_equal,
    comparisons,
)
from tests.unit.core.test_predicate_bounds import BLOCKS, SIMPLE, holds

EQUAL, UNEQUAL = Compare("n", Compares.EQUAL, 2), Compare("n", Compares.UNEQUAL, 2)
OTHER = Compare("m", Compares.EQUAL, 2)


def excludes(predicate: Predicate, *values: Value) -> bool:
    """Return whether a block is skipped that has only these values in column n."""
    return not can_equal(predicate, lambda column, value: column != "n" or value in values)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_no_block_with_a_matching_row_is_skipped(block: tuple[int | None, ...]) -> None:
    """Of all small predicates and their negations, joined by and, or and not."""
    joined = (kind(pair) for pair in product(SIMPLE, repeat=2) for kind in (AllOf, AnyOf))
    for predicate in (*SIMPLE, *joined, AllOf(()), AnyOf(())):
        for each in (predicate, Not(predicate), Not(Not(predicate))):
            if any(holds(each, value) for value in block):
                assert not excludes(each, *block), each


@pytest.mark.parametrize(
    ("predicate", "skipped"),
    [
        (EQUAL, True),
        (Not(UNEQUAL), True),
        (Not(Not(EQUAL)), True),
        (Among("n", (2, None, 4)), True),
        (Among("n", ()), True),
        (Compare("n", Compares.LESS, None), True),
        (Not(Compare("n", Compares.EQUAL, None)), True),
        (AllOf((OTHER, EQUAL)), True),
        (Not(AnyOf((UNEQUAL, OTHER))), True),
        (AnyOf((EQUAL, Among("n", (5,)))), True),
        (UNEQUAL, False),
        (Not(EQUAL), False),
        (Not(Among("n", (2,))), False),
        (Among("n", (2, 3)), False),
        (Compare("n", Compares.AT_MOST, 2), False),
        (IsNull("n"), False),
        (AnyOf((EQUAL, OTHER)), False),
        (Not(AllOf((UNEQUAL, OTHER))), False),
    ],
    ids=str,
)
def test_blocks_without_the_values_are_skipped(predicate: Predicate, skipped: bool) -> None:  # noqa: FBT001
    """Of a block of 1 and 3, where that is all that the predicate can be true for."""
    assert excludes(predicate, 1, 3) is skipped


def test_comparisons_are_asked_for_as_their_negations_want() -> None:
    """Each is wanted to be true, or false within an odd number of negations."""
    predicate = AllOf((EQUAL, Not(AnyOf((OTHER, Not(IsNull("n")))))))
    assert [*comparisons(predicate)] == [(EQUAL, True), (OTHER, False), (IsNull("n"), True)]

"""Blocks of rows are skipped by the bounds of their columns, and matching rows are never lost."""

import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import combinations_with_replacement, product

import pytest

from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Bounds,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    Value,
    can_be,
)

NAN = float("nan")
VALUES = (None, 1, 2, 3)
BLOCKS = [block for n in (1, 2, 3) for block in combinations_with_replacement((None, 1, 3), n)]
SIMPLE: list[Predicate] = [
    *(Compare("n", how, value) for how in Compares for value in VALUES),
    *(Among("n", some) for some in ((), (2,), (None, 1), (0, 3), (None,))),
    IsNull("n"),
]
COMPARED = {
    Compares.EQUAL: lambda a, b: a == b,
    Compares.UNEQUAL: lambda a, b: a != b,
    Compares.LESS: lambda a, b: a < b,
    Compares.AT_MOST: lambda a, b: a <= b,
    Compares.MORE: lambda a, b: a > b,
    Compares.AT_LEAST: lambda a, b: a >= b,
}


def holds(predicate: Predicate, value: int | None) -> bool | None:
    """Return what SQL says of one row; None is unknown."""
    match predicate:
        case IsNull():
            return value is None
        case Compare(how=how, value=other):
            return None if value is None or other is None else COMPARED[how](value, other)
        case Among(values=values):
            if value is None and values:
                return None
            return True if value in values else None if None in values else False
        case Not(of=one):
            known = holds(one, value)
            return None if known is None else not known
        case AllOf(of=some) | AnyOf(of=some):
            found = {holds(one, value) for one in some}
            decides = isinstance(predicate, AnyOf)
            return decides if decides in found else None if None in found else not decides


def bounds(block: Sequence[int | None], *, nan: bool = False) -> Bounds:
    """Return the exact bounds of a block."""
    known = [value for value in block if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    return Bounds(low=low, high=high, nulls=block.count(None), rows=len(block), nan=nan)


def number(low: Value, high: Value, *, nan: bool = False) -> Bounds:
    """Return bounds of two rows without nulls."""
    return Bounds(low=low, high=high, nulls=0, rows=2, nan=nan)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_no_block_with_a_matching_row_is_skipped(block: tuple[int | None, ...]) -> None:
    """Of all small predicates and their negations, joined by and, or and not."""
    joined = (kind(pair) for pair in product(SIMPLE, repeat=2) for kind in (AllOf, AnyOf))
    for predicate in (*SIMPLE, *joined, AllOf(()), AnyOf(())):
        for each in (predicate, Not(predicate), Not(Not(predicate))):
            if any(holds(each, value) for value in block):
                assert can_be(each, lambda _: bounds(block)), each


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_that_bounds_exclude_is_skipped(block: tuple[int | None, ...]) -> None:
    """It is read only if a value from the least to the greatest, or a null, would match."""
    known = [value for value in block if value is not None]
    possible = {*(range(min(known), max(known) + 1) if known else ()), *({None} & {*block})}
    for simple in SIMPLE:
        for each in (simple,) if isinstance(simple, Among) else (simple, Not(simple)):
            assert can_be(each, lambda _: bounds(block)) == any(
                holds(each, value) for value in possible
            ), each


def test_and_needs_all_parts_and_or_one() -> None:
    """As does the negation of the other one."""
    yes, no = Compare("n", Compares.EQUAL, 1), Compare("n", Compares.EQUAL, 9)
    block = bounds((1, 1))
    for predicate, expected in (
        (AllOf((yes, no)), False),
        (AnyOf((yes, no)), True),
        (Not(AllOf((yes, no))), True),
        (Not(AllOf((yes, yes))), False),
        (Not(AnyOf((yes, no))), False),
        (Not(AnyOf((no, no))), True),
    ):
        assert can_be(predicate, lambda _: block) is expected, predicate


def test_each_test_is_compared_with_its_own_column() -> None:
    """A column without statistics excludes nothing, whatever the others say."""
    known = {"n": bounds((1, 1))}
    for column, expected in (("n", False), ("m", True)):
        assert can_be(Compare(column, Compares.EQUAL, 9), known.get) is expected
        assert can_be(IsNull(column), known.get) is expected


def test_unknown_bounds_skip_nothing() -> None:
    """Neither absent statistics, nor an unknown number of nulls, nor a bound of another kind."""
    assert can_be(Compare("n", Compares.EQUAL, 1), lambda _: None)
    some = Bounds(low=1, high=2, nulls=None, rows=2)
    assert can_be(IsNull("n"), lambda _: some)
    assert can_be(Not(IsNull("n")), lambda _: some)
    assert not can_be(Compare("n", Compares.EQUAL, 3), lambda _: some)
    for value, low, high in (
        (1, None, 0),
        (9, 0, None),
        (1, "2", "3"),
        ("1", 2, 3),
        (True, 2, 3),
        (1, False, False),
        (1.5, 2, 3),
        (Moment(1), Day(2), Day(3)),
        (Day(1), Moment(2), Moment(3)),
        (1, NAN, 0.5),
        (1, 2.0, NAN),
    ):
        assert can_be(Compare("n", Compares.EQUAL, value), lambda _, a=low, b=high: number(a, b))


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (1, 2, 3),
        (1, 2.0, 3.0),
        (1.5, 2.0, 3.0),
        (Decimal("1.5"), 2, 3),
        (Decimal("1.5"), 2.0, 3.0),
        ("a", "b", "c"),
        (False, True, True),
        (Moment(1), Moment(2), Moment(3)),
        (Day(1), Day(2), Day(3)),
    ],
)
def test_every_kind_of_value_is_compared(value: Value, low: Value, high: Value) -> None:
    """A value below the bounds is in no row; at the bounds it may be."""
    assert not can_be(Compare("n", Compares.EQUAL, value), lambda _: number(low, high))
    assert can_be(Compare("n", Compares.EQUAL, low), lambda _: number(low, high))
    assert can_be(Compare("n", Compares.EQUAL, high), lambda _: number(low, high))
    assert can_be(Compare("n", Compares.MORE, value), lambda _: number(low, high))
    assert not can_be(Compare("n", Compares.AT_MOST, value), lambda _: number(low, high))


def test_nan_is_above_all_bounds() -> None:
    """Where values may be NaN, only upper limits and equality skip a block."""
    kept = {Compares.MORE, Compares.AT_LEAST, Compares.UNEQUAL}
    block = number(1.0, 1.0, nan=True)
    for how in Compares:
        value = 1.0 if how is Compares.UNEQUAL else 9.0 if how in kept else 0.5
        assert can_be(Compare("n", how, value), lambda _: block) is (how in kept), how


@pytest.mark.parametrize("text", [False, True])
def test_a_large_set_is_as_many_comparisons(text: bool) -> None:  # noqa: FBT001
    """A block is kept if one of the values lies within its bounds, ends included."""
    some: list[Value] = [f"{n:04}" if text else n for n in range(0, 400, 10)]
    for low in range(-3, 405, 4):
        for high in (low, low + 5, low + 12):
            ends: list[Value] = [f"{n:04}" if text else n for n in (max(low, 0), max(high, 0))]
            block = Bounds(low=ends[0], high=ends[1], nulls=0, rows=9)
            bounds = {"n": block}.get
            one_by_one = any(can_be(Among("n", (one,)), bounds) for one in some)
            assert can_be(Among("n", (None, *some)), bounds) is one_by_one


@pytest.mark.parametrize(
    "made", [int, float, Decimal, str, Moment, Day], ids=lambda made: made.__name__
)
def test_a_large_set_is_in_bounds_as_its_values_are(made: Callable[[int], Value]) -> None:
    """Sorted once, it gives each block the answer of its values one by one."""
    values = tuple(made(10 * n if made is not str else 10 * n + 10_000) for n in range(100))
    large = Among("c", (*values, None))
    for low in range(-10, 1_010, 7):
        for width in (0, 3, 12):
            ends = (low, low + width) if made is not str else (low + 10_000, low + width + 10_000)
            block = Bounds(low=made(ends[0]), high=made(ends[1]), nulls=0, rows=5)
            one_by_one = any(
                can_be(Compare("c", Compares.EQUAL, value), lambda _, block=block: block)
                for value in values
            )
            assert can_be(large, lambda _, block=block: block) is one_by_one
    assert len(large.derived) == 1
    sent = pickle.loads(pickle.dumps(large))  # noqa: S301 - our own
    assert sent == large
    assert not sent.derived

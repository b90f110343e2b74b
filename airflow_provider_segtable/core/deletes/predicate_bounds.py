"""Whether a predicate can hold in a block of rows, by the bounds of its columns.

1. The answer is True unless the bounds exclude it: blocks are skipped, and rows never lost.
2. Bounds are inclusive and may be wider than the values. A bound that cannot be compared with the
   predicate's value (another kind of value, an inexact number) excludes nothing.
3. NaN is the largest number, and is in no bounds. ``predicate_logic`` has the logic.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from airflow_provider_segtable.core.deletes.predicate import (
    OPPOSITE,
    Among,
    Compares,
    Day,
    IsNull,
    Moment,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.deletes.predicate_logic import Comparison, possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a column's values in some rows; None is unknown.

    Attributes:
        low: the least value.
        high: the greatest value.
        nulls: number of nulls.
        rows: number of rows, nulls included.
        nan: whether a value may be NaN.
    """

    low: Value
    high: Value
    nulls: int | None
    rows: int
    nan: bool = False


_FEW = 32
"""Values of a set up to which each is compared with the bounds."""

BoundsOf: TypeAlias = Callable[[str], Bounds | None]


def can_be(predicate: Predicate, bounds_of: BoundsOf, *, wanted: bool = True) -> bool:
    """Return whether the predicate can be ``wanted`` for one of the rows."""

    def judge(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
        bounds = bounds_of(comparison.column)
        return bounds is None or _in_bounds(comparison, bounds, wanted=wanted)

    return possible(predicate, judge, wanted=wanted)


def _in_bounds(predicate: Comparison, bounds: Bounds, *, wanted: bool) -> bool:
    if isinstance(predicate, IsNull):
        return bounds.nulls is None or (bounds.nulls > 0 if wanted else bounds.nulls < bounds.rows)
    only_nulls = bounds.nulls == bounds.rows
    if isinstance(predicate, Among):
        if not wanted:
            return True  # no value is in an empty set, not even null
        return not only_nulls and _any_between(predicate.values, bounds)
    if only_nulls or predicate.value is None:
        return False
    how = predicate.how if wanted else OPPOSITE[predicate.how]
    return _compared(how, predicate.value, bounds)


def _any_between(values: tuple[Value, ...], bounds: Bounds) -> bool:
    order = _ordered(values) if len(values) > _FEW else None
    if order and type(order[0]) is type(bounds.low) is type(bounds.high):
        at = bisect_left(order, bounds.low)
        return at < len(order) and order[at] <= bounds.high
    given = (value for value in values if value is not None)
    return any(_compared(Compares.EQUAL, each, bounds) for each in given)


@lru_cache(maxsize=8)  # a set of thousands is asked for each block of a table
def _ordered(values: tuple[Value, ...]) -> list[Any] | None:
    """Return the values in order, if they are whole numbers or texts alike."""
    given: list[Any] = [value for value in values if value is not None]
    kinds = set(map(type, given))
    return sorted(given) if kinds in ({int}, {str}) else None


def _compared(how: Compares, value: Value, bounds: Bounds) -> bool:
    low, high = _same_kind(value, bounds.low), _same_kind(value, bounds.high)
    if low is None or high is None:
        return True
    (at, first), (_, last) = low, high
    match how:
        case Compares.EQUAL:
            return bool(first <= at <= last)
        case Compares.UNEQUAL:
            return bounds.nan or not first == at == last
        case Compares.LESS:
            return bool(first < at)
        case Compares.AT_MOST:
            return bool(first <= at)
        case Compares.MORE:
            return bounds.nan or bool(last > at)
        case Compares.AT_LEAST:
            return bounds.nan or bool(last >= at)


def _same_kind(value: Value, bound: Value) -> tuple[Any, Any] | None:
    """Return a value and a bound as Python compares them; None if they are not comparable."""
    if type(value) is type(bound) and isinstance(value, int | str | Decimal):
        return value, bound
    match value, bound:
        case (Moment(us=at), Moment(us=other)):
            return at, other
        case (Day(days=at), Day(days=other)):
            return at, other
        case (bool(), _) | (_, bool()):
            return None
        case (int() | float() | Decimal(), float()):
            return (float(value), bound) if bound == bound else None  # noqa: PLR0124 - not NaN
        case (int() | Decimal(), int() | Decimal()):
            return value, bound
    return None

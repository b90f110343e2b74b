"""Whether a predicate can hold in a block of rows, by the bounds of its columns.

1. The answer is True unless the bounds exclude it: blocks are skipped, and rows never lost.
2. Bounds are inclusive and may be wider than the values. A bound that cannot be compared with the
   predicate's value (another kind of value, an inexact number) excludes nothing.
3. NaN is the largest number, and is in no bounds. ``predicate_logic`` has the logic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
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
        values = (value for value in predicate.values if value is not None)
        return not only_nulls and any(_compared(Compares.EQUAL, each, bounds) for each in values)
    if only_nulls or predicate.value is None:
        return False
    how = predicate.how if wanted else OPPOSITE[predicate.how]
    return _compared(how, predicate.value, bounds)


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

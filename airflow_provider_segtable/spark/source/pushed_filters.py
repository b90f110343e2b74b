"""Filters that Spark hands to the data source, as a condition by which files are left out.

1. Spark evaluates every filter itself; here they only choose files. So a filter may become a weaker
   condition, or none, but never a stronger one. What Parquet's statistics can do with it, Spark's
   own reader does.
2. Filters are compared by the table's types. Spark cuts nanoseconds to microseconds, towards zero,
   so a comparison with one becomes wider by a microsecond.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    Value,
)
from airflow_provider_segtable.data.conditions import Condition, by_predicate

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

ToCatalyst = Callable[[Any], Any]
"""Converts one of Spark's external values to the number that Spark computes with."""

_COMPARES: Mapping[str, Compares] = {
    "EqualTo": Compares.EQUAL,
    "EqualNullSafe": Compares.EQUAL,
    "LessThan": Compares.LESS,
    "LessThanOrEqual": Compares.AT_MOST,
    "GreaterThan": Compares.MORE,
    "GreaterThanOrEqual": Compares.AT_LEAST,
}
_BELOW = {Compares.EQUAL, Compares.LESS, Compares.AT_MOST}
_ABOVE = {Compares.EQUAL, Compares.MORE, Compares.AT_LEAST}


def pushed_condition(
    filters: Iterable["JavaObject"], schema: pa.Schema, time_column: str, to_catalyst: ToCatalyst
) -> Condition | None:
    """Return what filters say about rows; None if nothing.

    Args:
        filters: filters of ``org.apache.spark.sql.sources``, all of which hold for wanted rows.
        schema: the table's columns.
        time_column: the event time.
        to_catalyst: see ``ToCatalyst``.
    """
    pushed = _Pushed(schema, to_catalyst)
    found = tuple(part for part in map(pushed.predicate, filters) if part)
    return by_predicate(AllOf(found), time_column) if found else None


@dataclass(frozen=True, slots=True)
class _Pushed:
    """Filters over the columns of a table."""

    schema: pa.Schema
    to_catalyst: ToCatalyst

    def predicate(self, each: "JavaObject") -> Predicate | None:
        """Return a predicate that holds wherever a filter does; None for any row."""
        name = each.getClass().getSimpleName()
        if name == "And":
            some = (self.predicate(each.left()), self.predicate(each.right()))
            parts = tuple(part for part in some if part)
            return AllOf(parts) if parts else None
        if name == "Or":
            either = (self.predicate(each.left()), self.predicate(each.right()))
            return AnyOf(tuple(part for part in either if part)) if all(either) else None
        if name not in {*_COMPARES, "In", "IsNull", "IsNotNull"}:
            return None
        column = _column(each.attribute())
        return None if column not in self.schema.names else self._of_column(name, column, each)

    def _of_column(self, name: str, column: str, each: "JavaObject") -> Predicate | None:
        if name in {"IsNull", "IsNotNull"}:
            return IsNull(column) if name == "IsNull" else Not(IsNull(column))
        kind = self.schema.field(column).type
        if name == "In":
            values = tuple(self._value(value, kind) for value in each.values() if value is not None)
            wide = pa.types.is_timestamp(kind) and kind.unit == "ns"
            return None if wide or None in values else Among(column, values)
        value = self._value(each.value(), kind)
        return None if value is None else _compared(column, _COMPARES[name], value, kind)

    def _value(self, given: Any, kind: pa.DataType) -> Value:
        """Return a filter's value as one of predicates; None if it cannot be compared exactly."""
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            at = self.to_catalyst(given)
            made = Day if pa.types.is_date(kind) else Moment
            return made(at) if isinstance(at, int) else None
        for known, python in (
            (pa.types.is_boolean, bool),
            (pa.types.is_signed_integer, int),
            (pa.types.is_string, str),
            (pa.types.is_large_string, str),
            (pa.types.is_floating, float),
        ):
            if known(kind) and type(given) is python:
                exact = not isinstance(given, float) or isfinite(given)
                value: Value = given
                return value if exact else None
        return None


def _column(attribute: str) -> str:
    """Return the column that an attribute names; a part of a struct is no column."""
    if attribute.startswith("`"):
        return attribute[1:-1].replace("``", "`")
    return "" if "." in attribute else attribute


def _compared(column: str, how: Compares, value: Value, kind: pa.DataType) -> Predicate:
    if not isinstance(value, Moment) or kind.unit != "ns":
        return Compare(column, how, value)
    below = Compare(column, Compares.LESS, Moment(value.us + 1))
    above = Compare(column, Compares.MORE, Moment(value.us - 1))
    return AllOf((*([below] if how in _BELOW else ()), *([above] if how in _ABOVE else ())))

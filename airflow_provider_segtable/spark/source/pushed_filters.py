"""Filters that Spark hands to the data source, as conditions on the event time.

Spark evaluates every filter itself; here they only choose files. So a filter may become a weaker
condition, or none, but never a stronger one. What Parquet's statistics can do with it, Spark's own
reader does.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.deletes.predicate import (
    AllOf,
    AnyOf,
    Compare,
    Compares,
    Day,
    Moment,
    Predicate,
)
from airflow_provider_segtable.data.arrow.conditions import Condition, by_predicate

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


def time_condition(
    filters: Iterable["JavaObject"], time_column: str, *, days: bool, to_catalyst: ToCatalyst
) -> Condition | None:
    """Return what filters say about the event time; None if nothing.

    Args:
        filters: filters of ``org.apache.spark.sql.sources``, all of which hold for wanted rows.
        time_column: the event time.
        days: whether the column has dates.
        to_catalyst: see ``ToCatalyst``.
    """

    def known(each: "JavaObject") -> Predicate | None:
        name = each.getClass().getSimpleName()
        if name == "And":
            parts = [part for part in map(known, (each.left(), each.right())) if part]
            return AllOf(tuple(parts)) if parts else None
        if name == "Or":
            either = (known(each.left()), known(each.right()))
            return AnyOf(tuple(part for part in either if part)) if all(either) else None
        if name not in _COMPARES or each.attribute().strip("`") != time_column:
            return None
        at = to_catalyst(each.value())
        if not isinstance(at, int):
            return None
        return Compare(time_column, _COMPARES[name], Day(at) if days else Moment(at))

    found = tuple(part for part in map(known, filters) if part)
    return by_predicate(AllOf(found), time_column) if found else None

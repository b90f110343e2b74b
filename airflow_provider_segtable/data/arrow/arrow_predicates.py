"""Evaluation of predicates on Arrow tables and batches, in three-valued logic.

Floating columns are compared as doubles, minus zero as zero and NaN as the largest number, so that
the result equals Spark's for the same predicate in SQL (``data.sql.sql_predicates.to_sql``).
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
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

_FUNCTIONS = {
    Compares.EQUAL: pc.equal,
    Compares.UNEQUAL: pc.not_equal,
    Compares.LESS: pc.less,
    Compares.AT_MOST: pc.less_equal,
    Compares.MORE: pc.greater,
    Compares.AT_LEAST: pc.greater_equal,
}


def matches(rows: pa.Table | pa.RecordBatch, predicate: Predicate) -> Any:
    """Return for each row whether it matches the predicate; null if unknown.

    Raises:
        InvalidInput: a value does not fit its column.
    """
    match predicate:
        case Compare(column=name, how=how, value=value):
            return _compared(_plain(rows.column(name)), how, value, name)
        case Among(column=name, values=values):
            return _among(_plain(rows.column(name)), values, name)
        case IsNull(column=name):
            return pc.is_null(rows.column(name))
        case Not(of=one):
            return pc.invert(matches(rows, one))
        case AllOf(of=some):
            return reduce(pc.and_kleene, (matches(rows, one) for one in some), _all(rows, True))
        case AnyOf(of=some):
            return reduce(pc.or_kleene, (matches(rows, one) for one in some), _all(rows, False))


def _all(rows: pa.Table | pa.RecordBatch, value: bool) -> pa.Array:  # noqa: FBT001
    return pa.repeat(pa.scalar(value), rows.num_rows)


def _compared(column: Any, how: Compares, value: Value, name: str) -> Any:
    if value is None:
        return _unknown(column)
    found = _FUNCTIONS[how](column, scalar(value, column.type, name))
    if pa.types.is_floating(column.type) and how in {Compares.MORE, Compares.AT_LEAST}:
        return pc.or_kleene(found, pc.is_nan(column))
    return found


def _among(column: Any, values: Sequence[Value], name: str) -> Any:
    given = [value for value in values if value is not None]
    known = pc.is_in(column, value_set=_plain(_array(given, column.type, name)))
    if not values:
        return known
    if len(given) < len(values):
        known = pc.if_else(known, True, pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(column), known, pa.scalar(None, pa.bool_()))


def _array(values: Sequence[Value], kind: pa.DataType, name: str) -> pa.Array:
    """Return values in their column's type: at once if they are of one plain type."""
    known: dict[type, bool] = {
        int: pa.types.is_integer(kind),
        str: pa.types.is_string(kind),
        float: pa.types.is_float64(kind),
        Decimal: pa.types.is_decimal128(kind),
        Moment: pa.types.is_timestamp(kind),
        Day: pa.types.is_date(kind),
    }
    (only, *more) = set(map(type, values)) or {type(None)}
    if not more and known.get(only, False):
        try:
            return _at_once(values, only, kind)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise InvalidInput(f"a value does not fit column {name!r}, {kind}: {error}") from None
    return pa.array([scalar(value, kind, name).as_py() for value in values], kind)


def _at_once(values: Any, of: type, kind: pa.DataType) -> pa.Array:
    """Return values of one type as ``scalar`` converts each."""
    if of is Moment:
        micros = pa.array([value.us for value in values], pa.int64())
        return micros.cast(pa.timestamp("us", kind.tz)).cast(kind)
    if of is Day:
        return pa.array([value.days for value in values], pa.int32()).cast(pa.date32()).cast(kind)
    return pa.array(values, kind)


def _unknown(column: Any) -> pa.Array:
    return pa.nulls(len(column), pa.bool_())


def _plain(column: Any) -> Any:
    """Convert a column so that Arrow compares equal values as equal."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        return pc.add(column.cast(pa.float64()), 0.0)  # minus zero becomes zero
    return column


def scalar(value: Value, kind: pa.DataType, name: str) -> pa.Scalar:
    """Return a predicate's value in its column's type.

    Raises:
        InvalidInput: the value does not fit the type.
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        match value:
            case Moment(us=us):
                return pa.scalar(us, pa.timestamp("us", getattr(kind, "tz", None))).cast(kind)
            case Day(days=days):
                return pa.scalar(days, pa.int32()).cast(pa.date32()).cast(kind)
            case int() if pa.types.is_integer(kind) and not isinstance(value, bool):
                return pa.scalar(value, kind)
            case int() if pa.types.is_decimal(kind) and not isinstance(value, bool):
                return pa.scalar(Decimal(value)).cast(kind)
            case _:
                return pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidInput(
            f"{value!r} is not a value of column {name!r}, {kind}: {error}"
        ) from None

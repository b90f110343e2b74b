"""Predicates as Arrow computes them: three-valued, on tables and batches."""

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
    """Return, for each row, whether the predicate holds for it; null where that is unknown.

    Raises:
        InvalidInput: a value does not fit its column.
    """
    match predicate:
        case Compare(column=name, how=how, value=value):
            column = rows.column(name)
            return _FUNCTIONS[how](_plain(column), scalar(value, column.type, name))
        case Among(column=name, values=values):
            column = _plain(rows.column(name))
            kind = column.type
            given = pa.array([scalar(value, kind, name).as_py() for value in values], kind)
            known = pc.is_in(column, value_set=given)
            return pc.if_else(pc.is_valid(column), known, pa.scalar(None, pa.bool_()))
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


def _plain(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def scalar(value: Value, kind: pa.DataType, name: str) -> pa.Scalar:
    """Return a predicate's value in the type of its column.

    Raises:
        InvalidInput: it does not fit.
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        match value:
            case Moment(us=us):
                return pa.scalar(us, pa.timestamp("us", getattr(kind, "tz", None))).cast(kind)
            case Day(days=days):
                return pa.scalar(days, pa.int32()).cast(pa.date32()).cast(kind)
            case _:
                return pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"{value!r} is no value of column {name!r}, {kind}: {error}") from None

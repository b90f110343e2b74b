"""Casts of Arrow values as Spark casts them (ANSI), and the types that it casts to unasked.

1. A cast that loses digits before the point, or whose text is no value, is an error. Digits after
   the point are rounded half up to a decimal, and cut off to an integer.
2. Two values of different types are brought to one: a text to the other's type (to ``bigint`` for
   any integer, to ``double`` for any other number), a date to a timestamp, numbers as in
   ``data.sql.arrow_numbers``.
3. Only Spark knows: floating numbers as text, numbers as times other than whole seconds.
"""

from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.time import MAX_INSTANT, MIN_INSTANT
from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql.computed_types import BINARY, TEXT, TIME
from airflow_provider_segtable.data.sql.decimal_results import Values
from airflow_provider_segtable.data.sql.text_values import (
    OnlySpark,
    as_day,
    as_decimal,
    as_double,
    as_instant,
    as_integer,
    as_truth,
)

_EXACT = Context(prec=1500, rounding=ROUND_HALF_UP)
_DATE = pa.date32()
_is = pa.types


def mapped(compute: Callable[..., Any], kind: pa.DataType, *given: Values) -> Values:
    """Return a function of values row by row; null where one of them is null."""
    if all(isinstance(each, pa.Scalar) for each in given):
        return mapped(compute, kind, *(pa.array([one.as_py()], one.type) for one in given))[0]
    rows = next(len(each) for each in given if not isinstance(each, pa.Scalar))
    columns = [
        [each.as_py()] * rows if isinstance(each, pa.Scalar) else each.to_pylist() for each in given
    ]
    found = [
        None if any(one is None for one in row) else compute(*row)
        for row in zip(*columns, strict=True)
    ]
    return pa.array(found, kind)


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type to which Spark brings two types.

    Raises:
        OnlySpark: it is not known here.
    """
    for one, other in ((left, right), (right, left)):
        if one == TEXT and other != TEXT:
            return _beside_text(other)
        if one == _DATE and other == TIME:
            return TIME
    if _is.is_nested(left) or _is.is_nested(right):
        raise OnlySpark(f"it brings {left} and {right} together")
    return numbers.common(left, right)


def common_of(kinds: "list[pa.DataType]") -> pa.DataType:
    """Return the type to which Spark brings several types."""
    return reduce(common, kinds)


def _beside_text(other: pa.DataType) -> pa.DataType:
    if _is.is_null(other):
        return TEXT
    if _is.is_integer(other):
        return pa.int64()
    if numbers.is_number(other):
        return pa.float64()
    if other in (pa.bool_(), TIME, _DATE, BINARY):
        return other
    raise OnlySpark(f"it brings text and {other} together")


def brought(values: Values, kind: pa.DataType) -> Values:
    """Return values in a common type."""
    if values.type == kind:
        return values
    if numbers.is_number(values.type) and numbers.is_number(kind):
        return numbers.widened(values, kind)
    return cast_to(values, kind)


def cast_to(values: Values, kind: pa.DataType) -> Values:
    """Return values cast to a type.

    Raises:
        ValueError, ArithmeticError, pyarrow.ArrowException: a value is none of the type.
        OnlySpark: this cast is not known here.
    """
    found = values.type
    if found == kind or _is.is_null(found):
        return pc.cast(values, kind)
    if found == TEXT:
        return _from_text(values, kind)
    if _is.is_boolean(found):
        return _from_truth(values, kind)
    if numbers.is_number(found):
        return _from_number(values, kind)
    if found in (TIME, _DATE):
        return _from_time(values, kind)
    raise _unknown(found, kind)


def comparable(kind: pa.DataType) -> pa.DataType:
    """Return a type that values are compared in; nulls are compared as booleans."""
    if pa.types.is_null(kind):
        return pa.bool_()
    plain = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or kind in (TEXT, BINARY)
    if not plain:
        raise OnlySpark(f"it compares {kind}")
    return kind


def tried(values: Values, kind: pa.DataType) -> Values:
    """Return values cast to a type; null where a value is none of it.

    Raises:
        OnlySpark: this cast is not known here.
    """
    faults = (ArithmeticError, ValueError, pa.ArrowException)
    try:
        return cast_to(values, kind)
    except faults:
        if isinstance(values, pa.Scalar):
            return pa.scalar(None, kind)

    def one(at: int) -> pa.Array:
        try:
            return cast_to(values.slice(at, 1), kind)
        except faults:
            return pa.nulls(1, kind)

    return pa.concat_arrays([one(at) for at in range(len(values))])


def _unknown(found: pa.DataType, kind: pa.DataType) -> OnlySpark:
    return OnlySpark(f"{_name(found)} is cast to {_name(kind)}")


def _name(kind: pa.DataType) -> str:
    return "text" if kind == TEXT else str(kind)


def _from_text(values: Values, kind: pa.DataType) -> Values:
    foldable = isinstance(values, pa.Scalar)
    if _is.is_integer(kind):
        return mapped(as_integer, pa.int64(), values).cast(kind)
    if _is.is_float64(kind):
        return mapped(as_double, kind, values)
    if _is.is_decimal128(kind):
        return mapped(lambda one: held(as_decimal(one), kind), kind, values)
    if _is.is_boolean(kind):
        return mapped(as_truth, kind, values)
    if kind == _DATE:
        days = mapped(lambda one: as_day(one, literal=foldable), pa.int32(), values)
        return days.cast(kind)
    if kind == TIME:
        micros = mapped(lambda one: as_instant(one, literal=foldable), pa.int64(), values)
        return micros.cast(kind)
    if kind == BINARY:
        return values.cast(kind)
    raise _unknown(TEXT, kind)


def _from_truth(values: Values, kind: pa.DataType) -> Values:
    if kind == TEXT or _is.is_integer(kind) or _is.is_floating(kind):
        return pc.cast(values, kind)
    if _is.is_decimal128(kind):
        return mapped(lambda one: held(Decimal(one), kind), kind, values)
    raise _unknown(values.type, kind)


def _from_number(values: Values, kind: pa.DataType) -> Values:
    found = values.type
    if _is.is_boolean(kind):
        zero = pa.scalar(Decimal(0)) if _is.is_decimal(found) else pa.scalar(0)
        return pc.not_equal(values, zero.cast(found))
    if _is.is_decimal128(kind):
        return mapped(lambda one: held(_decimal(one), kind), kind, values)
    if _is.is_integer(kind):
        return _whole(values, kind)
    if _is.is_floating(kind):
        return numbers.widened(values, kind)
    if kind == TEXT and _is.is_integer(found):
        return pc.cast(values, TEXT)
    if kind == TEXT and _is.is_decimal128(found):
        return mapped(lambda one: f"{one:f}", TEXT, values)
    if kind == TIME and _is.is_integer(found):
        return mapped(_of_seconds, pa.int64(), values).cast(kind)
    raise _unknown(found, kind)


def _whole(values: Values, kind: pa.DataType) -> Values:
    if _is.is_decimal128(values.type):
        return mapped(int, kind, values)
    if _is.is_floating(values.type):
        finite = pc.fill_null(pc.is_finite(values), True)
        if not pc.all(numbers.array(finite), min_count=0).as_py():
            raise ArithmeticError(f"infinity and NaN are no {kind}")
        values = pc.trunc(values)
    return values.cast(kind)


def _from_time(values: Values, kind: pa.DataType) -> Values:
    if kind == TIME:
        return values.cast(kind)
    if kind == _DATE:
        return pc.floor_temporal(values, unit="day").cast(kind)
    if kind == TEXT:
        return mapped(_day_text if values.type == _DATE else _time_text, TEXT, values)
    if kind == pa.int64() and values.type == TIME:
        return mapped(lambda one: one // 1_000_000, kind, values.cast(pa.int64()))
    raise _unknown(values.type, kind)


def _of_seconds(number: int) -> int:
    micros = number * 1_000_000
    if not MIN_INSTANT <= micros <= MAX_INSTANT:
        raise OnlySpark("a time is before the year 1 or after 9998")
    return micros


def _day_text(day: date) -> str:
    return day.isoformat()


def _time_text(time: datetime) -> str:
    text = time.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if time.microsecond else text


def _decimal(number: float | Decimal) -> Decimal:
    if isinstance(number, float):
        if not isfinite(number):
            raise OnlySpark(f"{number} is cast to a decimal")
        return Decimal(repr(number))
    return Decimal(number)


def held(number: Decimal, kind: pa.DataType) -> Decimal:
    """Return a number rounded to a decimal type.

    Raises:
        ArithmeticError: it has too many digits before the point.
    """
    found = number.quantize(Decimal(1).scaleb(-kind.scale, _EXACT), context=_EXACT)
    if found and found.adjusted() >= kind.precision - kind.scale:
        raise ArithmeticError(f"{number} has more digits than {kind}")
    return found

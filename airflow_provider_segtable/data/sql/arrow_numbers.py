"""Arithmetic of Spark's SQL (ANSI) on Arrow values.

1. Two numbers are brought to a common type: the wider integer; a decimal that holds both; float
   with float is float; all else with a floating number is double. Integers divide as doubles.
2. Overflow and division by zero are errors, as in Spark: no value is wrapped around.
3. Decimals are divided, and brought to 38 digits if a result needs more, by
   ``data.sql.decimal_results``: Arrow has other rules.
"""

from collections.abc import Callable
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.data.sql.decimal_results import (
    MOST_DIGITS,
    Values,
    differences,
    products,
    quotients,
    remainders,
    sums,
)
from airflow_provider_segtable.data.sql.text_values import OnlySpark

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    return kind in _INTEGERS or pa.types.is_floating(kind) or pa.types.is_decimal128(kind)


def number(text: str) -> pa.Scalar:
    """Return a literal in the type that Spark gives it: int, bigint, decimal or double."""
    from decimal import Decimal

    if "e" in text.lower():
        if not isfinite(float(text)):
            raise ValueError(f"{text} is too large")
        return pa.scalar(float(text), pa.float64())
    if "." in text:
        return pa.scalar(Decimal(text))
    whole = int(text)
    for kind, bits in ((pa.int32(), 31), (pa.int64(), 63)):
        if -(2**bits) <= whole < 2**bits:
            return pa.scalar(whole, kind)
    return pa.scalar(Decimal(whole))


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type to which Spark brings two types.

    Raises:
        OnlySpark: it is not known here.
    """
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if not (is_number(left) and is_number(right)):
        raise OnlySpark(f"it brings {left} and {right} together")
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    if left in _INTEGERS and right in _INTEGERS:
        return max(left, right, key=_INTEGERS.index)
    (left_whole, left_scale), (right_whole, right_scale) = _digits(left), _digits(right)
    scale = max(left_scale, right_scale)
    return _decimal(max(left_whole, right_whole) + scale, scale)


def widened(values: Values, kind: pa.DataType) -> Values:
    """Return values in a common type, or as a floating number."""
    if values.type == kind:
        return values
    if pa.types.is_decimal(kind) and values.type in _INTEGERS:
        values = values.cast(pa.decimal128(_DIGITS[values.type], 0))
    return cast(values, kind, safe=not pa.types.is_floating(kind))


def added(left: Values, right: Values) -> Values:
    """Return ``left + right``."""
    return _computed(pc.add_checked, sums, _sum_digits, left, right)


def subtracted(left: Values, right: Values) -> Values:
    """Return ``left - right``."""
    return _computed(pc.subtract_checked, differences, _sum_digits, left, right)


def multiplied(left: Values, right: Values) -> Values:
    """Return ``left * right``."""
    return _computed(pc.multiply_checked, products, _product_digits, left, right)


def divided(left: Values, right: Values) -> Values:
    """Return ``left / right``: of decimals a decimal, of other numbers a double."""
    if _decimals(left, right) and not pa.types.is_null(left.type):
        return quotients(_as_decimal(left, right), _as_decimal(right, left))
    _common_number(left, right)
    kind = pa.float64()  # of two floats, too
    return pc.divide(widened(left, kind), _not_zero(widened(right, kind), left))


def whole_quotient(left: Values, right: Values) -> Values:
    """Return ``left div right`` of integers, as a bigint."""
    _check_integers(left, right, "div")
    first, second = widened(left, pa.int64()), widened(right, pa.int64())
    return pc.divide_checked(first, _not_zero(second, first))


def remainder(left: Values, right: Values) -> Values:
    """Return ``left % right``, with the sign of ``left``."""
    kind = _common_number(left, right)
    if not pa.types.is_integer(kind):
        return _remainder_of_fractions(left, right, kind)
    first = widened(left, pa.int64())
    second = _not_zero(widened(right, pa.int64()), first)
    # -2^63 % -1 is 0, but the quotient is no bigint
    divisor = pc.if_else(pc.equal(second, -1), pa.scalar(1, pa.int64()), second)
    rest = pc.subtract(first, pc.multiply(pc.divide(first, divisor), divisor))
    return rest.cast(kind)


def _remainder_of_fractions(left: Values, right: Values, kind: pa.DataType) -> Values:
    if pa.types.is_null(kind):
        return pa.scalar(None)
    if pa.types.is_decimal(kind):
        return remainders(_as_decimal(left, right), _not_zero(_as_decimal(right, left), left))
    first, second = widened(left, kind), widened(right, kind)
    return remainders(first, _not_zero(second, first))


def _common_number(left: Values, right: Values) -> pa.DataType:
    kind = common(left.type, right.type)
    if not (is_number(kind) or pa.types.is_null(kind)):
        raise OnlySpark(f"it computes with {kind}")
    return kind


def _check_integers(left: Values, right: Values, operator: str) -> None:
    for kind in (left.type, right.type):
        if kind not in _INTEGERS and not pa.types.is_null(kind):
            raise OnlySpark(f"{operator} is computed for integers, and this is {kind}")


def _not_zero(divisor: Values, dividend: Values) -> Values:
    """Return a divisor that divides no value by zero; null divided by zero is null."""
    zero = pc.equal(divisor, pa.scalar(0, divisor.type))
    if pc.any(array(pc.and_(zero, pc.is_valid(dividend)))).as_py():
        raise ZeroDivisionError("division by zero; write nullif(divisor, 0) for null")
    return divisor


def array(values: Values) -> Values:
    """Return values as an array; a scalar as an array of one."""
    return pa.array([values.as_py()], values.type) if isinstance(values, pa.Scalar) else values


def _computed(
    short: Callable[[Values, Values], Values],
    long: Callable[[Values, Values], Values],
    digits: Callable[[pa.DataType, pa.DataType], int],
    left: Values,
    right: Values,
) -> Values:
    """Compute with two numbers: ``long`` if they are decimals and need more than 38 digits."""
    if _decimals(left, right):
        first, second = _as_decimal(left, right), _as_decimal(right, left)
        compute = short if digits(first.type, second.type) <= MOST_DIGITS else long
        return compute(first, second)
    kind = _common_number(left, right)
    if pa.types.is_null(kind):
        return pa.scalar(None)
    return short(widened(left, kind), widened(right, kind))


def _decimals(left: Values, right: Values) -> bool:
    """Return whether two values are computed with as decimals."""
    kinds = (left.type, right.type)
    exact = (pa.types.is_decimal, pa.types.is_null, _INTEGERS.__contains__)
    return any(map(pa.types.is_decimal, kinds)) and all(
        any(of(kind) for of in exact) for kind in kinds
    )


def _as_decimal(values: Values, beside: Values) -> Values:
    if isinstance(values, pa.Scalar) and values.type in _INTEGERS and values.is_valid:
        return number(f"{values.as_py()}.")  # as many digits as it has
    if pa.types.is_null(values.type):
        return values.cast(beside.type)
    return widened(values, _decimal(sum(_digits(values.type)), _digits(values.type)[1]))


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Return the digits before and after the point."""
    if kind in _INTEGERS:
        return _DIGITS[kind], 0
    return kind.precision - kind.scale, kind.scale


def _sum_digits(left: pa.DataType, right: pa.DataType) -> int:
    whole, scale = map(max, _digits(left), _digits(right))
    return whole + scale + 1


def _product_digits(left: pa.DataType, right: pa.DataType) -> int:
    return sum(_digits(left)) + sum(_digits(right)) + 1


def _decimal(precision: int, scale: int) -> pa.DataType:
    if precision > MOST_DIGITS:
        raise OnlySpark(f"both are decimals of up to {precision} digits")
    return pa.decimal128(precision, scale)


def cast(values: Values, kind: pa.DataType, *, safe: bool) -> Values:
    """Return numbers in a type; decimals as the nearest floating number, which Arrow misses."""
    if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
        values = pc.cast(values, pa.string())
    return pc.cast(values, kind, safe=safe)

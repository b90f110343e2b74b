"""Compute with numbers in Arrow as Spark's SQL (ANSI) does: types, arithmetic, decimal results.

Results that Arrow does not compute as Spark does: decimal quotients, long decimals, rounding.

1. A decimal result has the digits that Spark gives it. If these are more than 38, digits after the
   point give way, but not below six.
2. A quotient is computed to 39 digits after the point, a product to 39 digits, and then brought to
   its type. Each step rounds half up: away from zero.
3. A floating number is rounded by its shortest text, so ``round(1.005, 2)`` is 1.01.
4. A result with too many digits before the point is an error.

Arithmetic:

5. Two numbers are brought to a common type: the wider integer; a decimal that holds both; float
   with float is float; all else with a floating number is double. Integers divide as doubles.
6. Overflow and division by zero are errors, as in Spark: no value is wrapped around.
7. Decimals are divided, and brought to 38 digits if a result needs more, by rules 1 and 2: Arrow
   has other rules.

Types of columns and literals on their way into an expression:

8. Texts are large strings, bytes large binaries; times count microseconds and have the zone UTC;
   unsigned integers are the next wider signed ones.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from math import fmod, isfinite, isnan, nan
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.data.rows import is_text
from airflow_provider_segtable.data.sql.sql_text import (
    Kind,
    Literal,
    OnlySpark,
    as_day,
    literal_instant,
)

# Results that Arrow does not compute as Spark does
Values: TypeAlias = Any
"""A ``pyarrow.Array``, or a ``pyarrow.Scalar`` that stands for every row."""

MOST_DIGITS = 38
_LEAST_SCALE = 6
_QUOTIENT_SCALE = 39
_PRODUCTS = Context(prec=39, rounding=ROUND_HALF_UP)
_EXACT = Context(prec=1500, rounding=ROUND_HALF_UP)
"""More digits than any double, or sum of decimals, has."""
_FAR = 400
"""No double has digits so far from its point, on either side."""


def quotients(left: Values, right: Values) -> Values:
    """Return ``left / right`` of decimals.

    Raises:
        ArithmeticError: a divisor is zero, or a result is too long.
    """
    first, second = left.type, right.type
    scale = max(_LEAST_SCALE, first.scale + second.precision + 1)
    kind = _fitted(first.precision - first.scale + second.scale + scale, scale)

    def quotient(one: Decimal, other: Decimal) -> Decimal:
        if not other:
            raise ZeroDivisionError("division by zero; write nullif(divisor, 0) for null")
        over = int(one.scaleb(_QUOTIENT_SCALE + second.scale, _EXACT))
        under = int(other.scaleb(second.scale, _EXACT))
        whole, rest = divmod(abs(over), abs(under))
        digits = whole + (2 * rest >= abs(under))
        return _EXACT.copy_sign(Decimal(digits), one * other).scaleb(-_QUOTIENT_SCALE, _EXACT)

    return _each(quotient, left, right, kind)


def sums(left: Values, right: Values) -> Values:
    """Return ``left + right`` of decimals whose result needs more than 38 digits."""
    return _each(_EXACT.add, left, right, _sum_type(left.type, right.type))


def differences(left: Values, right: Values) -> Values:
    """Return ``left - right`` of decimals whose result needs more than 38 digits."""
    return _each(_EXACT.subtract, left, right, _sum_type(left.type, right.type))


def products(left: Values, right: Values) -> Values:
    """Return ``left * right`` of decimals whose result needs more than 38 digits."""
    first, second = left.type, right.type
    kind = _fitted(first.precision + second.precision + 1, first.scale + second.scale)
    return _each(_PRODUCTS.multiply, left, right, kind)


def remainders(left: Values, right: Values) -> Values:
    """Return ``left % right`` of decimals or of doubles, with the sign of ``left``."""
    first, second = left.type, right.type
    if not pa.types.is_decimal(first):
        return _each(_float_remainder, left, right, first)
    scale = max(first.scale, second.scale)
    whole = min(first.precision - first.scale, second.precision - second.scale)
    return _each(_EXACT.remainder, left, right, _fitted(whole + scale, scale))


def _float_remainder(one: float, other: float) -> float:
    return nan if isnan(other) or not isfinite(one) else fmod(one, other)


def rounded(values: Values, digits: int) -> Values:
    """Return numbers rounded half up to ``digits`` after the point, or before it if negative.

    Raises:
        ArithmeticError, pyarrow.ArrowException: a result is too long for its type.
    """
    kind = values.type
    if pa.types.is_null(kind) or (pa.types.is_integer(kind) and digits >= 0):
        return values
    if pa.types.is_decimal(kind):
        result = _rounded_type(kind, digits)
        return _mapped(lambda one: _at(one, digits), values, result)
    if pa.types.is_integer(kind):
        return _mapped(lambda one: int(_at(Decimal(one), digits)), values, kind)
    return _mapped(lambda one: _near(one, digits), values, kind)


def _fitted(precision: int, scale: int) -> pa.DataType:
    """Return the type of a result that needs ``precision`` digits (rule 1)."""
    if precision <= MOST_DIGITS:
        return pa.decimal128(precision, scale)
    left = MOST_DIGITS - (precision - scale)
    return pa.decimal128(MOST_DIGITS, max(left, min(scale, _LEAST_SCALE)))


def _sum_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _fitted(whole + scale + 1, scale)


def _rounded_type(kind: pa.DataType, digits: int) -> pa.DataType:
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        return pa.decimal128(min(max(whole, 1 - digits), MOST_DIGITS), 0)
    scale = min(kind.scale, digits)
    return pa.decimal128(min(whole + scale, MOST_DIGITS), scale)


def _each(
    compute: Callable[[Any, Any], Any], left: Values, right: Values, kind: pa.DataType
) -> Values:
    """Return a function of two decimals for each row, in type ``kind``; null of null."""
    if isinstance(left, pa.Scalar):
        one = left.as_py()
        return _mapped(lambda other: compute(one, other), right, kind, known=one is not None)
    if isinstance(right, pa.Scalar):
        other = right.as_py()
        return _mapped(lambda one: compute(one, other), left, kind, known=other is not None)
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    found = [None if None in pair else _held(compute(*pair), kind) for pair in pairs]
    return pa.array(found, kind)


def _mapped(
    compute: Callable[[Any], Any], values: Values, kind: pa.DataType, *, known: bool = True
) -> Values:
    """Return a function of each value, in type ``kind``; null of null, or if not ``known``."""
    if isinstance(values, pa.Scalar):
        return _mapped(compute, pa.array([values.as_py()], values.type), kind, known=known)[0]
    if not known:
        return pa.nulls(len(values), kind)
    found = (None if one is None else compute(one) for one in values.to_pylist())
    return pa.array([one if one is None else _held(one, kind) for one in found], kind)


def _held(one: Any, kind: pa.DataType) -> Any:
    """Return a result in its type's digits; other than decimals as they are."""
    if not isinstance(one, Decimal):
        return one
    found = _at(one, kind.scale)
    if found.adjusted() >= kind.precision - kind.scale and found:
        raise ArithmeticError(f"{one} has more digits than {kind}")
    return found


def _at(one: Decimal, digits: int) -> Decimal:
    near = one.quantize(Decimal(1).scaleb(-digits, _EXACT), context=_EXACT)
    return near if digits >= 0 else near.quantize(Decimal(1), context=_EXACT)


def _near(one: float, digits: int) -> float:
    if not isfinite(one) or digits > _FAR:
        return one
    return float(_at(Decimal(repr(one)), max(digits, -_FAR))) + 0.0  # no negative zero


# Arithmetic of two numbers
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


# Types of columns and literals
SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
TEXT = pa.large_string()
BINARY = pa.large_binary()
TIME = pa.timestamp("us", "UTC")
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def constant(found: Literal) -> pa.Scalar:
    """Return a literal in the type that Spark gives it.

    Raises:
        ValueError: it is no time, or no number.
        OnlySpark: Spark may read it as a time.
    """
    match found.kind:
        case Kind.NULL:
            return pa.scalar(None)
        case Kind.BOOLEAN:
            return pa.scalar(found.text == "True")
        case Kind.NUMBER:
            return number(found.text)
        case Kind.TEXT:
            return pa.scalar(found.text, TEXT)
        case Kind.DATE:
            return pa.scalar(as_day(found.text), pa.int32()).cast(pa.date32())
        case Kind.TIME | Kind.LOCAL_TIME:
            return pa.scalar(literal_instant(found), TIME)


def constants(kind: Kind, texts: Sequence[str]) -> "pa.Array | None":
    """Return many plain literals as ``constant`` does, as a whole; None if they need it each."""
    if kind is Kind.TEXT:
        return pa.array(texts, TEXT)
    if kind is not Kind.NUMBER:
        return None
    try:
        whole = np.array(list(map(int, texts)), np.int64)
    except (ValueError, OverflowError):
        return None
    fits = int(whole.min()) >= -(2**31) and int(whole.max()) < 2**31
    return pa.array(whole, pa.int32()) if fits else None


def normal(values: pa.Array) -> pa.Array:
    """Return a column in the types that are computed with: signed, decoded, times in UTC."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return normal(values.cast(kind.value_type))
    if is_text(kind):
        return values.cast(TEXT)
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("ns" if kind.unit == "ns" else "us", "UTC"))
    if pa.types.is_date64(kind):
        return values.cast(pa.date32())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if any(each(kind) for each in _BINARIES):
        return values.cast(BINARY)
    return values.cast(SIGNED.get(kind, kind))

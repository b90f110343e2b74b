"""Results that Arrow does not compute as Spark does: decimal quotients, long decimals, rounding.

1. A decimal result has the digits that Spark gives it. If these are more than 38, digits after the
   point give way, but not below six.
2. A quotient is computed to 39 digits after the point, a product to 39 digits, and then brought to
   its type. Each step rounds half up: away from zero.
3. A floating number is rounded by its shortest text, so ``round(1.005, 2)`` is 1.01.
4. A result with too many digits before the point is an error.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from math import fmod, isfinite, isnan, nan
from typing import Any, TypeAlias

import pyarrow as pa

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

"""Where a literal lies among the values that a column can have.

1. Spark compares a column with a literal in a type that holds both, as ``i > 1.5`` in decimals. The
   values of the column's own type for which the comparison holds are a range, because no
   conversion changes their order. So the comparison is one with the column's own values:
   ``i > 1.5`` is ``i > 1``, and ``i = 1.5`` holds for none.
2. Doubles round long numbers: several integers can equal one double. The range is searched with the
   conversion itself.
3. A literal that no value of the column can be compared with is refused by ``ValueError`` or
   ``TypeError``, as Spark refuses it.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import partial
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Compare,
    Compares,
    Day,
    Moment,
    Not,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.time import DAY_US
from airflow_provider_segtable.data.arrow_schema import is_text
from airflow_provider_segtable.data.rows import US_PER_UNIT
from airflow_provider_segtable.data.sql.sql_text import (
    Kind,
    Literal,
    OnlySpark,
    as_day,
    as_double,
    as_integer,
    as_truth,
    is_double,
    literal_instant,
)

_EXACT = Context(prec=1500)
_MOST_DIGITS = 38
_TIMES = (Kind.TEXT, Kind.DATE, Kind.TIME, Kind.LOCAL_TIME)
_LONG = 2**63
_LATEST = {"us": _LONG - 1, "ns": _LONG // 1000 - 1}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least value at or above a literal, the greatest at or below; None if there is none.

    Attributes:
        least: equal to ``most`` if the literal is one of the column's values.
        most: above ``least`` if several values are compared as equal to the literal.
        some: any value of the column.
    """

    least: Value
    most: Value
    some: Value

    @staticmethod
    def at(value: Value) -> "Bounds":
        """Return the bounds of a literal that is a value."""
        return Bounds(value, value, value)

    @property
    def exact(self) -> bool:
        """Return whether the literal is one value."""
        return self.least is not None and self.least == self.most

    def compare(self, name: str, how: Compares) -> Predicate:
        """Return the comparison of a column with the literal."""
        match how:
            case Compares.EQUAL | Compares.UNEQUAL if self.exact:
                return Compare(name, how, self.least)
            case Compares.EQUAL:
                parts = (
                    self.compare(name, Compares.AT_LEAST),
                    self.compare(name, Compares.AT_MOST),
                )
                return self.never(name) if self._between else AllOf(parts)
            case Compares.UNEQUAL:
                return Not(self.compare(name, Compares.EQUAL))
            case Compares.LESS | Compares.AT_LEAST if self.least is not None:
                return Compare(name, how, self.least)
            case Compares.MORE | Compares.AT_MOST if self.most is not None:
                return Compare(name, how, self.most)
            case Compares.LESS | Compares.MORE:
                return Not(self.never(name))  # all values are on this side of it
            case Compares.AT_LEAST | Compares.AT_MOST:
                return self.never(name)

    @property
    def _between(self) -> bool:
        """Return whether the literal lies between two values, or beyond all."""
        if self.least is None or self.most is None:
            return True
        return _key(self.least) > _key(self.most)

    def never(self, name: str) -> Predicate:
        """Return a predicate that is false for every value, and unknown of null."""
        less, more = (Compare(name, how, self.some) for how in (Compares.LESS, Compares.MORE))
        return AllOf((less, more))


def _key(value: Value) -> int | Decimal:
    match value:
        case Moment(us=at) | Day(days=at):
            return at
        case int() | Decimal():
            return value
    raise TypeError(f"{value!r} has no order")


def bounds(found: Literal, kind: pa.DataType) -> Bounds:
    """Return where a literal lies among the values of a type.

    Raises:
        ValueError: the literal is no number or no time, so Spark refuses it.
        TypeError: Spark compares no such literal with such a column.
        OnlySpark: Spark knows.
    """
    if found.kind is Kind.TEXT and is_text(kind):
        return Bounds.at(found.text)
    if pa.types.is_integer(kind):
        return _of_integers(found, kind)
    if pa.types.is_decimal128(kind):
        return _of_decimals(found, kind)
    if pa.types.is_floating(kind):
        return Bounds.at(_finite(_as_double(found)))
    if pa.types.is_timestamp(kind) and found.kind in _TIMES:
        return _of_times(literal_instant(found), kind)
    if pa.types.is_date(kind) and found.kind in _TIMES:
        return _of_days(found)
    if pa.types.is_boolean(kind) and found.kind in {Kind.BOOLEAN, Kind.TEXT}:
        truth = as_truth(found.text) if found.kind is Kind.TEXT else found.text == "True"
        return Bounds.at(truth)
    if is_text(kind):
        raise OnlySpark(f"it compares text with {found.kind}")
    raise TypeError(f"it is {found.kind}")


def own_values(kind: Kind, texts: Sequence[str], column: pa.DataType) -> list[Value] | None:
    """Return many plain literals of one kind as a column's values, converted as a whole.

    Each literal has the same value as ``bounds`` gives it.

    Returns:
        The values; None if one of them is not a value of the column, or written otherwise than
        this function reads it: then ``bounds`` reads them, one by one.
    """
    if kind is Kind.TEXT and is_text(column):
        return list(texts)
    by: dict[bool, Callable[[Sequence[str], pa.DataType], list[Value] | None]] = {
        kind is Kind.NUMBER and pa.types.is_integer(column): _own_integers,
        kind is Kind.TEXT and pa.types.is_signed_integer(column): _own_texts_as_integers,
        kind is Kind.NUMBER and pa.types.is_floating(column): _own_doubles,
        kind is Kind.NUMBER and pa.types.is_decimal128(column): _own_decimals,
        kind in _TIMES and pa.types.is_timestamp(column): partial(_own_times, kind),
        kind in {Kind.TEXT, Kind.DATE} and pa.types.is_date(column): _own_days,
    }
    try:
        return by[True](texts, column) if True in by else None
    except ValueError:  # of Arrow, too
        return None


def _own_integers(texts: Sequence[str], column: pa.DataType) -> list[Value] | None:
    numbers = list(map(int, texts))
    first, last = _range(column)
    return list(numbers) if first <= min(numbers) and max(numbers) <= last else None


def _own_texts_as_integers(texts: Sequence[str], column: pa.DataType) -> list[Value] | None:
    plain = _all_of(texts, r"^[+-]?[0-9]{1,18}$")
    return None if plain is None else _own_integers(texts, column)


def _own_doubles(texts: Sequence[str], _: pa.DataType) -> list[Value] | None:
    numbers = list(map(float, texts))
    return list(numbers) if all(map(isfinite, numbers)) else None


def _own_decimals(texts: Sequence[str], column: pa.DataType) -> list[Value] | None:
    whole, scale = column.precision - column.scale, column.scale
    if whole < 1 or scale < 0:
        return None
    fraction = rf"(?:\.\d{{1,{scale}}})?" if scale else ""
    given = _all_of(texts, rf"^[+-]?\d{{1,{whole}}}{fraction}$")
    return None if given is None else list(given.cast(column).to_pylist())


_CLOCK = r"[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|\+00:00)?"
_DATE = r"\d{4}-\d\d-\d\d"
_YEAR_1 = -62_135_596_800_000_000


def _own_times(kind: Kind, texts: Sequence[str], column: pa.DataType) -> list[Value] | None:
    form = f"^{_DATE}$" if kind is Kind.DATE else f"^{_DATE}(?:{_CLOCK})?$"
    given = _all_of(texts, form)
    if given is None:
        return None
    plain = pc.replace_substring_regex(given, r"(?:Z|\+00:00)$", "")
    micros = np.asarray(plain.cast(pa.timestamp("us")).cast(pa.int64()))
    step = US_PER_UNIT.get(column.unit, 1)
    last = _LATEST.get(column.unit, _LONG - 1)
    known = (micros % step == 0) & (micros >= _YEAR_1) & (abs(micros) <= last)
    return list(map(Moment, micros.tolist())) if known.all() else None


def _own_days(texts: Sequence[str], _: pa.DataType) -> list[Value] | None:
    given = _all_of(texts, f"^{_DATE}$")
    if given is None:
        return None
    days = np.asarray(given.cast(pa.date32()).cast(pa.int32()))
    return list(map(Day, days.tolist())) if (days >= _YEAR_1 // DAY_US).all() else None


def _all_of(texts: Sequence[str], form: str) -> "pa.Array | None":
    """Return texts as an array, if all of them have a form."""
    given = pa.array(texts)
    return given if pc.all(pc.match_substring_regex(given, form)).as_py() else None


def _range(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _of_integers(found: Literal, kind: pa.DataType) -> Bounds:
    first, last = _range(kind)
    if found.kind is Kind.TEXT and last < _LONG:
        whole = as_integer(found.text)
        if not -_LONG <= whole < _LONG:
            raise ValueError("the column is compared with whole numbers of 64 bits")
        exact = Decimal(whole)
    elif found.kind is Kind.NUMBER and not is_double(found.text):
        exact = _decimal(found.text)
    else:
        return _searched(_finite(_as_double(found)), first, last, float, int)
    low, high = (int(exact.to_integral_value(way)) for way in (ROUND_CEILING, ROUND_FLOOR))
    return _clipped(low, high, first, last, int)


def _of_decimals(found: Literal, kind: pa.DataType) -> Bounds:
    last = 10**kind.precision - 1

    def value(unscaled: int) -> Decimal:
        return Decimal(unscaled).scaleb(-kind.scale, _EXACT)

    if found.kind is not Kind.NUMBER or is_double(found.text):
        number = _finite(_as_double(found))
        return _searched(number, -last, last, lambda one: float(value(one)), value)
    exact = _decimal(found.text)
    digits, exponent = exact.as_tuple()[1:]
    scale = max(0, -int(exponent))
    whole = max(kind.precision - kind.scale, len(digits) - scale)
    if whole + max(scale, kind.scale) > _MOST_DIGITS:
        raise OnlySpark(f"{found.text} and {kind} need more than {_MOST_DIGITS} digits")
    scaled = exact.scaleb(kind.scale, _EXACT)
    low, high = (int(scaled.to_integral_value(way)) for way in (ROUND_CEILING, ROUND_FLOOR))
    return _clipped(low, high, -last, last, value)


def _of_times(us: int, kind: pa.DataType) -> Bounds:
    step = US_PER_UNIT.get(kind.unit, 1)
    last = _LATEST.get(kind.unit, _LONG - 1) // step

    def value(at: int) -> Moment:
        return Moment(at * step)

    return _clipped(-(-us // step), us // step, -last, last, value)


def _of_days(found: Literal) -> Bounds:
    if found.kind in {Kind.TEXT, Kind.DATE}:
        return Bounds.at(Day(as_day(found.text)))
    us = literal_instant(found)
    return Bounds(Day(-(-us // DAY_US)), Day(us // DAY_US), Day(0))


def _clipped(low: int, high: int, first: int, last: int, value: Callable[[int], Value]) -> Bounds:
    """Return bounds within a range of values."""
    least = None if low > last else value(max(low, first))
    most = None if high < first else value(min(high, last))
    return Bounds(least, most, value(0))


def _searched(
    number: float,
    first: int,
    last: int,
    convert: Callable[[int], float],
    value: Callable[[int], Value],
) -> Bounds:
    """Return the bounds of a double among values that are converted to doubles."""

    def first_at(holds: Callable[[float], bool]) -> int:
        low, high = first, last + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(convert(middle)) else (middle + 1, high)
        return low

    at_least, above = first_at(lambda one: one >= number), first_at(lambda one: one > number)
    return _clipped(at_least, above - 1, first, last, value)


def _as_double(found: Literal) -> float:
    if found.kind is Kind.TEXT:
        return as_double(found.text)
    if found.kind is not Kind.NUMBER:
        raise TypeError(f"it is {found.kind}")
    number = float(found.text)
    if not isfinite(number):
        raise ValueError("it is too large")
    return number


def _finite(number: float) -> float:
    if not isfinite(number):
        raise OnlySpark(f"it compares with {number}")
    return number


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if len(number.as_tuple().digits) > _MOST_DIGITS:
        raise ValueError(f"a decimal has at most {_MOST_DIGITS} digits")
    return number

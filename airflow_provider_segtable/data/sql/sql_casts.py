"""Cast, compare and take apart Arrow values as Spark does (ANSI): casts, arrays, maps, intervals.

Casts, and the common types to which Spark brings values implicitly:

1. A cast that loses digits before the point, or whose text is no value, is an error. Digits after
   the point are rounded half up to a decimal, and cut off to an integer.
2. Two values of different types are brought to one: a text to the other's type (to ``bigint`` for
   any integer, to ``double`` for any other number), a date to a timestamp, numbers as in
   ``data.sql.arrow_numbers``.
3. Two casts are left to Spark: floating numbers to text, and numbers to times other than whole
   seconds.

Comparisons of two columns of values:

4. NaN equals NaN and is the largest, as in Spark.

Arrays and maps:

5. The elements of all rows are one array (``Pieces``), with the row that each belongs to. So a
   comparison or a condition is computed for all of them at once, and then put together by rows.
6. An array or map that is null has no elements, and any result of it is null.
7. An index beyond an array is an error, except for ``get``. A missing key of a map gives null.

Intervals:

8. An interval literal is months, days and microseconds.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.predicate import Compares
from airflow_provider_segtable.core.time import MAX_INSTANT, MIN_INSTANT
from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql.arrow_numbers import BINARY, TEXT, TIME, Values, normal
from airflow_provider_segtable.data.sql.sql_text import (
    Kind,
    OnlySpark,
    Tree,
    as_day,
    as_decimal,
    as_double,
    as_instant,
    as_integer,
    as_truth,
    literal,
)

# Casts and common types
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


# Comparisons of two columns
def compared(left: pa.Array, how: Compares, right: pa.Array) -> Any:
    """Return for each row whether the comparison holds; null if a side is null.

    Both sides have one type.
    """
    match how:
        case Compares.EQUAL:
            return _equal(left, right)
        case Compares.UNEQUAL:
            return pc.invert(_equal(left, right))
        case Compares.LESS:
            return _less(left, right)
        case Compares.MORE:
            return _less(right, left)
        case Compares.AT_MOST:
            return pc.invert(_less(right, left))
        case Compares.AT_LEAST:
            return pc.invert(_less(left, right))


def equatable(values: pa.Array) -> pa.Array:
    """Return values that Arrow finds equal where Spark does: minus zero is zero."""
    floating = pa.types.is_floating(values.type)
    return pc.add(values, pa.scalar(0.0, values.type)) if floating else values


def _equal(left: pa.Array, right: pa.Array) -> Any:
    same = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return same
    return pc.or_kleene(same, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def _less(left: pa.Array, right: pa.Array) -> Any:
    less = pc.less(left, right)
    if not pa.types.is_floating(left.type):
        return less
    return pc.or_kleene(less, pc.and_kleene(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


# Arrays and maps
@dataclass(frozen=True, slots=True)
class Pieces:
    """The elements of arrays, or the keys of maps, row after row.

    Attributes:
        elements: all of them, in the types that are computed with.
        places: where they are among all elements that the column has.
        rows: the row of each.
        counts: how many each row has.
        known: which rows have an array or a map at all.
    """

    elements: pa.Array
    places: Any
    rows: pa.Array
    counts: Any
    known: Any

    def quantified(self, truth: pa.Array, *, some: bool) -> pa.Array:
        """Return for each row whether some element's truth is true, or all are; null if unknown."""
        decided = np.asarray(pc.fill_null(pc.equal(truth, some), False))
        return self._decided(decided, np.asarray(pc.is_null(truth)), some=some)

    def _decided(self, decided: Any, unknown: Any, *, some: bool) -> pa.Array:
        rows, count = np.asarray(self.rows), len(self.known)
        found = np.bincount(rows[decided], minlength=count) > 0
        open_ = ~found & (np.bincount(rows[unknown], minlength=count) > 0)
        return pa.array(found == some, mask=open_ | ~self.known)

    def at(self, indices: pa.Array, *, first: int, beyond: bool) -> Any:
        """Return where each row's element lies in ``elements``, as numbers with nulls.

        Args:
            indices: of each row's element.
            first: the index of the first one; if 1, negative ones count from the end.
            beyond: whether a missing element is null.

        Raises:
            ValueError: there is no such element.
        """
        known = self.known & np.asarray(pc.is_valid(indices))
        wanted = np.asarray(pc.fill_null(indices.cast(pa.int64()), first))
        behind = (wanted < 0) if first else np.zeros(len(wanted), bool)
        place = np.where(behind, self.counts + wanted, wanted - first)
        there = (place >= 0) & (place < self.counts)
        if not beyond and not (there | ~known).all():
            bad = int(np.flatnonzero(known & ~there)[0])
            raise ValueError(
                f"index {wanted[bad]} is outside an array of {self.counts[bad]} elements"
            )
        starts = np.cumsum(self.counts) - self.counts
        return pa.array(starts + place, pa.int64(), mask=~(known & there))


def pieces(values: pa.Array) -> Pieces:
    """Return the elements of arrays, or the keys of maps."""
    if _is.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    is_map = _is.is_map(values.type)
    if not (is_map or _is.is_list(values.type) or _is.is_large_list(values.type)):
        raise OnlySpark(f"{values.type} is neither an array nor a map")
    known = np.asarray(pc.is_valid(values))
    offsets = np.asarray(values.offsets).astype(np.int64)
    counts = np.where(known, np.diff(offsets), 0)
    rows = np.repeat(np.arange(len(values)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = offsets[:-1][rows] + within if len(rows) else rows
    elements = (values.keys if is_map else values.values).take(pa.array(places))
    return Pieces(normal(elements), places, pa.array(rows), counts, known)


def size(values: pa.Array) -> pa.Array:
    """Return how many elements arrays or maps have."""
    found = pieces(values)
    return pa.array(found.counts, pa.int32(), mask=~found.known)


def contains(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """Return whether arrays have a value; unknown if not, and an element is null."""
    found = pieces(_only(values, _is_array))
    same = _same(found, wanted)
    result = found.quantified(same, some=True)
    return pc.if_else(pc.is_valid(wanted), result, pa.scalar(None, pa.bool_()))


def has_key(values: pa.Array, key: pa.Array) -> pa.Array:
    """Return whether maps have a key."""
    found = pieces(_only(values, _is.is_map))
    return pc.if_else(
        pc.is_valid(key),
        found.quantified(pc.fill_null(_same(found, key), False), some=True),
        pa.scalar(None, pa.bool_()),
    )


def item(values: pa.Array, wanted: pa.Array, *, first: int, beyond: bool) -> pa.Array:
    """Return an element of arrays, or the value of a key in maps."""
    if not _is.is_map(values.type):
        found = pieces(_only(values, _is_array))
        if not _is.is_integer(wanted.type) or wanted.type == pa.int64():
            raise OnlySpark("an index is a whole number of 32 bits")
        return found.elements.take(found.at(wanted, first=first, beyond=beyond))
    found = pieces(values)
    same = np.asarray(pc.fill_null(_same(found, wanted), False))
    rows = np.asarray(found.rows)[same]
    place = np.full(len(values), -1)
    place[rows] = np.asarray(found.places)[same]
    return normal(values.items.take(pa.array(place, mask=place < 0)))


def keys_or_items(values: pa.Array, *, keys: bool) -> pa.Array:
    """Return the keys of maps, or their values, as arrays."""
    found = pieces(_only(values, _is.is_map))
    elements = found.elements
    if not keys:
        elements = normal(values.items.take(pa.array(found.places)))
    offsets = np.concatenate([[0], np.cumsum(found.counts)])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), elements, mask=pa.array(~found.known)
    )


def split(texts: Sequence[str | None], by: str) -> pa.Array:
    """Return the parts of texts between a separator, which is no regular expression."""
    found = [None if text is None else text.split(by) for text in texts]
    return pa.array(found, pa.list_(TEXT))


def field_of(values: pa.Array, name: str) -> pa.Array:
    """Return a field of structs."""
    if not _is.is_struct(values.type):
        raise OnlySpark(f"{values.type} has no fields")
    if name not in values.type.names:
        raise SchemaMismatch(f"there is no field {name!r}: it is {values.type}")
    return normal(pc.struct_field(values, name))


def _same(found: Pieces, wanted: pa.Array) -> pa.Array:
    """Return for each element whether it equals the value that its row looks for."""
    if (found.elements.type == TEXT) != (wanted.type == TEXT) or _is.is_null(wanted.type):
        raise OnlySpark(f"it looks for {wanted.type} among {found.elements.type}")
    kind = comparable(common(found.elements.type, wanted.type))
    each = brought(wanted, kind).take(found.rows)
    return compared(brought(found.elements, kind), Compares.EQUAL, each)


def _is_array(kind: pa.DataType) -> bool:
    return any(each(kind) for each in (_is.is_list, _is.is_large_list, _is.is_fixed_size_list))


def _only(values: pa.Array, of: Any) -> pa.Array:
    if not of(values.type):
        raise OnlySpark(f"it is {values.type}")
    return values


# Interval literals
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_MICROS |= {"MILLISECOND": 1000, "MICROSECOND": 1}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s+([A-Za-z]+)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """How far an interval reaches; ``micros`` is None if it has no unit below a day."""

    months: int = 0
    days: int = 0
    micros: int | None = None

    def __add__(self, other: "Step") -> "Step":
        """Return both, one after the other."""
        given = [each.micros for each in (self, other) if each.micros is not None]
        micros = sum(given) if given else None
        return Step(self.months + other.months, self.days + other.days, micros)

    def __neg__(self) -> "Step":
        """Return the way back."""
        return Step(-self.months, -self.days, None if self.micros is None else -self.micros)


def intervals(tree: Tree) -> list[Tree]:
    """Return the intervals that an expression is the sum of; none if it is no interval."""
    tree = tree.unnest()
    if isinstance(tree, exp.Interval):
        return [tree]
    if isinstance(tree, exp.Neg) and isinstance(tree.this.unnest(), exp.Interval):
        return [tree]
    if isinstance(tree, exp.Add):
        left, right = intervals(tree.this), intervals(tree.expression)
        return [*left, *right] if left and right else []
    return []


def step_of(tree: Tree) -> Step:
    """Return how far an interval reaches.

    Raises:
        OnlySpark: it is no literal, or has units that are not read here.
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        return -step_of(tree.this)
    found = literal(tree.this) if tree.this is not None else None
    unit = tree.args.get("unit")
    if (
        found is None
        or found.kind not in {Kind.TEXT, Kind.NUMBER}
        or isinstance(unit, exp.IntervalSpan)
    ):
        raise OnlySpark("an interval is a number and a unit")
    text = found.text if unit is None else f"{found.text} {unit.name}"
    total = Step()
    for number, name in _parts(text):
        total += _step(Decimal(number), name.upper().removesuffix("S"))
    return total


def _parts(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text) or not text:
        found = _PART.match(text, at)
        if not found:
            raise OnlySpark(f"{text!r} is not a number and a unit")
        yield found[1], found[2]
        at = found.end()


def _step(number: Decimal, unit: str) -> Step:
    whole = number == number.to_integral_value()
    if unit in _MONTHS and whole:
        return Step(months=int(number) * _MONTHS[unit])
    if unit in _DAYS and whole:
        return Step(days=int(number) * _DAYS[unit])
    micros = number * _MICROS.get(unit, 0)
    if unit not in _MICROS or not (whole or unit == "SECOND") or micros != int(micros):
        raise OnlySpark("intervals are whole years, months, weeks, days, hours, minutes or seconds")
    return Step(micros=int(micros))

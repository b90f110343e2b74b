"""Predicates over columns, as data, and whether one can hold in a block of rows.

1. A predicate is a tree of comparisons, sets, null tests, ``and``, ``or`` and ``not``, with SQL's
   three-valued logic: a row for which it is unknown does not match.
2. A value is None (null: every comparison with it is unknown), a bool, int, decimal, finite float
   or text; event times and other timestamps are *instants* (``Moment``, microseconds), dates are
   days (``Day``, since 1970-01-01).
3. Numbers compare as in Spark: minus zero equals zero, NaN is the largest.
4. The log stores predicates as JSON, for predicate deletes of rollup tables; ``data.conditions``
   converts them to Arrow filters, and ``data.sql.sql_predicates`` to SQL.
5. Whether a predicate can hold in a block of rows is decided by a *judge* (``possible``). A judge
   answers for one comparison: can it be true, or can it be false, for one of the rows? It may say
   yes without need, and never no by mistake. So blocks are skipped, and rows never lost.
6. Logic is three-valued: ``wanted=False`` asks whether the predicate can be false, and a null is
   neither true nor false. So a negation asks for the opposite of its operand.
7. The answer can only turn from no to yes if a judge says yes more often.
8. One judge goes by the bounds of columns (``can_be``). Bounds are inclusive and may be wider than
   the values. A bound that cannot be compared with the predicate's value (another kind of value, an
   inexact number) excludes nothing. NaN is the largest number, and is in no bounds.
9. Another judge goes by values that the block does not have (``can_equal``). Only equality is
   excluded: ``=`` and ``IN``, also within ``AND``, ``OR`` and ``NOT``, and a negated ``!=``. All
   other comparisons can be true or false of values that are not known. No row equals null, so a
   comparison with null is neither true nor false.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from enum import StrEnum
from functools import reduce
from typing import Any, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.time import DAY_US, MAX_INSTANT, MIN_INSTANT, Instant


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, in microseconds since 1970-01-01 UTC."""

    us: int


@dataclass(frozen=True, slots=True)
class Day:
    """A date, in days since 1970-01-01."""

    days: int


Value: TypeAlias = bool | int | float | Decimal | str | Moment | Day | None


class Compares(StrEnum):
    """The comparison operators."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """A column is compared with a value."""

    column: str
    how: Compares
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """A column's value is one of a set.

    Attributes:
        column: the column.
        values: the set.
        derived: the values in other forms, made once: a set of thousands is asked for each block
            of a table. It is no part of the predicate, and is left behind when that is sent.
    """

    column: str
    values: tuple[Value, ...]
    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type["Among"], tuple[str, tuple[Value, ...]]]:
        """Return the column and the values alone."""
        return Among, (self.column, self.values)


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column has no value."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The predicate does not hold; unknown stays unknown."""

    of: "Predicate"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All predicates hold; true if there are none."""

    of: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one predicate holds; false if there are none."""

    of: tuple["Predicate", ...]


Predicate: TypeAlias = Compare | Among | IsNull | Not | AllOf | AnyOf


def columns_of(predicate: Predicate) -> Iterator[str]:
    """Yield the columns that a predicate names, in order, with repetitions."""
    match predicate:
        case Compare(column=column) | Among(column=column) | IsNull(column=column):
            yield column
        case Not(of=one):
            yield from columns_of(one)
        case AllOf(of=some) | AnyOf(of=some):
            for one in some:
                yield from columns_of(one)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield predicates that all hold iff this one holds."""
    if isinstance(predicate, AllOf):
        for one in predicate.of:
            yield from conjuncts(one)
    else:
        yield predicate


def pinned_values(predicate: Predicate, column: str) -> tuple[Value, ...] | None:
    """Return the only values of a column for which a predicate can hold; None if there are others.

    Null may be among them, and is no value of any row that matches.
    """
    match predicate:
        case Compare(column=name, how=Compares.EQUAL, value=value) if name == column:
            return (value,)
        case Among(column=name, values=values) if name == column:
            return values
        case AllOf(of=some):
            found = (pinned_values(one, column) for one in some)
            return min((each for each in found if each is not None), key=len, default=None)
        case AnyOf(of=some):
            each = [pinned_values(one, column) for one in some]
            known = [values for values in each if values is not None]
            whole = len(known) == len(each)
            return tuple(dict.fromkeys(v for values in known for v in values)) if whole else None
        case _:
            return None


# Times at which a predicate can hold
EVERYWHERE = (MIN_INSTANT, MAX_INSTANT - 1)


def reach(predicate: Predicate, column: str) -> tuple[Instant, Instant]:
    """Return the time range of rows that can match: the first and the last instant of a column.

    It is an outer bound. If the first instant is after the last, no row can match.
    """
    spans = _times(predicate, column, wanted=True)
    if not spans:
        return EVERYWHERE[1], EVERYWHERE[0]
    return spans[0][0] // 2, -(-spans[-1][1] // 2)


def may_hold(
    predicate: Predicate, column: str, first: Instant, last: Instant, *, exact: bool = True
) -> bool:
    """Return whether a predicate can hold for a row with a time in ``first..last``.

    Args:
        predicate: the predicate; conditions on other columns may always hold.
        column: the time column.
        first: the earliest time.
        last: the latest time, inclusive.
        exact: False if times are finer than a microsecond and were rounded down to instants.
    """
    spans = _times(predicate, column, wanted=True)
    low, high = 2 * first, 2 * last + (not exact)
    return any(start <= high and low <= end for start, end in spans)


_Spans: TypeAlias = list[tuple[int, int]]
"""Time ranges, sorted and disjoint, both ends inclusive, in *half* microseconds: an odd number is
the open range between two instants, so that ``> 5`` begins with 11 and ``= 5`` is 10.
"""

_ALWAYS: _Spans = [(2 * EVERYWHERE[0], 2 * EVERYWHERE[1])]


def _times(predicate: Predicate, column: str, *, wanted: bool) -> _Spans:
    """Return the times at which a predicate can be ``wanted``; a day's instant is its midnight."""
    match predicate:
        case Compare(column=name, how=how, value=value) if name == column:
            at = instant_of(value)
            return (
                _ALWAYS if at is None else _instants_compared(how if wanted else OPPOSITE[how], at)
            )
        case Among(column=name, values=values) if name == column:
            points = [instant_of(value) for value in values if value is not None]
            known = sorted({at for at in points if at is not None})
            if len(known) < len(set(points)):
                return _ALWAYS
            return [(2 * at, 2 * at) for at in known] if wanted else _except(known)
        case Not(of=one):
            return _times(one, column, wanted=not wanted)
        case AllOf(of=some) | AnyOf(of=some):
            parts = [_times(one, column, wanted=wanted) for one in some]
            together = isinstance(predicate, AllOf) is wanted
            return reduce(_both, parts, _ALWAYS) if together else _either(parts)
        case _:
            return _ALWAYS


OPPOSITE = {
    Compares.EQUAL: Compares.UNEQUAL,
    Compares.UNEQUAL: Compares.EQUAL,
    Compares.LESS: Compares.AT_LEAST,
    Compares.AT_LEAST: Compares.LESS,
    Compares.MORE: Compares.AT_MOST,
    Compares.AT_MOST: Compares.MORE,
}


def _instants_compared(how: Compares, at: Instant) -> _Spans:
    first, last = _ALWAYS[0]
    match how:
        case Compares.EQUAL:
            return [(2 * at, 2 * at)]
        case Compares.UNEQUAL:
            return _except([at])
        case Compares.LESS | Compares.AT_MOST:
            end = min(2 * at - (how is Compares.LESS), last)
            return [(first, end)] if first <= end else []
        case Compares.MORE | Compares.AT_LEAST:
            start = max(2 * at + (how is Compares.MORE), first)
            return [(start, last)] if start <= last else []


def _except(points: Sequence[Instant]) -> _Spans:
    """Return all time except the given instants, which are sorted."""
    first, last = _ALWAYS[0]
    starts = (first, *(2 * at + 1 for at in points))
    ends = (*(2 * at - 1 for at in points), last)
    return [span for span in zip(starts, ends, strict=True) if span[0] <= span[1]]


def _either(parts: Iterable[_Spans]) -> _Spans:
    joined: _Spans = []
    for start, end in sorted(span for part in parts for span in part):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _both(one: _Spans, other: _Spans) -> _Spans:
    shared: _Spans = []
    left, right = list(reversed(one)), list(reversed(other))
    while left and right:
        start, end = max(left[-1][0], right[-1][0]), min(left[-1][1], right[-1][1])
        if start <= end:
            shared.append((start, end))
        (left if left[-1][1] <= right[-1][1] else right).pop()
    return shared


def instant_of(value: Value) -> Instant | None:
    """Return the instant of a value, midnight for a day; None if it is no time."""
    match value:
        case Moment(us=us):
            return us
        case Day(days=days):
            return days * DAY_US
        case _:
            return None


# JSON of predicates
def encode_predicate(predicate: Predicate) -> list[Any]:
    """Return a predicate as JSON: a list of its operator and its operands."""
    match predicate:
        case Compare(column=column, how=how, value=value):
            return [how.value, column, _encode_value(value)]
        case Among(column=column, values=values):
            return ["in", column, [_encode_value(value) for value in values]]
        case IsNull(column=column):
            return ["null", column]
        case Not(of=one):
            return ["not", encode_predicate(one)]
        case AllOf(of=some):
            return ["and", *map(encode_predicate, some)]
        case AnyOf(of=some):
            return ["or", *map(encode_predicate, some)]


def decode_predicate(body: list[Any]) -> Predicate:
    """Parse the output of ``encode_predicate``."""
    match body:
        case ["in", column, values]:
            return Among(column, tuple(map(_decode_value, values)))
        case ["null", column]:
            return IsNull(column)
        case ["not", one]:
            return Not(decode_predicate(one))
        case ["and", *some]:
            return AllOf(tuple(map(decode_predicate, some)))
        case ["or", *some]:
            return AnyOf(tuple(map(decode_predicate, some)))
        case [how, column, value] if how in tuple(Compares):
            return Compare(column, Compares(how), _decode_value(value))
    raise CorruptTable(f"{body!r} is not a predicate")


def _encode_value(value: Value) -> Any:
    match value:
        case Moment(us=us):
            return {"us": us}
        case Day(days=days):
            return {"days": days}
        case Decimal():
            return {"decimal": str(value)}
        case _:
            return value


def _decode_value(body: Any) -> Value:
    match body:
        case Mapping() if "us" in body:
            return Moment(body["us"])
        case Mapping() if "days" in body:
            return Day(body["days"])
        case Mapping() if "decimal" in body:
            return Decimal(body["decimal"])
        case None | bool() | int() | float() | str():
            return body
    raise CorruptTable(f"{body!r} is not a value of a predicate")


# Three-valued logic over blocks of rows
Comparison: TypeAlias = Compare | Among | IsNull
Judge: TypeAlias = Callable[[Comparison, bool], bool]
"""Takes a comparison, and whether it is wanted to be true or to be false."""


def possible(predicate: Predicate, judge: Judge, *, wanted: bool = True) -> bool:
    """Return whether the predicate can be ``wanted`` for one of the rows."""
    match predicate:
        case Not(of=one):
            return possible(one, judge, wanted=not wanted)
        case AllOf(of=some) | AnyOf(of=some):
            parts = (possible(one, judge, wanted=wanted) for one in some)
            return all(parts) if isinstance(predicate, AllOf) is wanted else any(parts)
        case Compare() | Among() | IsNull():
            return judge(predicate, wanted)


def comparisons(predicate: Predicate, *, wanted: bool = True) -> Iterator[tuple[Comparison, bool]]:
    """Yield the comparisons of a predicate, each as a judge is asked for it."""
    match predicate:
        case Not(of=one):
            yield from comparisons(one, wanted=not wanted)
        case AllOf(of=some) | AnyOf(of=some):
            for one in some:
                yield from comparisons(one, wanted=wanted)
        case Compare() | Among() | IsNull():
            yield predicate, wanted


# Blocks with known bounds of columns
_LAST = chr(0x10FFFF)
_SURROGATES = range(0xD800, 0xE000)


def text_above(text: str, most: int) -> str | None:
    """Return a text of at most ``most`` characters at or above a text; None if there is none."""
    if len(text) <= most:
        return text
    kept = text[:most].rstrip(_LAST)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a column's values in some rows; None is unknown.

    Attributes:
        low: the least value.
        high: the greatest value.
        nulls: number of nulls.
        rows: number of rows, nulls included.
        nan: whether a value may be NaN.
    """

    low: Value
    high: Value
    nulls: int | None
    rows: int
    nan: bool = False


_FEW = 32
"""Values of a set up to which each is compared with the bounds."""

BoundsOf: TypeAlias = Callable[[str], Bounds | None]


def can_be(predicate: Predicate, bounds_of: BoundsOf, *, wanted: bool = True) -> bool:
    """Return whether the predicate can be ``wanted`` for one of the rows."""

    def judge(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
        bounds = bounds_of(comparison.column)
        return bounds is None or _in_bounds(comparison, bounds, wanted=wanted)

    return possible(predicate, judge, wanted=wanted)


def _in_bounds(predicate: Comparison, bounds: Bounds, *, wanted: bool) -> bool:
    if isinstance(predicate, IsNull):
        return bounds.nulls is None or (bounds.nulls > 0 if wanted else bounds.nulls < bounds.rows)
    only_nulls = bounds.nulls == bounds.rows
    if isinstance(predicate, Among):
        if not wanted:
            return True  # no value is in an empty set, not even null
        return not only_nulls and _any_between(predicate, bounds)
    if only_nulls or predicate.value is None:
        return False
    how = predicate.how if wanted else OPPOSITE[predicate.how]
    return _compared(how, predicate.value, bounds)


def _any_between(among: Among, bounds: Bounds) -> bool:
    low, high = _bare(bounds.low), _bare(bounds.high)
    if len(among.values) > _FEW and low == low and high == high:  # noqa: PLR0124 - not NaN
        if _ORDER not in among.derived:
            among.derived[_ORDER] = _ordered(among.values)
        kind, order = among.derived[_ORDER]
        if kind is type(bounds.low) is type(bounds.high):
            at = bisect_left(order, low)
            return at < len(order) and order[at] <= high
    given = (value for value in among.values if value is not None)
    return any(_compared(Compares.EQUAL, each, bounds) for each in given)


_ORDER = "order"


def _ordered(values: tuple[Value, ...]) -> tuple[type | None, list[Any]]:
    """Return the type of the values and the values in order; no type if they are of several."""
    given = [value for value in values if value is not None]
    kinds = set(map(type, given))
    if len(kinds) != 1:
        return None, []
    (kind,) = kinds
    return kind, sorted(map(_bare, given) if kind in (Moment, Day) else given)


def _bare(value: Value) -> Any:
    """Return a time as its number; other values stay."""
    match value:
        case Moment(us=number) | Day(days=number):
            return number
    return value


def _compared(how: Compares, value: Value, bounds: Bounds) -> bool:
    low, high = _same_kind(value, bounds.low), _same_kind(value, bounds.high)
    if low is None or high is None:
        return True
    (at, first), (_, last) = low, high
    match how:
        case Compares.EQUAL:
            return bool(first <= at <= last)
        case Compares.UNEQUAL:
            return bounds.nan or not first == at == last
        case Compares.LESS:
            return bool(first < at)
        case Compares.AT_MOST:
            return bool(first <= at)
        case Compares.MORE:
            return bounds.nan or bool(last > at)
        case Compares.AT_LEAST:
            return bounds.nan or bool(last >= at)


def _same_kind(value: Value, bound: Value) -> tuple[Any, Any] | None:
    """Return a value and a bound as Python compares them; None if they are not comparable."""
    if type(value) is type(bound) and isinstance(value, int | str | Decimal):
        return value, bound
    match value, bound:
        case (Moment(us=at), Moment(us=other)):
            return at, other
        case (Day(days=at), Day(days=other)):
            return at, other
        case (bool(), _) | (_, bool()):
            return None
        case (int() | float() | Decimal(), float()):
            return (float(value), bound) if bound == bound else None  # noqa: PLR0124 - not NaN
        case (int() | Decimal(), int() | Decimal()):
            return value, bound
    return None


# Blocks without certain values
MayHave: TypeAlias = Callable[[str, Value], bool]
"""Returns whether a row may have a value in a column; True if that is not known."""


def can_equal(predicate: Predicate, may_have: MayHave) -> bool:
    """Return whether the predicate can be true for one of the rows."""

    def judge(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
        values = excluded_by(comparison, wanted=wanted)
        column = comparison.column
        return values is None or any(may_have(column, v) for v in values if v is not None)

    return possible(predicate, judge)


def excluded_by(comparison: Comparison, *, wanted: bool) -> tuple[Value, ...] | None:
    """Return the values without which the comparison cannot be ``wanted``; None if there are none.

    A null among them is no value of any row.
    """
    match comparison:
        case Compare(how=how, value=value):
            asked = how if wanted else OPPOSITE[how]
            return (value,) if value is None or asked is Compares.EQUAL else None
        case Among(values=values) if wanted:
            return values
        case Among() | IsNull():
            return None

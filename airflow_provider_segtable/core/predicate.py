"""Predicates over columns, as data: what a delete from a rollup table is remembered by.

1. A predicate is a tree of comparisons, sets, null tests, ``and``, ``or`` and ``not``, with SQL's
   three-valued logic: a row for which it is unknown does not match.
2. A value is None (null: unknown beside everything), a bool, int, decimal, finite float or text;
   event times and other timestamps are *instants* (``Moment``, microseconds), dates are days
   (``Day``, since 1970-01-01).
3. Numbers compare as Spark has them: minus zero is zero, NaN is over every other.
4. It is JSON in the log; ``data.predicates`` makes Arrow filters of it, ``data.sql`` SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.interval import DAY_US, MAX_INSTANT, MIN_INSTANT, Instant


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
    """The comparisons."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    """A column beside a value."""

    column: str
    how: Compares
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """A column's value is one of a set."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column has no value."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    of: "Predicate"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All hold; of none, true."""

    of: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one holds; of none, false."""

    of: tuple["Predicate", ...]


Predicate: TypeAlias = Compare | Among | IsNull | Not | AllOf | AnyOf


def columns_of(predicate: Predicate) -> Iterator[str]:
    """Yield the columns that a predicate names, in order, repeated where it repeats them."""
    match predicate:
        case Compare(column=column) | Among(column=column) | IsNull(column=column):
            yield column
        case Not(of=one):
            yield from columns_of(one)
        case AllOf(of=some) | AnyOf(of=some):
            for one in some:
                yield from columns_of(one)


def reach(predicate: Predicate, column: str) -> tuple[Instant, Instant]:
    """Return the first and the last instant of a time column at which a predicate can hold.

    It may hold nowhere in between, and holds nowhere at all if the first is after the last.
    """
    match predicate:
        case Compare(column=name, how=how, value=value) if name == column and value is not None:
            return _reach(how, instant_of(value))
        case Among(column=name, values=values) if name == column:
            at = [instant_of(value) for value in values if value is not None]
            known = [each for each in at if each is not None]
            return EVERYWHERE if len(known) < len(at) else _hull([(each, each) for each in known])
        case AllOf(of=some):
            parts = [EVERYWHERE, *(reach(one, column) for one in some)]
            return max(first for first, _ in parts), min(last for _, last in parts)
        case AnyOf(of=some):
            return _hull([reach(one, column) for one in some])
        case _:
            return EVERYWHERE


EVERYWHERE = (MIN_INSTANT, MAX_INSTANT - 1)


def instant_of(value: Value) -> Instant | None:
    """Return a value's instant, a day's being its midnight; None if it is no time."""
    match value:
        case Moment(us=us):
            return us
        case Day(days=days):
            return days * DAY_US
        case _:
            return None


def _reach(how: Compares, at: Instant | None) -> tuple[Instant, Instant]:
    first, last = EVERYWHERE
    if at is None or how is Compares.UNEQUAL:
        return EVERYWHERE
    if how in {Compares.LESS, Compares.AT_MOST}:
        return first, min(at, last)
    if how in {Compares.MORE, Compares.AT_LEAST}:
        return max(at, first), last
    return at, at


def _hull(parts: Sequence[tuple[Instant, Instant]]) -> tuple[Instant, Instant]:
    first, last = EVERYWHERE
    return min((a for a, _ in parts), default=last), max((b for _, b in parts), default=first)


def encode_predicate(predicate: Predicate) -> list[Any]:
    """Return a predicate as JSON: a list of its kind and its parts."""
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
    """Parse what ``encode_predicate`` wrote."""
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
    raise CorruptTable(f"{body!r} is no predicate")


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
    raise CorruptTable(f"{body!r} is no value of a predicate")

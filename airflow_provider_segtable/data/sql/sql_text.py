"""SQL text as trees, and the literals in them.

A literal is kept as it was written: the column that it is compared with, or assigned to, decides
its type (``fitted``).
"""

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp

from airflow_provider_segtable.core.deletes.predicate import Day, Moment, Value
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time.interval import DAY_US, parse_instant

DIALECT = "spark"
EPOCH = date(1970, 1, 1)
Tree: TypeAlias = Any  # the name of sqlglot's base class depends on its version
_NOISE = re.compile(r"\x1b\[\d*m|<class '[\w.]+\.|'>")
"""Colours and class names in the parser's messages."""
_BELOW_MICROSECONDS = re.compile(r"\.\d{7,}")
_NUMBER_OR_TIME = re.compile(r"\s*[+-]?\.?\d|\s*[+-]?(inf|nan)", re.IGNORECASE)
_Type = exp.DataType.Type
_TIMES = {_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPNTZ}


class Kind(StrEnum):
    """The kind of a literal, as written."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a boolean"
    DATE = "a date"
    TIME = "a timestamp"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: its kind, and its text without quotes."""

    kind: Kind
    text: str


def parsed(text: str, what: str, example: str) -> Tree:
    """Return the tree of an SQL expression.

    Args:
        text: the expression.
        what: what it should be, for the error.
        example: one that is right, for the error.

    Raises:
        InvalidInput: it is not one expression in Spark's SQL.
    """
    try:
        trees = sqlglot.parse(text, dialect=DIALECT)
    except sqlglot.errors.SqlglotError as error:
        said = " ".join(_NOISE.sub("", str(error)).split())
        raise InvalidInput(f"{text!r} is not {what} in Spark's SQL: {said}") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInput(f'{text!r} is not {what}: write one, e.g. "{example}"')
    return trees[0]


def written(tree: Tree) -> str:
    """Return a tree as SQL text."""
    return str(tree.sql(DIALECT))


def literal(tree: Tree) -> Literal | None:
    """Return the literal that a tree is, or None."""
    match tree.unnest():
        case exp.Null():
            return Literal(Kind.NULL, "")
        case exp.Boolean() as found:
            return Literal(Kind.BOOLEAN, str(found.this))
        case exp.Literal() as found:
            return Literal(Kind.TEXT if found.is_string else Kind.NUMBER, str(found.this))
        case exp.Neg() as found:
            return _negative(literal(found.this))
        case exp.Cast() as found:
            return _cast(literal(found.this), found.to.this)
    return None


def _negative(found: Literal | None) -> Literal | None:
    if found is None or found.kind is not Kind.NUMBER:
        return None
    negative = found.text.startswith("-")
    return Literal(Kind.NUMBER, found.text[1:] if negative else f"-{found.text}")


def _cast(found: Literal | None, to: Any) -> Literal | None:
    if found is None:
        return None
    if found.kind is Kind.NUMBER and to in exp.DataType.NUMERIC_TYPES:
        return found  # 1L, 1.5D: the column's type decides
    if found.kind is Kind.TEXT and to is _Type.DATE:
        return Literal(Kind.DATE, found.text)
    if found.kind is Kind.TEXT and to in _TIMES:
        return Literal(Kind.TIME, found.text)
    return None


def fitted(found: Literal, kind: pa.DataType) -> Value:
    """Return a literal as a value of a column's type, or None if it has another type.

    Raises:
        ValueError, InvalidOperation: it is no value of the type.
    """
    text = found.text
    match found.kind:
        case Kind.NUMBER:
            return _number(text, kind)
        case Kind.BOOLEAN:
            return text == "True" if pa.types.is_boolean(kind) else None
        case Kind.TEXT if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return text
        case _ if pa.types.is_timestamp(kind):
            return Moment(instant(text))
        case Kind.TIME if pa.types.is_date(kind):
            days, rest = divmod(instant(text), DAY_US)
            if rest:
                raise ValueError("it is within a day")
            return Day(days)
        case _ if pa.types.is_date(kind):
            return Day((date.fromisoformat(text) - EPOCH).days)
    return None


def comparable(found: Literal, kind: pa.DataType) -> bool:
    """Return whether Spark may compare a literal with a column that has no such value.

    Spark casts texts to numbers and times, and compares numbers of any size; it refuses all else.
    """
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    if found.kind is Kind.TEXT and (numeric or pa.types.is_temporal(kind)):
        return bool(_NUMBER_OR_TIME.match(found.text))
    if found.kind is Kind.NUMBER:
        return bool(numeric or text)
    return bool(text or (found.kind in (Kind.DATE, Kind.TIME) and pa.types.is_temporal(kind)))


def instant(text: str) -> int:
    """Return the microseconds since 1970 of a time as text.

    Raises:
        ValueError: it is no time, or finer than microseconds.
    """
    if _BELOW_MICROSECONDS.search(text):
        raise ValueError("times are counted in microseconds")
    return parse_instant(text)


def _number(text: str, kind: pa.DataType) -> Value:
    if pa.types.is_floating(kind):
        if not isfinite(float(text)):
            raise ValueError("it is too large")
        return float(text)
    number = Decimal(text)
    if pa.types.is_decimal(kind):
        return number
    if not pa.types.is_integer(kind):
        return None
    if number.adjusted() > 20 or number != int(number):
        raise ValueError("the column has whole numbers of at most 64 bits")
    return int(number)

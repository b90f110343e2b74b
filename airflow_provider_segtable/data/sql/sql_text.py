"""SQL text as trees, and the literals in them.

1. ``data.sql.sql_lexer`` reads texts, comments and long lists of values; sqlglot reads the rest.
2. A literal is kept as it was written, with its kind. ``data.sql.column_bounds`` says where it lies
   among a column's values; ``fitted`` gives the column's value that it is, for assignments.
3. A number with an exponent, or with the suffix D or F, is a double; all others are exact.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Day, Moment, Value
from airflow_provider_segtable.core.time import DAY_US
from airflow_provider_segtable.data.sql.sql_lexer import at_time, prepared, unescaped
from airflow_provider_segtable.data.sql.text_values import OnlySpark, as_day, as_instant

DIALECT = "spark"
EPOCH = date(1970, 1, 1)
Tree: TypeAlias = Any  # the name of sqlglot's base class depends on its version
_NOISE = re.compile(r"\x1b\[\d*m|<class '[\w.]+\.|'>")
"""Colours and class names in the parser's messages."""
_NUMBER_OR_TIME = re.compile(r"\s*[+-]?\.?\d|\s*[+-]?(inf|nan)", re.IGNORECASE)
_Type = exp.DataType.Type
_TIMES = {_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ}
_WHOLE = {_Type.TINYINT: 7, _Type.SMALLINT: 15, _Type.INT: 31, _Type.BIGINT: 63}
_EXACT = Context(prec=1500)
_SHOWN = 3
"""Values of a long list that a message shows."""


class Kind(StrEnum):
    """The kind of a literal, as written."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a boolean"
    DATE = "a date"
    TIME = "a timestamp"
    LOCAL_TIME = "a timestamp without zone"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: its kind, and its text without quotes."""

    kind: Kind
    text: str


def parsed(
    text: str,
    what: str,
    example: str,
    *,
    names: Collection[str] = (),
    now: datetime | None = None,
) -> Tree:
    """Return the tree of an SQL expression.

    Args:
        text: the expression.
        what: what it should be, for the error.
        example: one that is right, for the error.
        names: the columns that it may name.
        now: what ``current_timestamp()`` is; by default the time of this call.

    Raises:
        InvalidInput: it is not one expression in Spark's SQL.
    """
    ready = prepared(at_time(text, now or datetime.now(UTC), names))
    try:
        trees = sqlglot.parse(ready.text, dialect=DIALECT)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidInput(f"{text!r} is not {what} in Spark's SQL: {_fault(error)}") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInput(f'{text!r} is not {what}: write one, e.g. "{example}"')
    for name in list(trees[0].find_all(exp.Column)) if ready.lists else ():
        if name.name in ready.lists:
            name.replace(exp.Var(this=ValueList.of(ready.lists[name.name])))
    return trees[0]


def _fault(error: sqlglot.errors.SqlglotError) -> str:
    """Return what is wrong with a text, and the way out where it is known."""
    if not isinstance(error, sqlglot.errors.ParseError):
        return (
            "a text in it does not end; write it in quotes, and a quote within it twice: 'O''Hare'"
        )
    said = " ".join(_NOISE.sub("", str(error)).split())
    word = str(error.errors[0]["highlight"]) if error.errors else ""
    if not word.isalpha() or word.lower() in _BETWEEN_COLUMNS:
        return said
    return f"{said}; a column of the name {word} is written in backticks: `{word}`"


_BETWEEN_COLUMNS = frozenset(("and", "or", "not", "is", "in", "like", "between", "as"))


_PLAIN_FORMS = {
    Kind.NUMBER: r"^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$",
    Kind.TEXT: r"^'[^'\\]*'$",
    Kind.DATE: r"(?i)^date\s*'[^'\\]*'$",
    Kind.TIME: r"(?i)^timestamp\s*'[^'\\]*'$",
}


class ValueList(str):
    """The values of an ``IN``, as the text of one node: a tree of so many would take seconds."""

    __slots__ = ("written",)
    written: Sequence[str]

    @staticmethod
    def of(values: Sequence[str]) -> "ValueList":
        """Return the list of some values as they are written."""
        more = f", and {len(values) - _SHOWN} more" if len(values) > 2 * _SHOWN else ""
        made = ValueList(", ".join(values[:_SHOWN] if more else values) + more)
        made.written = values
        return made


def _plain(text: str) -> "Literal":
    """Return a plain literal of a list."""
    if text[-1] == "'":
        prefix, _, _ = text.partition("'")
        kind = {"": Kind.TEXT, "DATE": Kind.DATE, "TIMESTAMP": Kind.TIME}[prefix.strip().upper()]
        return Literal(kind, unescaped(text[len(prefix) :]))
    if text[0] in "nN":
        return Literal(Kind.NULL, "")
    if text[-1] in "dD":
        return _double(float(text[:-1])) or Literal(Kind.NUMBER, f"{text[:-1]}e0")
    return Literal(Kind.NUMBER, text.rstrip("lL"))


def plain_list(tree: exp.In) -> "tuple[Kind, list[str]] | None":
    """Return the values of an ``IN``, if all are of one kind and written plainly.

    Plain are numbers without suffix, and texts, dates and timestamps without escapes. A list of a
    hundred thousand is then converted as a whole; any other list value by value, by ``listed``.
    """
    (only, *more) = tree.expressions
    if more or not isinstance(only.this, ValueList):
        return None
    given = pa.array(only.this.written)
    for kind, form in _PLAIN_FORMS.items():
        if pc.all(pc.match_substring_regex(given, form)).as_py():
            texts = pc.replace_substring_regex(given, r"^[A-Za-z\s]*'|'$", "")
            return kind, (given if kind is Kind.NUMBER else texts).to_pylist()
    return None


def listed(tree: exp.In) -> Iterator["Literal | Tree"]:
    """Yield the values of an ``IN``: literals, and trees of those that are none."""
    for each in tree.expressions:
        if isinstance(each.this, ValueList):
            yield from map(_plain, each.this.written)
        else:
            yield literal(each) or each


def column_path(tree: Tree) -> tuple[str, ...]:
    """Return the name of a column, followed by those of the fields within it."""
    if isinstance(tree, exp.Dot):
        return (*column_path(tree.this), tree.expression.name)
    if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier):
        raise OnlySpark("it is a part of a column")
    return tuple(each.name for each in tree.parts)


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
            return None if found.args.get("safe") else _cast(literal(found.this), found.to)
    return None


def _negative(found: Literal | None) -> Literal | None:
    if found is None or found.kind is not Kind.NUMBER:
        return None
    negative = found.text.startswith("-")
    return Literal(Kind.NUMBER, found.text[1:] if negative else f"-{found.text}")


def _cast(found: Literal | None, to: Tree) -> Literal | None:
    """Return what a cast makes of a literal, if that is a literal again."""
    if found is None:
        return None
    if found.kind is Kind.TEXT and to.this is _Type.DATE:
        return Literal(Kind.DATE, found.text)
    if found.kind is Kind.TEXT and to.this in _TIMES:
        return Literal(Kind.TIME, found.text)
    if found.kind is Kind.TEXT and to.this is _Type.TIMESTAMPNTZ:
        return Literal(Kind.LOCAL_TIME, found.text)
    if found.kind is Kind.NUMBER and to.this in _WHOLE and found.text.lstrip("+-").isdigit():
        return found if abs(int(found.text)) <= 2 ** _WHOLE[to.this] else None  # 1L, or -128Y
    if found.kind is Kind.NUMBER and to.this is _Type.DOUBLE:
        return _double(float(found.text))
    if found.kind is Kind.NUMBER and to.this is _Type.FLOAT:
        return _double(float(np.float32(found.text)))
    if to.this is _Type.DECIMAL and found.kind in {Kind.NUMBER, Kind.TEXT}:
        return _decimal(found.text, to)
    return None


def _double(number: float) -> Literal | None:
    text = repr(number)
    return Literal(Kind.NUMBER, text if "e" in text else f"{text}e0") if isfinite(number) else None


def _decimal(text: str, to: Tree) -> Literal | None:
    """Return a number with the suffix BD, or cast to a decimal that has all of its digits."""
    sizes = [int(each.name) for each in to.expressions] or [10]
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    exponent = number.as_tuple().exponent
    fits = isinstance(exponent, int) and -exponent <= scale
    if not fits or number.adjusted() >= precision - scale:
        return None
    return Literal(Kind.NUMBER, f"{number.quantize(Decimal(1).scaleb(-scale), context=_EXACT):f}")


def is_double(text: str) -> bool:
    """Return whether a number is a double as it is written."""
    return "e" in text.lower()


def fitted(found: Literal, kind: pa.DataType) -> Value:
    """Return a literal as a value of a column's type, or None if it has another type.

    Raises:
        ValueError, InvalidOperation: it is no value of the type.
        OnlySpark: Spark may know its value.
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
            return Moment(instant(found))
        case Kind.TIME | Kind.LOCAL_TIME if pa.types.is_date(kind):
            days, rest = divmod(instant(found), DAY_US)
            if rest:
                raise ValueError("it is within a day")
            return Day(days)
        case _ if pa.types.is_date(kind):
            return Day(as_day(text))
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
    return bool(
        text
        or (found.kind in (Kind.DATE, Kind.TIME, Kind.LOCAL_TIME) and pa.types.is_temporal(kind))
    )


def instant(found: Literal) -> int:
    """Return the microseconds since 1970 of a literal; a date alone is its midnight.

    Raises:
        ValueError: it is no time.
        OnlySpark: Spark may read it as a time.
    """
    if found.kind is Kind.DATE:
        return as_day(found.text) * DAY_US
    return as_instant(found.text, zoned=found.kind is not Kind.LOCAL_TIME)


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

"""Parsing and writing of predicates as SQL text; the dialect is Spark's.

1. The parser accepts the expressions of a ``Predicate``: comparisons of a column with a value (on
   either side), ``IN``, ``BETWEEN``, ``IS NULL``, ``AND``, ``OR``, ``NOT``, ``TRUE``, ``FALSE``, a
   boolean column. It refuses all others by name; Spark accepts any expression.
2. A value must have its column's type; text compared with a time or a date column is parsed as a
   time or a date. Times without zone are UTC.
3. ``to_sql`` writes times with their zone and quotes every name, so that its output means the same
   in every session, and is parsed back to the same predicate.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import reduce
from math import isfinite
from typing import Any, TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp

from airflow_provider_segtable.core.deletes.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.time.interval import DAY_US, moment, parse_instant
from airflow_provider_segtable.data.arrow.arrow_predicates import scalar

_DIALECT = "spark"
_WAY_OUT = (
    "give it to Spark, which reads any expression: `segtable delete --engine spark`, or "
    "spark.change.delete"
)
_KNOWN = (
    "it reads comparisons of a column with a value, IN (values), BETWEEN, IS NULL, AND, OR, NOT"
)
_EPOCH = date(1970, 1, 1)
_BELOW_MICROSECONDS = re.compile(r"\.\d{7,}")

_COMPARISONS: dict[type[Any], Compares] = {
    exp.EQ: Compares.EQUAL,
    exp.NEQ: Compares.UNEQUAL,
    exp.LT: Compares.LESS,
    exp.LTE: Compares.AT_MOST,
    exp.GT: Compares.MORE,
    exp.GTE: Compares.AT_LEAST,
}
_TURNED = {
    Compares.LESS: Compares.MORE,
    Compares.AT_MOST: Compares.AT_LEAST,
    Compares.MORE: Compares.LESS,
    Compares.AT_LEAST: Compares.AT_MOST,
}
_Tree: TypeAlias = Any  # the name of sqlglot's base class depends on its version
_Type = exp.DataType.Type
_TIMES = {_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPNTZ}


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse a condition in SQL into a predicate.

    Args:
        text: the condition, as after ``WHERE`` in Spark's SQL.
        schema: the columns it may name; names are case-sensitive.

    Raises:
        SchemaMismatch: naming a column that is missing.
        InvalidInput: naming the part that is not SQL, is not a value of its column, or is not
            supported in a predicate.
    """
    try:
        trees = sqlglot.parse(text, dialect=_DIALECT)
        if len(trees) != 1 or trees[0] is None:
            raise InvalidInput(f"{text!r} is not a condition: write one, e.g. \"carrier = 'AA'\"")
        return _Reader(schema).predicate(trees[0])
    except sqlglot.errors.SqlglotError as error:
        said = " ".join(re.sub(r"\x1b\[\d*m", "", str(error)).split())
        raise InvalidInput(f"{text!r} is not a condition in Spark's SQL: {said}") from None
    except RecursionError:
        raise InvalidInput(f"the condition is nested too deeply to be read: {_WAY_OUT}") from None


class _Is(StrEnum):
    """The kind of a literal, as written."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a boolean"
    DATE = "a date"
    TIME = "a timestamp"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class _Literal:
    kind: _Is
    text: str


@dataclass(frozen=True, slots=True)
class _Reader:
    """Converts an sqlglot tree into a predicate over the columns of a schema."""

    schema: pa.Schema

    def predicate(self, tree: _Tree) -> Predicate:
        match tree:
            case exp.Paren():
                return self.predicate(tree.this)
            case exp.And():
                return AllOf(tuple(map(self.predicate, _parts(tree, exp.And))))
            case exp.Or():
                return AnyOf(tuple(map(self.predicate, _parts(tree, exp.Or))))
            case exp.Not():
                return Not(self.predicate(tree.this))
            case exp.Boolean():
                return AllOf(()) if tree.this else AnyOf(())
            case _:
                return self.test(tree)

    def test(self, tree: _Tree) -> Predicate:
        match tree:
            case exp.Column():
                return self.flag(tree)
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return IsNull(self.column(tree.this, tree).name)
            case exp.In() if tree.expressions and not tree.args.get("query"):
                field = self.column(tree.this, tree)
                return Among(field.name, tuple(_value(each, field) for each in tree.expressions))
            case exp.Between() if not tree.args.get("symmetric"):
                field = self.column(tree.this, tree)
                low, high = (_stated(tree.args[key], field) for key in ("low", "high"))
                least = Compare(field.name, Compares.AT_LEAST, low)
                return AllOf((least, Compare(field.name, Compares.AT_MOST, high)))
            case _ if type(tree) in _COMPARISONS:
                return self.comparison(tree)
        raise _refused(tree, _KNOWN)

    def comparison(self, tree: _Tree) -> Predicate:
        left, right, how = tree.this.unnest(), tree.expression.unnest(), _COMPARISONS[type(tree)]
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            raise _refused(tree, "it compares two columns, not a column with a value")
        if isinstance(right, exp.Column):
            left, right, how = right, left, _TURNED.get(how, how)
        field = self.column(left, tree)
        return Compare(field.name, how, _stated(right, field))

    def flag(self, tree: exp.Column) -> Predicate:
        field = self.column(tree, tree)
        if not pa.types.is_boolean(field.type):
            raise _refused(
                tree, f"column {field.name!r} is {field.type}, which is neither true nor false"
            )
        return Compare(field.name, Compares.EQUAL, True)

    def column(self, tree: _Tree, around: _Tree) -> pa.Field:
        tree = tree.unnest()
        if not isinstance(tree, exp.Column):
            raise _refused(around, f"there is no column beside the value; {_KNOWN}")
        if tree.args.get("table") or not isinstance(tree.this, exp.Identifier):
            raise _refused(tree, "it is a part of a column, or a column of some table")
        if tree.name not in self.schema.names:
            raise SchemaMismatch(
                f"there is no column {tree.name!r}: the table has {', '.join(self.schema.names)}"
            )
        return self.schema.field(tree.name)


def _refused(tree: _Tree, why: str) -> InvalidInput:
    return InvalidInput(f"{tree.sql(_DIALECT)!r} cannot be read here: {why}; {_WAY_OUT}")


def _parts(tree: _Tree, kind: type[exp.Connector]) -> list[_Tree]:
    """Return the parts of a chain of AND or OR, in order, without recursion."""
    parts: list[_Tree] = []
    while isinstance(tree, kind):
        parts.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(parts)]


def _stated(tree: _Tree, field: pa.Field) -> Value:
    value = _value(tree, field)
    if value is None:
        name = exp.column(field.name, quoted=True).sql(_DIALECT)
        raise InvalidInput(
            f"a comparison with NULL is never true: write {name} IS NULL, or IS NOT NULL"
        )
    return value


def _value(tree: _Tree, field: pa.Field) -> Value:
    literal = _literal(tree)
    if literal is None:
        raise _refused(tree, f"it is not a plain value to compare with column {field.name!r}")
    if literal.kind is _Is.NULL:
        return None
    try:
        value = _fitted(literal, field.type)
    except (ValueError, InvalidOperation) as error:
        raise _misfit(tree, field, f" ({error})") from None
    if value is None:
        raise _misfit(tree, field, f": it is {literal.kind}")
    scalar(value, field.type, field.name)  # refuses a value that does not fit the type
    return value


def _misfit(tree: _Tree, field: pa.Field, why: str) -> InvalidInput:
    return InvalidInput(
        f"{tree.sql(_DIALECT)} is not a value of column {field.name!r}, {field.type}{why}; write "
        f"one that is, or {_WAY_OUT}"
    )


def _literal(tree: _Tree) -> _Literal | None:
    match tree.unnest():
        case exp.Null():
            return _Literal(_Is.NULL, "")
        case exp.Boolean() as found:
            return _Literal(_Is.BOOLEAN, str(found.this))
        case exp.Literal() as found:
            return _Literal(_Is.TEXT if found.is_string else _Is.NUMBER, str(found.this))
        case exp.Neg() as found:
            return _negative(_literal(found.this))
        case exp.Cast() as found:
            return _cast(_literal(found.this), found.to.this)
    return None


def _negative(literal: _Literal | None) -> _Literal | None:
    if literal is None or literal.kind is not _Is.NUMBER:
        return None
    negative = literal.text.startswith("-")
    return _Literal(_Is.NUMBER, literal.text[1:] if negative else f"-{literal.text}")


def _cast(literal: _Literal | None, to: Any) -> _Literal | None:
    if literal is None:
        return None
    if literal.kind is _Is.NUMBER and to in exp.DataType.NUMERIC_TYPES:
        return literal  # 1L, 1.5D: the column's type decides
    if literal.kind is _Is.TEXT and to is _Type.DATE:
        return _Literal(_Is.DATE, literal.text)
    if literal.kind is _Is.TEXT and to in _TIMES:
        return _Literal(_Is.TIME, literal.text)
    return None


def _fitted(literal: _Literal, kind: pa.DataType) -> Value:
    """Return a literal as a value of a column's type, or None if it has another type."""
    text = literal.text
    match literal.kind:
        case _Is.NUMBER:
            return _number(text, kind)
        case _Is.BOOLEAN:
            return text == "True" if pa.types.is_boolean(kind) else None
        case _Is.TEXT if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return text
        case _ if pa.types.is_timestamp(kind):
            return Moment(_instant(text))
        case _Is.TIME if pa.types.is_date(kind):
            days, rest = divmod(_instant(text), DAY_US)
            if rest:
                raise ValueError("it is within a day")
            return Day(days)
        case _ if pa.types.is_date(kind):
            return Day((date.fromisoformat(text) - _EPOCH).days)
    return None


def _instant(text: str) -> int:
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


def to_sql(predicate: Predicate) -> str:
    """Return a predicate as a condition in Spark's SQL."""
    return str(_tree(predicate).sql(_DIALECT))


def _tree(predicate: Predicate) -> _Tree:
    match predicate:
        case Compare(column=name, how=how, value=value):
            build = next(kind for kind, each in _COMPARISONS.items() if each is how)
            return build(this=_named(name), expression=_written(value))
        case Among(column=name, values=()):
            return exp.false()
        case Among(column=name, values=values):
            return exp.In(this=_named(name), expressions=[_written(value) for value in values])
        case IsNull(column=name):
            return exp.Is(this=_named(name), expression=exp.null())
        case Not(of=one):
            return exp.Not(this=exp.paren(_tree(one), copy=False))
        case AllOf(of=some):
            return _chain(exp.And, some) if some else exp.true()
        case AnyOf(of=some):
            return _chain(exp.Or, some) if some else exp.false()


def _chain(kind: type[exp.Connector], some: Sequence[Predicate]) -> _Tree:
    parts: Iterator[_Tree] = (exp.paren(_tree(one), copy=False) for one in some)
    return reduce(lambda left, right: kind(this=left, expression=right), parts)


def _named(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _written(value: Value) -> _Tree:
    match value:
        case None:
            return exp.null()
        case bool():
            return exp.true() if value else exp.false()
        case str():
            return exp.Literal.string(value)
        case Moment(us=us):
            return exp.cast(exp.Literal.string(moment(us).isoformat(sep=" ")), "TIMESTAMPTZ")
        case Day(days=days):
            return exp.cast(exp.Literal.string(str(_EPOCH + timedelta(days=days))), "DATE")
        case float():
            text = repr(abs(value))
            number = exp.Literal.number(text if "e" in text else f"{text}E0")  # Spark's double
            return exp.Neg(this=number) if str(value).startswith("-") else number
        case _:  # "f": a decimal is written without exponent, which would make it a double
            text = str(abs(value)) if isinstance(value, int) else f"{abs(value):f}"
            number = exp.Literal.number(text)
            return exp.Neg(this=number) if value < 0 else number

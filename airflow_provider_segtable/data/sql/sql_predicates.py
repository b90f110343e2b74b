"""Parse and write predicates as SQL text in Spark's dialect, or refuse the text.

1. The parser accepts the expressions of a ``Predicate``: comparisons of a column with a value (on
   either side; ``<=>`` and ``IS DISTINCT FROM`` among them), ``IN``, ``BETWEEN``, ``IS NULL``,
   ``IS TRUE``, ``AND``, ``OR``, ``NOT``, ``TRUE``, ``FALSE``, a boolean column. It refuses all
   others by name.
2. A value that its column cannot have is compared as Spark compares it: ``i > 1.5`` becomes
   ``i > 1`` (``data.sql.column_bounds``). Text compared with numbers, times or dates is parsed as
   one. Times without zone are UTC.
3. ``to_sql`` writes times with their zone and quotes every name, so that its output means the same
   in every session, and is parsed back to the same predicate.
4. ``check_tree`` finds the parts of an expression over one row that no engine accepts, before Spark
   is started for it.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
from sqlglot import exp

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark
from airflow_provider_segtable.core.predicate import (
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
from airflow_provider_segtable.core.schema import no_column
from airflow_provider_segtable.core.time import moment
from airflow_provider_segtable.data.sql.column_bounds import Bounds, bounds, own_values
from airflow_provider_segtable.data.sql.sql_text import (
    EPOCH,
    Kind,
    Literal,
    OnlySpark,
    Tree,
    comparable,
    is_double,
    listed,
    literal,
    plain_list,
    written,
)

# Checks of trees
_PARTS = frozenset(
    (
        *("this", "expression", "expressions", "to", "_type", "nested", "table", "db", "catalog"),
        *("quoted", "is_string", "unit", "low", "high", "ifs", "true", "false", "default", "query"),
        *("decimals", "start", "length", "substr", "position", "replacement", "ignore_nulls"),
    )
)
_MORE: dict[type[Any], frozenset[str]] = {
    **dict.fromkeys((exp.Like, exp.ILike), frozenset({"negate"})),
    **dict.fromkeys(
        (exp.Div, exp.DPipe, exp.Concat, exp.TsOrDsToDate, exp.TryCast), frozenset({"safe"})
    ),
    **dict.fromkeys((exp.TimeToStr, exp.StrToTime, exp.StrToUnix), frozenset({"format"})),
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), frozenset({"zone"})),
    exp.TsOrDsToDate: frozenset({"safe", "format"}),
    exp.Bracket: frozenset({"offset"}),
    exp.ConcatWs: frozenset({"safe", "coalesce", "flatten"}),
    exp.MapContainsKey: frozenset({"key"}),
    exp.Pad: frozenset({"fill_pattern", "is_left"}),
    exp.Repeat: frozenset({"times"}),
    exp.SubstringIndex: frozenset({"delimiter", "count"}),
    exp.Translate: frozenset({"from_"}),
}
"""Further arguments that a node may have."""


def check_tree(tree: Tree, names: Collection[str]) -> None:
    """Refuse missing columns and functions of many rows; sub-queries are not looked into.

    In a lambda the parser makes names of its parameters something else than columns.

    Args:
        tree: the expression.
        names: the columns that it may name; Spark ignores their case.

    Raises:
        SchemaMismatch: a column is missing.
        NeedsSpark: only Spark knows the names in a lambda.
        InvalidInput: it has an aggregate, a window function or one that makes rows.
    """
    known = {name.lower() for name in names}
    for node in tree.walk(prune=lambda each: isinstance(each, exp.Query)):
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, exp.AggFunc | exp.Window | exp.UDTF):
            raise InvalidInput(
                f"{written(node)!r} is computed over several rows, and this is an expression over "
                "one row: compute it first, and write its result"
            )
        if isinstance(node, exp.Column):
            _refuse_parameter(node)
            if not node.table and node.name.lower() not in known:
                raise no_column(node.name, names)


def _refuse_parameter(column: exp.Column) -> None:
    """Refuse a parameter of a lambda in other letters: Spark ignores their case, sqlglot not.

    Raises:
        NeedsSpark: it is a parameter in other letters.
    """
    name, around = column.parts[0].name, column.find_ancestor(exp.Lambda)
    while around is not None:
        if name.lower() in {each.name.lower() for each in around.expressions}:
            raise NeedsSpark(
                f"{name!r} in {written(around)!r} is a parameter in other letters: write it as the "
                "parameter, or give it to Spark (--engine spark)"
            )
        around = around.find_ancestor(exp.Lambda)


_SAME = (exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, *_SAME)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_TESTS = (exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike, exp.Is, exp.Not)


def unclear_part(tree: Tree) -> Tree | None:
    """Return a node that Spark's parser, without more parentheses, reads in another way.

    There all comparisons bind alike, from left to right, and tests such as ``BETWEEN`` and ``LIKE``
    take whole comparisons; ``||`` binds as ``+`` does; ``&`` binds
    closer than ``^``, and that closer than ``|``.
    """
    for node in tree.find_all(*_COMPARED, *_TESTS, exp.DPipe, *_BITS):
        left, right = _bare(node.this), node.args.get("expression")
        if isinstance(node, exp.DPipe):
            unclear = isinstance(right, exp.Add | exp.Sub)
        elif isinstance(node, _BITS):
            both = (node.this, right)
            unclear = any(isinstance(each, _BITS) and type(each) is not type(node) for each in both)
        elif isinstance(node, _COMPARED):
            after = _bare(right) if isinstance(node, _SAME) else right
            unclear = isinstance(left, (*_TESTS, *_SAME)) or isinstance(
                after, (*_TESTS, *_COMPARED)
            )
        else:
            ends = (node.args.get("low"), node.args.get("high"))
            unclear = not isinstance(node, exp.Not) and isinstance(left, (*_TESTS, *_SAME))
            unclear = unclear or any(isinstance(each, (*_TESTS, *_COMPARED)) for each in ends)
        if unclear:
            return node
    return None


def _bare(tree: Tree) -> Tree:
    """Return ``IS``, ``NOT IN``, ``NOT LIKE`` without parentheses: sqlglot adds these."""
    inner = tree.unnest()
    added = isinstance(inner, (exp.Is, *_SAME)) or (
        inner.args.get("negate") or (isinstance(inner, exp.Not) and isinstance(inner.this, _TESTS))
    )
    return inner if added else tree


def unknown_part(tree: Tree) -> tuple[Tree, str] | None:
    """Return a node with a part that this package does not read, such as an option."""
    for node in tree.walk():
        known = _PARTS | _MORE.get(type(node), frozenset())
        for name, value in node.args.items():
            if value and name not in known:
                return node, name
    return None


# Predicates from SQL and back
_WAY_OUT = "give it to Spark (--engine spark), which reads any expression"
_KNOWN = (
    "it reads comparisons of a column with a value, IN (values), BETWEEN, IS NULL, AND, OR, NOT"
)

COMPARISONS: dict[type[Any], Compares] = {
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


def predicate_of(tree: Tree, schema: pa.Schema) -> Predicate:
    """Return the predicate of a parsed condition.

    Raises:
        SchemaMismatch: naming a column that is missing.
        NeedsSpark: naming the part that is no predicate, but may be a condition for Spark.
        InvalidInput: naming the part that is not a value of its column.
    """
    unclear = unclear_part(tree)
    if unclear is not None:
        raise _refused(unclear, "Spark may put its parentheses elsewhere")
    return _Reader(schema).predicate(tree)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Converts an sqlglot tree into a predicate over the columns of a schema."""

    schema: pa.Schema

    def predicate(self, tree: Tree) -> Predicate:
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

    def test(self, tree: Tree) -> Predicate:
        match tree:
            case exp.Column():
                return self.flag(tree)
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return IsNull(self.column(tree.this, tree).name)
            case exp.Is() if isinstance(tree.expression, exp.Boolean):
                return self.truth(tree)
            case exp.In() if tree.expressions and not tree.args.get("query"):
                return self.among(tree, self.column(tree.this, tree))
            case exp.Between() if not tree.args.get("symmetric"):
                field = self.column(tree.this, tree)
                low, high = (_bounds(tree.args[key], field) for key in ("low", "high"))
                least = low.compare(field.name, Compares.AT_LEAST)
                return AllOf((least, high.compare(field.name, Compares.AT_MOST)))
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                found = self.null_safe(tree)
                return found if isinstance(tree, exp.NullSafeEQ) else Not(found)
            case _ if type(tree) in COMPARISONS:
                return self.comparison(tree)
        raise _refused(tree, _KNOWN)

    def comparison(self, tree: Tree) -> Predicate:
        left, right, how = _sides(tree)
        field = self.column(left, tree)
        return _bounds(right, field).compare(field.name, how)

    def truth(self, tree: exp.Is) -> Predicate:
        """Return whether a predicate is true, or false; it is never unknown."""
        of = tree.this.unnest()
        field = self.column(of, tree)
        if not pa.types.is_boolean(field.type):
            raise _refused(tree, f"column {field.name!r} is {field.type}, not a boolean")
        same = Compare(field.name, Compares.EQUAL, bool(tree.expression.this))
        return AllOf((Not(IsNull(field.name)), same))

    def null_safe(self, tree: Tree) -> Predicate:
        """Return whether a column and a value are equal, or both null; it is never unknown."""
        left, right, _ = _sides(tree)
        field = self.column(left, tree)
        found = literal(right)
        if found is not None and found.kind is Kind.NULL:
            return IsNull(field.name)
        same = _bounds(right, field).compare(field.name, Compares.EQUAL)
        return AllOf((Not(IsNull(field.name)), same))

    def among(self, tree: exp.In, field: pa.Field) -> Predicate:
        """Return that a column has one of some values; impossible values do not matter."""
        plain = plain_list(tree)
        known = plain and own_values(*plain, field.type)
        if known:
            return Among(field.name, tuple(known))
        given = list(listed(tree))
        _check_alike(tree, given, field)
        ranges: list[Predicate] = []
        values: list[Value] = []
        for each in given:
            if not isinstance(each, Literal):
                raise _no_value(each, field)
            if each.kind is Kind.NULL:
                values.append(None)
                continue
            found = _bounds_of(each, each.text, field)
            if found.exact:
                values.append(found.least)
            else:
                ranges.append(found.compare(field.name, Compares.EQUAL))
        several = dict.fromkeys(ranges)  # most are values that the column cannot have
        parts = (*([Among(field.name, tuple(values))] if values else []), *several)
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    def flag(self, tree: exp.Column) -> Predicate:
        field = self.column(tree, tree)
        if not pa.types.is_boolean(field.type):
            raise InvalidInput(
                f"column {field.name!r} is {field.type}, which is neither true nor false: compare "
                "it with a value"
            )
        return Compare(field.name, Compares.EQUAL, True)

    def column(self, tree: Tree, around: Tree) -> pa.Field:
        tree = tree.unnest()
        if not isinstance(tree, exp.Column):
            raise _refused(around, f"there is no column beside the value; {_KNOWN}")
        if tree.args.get("table") or not isinstance(tree.this, exp.Identifier):
            raise _refused(tree, "it is a part of a column, or a column of some table")
        if tree.name not in self.schema.names:
            raise no_column(tree.name, self.schema.names)
        return self.schema.field(tree.name)


def _refused(tree: Tree, why: str) -> InvalidInput:
    return NeedsSpark(f"{written(tree)!r} cannot be read here: {why}; {_WAY_OUT}")


def and_parts(tree: Tree) -> list[Tree]:
    """Return the parts of a conjunction; the tree itself if it is none."""
    return _parts(tree, exp.And)


def _parts(tree: Tree, kind: type[exp.Connector]) -> list[Tree]:
    """Return the parts of a chain of AND or OR, in order, without recursion."""
    parts: list[Tree] = []
    while isinstance(tree, kind):
        parts.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(parts)]


def _sides(tree: Tree) -> tuple[Tree, Tree, Compares]:
    """Return a comparison's column, its value, and how the column is compared with it."""
    left, right = tree.this.unnest(), tree.expression.unnest()
    how = COMPARISONS.get(type(tree), Compares.EQUAL)
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        raise _refused(tree, "it compares two columns, not a column with a value")
    if isinstance(right, exp.Column):
        return right, left, _TURNED.get(how, how)
    return left, right, how


def _bounds(tree: Tree, field: pa.Field) -> Bounds:
    found = literal(tree)
    if found is None:
        raise _no_value(tree, field)
    if found.kind is Kind.NULL:
        name = written(exp.column(field.name, quoted=True))
        raise InvalidInput(
            f"a comparison with NULL is never true: write {name} IS NULL, or IS NOT NULL"
        )
    return _bounds_of(found, written(tree), field)


def _bounds_of(found: Literal, text: str, field: pa.Field) -> Bounds:
    try:
        return bounds(found, field.type)
    except OnlySpark as why:
        raise _misfit(text, field, f" ({why})", spark=True) from None
    except TypeError as why:
        raise _misfit(text, field, f": {why}", spark=comparable(found, field.type)) from None
    except ValueError as why:
        raise _misfit(text, field, f" ({why})", spark=False) from None


def _no_value(tree: Tree, field: pa.Field) -> InvalidInput:
    return _refused(tree, f"it is not a plain value to compare with column {field.name!r}")


def _misfit(text: str, field: pa.Field, why: str, *, spark: bool) -> InvalidInput:
    said = f"{text} is not a value of column {field.name!r}, {field.type}{why}; write one"
    if spark:
        return NeedsSpark(f"{said} that is, or {_WAY_OUT}")
    return InvalidInput(f"{said} that is")


def _check_alike(tree: Tree, given: Sequence[Literal | Tree], field: pa.Field) -> None:
    """Refuse a set whose values Spark brings to a type that no single one of them has."""
    literals = [each for each in given if isinstance(each, Literal) and each.kind is not Kind.NULL]
    kinds = {each.kind for each in literals}
    doubles = {is_double(each.text) for each in literals if each.kind is Kind.NUMBER}
    if len(kinds) > 1 or (len(doubles) > 1 and not pa.types.is_floating(field.type)):
        raise _refused(tree, "its values are of several types")


def to_sql(predicate: Predicate) -> str:
    """Return a predicate as a condition in Spark's SQL."""
    return written(_tree(predicate))


def _tree(predicate: Predicate) -> Tree:
    match predicate:
        case Compare(column=name, how=how, value=value):
            build = next(kind for kind, each in COMPARISONS.items() if each is how)
            return build(this=_named(name), expression=_literal_of(value))
        case Among(column=name, values=()):
            return exp.false()
        case Among(column=name, values=values):
            return exp.In(this=_named(name), expressions=[_literal_of(value) for value in values])
        case IsNull(column=name):
            return exp.Is(this=_named(name), expression=exp.null())
        case Not(of=one):
            return exp.Not(this=exp.paren(_tree(one), copy=False))
        case AllOf(of=some):
            return _chain(exp.And, some) if some else exp.true()
        case AnyOf(of=some):
            return _chain(exp.Or, some) if some else exp.false()


def _chain(kind: type[exp.Connector], some: Sequence[Predicate]) -> Tree:
    parts: Iterator[Tree] = (exp.paren(_tree(one), copy=False) for one in some)
    return reduce(lambda left, right: kind(this=left, expression=right), parts)


def _named(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _literal_of(value: Value) -> Tree:
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
            return exp.cast(exp.Literal.string(str(EPOCH + timedelta(days=days))), "DATE")
        case float():
            text = repr(abs(value))
            number = exp.Literal.number(text if "e" in text else f"{text}E0")  # Spark's double
            return exp.Neg(this=number) if str(value).startswith("-") else number
        case _:  # "f": a decimal is written without exponent, which would make it a double
            text = str(abs(value)) if isinstance(value, int) else f"{abs(value):f}"
            number = exp.Literal.number(text)
            return exp.Neg(this=number) if value < 0 else number

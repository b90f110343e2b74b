"""What no engine accepts in an expression over one row: found before Spark is started for it."""

from collections.abc import Collection
from typing import Any

from sqlglot import exp

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark
from airflow_provider_segtable.core.schema import no_column
from airflow_provider_segtable.data.sql.sql_text import Tree, written

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
"""What a node may have besides."""


def check_tree(tree: Tree, names: Collection[str]) -> None:
    """Refuse missing columns and functions of many rows; sub-queries are not looked into.

    In a lambda the parser makes names of its parameters something else than columns.

    Args:
        tree: the expression.
        names: the columns that it may name; Spark ignores their case.

    Raises:
        SchemaMismatch: a column is missing.
        NeedsSpark: only Spark knows what a name in a lambda is.
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
    """Return a node that has more to it than this package looks at, such as an option."""
    for node in tree.walk():
        known = _PARTS | _MORE.get(type(node), frozenset())
        for name, value in node.args.items():
            if value and name not in known:
                return node, name
    return None

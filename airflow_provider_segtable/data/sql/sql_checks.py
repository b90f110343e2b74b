"""What no engine accepts in an expression over one row: found before Spark is started for it."""

from collections.abc import Collection

from sqlglot import exp

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.sql.sql_text import Tree, written

_PARTS = frozenset(
    (
        *("this", "expression", "expressions", "to", "_type", "nested", "table", "query"),
        *("quoted", "is_string", "safe", "unit", "low", "high", "ifs", "true", "false", "default"),
        "decimals",
    )
)
_LIKE_PARTS = _PARTS | {"negate"}
_ELSEWHERE = (exp.Query, exp.Lambda)
"""Parts with names of their own."""


def check_tree(tree: Tree, names: Collection[str]) -> None:
    """Refuse missing columns and functions of many rows; sub-queries are not looked into.

    Args:
        tree: the expression.
        names: the columns that it may name; Spark ignores their case.

    Raises:
        SchemaMismatch: a column is missing.
        InvalidInput: it has an aggregate, a window function or one that makes rows.
    """
    known = {name.lower() for name in names}
    for node in tree.walk(prune=lambda each: isinstance(each, _ELSEWHERE)):
        if isinstance(node, _ELSEWHERE):
            continue
        if isinstance(node, exp.AggFunc | exp.Window | exp.UDTF):
            raise InvalidInput(
                f"{written(node)!r} is computed over several rows, and this is an expression over "
                "one row: compute it first, and write its result"
            )
        if isinstance(node, exp.Column) and not node.table and node.name.lower() not in known:
            raise SchemaMismatch(
                f"there is no column {node.name!r}: the table has {', '.join(names)}"
            )


def unknown_part(tree: Tree) -> tuple[Tree, str] | None:
    """Return a node that has more to it than this package looks at, such as an option."""
    for node in tree.walk():
        known = _LIKE_PARTS if isinstance(node, exp.Like) else _PARTS
        for name, value in node.args.items():
            if value and name not in known:
                return node, name
    return None

"""What no engine accepts in an expression over one row: found before Spark is started for it."""

from collections.abc import Collection

from sqlglot import exp

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.data.sql.sql_text import Tree, written

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

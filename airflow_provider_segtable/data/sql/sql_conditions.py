"""Conditions in SQL: as predicates where possible, else computed row by row.

1. A predicate (``data.sql.sql_predicates``) bounds the event time, and skips files and row groups.
2. Any other condition is computed with Arrow (``data.sql.sql_values``). The parts of its ``AND``
   that are predicates bound and skip all the same.
"""

from datetime import datetime

import pyarrow as pa
from sqlglot import exp

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark
from airflow_provider_segtable.core.predicate import AllOf, Predicate, reach
from airflow_provider_segtable.data.arrow.conditions import Condition, by_predicate
from airflow_provider_segtable.data.sql.sql_checks import check_tree
from airflow_provider_segtable.data.sql.sql_predicates import and_parts, predicate_of
from airflow_provider_segtable.data.sql.sql_text import Tree, column_path, parsed
from airflow_provider_segtable.data.sql.sql_values import folded, holds


def sql_condition(
    text: str, schema: pa.Schema, time_column: str, now: datetime | None = None
) -> Condition:
    """Return a condition over the columns of a table.

    Args:
        text: the condition, as after ``WHERE`` in Spark's SQL.
        schema: the table's columns; names are case-sensitive.
        time_column: the event time.
        now: what ``current_timestamp()`` is; by default the time of this call.

    Raises:
        SchemaMismatch: a column is missing.
        NeedsSpark: this process cannot evaluate it.
        InvalidInput: no engine can.
    """
    try:
        tree = parsed(text, "a condition", "carrier = 'AA'", names=schema.names, now=now)
        check_tree(tree, schema.names)
        tree = folded(tree)
        try:
            return by_predicate(predicate_of(tree, schema), time_column)
        except NeedsSpark:
            return _computed(text, tree, schema, time_column)
    except RecursionError:
        raise NeedsSpark(
            f"the condition is nested too deeply to be read here: {text[:60]}...; "
            "give it to Spark (--engine spark)"
        ) from None


def _computed(text: str, tree: Tree, schema: pa.Schema, time_column: str) -> Condition:
    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return batch.filter(holds(tree, pa.Table.from_batches([batch])))
        except (ArithmeticError, ValueError, pa.ArrowException) as error:
            raise InvalidInput(
                f"{text!r} is neither true nor false for some row: {error}"
            ) from None

    keep(pa.RecordBatch.from_pylist([], schema))  # refuses what it cannot compute
    test = AllOf(tuple(_predicates(tree, schema)))
    named = {column_path(node)[0] for node in tree.find_all(exp.Column)}
    columns = tuple(name for name in schema.names if name in named) or (time_column,)
    return Condition(columns=columns, keep=keep, when=reach(test, time_column), test=test)


def _predicates(tree: Tree, schema: pa.Schema) -> list[Predicate]:
    """Return the parts of a conjunction that are predicates: all matching rows satisfy them."""
    found = []
    for part in and_parts(tree.unnest()):
        try:
            found.append(predicate_of(part, schema))
        except NeedsSpark:
            continue
    return found

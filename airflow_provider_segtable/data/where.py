"""Conditions of users: SQL, or a ``pyarrow.compute.Expression``."""

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import Sql, Where
from airflow_provider_segtable.core.time import Instant, moment
from airflow_provider_segtable.data.conditions import Condition, by_expression, by_predicate


def condition(
    where: Where | Predicate | Condition, schema: pa.Schema, time_column: str
) -> Condition:
    """Return a condition over the columns of a table; keep a finished condition.

    Raises:
        SchemaMismatch: a column is missing.
        NeedsSpark: this process cannot evaluate it.
        InvalidInput: it is no condition.
    """
    if isinstance(where, Condition):
        return where
    if isinstance(where, str):
        from airflow_provider_segtable.data.sql.sql_conditions import sql_condition  # slow

        return sql_condition(where, schema, time_column)
    if isinstance(where, Predicate):
        return by_predicate(where, time_column)
    if isinstance(where, pc.Expression):
        return by_expression(where, schema)
    raise InvalidInput(
        f"{where!r} is not a condition: give SQL text, or a pyarrow.compute.Expression"
    )


def timed(given: Any, at: Instant, names: Collection[str]) -> Any:
    """Return a condition, or ``Sql``, with a time in place of names for the present.

    A statement is read several times: to choose files, to compare rows, by Spark. It has to see
    one time, that of its request.

    Args:
        given: a condition, or a new value; other types than SQL texts stay as they are.
        at: the time.
        names: the columns.
    """
    if not isinstance(given, Sql | str):
        return given
    from airflow_provider_segtable.data.sql.sql_text import at_time  # slow

    if isinstance(given, Sql):
        return Sql(at_time(given.text, moment(at), names))
    return at_time(given, moment(at), names)


def why_not_here(where: Where | None, schema: pa.Schema) -> str:
    """Return why only Spark can evaluate a condition; empty if this process can.

    Raises:
        InvalidInput: the condition is wrong, for Spark too.
    """
    try:
        if where is not None:
            condition(where, schema, "")
    except NeedsSpark as error:
        return str(error)
    return ""

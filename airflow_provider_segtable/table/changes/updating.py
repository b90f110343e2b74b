"""New values of updated rows: plain values, SQL, or Arrow expressions over the old row."""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.core.schema import no_column

NewValue: TypeAlias = Callable[[pa.Table], pa.ChunkedArray]
"""Returns a column's new values for rows."""


def new_values(
    given: Mapping[str, Any], schema: pa.Schema, source: Mapping[str, str] | None = None
) -> dict[str, NewValue]:
    """Return the new values of a request by column; SQL is read once.

    Args:
        given: the values of a request: plain ones, ``Sql``, or Arrow expressions.
        schema: the table's columns.
        source: of a merge, the names of its source's columns in the rows.

    Raises:
        SchemaMismatch: a column is missing.
        InvalidInput: a text is not SQL.
    """
    for name in given:
        if name not in schema.names:
            raise no_column(name, schema.names, "to set")
    return {
        name: _new_value(schema.field(name), value, schema, source) for name, value in given.items()
    }


def assigned(rows: pa.Table, values: Mapping[str, NewValue]) -> pa.Table:
    """Return rows with new values in some columns.

    Raises:
        SchemaMismatch: a value does not fit its column.
        InvalidInput: only Spark computes a value.
    """
    given = {name: value(rows) for name, value in values.items()}
    columns = [given.get(name, rows.column(name)) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _new_value(
    field: pa.Field, value: Any, schema: pa.Schema, source: Mapping[str, str] | None
) -> NewValue:
    if not isinstance(value, Sql):
        return partial(_plain, field, value)
    from airflow_provider_segtable.data.sql.assigned_sql import AssignedSql  # slow to import

    return AssignedSql.read(field, value.text, schema.names, source).over


def _plain(field: pa.Field, value: Any, rows: pa.Table) -> pa.ChunkedArray:
    """Return a plain value, or an Arrow expression's, cast to the column's type."""
    kind = field.type
    try:
        if isinstance(value, pc.Expression):
            return _evaluated(rows, value).cast(kind)
        one = pa.array([value]).cast(kind) if _may_lose(value, kind) else pa.array([value], kind)
        return pa.chunked_array([pa.repeat(one[0], rows.num_rows)], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatch(
            f"column {field.name!r} is {kind} and cannot be set to {value}: {error}"
        ) from None


def _may_lose(value: Any, kind: pa.DataType) -> bool:
    """Return whether Arrow would silently truncate a Python value; its casts raise instead."""
    number = isinstance(value, float | Decimal) and pa.types.is_integer(kind)
    return number or (isinstance(value, datetime) and pa.types.is_temporal(kind))


def _evaluated(rows: pa.Table, value: pc.Expression) -> pa.ChunkedArray:
    from pyarrow import acero  # slow to import

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.Declaration("project", acero.ProjectNodeOptions([value], ["value"]))
    plan = acero.Declaration.from_sequence([source, project])
    return plan.to_table(use_threads=False).column("value")  # one thread keeps the order

"""New values of updated rows: constants, or Arrow expressions over the old row."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SchemaMismatch


def assigned(rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """Return rows with new values in some columns.

    Raises:
        SchemaMismatch: a value does not fit its column.
    """
    given = {name: _assigned(rows, name, value) for name, value in values.items()}
    columns = [given.get(name, rows.column(name)) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _assigned(rows: pa.Table, name: str, value: Any) -> pa.ChunkedArray:
    """Return the new values of a column, cast to its type."""
    kind = rows.schema.field(name).type
    try:
        if isinstance(value, pc.Expression):
            return _evaluated(rows, value).cast(kind)
        if isinstance(value, pa.Scalar):
            return pa.chunked_array([pa.repeat(value.cast(kind), rows.num_rows)], kind)
        one = pa.array([value]).cast(kind) if _may_lose(value, kind) else pa.array([value], kind)
        return pa.chunked_array([pa.repeat(one[0], rows.num_rows)], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatch(
            f"column {name!r} is {kind} and cannot be set to {value}: {error}"
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

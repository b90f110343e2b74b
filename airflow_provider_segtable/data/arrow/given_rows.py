"""Rows as users give them: anything that speaks Arrow, as an Arrow table.

1. Arrow tables, record batches and readers; pandas, Polars, DuckDB and others by the Arrow
   PyCapsule interface (``__arrow_c_stream__``, ``__arrow_c_array__``). None of these libraries is
   imported.
2. A pandas index is a column if it has a name, and left out if it has none.
"""

import re
from typing import Any, TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch

Rows: TypeAlias = Any
"""Rows that speak Arrow; no library names what they have in common."""

_INDEX = re.compile(r"__index_level_\d+__")
"""The name that pandas gives to an index without one."""


def arrow_table(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table; a reader is read to its end.

    Raises:
        InvalidInput: they do not speak Arrow.
        SchemaMismatch: their library cannot express them in Arrow.
    """
    try:
        found = _arrow_table(rows)
        return found.drop_columns([name for name in found.column_names if _INDEX.fullmatch(name)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"the given {type(rows).__name__} has a column without an Arrow type: convert it to "
            f"one type first ({error})"
        ) from None


def _arrow_table(rows: Any) -> pa.Table:
    match rows:
        case pa.Table():
            return rows
        case pa.RecordBatch():
            return pa.Table.from_batches([rows])
        case pa.RecordBatchReader():
            return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    if hasattr(rows, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(rows)])
    raise InvalidInput(
        f"{type(rows).__name__} is not rows in Arrow: give a pandas (2.2 or later) or Polars "
        "DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or any object with "
        "__arrow_c_stream__; collect a LazyFrame first"
    )

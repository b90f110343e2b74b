"""The columns of a change feed, after those of the table: effect, version and completion time."""

import pyarrow as pa

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.reads.effects import (
    CHANGE,
    CHANGE_COLUMNS,
    COMPLETION_TIME,
    VERSION,
    RowChange,
)

FEED = pa.schema(
    [
        pa.field(CHANGE, pa.string(), nullable=False),
        pa.field(VERSION, pa.int64(), nullable=False),
        pa.field(COMPLETION_TIME, pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""The columns that a change feed has after those of the table."""


def with_change_columns(known: pa.Schema) -> pa.Schema:
    """Return a table's columns and those of a change feed.

    Raises:
        SchemaMismatch: the table has a column of the same name.
    """
    for name in CHANGE_COLUMNS:
        if name in known.names:
            raise SchemaMismatch(f"a change feed has a column {name!r}: rename the table's own")
    return pa.schema([*known, *FEED])


def labelled(rows: pa.RecordBatch, change: RowChange) -> pa.RecordBatch:
    """Return rows with the columns of a change feed."""
    values = (change.effect.value, change.n, change.time)
    labels = [
        pa.repeat(pa.scalar(value, field.type), rows.num_rows)
        for value, field in zip(values, FEED, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *labels], schema=pa.schema([*rows.schema, *FEED])
    )

"""The hidden columns that show the origin of rows (``core.reads.origin``), as Arrow."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.reads.effects import (
    COMPLETION_TIME,
    INSTANT,
    Origin,
    Origins,
    RowChange,
)
from airflow_provider_segtable.data.arrow.change_columns import labelled
from airflow_provider_segtable.data.deletes.row_filter import hidden_of
from airflow_provider_segtable.data.sort.sort_keys import Indices

_TIME = pa.timestamp("us", tz="UTC")
ORIGIN = pa.schema([(INSTANT, _TIME), (COMPLETION_TIME, _TIME)])
"""The columns; null where the origin is unknown."""


def with_origin_columns(known: pa.Schema) -> pa.Schema:
    """Return a table's columns, and those hidden ones whose names it does not have."""
    return pa.schema([*known, *(field for field in ORIGIN if field.name not in known.names)])


def with_origins(rows: pa.RecordBatch, origins: Origins, names: Sequence[str]) -> pa.RecordBatch:
    """Return rows, which have the address columns, with the hidden columns ``names``."""
    roots, codes, _ = hidden_of(rows)
    found = [origins.get(root, Origin(0, 0)) for root in roots]
    columns = {
        INSTANT: np.array([each.instant for each in found], np.int64)[codes],
        COMPLETION_TIME: np.array([each.completed for each in found], np.int64)[codes],
    }
    for name in names:
        rows = rows.append_column(ORIGIN.field(name), times_of(columns[name]))
    return rows


def read_columns(
    rows: pa.RecordBatch,
    *,
    origins: Origins | None,
    change: RowChange | None,
    names: Sequence[str],
) -> pa.RecordBatch:
    """Return rows with the columns that a read adds to the table's: origins, or their change."""
    shown = rows if origins is None else with_origins(rows, origins, names)
    return shown if change is None else labelled(shown, change)


def times_of(micros: Indices) -> pa.Array:
    """Return times in µs as a column; 0 is null."""
    return pa.array(micros, mask=micros == 0).cast(_TIME)

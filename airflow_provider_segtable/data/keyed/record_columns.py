"""The columns of records, and those of the rows that readers see.

1. Files of earlier schemas are read in the table's present columns, hidden ones included, by the
   ids of columns (``data.parquet.table_file``).
2. With ``partial_update`` a record that lacks a column does not set it, so it has no default: a
   null stays null through all merges, and the default is put in for the readers of a merged row.
   Else a late record of an earlier schema would set a default over another record's value.
3. With ``latest`` a record is the whole row: it has the default of what its file lacks.
"""

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.data.parquet.table_file import (
    default_of,
    files_columns,
    stored_columns,
)


def record_columns(table: TableCreated) -> pa.Schema:
    """Return the columns of a table's files to read records by, with ids."""
    return files_columns(table.kind.input_schema(table.schema, table.time_column), table.kind)


def shown_defaults(table: TableCreated) -> dict[str, pa.Scalar]:
    """Return the values that readers see where no record has set a column; those of null not."""
    rules = table.kind.rules
    if rules is None or not rules.partial:
        return {}
    found = {field.name: default_of(field) for field in stored_columns(table.schema)}
    return {name: value for name, value in found.items() if value.is_valid}


def with_defaults(rows: pa.Table, defaults: dict[str, pa.Scalar]) -> pa.Table:
    """Return merged rows with defaults in place of nulls."""
    for at, name in enumerate(rows.column_names):
        if name in defaults and rows.column(at).null_count:
            filled = pc.fill_null(rows.column(at), defaults[name])
            rows = rows.set_column(at, rows.schema.field(at), filled)
    return rows

"""Field ids of the columns of files: those of the schema, and those of hidden columns.

Hidden columns have ids from 2,000,000,000 on, so they never meet a schema's. Readers that go by
ids (Iceberg's) need every column of a file to have one.
"""

from collections.abc import Mapping

from airflow_provider_segtable.core.segments.segment import ROOT, ROW
from airflow_provider_segtable.core.tables.schema import Schema
from airflow_provider_segtable.core.tables.table_kind import TableKind

HIDDEN_IDS = 2_000_000_000


def field_ids(schema: Schema, kind: TableKind) -> Mapping[str, int]:
    """Return the ids of all columns that a file may have, by name."""
    hidden = (ROOT, ROW, *(column.name for column in kind.hidden))
    return {
        **{column.name: column.id for column in schema.numbered},
        **{name: HIDDEN_IDS + at for at, name in enumerate(hidden)},
    }

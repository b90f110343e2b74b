"""Field ids of the columns of files: those of the schema, and those of hidden columns.

Hidden columns have ids from 2,000,000,000 on, so they never meet a schema's: those of the creation
by position, those of columns that were added later by the ids of these. Readers that go by ids
(Iceberg's) need every column of a file to have one.
"""

from collections.abc import Mapping, Sequence

from airflow_provider_segtable.core.segments.segment import ROOT, ROW
from airflow_provider_segtable.core.tables.schema import Column, Schema
from airflow_provider_segtable.core.tables.table_kind import TableKind

HIDDEN_IDS = 2_000_000_000
_OF_ALL = (ROOT, ROW)
_LATER = HIDDEN_IDS + 1_000_000


def field_ids(schema: Schema, kind: TableKind) -> Mapping[str, int]:
    """Return the ids of all columns that a file may have, by name."""
    return {
        **{column.name: column.id for column in schema.numbered},
        **{name: HIDDEN_IDS + at for at, name in enumerate(_OF_ALL)},
        **hidden_ids(kind.hidden),
    }


def hidden_ids(columns: Sequence[Column]) -> Mapping[str, int]:
    """Return the ids of a kind's hidden columns, by name."""
    first = HIDDEN_IDS + len(_OF_ALL)
    return {column.name: column.id or at for at, column in enumerate(columns, start=first)}


def id_beside(column_id: int, place: int) -> int:
    """Return the id of a hidden column that belongs to one added later: the first or the second."""
    return _LATER + 2 * column_id + place

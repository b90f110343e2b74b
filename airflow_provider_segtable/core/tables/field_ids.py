"""Field ids of the columns of files: of the schema's, and of hidden ones.

1. Hidden columns have ids from 2,000,000,000 on, so they never meet a schema's: columns of the
   creation by position, later ones by the ids of these. Readers that go
   by ids (Iceberg's) need every column of a file to have one.
2. Fields within a column (of lists, structs and maps) have ids from 1,000,000,000 on: 1,000 for
   each column, in the order of the type as text. Types of columns that have such fields never
   change, so neither do these ids. A column with more fields than that has none within it.
"""

from collections.abc import Mapping, Sequence

from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.core.tables.table_kind import TableKind

NESTED_IDS = 1_000_000_000
MOST_NESTED = 1_000
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


def nested_ids(column_id: int) -> range:
    """Return the ids of the fields within a column; none for hidden columns."""
    first = NESTED_IDS + column_id * MOST_NESTED
    return range(first, first + MOST_NESTED if first < HIDDEN_IDS - MOST_NESTED else first)

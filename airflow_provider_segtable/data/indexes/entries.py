"""Entries of indexes about data files: what each kind of index computes of a file."""

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.indexes.index_table import index_table
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.entry_kind import common_columns
from airflow_provider_segtable.data.indexes.entry_kinds import ENTRY_KINDS
from airflow_provider_segtable.ports.files import DataFiles


def entries(
    index: IndexDefinition, table: TableCreated, segments: Sequence[Segment], files: DataFiles
) -> pa.Table:
    """Return the entries about files, in the columns of the index's table.

    Args:
        index: the index.
        table: the indexed table.
        segments: the files; each has a path.
        files: the table's data files.

    Raises:
        SegtableError: a file cannot be read, or is damaged.
    """
    schema = to_arrow(index_table(index, table).schema)
    kind = ENTRY_KINDS[index.kind.name]
    parts = (
        _whole(segment, kind.entries(index.kind, table, segment, files), schema)
        for segment in segments
    )
    return pa.concat_tables([schema.empty_table(), *parts])


def _whole(segment: Segment, part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a file's entries with the columns that all kinds have."""
    own = dict(zip(part.column_names, part.columns, strict=True))
    columns = {**common_columns(segment, part.num_rows), **own}
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)

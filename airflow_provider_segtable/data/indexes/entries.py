"""Entries of indexes about data files: what each kind of index computes of a file."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.file_list import FileList
from airflow_provider_segtable.core.indexes.index_kinds import IndexDefinition
from airflow_provider_segtable.core.indexes.index_table import index_table
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.entry_kind import EntryKind, common_columns
from airflow_provider_segtable.data.indexes.file_entries import FileEntries
from airflow_provider_segtable.ports.files import DataFiles

ENTRY_KINDS: Mapping[str, EntryKind] = {FileList.name: FileEntries()}
"""How each kind of index makes its entries, by its name."""


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
    parts = [kind.entries(index.kind, table, segment, files) for segment in segments]
    whole = [
        pa.table({**common_columns(segment, part.num_rows), **_columns(part)})
        for segment, part in zip(segments, parts, strict=True)
    ]
    tables = (each.select(schema.names).cast(schema) for each in whole)
    return pa.concat_tables([schema.empty_table(), *tables])


def _columns(part: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(part.column_names, part.columns, strict=True))

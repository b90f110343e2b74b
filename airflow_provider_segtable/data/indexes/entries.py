"""Entries of indexes about data files: computed, and named to be deleted."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kinds import IndexDefinition
from airflow_provider_segtable.core.indexes.index_table import index_table
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segments.segment import Segment
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
    kind = ENTRY_KINDS[index.kind.name]
    return _about(index, table, segments, lambda each: kind.entries(index.kind, table, each, files))


def gone(index: IndexDefinition, table: TableCreated, segments: Sequence[Segment]) -> pa.Table:
    """Return the keys of the entries about files that are gone, to delete these entries.

    They are in the columns of the index's table; columns that are no keys are null.
    """
    kind = ENTRY_KINDS[index.kind.name]
    return _about(index, table, segments, kind.keys)


def _about(
    index: IndexDefinition,
    table: TableCreated,
    segments: Sequence[Segment],
    made: Callable[[Segment], pa.Table],
) -> pa.Table:
    schema = to_arrow(index_table(index, table).schema)
    parts = (_whole(segment, made(segment), schema) for segment in segments)
    return pa.concat_tables([schema.empty_table(), *parts])


def _whole(segment: Segment, part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a part in all columns of a schema: those that it lacks are common ones, or null."""
    count = part.num_rows
    own = dict(zip(part.column_names, part.columns, strict=True))
    known = {**common_columns(segment, count), **own}
    columns = [
        known[field.name].cast(field.type) if field.name in known else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)

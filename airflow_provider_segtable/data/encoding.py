"""Sorted rows into Parquet: one writer for all sorted segments, and what a row will take there.

1. Row groups are smaller than an append's: a quarter of a million rows, so that readers of a
   sorted file skip more of it, and the next sort reads less.
2. Dictionaries stay dictionaries; each row group gets the words that it has. The file's Arrow
   schema is the table's, as if the words had been written one by one.
3. The bytes of dictionaries are spread over a full row group when a small sample is measured.
"""

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.data.ingest import GROUP_BYTES, PARQUET
from airflow_provider_segtable.data.keys import is_sorted, stable_order
from airflow_provider_segtable.data.ranges import Keying, plain

SORTED_ROWS = 262_144
"""Rows of a full row group."""
ARROW_SCHEMA = b"ARROW:schema"


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with its dictionaries' word types."""
    return pa.schema([field.with_type(plain(field.type)) for field in schema])


def arrow_schema_entry(schema: pa.Schema) -> bytes:
    """Return the footer entry with which pyarrow's writer keeps a schema."""
    stream = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), stream, **PARQUET)
    entry: bytes = pq.read_metadata(pa.BufferReader(stream.getvalue())).metadata[ARROW_SCHEMA]
    return entry


def writer(sink: object, schema: pa.Schema, keying: Keying) -> pq.ParquetWriter:
    """Return a writer of rows in ``schema``, which may have dictionaries."""
    sorting = None
    if not keying.grids:
        sorting = pq.SortingColumn.from_ordering(
            plain_schema(schema),
            [(name, "ascending") for name in keying.columns],
            null_placement="at_start",
        )
    return pq.ParquetWriter(sink, schema, store_schema=False, sorting_columns=sorting, **PARQUET)


def group_rows(rows: pa.Table) -> int:
    """Return how many rows to write as one row group: full ones, about equal."""
    width = max(1, rows.nbytes // max(1, rows.num_rows))
    most = max(1, min(SORTED_ROWS, GROUP_BYTES // width))
    groups = -(-rows.num_rows // most)
    return int(max(1, -(-rows.num_rows // max(1, groups))))


def sorted_rows(rows: pa.Table, keying: Keying) -> pa.Table:
    """Return rows in the order of their keys (stable)."""
    keys = keying.keys(rows)
    return rows if is_sorted(keys) else rows.take(pa.array(stable_order(keys)))


def encoded_width(rows: pa.Table) -> float:
    """Return how many bytes a row takes when many such rows are written."""
    stream = pa.BufferOutputStream()
    count = max(1, rows.num_rows)
    pq.write_table(rows.unify_dictionaries(), stream, row_group_size=count, **PARQUET)
    group = pq.read_metadata(pa.BufferReader(stream.getvalue())).row_group(0)
    total = 0.0
    for chunk in (group.column(at) for at in range(group.num_columns)):
        words = chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset)
        size = chunk.total_compressed_size
        few = words * 2 < size
        total += size - words + words * (count / SORTED_ROWS if few else 1)
    return float(total / count)

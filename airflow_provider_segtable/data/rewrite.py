"""Rows decoded and encoded again, as Parquet files in memory of one full row group each.

Memory is bounded: one row group decoded, one encoded. Columns that come as dictionaries stay
dictionaries on the way, which saves decoding and hashing every string.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.data.files import MemorySource
from airflow_provider_segtable.data.footer import MAGIC, Footer
from airflow_provider_segtable.data.ingest import GROUP_BYTES, GROUP_ROWS, PARQUET, conformed
from airflow_provider_segtable.data.scan import SourceFile
from airflow_provider_segtable.ports.files import DataFiles, Source

ARROW_SCHEMA = b"ARROW:schema"
_WHOLE = 32 << 20
"""Files up to this size are read in one go."""

Range = tuple[str, range, tuple[int, int] | None]
"""A file's path, its row groups, and which rows of those (None: all)."""


def arrow_schema(footer: Footer) -> pa.Schema:
    """Return the schema as pyarrow reads it."""
    length = len(footer.data).to_bytes(4, "little")
    bare = pa.BufferReader(b"".join((MAGIC, footer.data, length, MAGIC)))
    with _decoding(footer.path):
        return pq.read_schema(bare).remove_metadata()


def empty_file(schema: pa.Schema) -> Source:
    """Return a file without rows, for the schema that our writer gives it."""
    return _encoded(schema.empty_table())


def rewritten(files: DataFiles, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[Source]:
    """Yield the rows of the ranges, in order, as files of one row group each.

    Raises:
        SchemaMismatch: if a file's columns do not fit the schema.
        CorruptTable: if a file cannot be decoded.
    """
    held: list[pa.Table] = []
    rows = size = 0
    for table in (table for one in ranges for table in _tables(files, one, schema)):
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield _encoded(pa.concat_tables(held))
            held, rows, size = [], 0, 0
    if rows:
        yield _encoded(pa.concat_tables(held))


def _tables(files: DataFiles, one: Range, schema: pa.Schema) -> Iterator[pa.Table]:
    path, groups, cut = one
    start, stop = cut or (0, 1 << 62)
    with files.open(path) as source, _decoding(path):
        file = (
            pa.BufferReader(source.read_at(0, source.size))
            if source.size <= _WHOLE
            else SourceFile(source)
        )
        at = 0
        metadata = pq.read_metadata(file)
        words = _dictionaries(schema, metadata.schema)
        with pq.ParquetFile(file, metadata=metadata, read_dictionary=words) as parquet:
            for batch in parquet.iter_batches(row_groups=list(groups)):
                low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                at += batch.num_rows
                if low < high:
                    kept = pa.Table.from_batches([batch.slice(low, high - low)])
                    yield conformed(kept, schema, dictionaries=True)


@contextmanager
def _decoding(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptTable(f"{path} cannot be decoded ({error}): restore it") from error


def _dictionaries(schema: pa.Schema, parquet: pq.ParquetSchema) -> list[str]:
    """Return the columns of words that a file has."""
    found = {parquet.column(number).path for number in range(len(parquet))}
    return [
        field.name
        for field in schema
        if field.name in found
        and (pa.types.is_string(field.type) or pa.types.is_binary(field.type))
    ]


def _encoded(table: pa.Table) -> Source:
    stream = pa.BufferOutputStream()
    rows = max(1, table.num_rows)
    options = {**PARQUET, "store_schema": False}  # the output keeps that of its inputs
    pq.write_table(table.unify_dictionaries(), stream, row_group_size=rows, **options)
    return MemorySource("a rewritten row group", stream.getvalue().to_pybytes())

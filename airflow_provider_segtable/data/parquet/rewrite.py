"""Rewriting: rows are decoded and encoded as Parquet files in memory, one full row group each.

1. Memory is bounded: one row group decoded, one encoded.
2. Columns of few distinct values stay dictionaries, which saves decoding and hashing each value.
   They are chosen by the first file's sizes: if values hardly repeat, a dictionary takes three
   times as long. Address roots always stay dictionaries.
3. Rows may be changed between reading and writing: rows dropped, columns filled in. Files of an
   earlier schema are read in the columns of the target (``table_file``).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.segment import ROOT
from airflow_provider_segtable.data.arrow.arrow_schema import FIELD_ID as ID
from airflow_provider_segtable.data.files.open_files import MemorySource
from airflow_provider_segtable.data.jobs.row_checks import conformed
from airflow_provider_segtable.data.jobs.segment_writer import (
    ENCODINGS,
    GROUP_BYTES,
    GROUP_ROWS,
    PARQUET,
)
from airflow_provider_segtable.data.parquet.metadata.descriptor import file_schema
from airflow_provider_segtable.data.parquet.metadata.footer import MAGIC, Footer
from airflow_provider_segtable.data.parquet.segment_scan import SourceFile
from airflow_provider_segtable.data.parquet.table_file import (
    opened,
    stored_columns,
    with_own_ids,
)
from airflow_provider_segtable.ports.files import DataFiles, Source

ARROW_SCHEMA = b"ARROW:schema"
_WHOLE = 32 << 20
"""Files up to this size, in bytes, are read in one call."""

Change = Callable[[pa.Table, int], pa.Table]
"""A function that changes rows, given the number of the first one in its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of rows to read.

    Attributes:
        path: the file's path.
        groups: the row groups.
        first: the number of their first row in the file.
        cut: the rows ``[start, stop)`` of the row groups (None: all).
        change: a change to apply to the rows, if any.
    """

    path: str
    groups: range
    first: int = 0
    cut: tuple[int, int] | None = None
    change: Change | None = None


def arrow_schema(footer: Footer) -> pa.Schema:
    """Return the schema as pyarrow reads it.

    If the file has ids, its columns also know what they are in files of earlier schemas.
    """
    length = len(footer.data).to_bytes(4, "little")
    bare = pa.BufferReader(b"".join((MAGIC, footer.data, length, MAGIC)))
    with _decoding(footer.path):
        schema = pq.read_schema(bare).remove_metadata()
    if not any(ID in (field.metadata or {}) for field in schema):
        return schema
    known = {field.metadata[ID]: field for field in stored_columns(file_schema(footer.metadata))}
    return pa.schema(
        [
            _of_column(field, known[key])
            if (key := (field.metadata or {}).get(ID)) in known
            else field
            for field in schema
        ]
    )


def _of_column(field: "pa.Field[Any]", column: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return a file's field with what is known of its column, ids within it included."""
    same = field.type == column.type
    return (field.with_type(column.type) if same else field).with_metadata(column.metadata)


def empty_file(schema: pa.Schema) -> Source:
    """Return a file without rows, whose footer has the schema as segtable writes it."""
    return _encoded(schema.empty_table())


def rewritten(files: DataFiles, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[Source]:
    """Yield the rows of the ranges, in order, as files of one row group each.

    Raises:
        SchemaMismatch: if a file's columns do not fit the schema.
        CorruptTable: if a file cannot be decoded.
    """
    held: list[pa.Table] = []
    rows = size = 0
    for table in _tables(files, ranges, schema):
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield _encoded(pa.concat_tables(held))
            held, rows, size = [], 0, 0
    if rows:
        yield _encoded(pa.concat_tables(held))


def _tables(files: DataFiles, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[pa.Table]:
    target: pa.Schema | None = None
    for one in ranges:
        with files.open(one.path) as source, _decoding(one.path):
            file = _seekable(source)
            metadata = pq.read_metadata(file)
            target = target or _with_dictionaries(with_own_ids(schema), metadata)
            words = [f.name for f in target if f.type != schema.field(f.name).type]
            with opened(file, schema, words=words, metadata=metadata) as parquet:
                batches = parquet.iter_batches(row_groups=list(one.groups))
                for batch, at in _cut(batches, *(one.cut or (0, metadata.num_rows))):
                    rows = pa.Table.from_batches([batch])
                    changed = one.change(rows, one.first + at) if one.change else rows
                    yield conformed(changed, target)


def _seekable(source: Source) -> pa.BufferReader | SourceFile:
    if source.size <= _WHOLE:
        return pa.BufferReader(source.read_at(0, source.size))
    return SourceFile(source)


def _cut(
    batches: Iterable[pa.RecordBatch], start: int, stop: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the part of each batch in rows ``[start, stop)``, with its first row's number."""
    at = 0
    for batch in batches:
        low, high = max(start - at, 0), min(stop - at, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low), at + low
        at += batch.num_rows


@contextmanager
def _decoding(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptTable(f"{path} cannot be decoded ({error}): restore it") from error


def _paths(metadata: pq.FileMetaData) -> set[str]:
    return {metadata.schema.column(number).path for number in range(metadata.num_columns)}


def _with_dictionaries(schema: pa.Schema, metadata: pq.FileMetaData) -> pa.Schema:
    """Return the schema with top-level columns of few distinct values as dictionaries."""
    if (at := schema.get_field_index(ROOT)) >= 0:
        field = schema.field(at).with_type(pa.dictionary(pa.int32(), pa.string()))
        schema = schema.set(at, field)
    if metadata.num_row_groups:
        group = metadata.row_group(0)
        for chunk in (group.column(number) for number in range(group.num_columns)):
            at = schema.get_field_index(chunk.path_in_schema)
            if at >= 0 and _repeats(chunk, kind := schema.field(at).type):
                field = schema.field(at).with_type(pa.dictionary(pa.int32(), kind))
                schema = schema.set(at, field)
    return schema


def _repeats(chunk: pq.ColumnChunkMetaData, kind: pa.DataType) -> bool:
    """Return whether a column chunk's dictionary is small beside its data."""
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)) or not chunk.has_dictionary_page:
        return False
    dictionary = chunk.data_page_offset - (chunk.dictionary_page_offset or 0)
    return bool(dictionary * 4 <= chunk.total_compressed_size)


def _encoded(table: pa.Table) -> Source:
    stream = pa.BufferOutputStream()
    rows = max(1, table.num_rows)
    options = {**PARQUET, "store_schema": False}  # the output keeps its inputs' schema
    options |= _encodings(table.schema)
    pq.write_table(table.unify_dictionaries(), stream, row_group_size=rows, **options)
    return MemorySource("a rewritten row group", stream.getvalue().to_pybytes())


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return the options that give columns in ``ENCODINGS`` theirs, and all others dictionaries."""
    known = {name: how for name, how in ENCODINGS.items() if name in schema.names}
    if not known:
        return {}
    stream = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), stream)
    paths = _paths(pq.read_metadata(pa.BufferReader(stream.getvalue())))
    return {"use_dictionary": sorted(paths - known.keys()), "column_encoding": known}

"""The Parquet writer of all sorted segments, and its estimate of bytes per row.

1. Row groups are smaller than an append's: a quarter of a million rows, so that readers of a
   sorted file skip more of it, and the next sort reads less.
2. Dictionaries stay dictionaries; each row group stores only the values that it contains. The
   file's Arrow schema is the table's, without dictionary types.
3. A dictionary is written if a sorted sample is smaller with it; always tried for text, never for
   row numbers (``ROW``).
4. When a small sample is measured, dictionary bytes are spread over a full row group.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.arrow_schema import of_any_length
from airflow_provider_segtable.data.jobs.column_codecs import codec_options, incompressible
from airflow_provider_segtable.data.jobs.segment_writer import (
    ENCODINGS,
    GROUP_BYTES,
    PARQUET,
    is_number,
    paths,
    plain_schema,
)
from airflow_provider_segtable.data.sort_keys import Keying, is_sorted, plain, stable_order

SORTED_ROWS = 262_144
"""Rows of a full row group."""


def writer(
    sink: object, schema: pa.Schema, keying: Keying, coded: Collection[str], first: pa.Table
) -> pq.ParquetWriter:
    """Return a writer of rows in ``schema``, which may have dictionaries.

    Only columns in ``coded`` are written with dictionaries: trying them costs as much as all else.
    ``first`` is the first row group, which decides what is compressed.
    """
    sorting = None
    if not keying.grids:
        sorting = pq.SortingColumn.from_ordering(
            plain_schema(schema),
            [(name, "ascending") for name in keying.columns],
            null_placement="at_start",
        )
    other = [field.name for field in schema if is_number(field.type) and field.name not in coded]
    other = [name for name in other if name not in ENCODINGS]
    codecs = codec_options(incompressible(first, other), partial(paths, schema))
    options = {**PARQUET, **codecs, "use_dictionary": sorted(coded), **_encodings(schema)}
    return pq.ParquetWriter(sink, schema, store_schema=False, sorting_columns=sorting, **options)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return the option that names the encodings of columns without a dictionary."""
    names = {*schema.names}
    known = {name: how for name, how in ENCODINGS.items() if name in names}
    return {"column_encoding": known} if known else {}


def group_rows(rows: pa.Table) -> int:
    """Return the rows of each row group: as few groups as possible, of about equal size."""
    width = max(1, rows.nbytes // max(1, rows.num_rows))
    most = max(1, min(SORTED_ROWS, GROUP_BYTES // width))
    groups = -(-rows.num_rows // most)
    return int(max(1, -(-rows.num_rows // max(1, groups))))


def sorted_rows(rows: pa.Table, keying: Keying) -> pa.Table:
    """Return rows in the order of their keys (stable)."""
    keys = keying.keys(rows)
    return rows if is_sorted(keys) else rows.take(pa.array(stable_order(keys)))


@dataclass(frozen=True, slots=True)
class Probe:
    """The encoding of sorted rows: bytes per row, and columns (by path) with a dictionary."""

    width: float
    coded: frozenset[str]


def probed(rows: pa.Table, coded: Iterable[str] | None = None) -> Probe:
    """Encode a sample of sorted rows.

    Args:
        rows: the rows of one row group.
        coded: the columns that get a dictionary; chosen here if left out.
    """
    rows = rows.unify_dictionaries()
    bare = _encodings(rows.schema)
    if coded is not None:
        found = _encoded(rows, {"use_dictionary": sorted(coded), **bare})
        return Probe(sum(full for _, full in found.values()), frozenset(coded))
    with_words, texts = _encoded(rows, {}), _texts(rows.schema)
    without = _encoded(rows, {"use_dictionary": False, **bare})
    kept = frozenset(
        path
        for path, (size, _) in with_words.items()
        if path not in ENCODINGS and (size <= without[path][0] or path in texts)
    )
    width = sum((with_words if path in kept else without)[path][1] for path in with_words)
    return Probe(width, kept)


def _texts(schema: pa.Schema) -> set[str]:
    """Return the columns of text or bytes."""
    return {field.name for field in schema if of_any_length(plain(field.type))}


def _encoded(rows: pa.Table, how: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return each column's bytes per row in this sample, and in a full row group."""
    stream = pa.BufferOutputStream()
    count = max(1, rows.num_rows)
    options = {**PARQUET, **how}
    pq.write_table(rows, stream, row_group_size=count, store_schema=False, **options)
    group = pq.read_metadata(pa.BufferReader(stream.getvalue())).row_group(0)
    found = {}
    for chunk in (group.column(at) for at in range(group.num_columns)):
        words = chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset)
        size = chunk.total_compressed_size
        few = words * 2 < size
        full = size - words + words * (min(1.0, count / SORTED_ROWS) if few else 1)
        found[chunk.path_in_schema] = (size / count, full / count)
    return found

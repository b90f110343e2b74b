"""Segments as rows of an Arrow table, one column per field, as stored in checkpoints.

Columns are converted from Python values and back by their buffers. Arrow's own conversion of a list
imports pandas first, which takes a second of processor time, and converts values one by one. A
short-lived process that appends or writes a checkpoint needs neither.
"""

import json
from array import array
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.paths import listed_path
from airflow_provider_segtable.core.segment import (
    NO_BUCKET,
    ChunkKey,
    FooterChecksum,
    Segment,
    SegmentId,
    Shard,
    implied,
)
from airflow_provider_segtable.core.segment_codec import (
    decode_lineage,
    decode_roots,
    encode_lineage,
    encode_roots,
)
from airflow_provider_segtable.core.time import Interval

_CODES: dict[pa.DataType, Literal["i", "q"]] = {pa.int32(): "i", pa.int64(): "q"}
"""The codes of ``array`` and ``memoryview`` for the types of integer columns."""


def table_of(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; each row has a value or None for every column."""
    some = list(rows)
    columns = [column([row[field.name] for row in some], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of integers, booleans or strings; None is null.

    Raises:
        TypeError, OverflowError, AttributeError: a value does not fit the type.
    """
    missing = None in values
    valid = _bits([value is not None for value in values]) if missing else None
    if kind in _CODES:
        filled = [0 if value is None else value for value in values] if missing else values
        buffers = [valid, pa.py_buffer(array(_CODES[kind], filled))]
    elif kind == pa.bool_():
        buffers = [valid, _bits([bool(value) for value in values])]
    else:
        texts = [b"" if value is None else value.encode() for value in values]
        ends = array("i", accumulate(map(len, texts), initial=0))
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def in_columns(rows: pa.Table, schema: pa.Schema, missing: Mapping[str, Any]) -> pa.Table:
    """Return rows in the columns of a schema, with values from ``missing`` for absent columns."""
    if rows.schema.equals(schema):
        return rows
    known = dict(zip(rows.column_names, rows.columns, strict=True))
    columns = [
        known[field.name]
        if field.name in known
        else column([missing[field.name]] * rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count or column.type not in _CODES:
        return list(column.to_pylist())
    found: list[Any] = []
    for piece in column.chunks:
        if len(piece):
            numbers = memoryview(piece.buffers()[1]).cast(_CODES[column.type])
            found += numbers[piece.offset : piece.offset + len(piece)].tolist()
    return found


def _bits(flags: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(flags, bool), bitorder="little"))


SEGMENT_SCHEMA = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("version", pa.int64()),
        ("bucket", pa.int32()),
        ("partition", pa.int32()),
        ("root_start", pa.int32()),
        ("root_end", pa.int32()),
        ("minor_version", pa.int32()),
        ("group_size", pa.int32()),
        ("core", pa.int32()),
        ("base", pa.int32()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("row_groups", pa.int32()),
        ("time_min", pa.int64()),
        ("time_max", pa.int64()),
        ("created", pa.int64()),
        ("lineage", pa.string()),
        ("events", pa.int64()),
        ("clustering", pa.string()),
        ("origin", pa.string()),
        ("replaces", pa.string()),
        ("roots", pa.string()),
        ("purged", pa.int64()),
        ("schema", pa.int32()),
        ("footer_start", pa.int64()),
        ("footer_crc", pa.int64()),
        ("completed", pa.int64()),
        ("buckets", pa.int32()),
    ]
)
REPEATING = ["lineage", "clustering", "origin", "replaces", "roots"]
"""Columns with few distinct values, written with dictionary encoding."""

_Row: Any = namedtuple("_Row", SEGMENT_SCHEMA.names)  # type: ignore[misc]  # noqa: PYI024
"""A row; its fields are the columns of the schema."""

_of_shard = attrgetter(
    "partition", "root_start", "root_end", "minor_version", "group_size", "core", "base"
)
_of_file = attrgetter("path", "rows", "size", "row_groups", "time_min", "time_max", "created")


def rows_of(segments: Iterable[Segment]) -> pa.Table:
    """Return segments as rows, in their order."""
    found = [*map(_row, segments)]
    values = zip(*found, strict=True) if found else [()] * len(SEGMENT_SCHEMA)
    columns = map(column, values, SEGMENT_SCHEMA.types)
    return pa.Table.from_arrays([*columns], schema=SEGMENT_SCHEMA)


def segments_in(rows: pa.Table) -> list[Segment]:
    """Return the segments in rows; older formats lack some columns.

    Raises:
        SegtableError, KeyError, TypeError, ValueError: ``rows_of`` did not produce the rows.
    """
    keys: _Keys = {}
    known = {name: values_of(rows.column(name)) for name in rows.column_names}
    absent = [None] * rows.num_rows
    known.setdefault("bucket", [NO_BUCKET] * rows.num_rows)
    columns = (known.get(name, absent) for name in SEGMENT_SCHEMA.names)
    return [_segment(row, keys) for row in map(_Row._make, zip(*columns, strict=True))]


def _row(segment: Segment) -> tuple[Any, ...]:
    """Return the values of a segment in the order of the columns."""
    place, footer = segment.id, segment.footer
    return (
        place.interval.start,
        place.interval.end,
        place.version,
        place.bucket,
        *_of_shard(segment.shard),
        *_of_file(segment),
        json.dumps(encode_lineage(segment)) if segment.lineage else None,
        segment.events,
        segment.clustering,
        str(segment.origin) if segment.origin else None,
        json.dumps(encode_roots(segment.replaces)) if segment.replaces else None,
        json.dumps(encode_roots(segment.roots)) if segment.roots else None,
        segment.deletes_applied_through,
        segment.schema,
        footer.start if footer else None,
        footer.crc if footer else None,
        segment.completed,
        segment.buckets,
    )


_Keys = dict[tuple[int, int, int, int], ChunkKey]


def _segment(row: Any, keys: _Keys) -> Segment:
    named = row.start, row.end, row.version, row.bucket
    chunk = keys.get(named)
    if chunk is None:
        chunk = keys[named] = ChunkKey(Interval(row.start, row.end), row.version, row.bucket)
    lineage = row.lineage  # a list in older formats
    if isinstance(lineage, str):
        lineage = json.loads(lineage)
    segment_id = chunk.segment(row.partition)
    return Segment(
        id=segment_id,
        path=listed_path(row.path, rows=row.rows),
        shard=_shard(row, segment_id),
        rows=row.rows,
        size=row.size,
        row_groups=row.row_groups,
        time_min=row.time_min,
        time_max=row.time_max,
        created=row.created,
        lineage=decode_lineage(lineage, chunk) if lineage else (),
        events=row.events,
        clustering=row.clustering,
        origin=SegmentId.parse(row.origin) if row.origin else None,
        replaces=decode_roots(json.loads(row.replaces)) if row.replaces else (),
        roots=decode_roots(json.loads(row.roots)) if row.roots else (),
        deletes_applied_through=row.purged or 0,
        schema=row.schema or 0,
        footer=_footer(row),
        completed=row.completed or 0,
        buckets=row.buckets or 0,
    )


def _shard(row: Any, segment_id: SegmentId) -> Shard:
    shard = Shard(
        partition=row.partition,
        root_start=row.root_start,
        root_end=row.root_end,
        minor_version=row.minor_version,
        group_size=row.group_size,
        core=row.core,
        base=row.base or 0,
    )
    is_recorded = row.base is not None
    return shard if is_recorded else implied(shard, segment_id, carried=bool(row.origin))


def _footer(row: Any) -> FooterChecksum | None:
    start = row.footer_start
    return None if start is None else FooterChecksum(start, row.footer_crc)

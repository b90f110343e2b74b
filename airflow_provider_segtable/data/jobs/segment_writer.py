"""Writing first-generation segments.

1. Rows were checked before (``row_checks``). Event times are checked again as they are written.
2. Row groups are large (a million rows or 128 MiB), with statistics, page indexes and checksums.
3. Columns have dictionaries where a sample of the first row group says that they repeat values
   (``dictionaries``).
4. The footer has the segment's descriptor: rows, first and last event time, ingested rows.

Checks of rows before they are written: columns, types and event times.

1. Columns and types must match the table's. Errors name the column or row, the value and the
   expectation.
2. A type that differs only in width or representation (timestamp unit, large strings, a
   dictionary) is cast if the cast is lossless; anything else is a mismatch. Floating numbers may be
   rounded to a narrower type, but none becomes infinite.
3. A column that was added to the table may be left out: it has its default.
4. Event times must be in range, never null.

Which columns of a new file are written with a dictionary.

1. Text, bytes and nested columns: always. So are all columns of few rows.
2. Numbers and times: if they repeat, by a sample of the first row group. A dictionary of values
   that hardly repeat makes a file larger, takes as long to try as all else, and a reader keeps it
   in memory while it reads the row group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.counted import numbered_row
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch, TimeOutOfRange
from airflow_provider_segtable.core.segment import ROW, Roots, Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
from airflow_provider_segtable.core.time import ALL_TIME, Instant, iso
from airflow_provider_segtable.data.files.open_files import JoiningFile
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    ChecksumSink,
    decode_definition,
    definition_entry,
    encode_descriptor,
    segment_path,
)
from airflow_provider_segtable.data.parquet.table_file import default_of, may_be_left_out, with_ids
from airflow_provider_segtable.data.rows import instants, is_time
from airflow_provider_segtable.ports.files import DataFiles, Sink


def check_rows(rows: pa.Table, schema: pa.Schema, time_column: str) -> pa.Table:
    """Return the rows in the table's types and column order.

    Raises:
        SchemaMismatch: naming the column, the expected and the found type.
        TimeOutOfRange: naming the row and its event time.
    """
    once = rows.column_names.count(time_column) == 1
    as_given = once and is_time(rows.schema.field(time_column).type)
    if as_given:
        check_times(rows.column(time_column), time_column)  # before a cast could overflow
    made = conformed(rows, schema)
    if not as_given and time_column in schema.names:  # nulls without a type, encoded times
        check_times(made.column(time_column), time_column)
    return made


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows in the types and column order of ``schema``.

    Raises:
        SchemaMismatch: naming the column, the expected and the found type.
    """
    names = rows.column_names
    for name in names:
        if name not in schema.names:
            raise SchemaMismatch(
                f"column {name!r} ({rows.schema.field(names.index(name)).type}) is not in the "
                f"table, which has {', '.join(schema.names)}: leave it out (ingest: --columns), "
                "rename it, or add it to the table first (table alter --add)"
            )
        if names.count(name) > 1:
            raise SchemaMismatch(f"column {name!r} occurs {names.count(name)} times: rename one")
    return pa.table([_column(rows, field) for field in schema], schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in rows.column_names and may_be_left_out(field):
        return pa.chunked_array([pa.repeat(default_of(field), rows.num_rows)])
    if field.name not in rows.column_names:
        raise SchemaMismatch(f"column {field.name!r} is missing: the table has it as {field.type}")
    column = rows.column(field.name)
    if column.type != field.type:
        column = _cast(column, field)
    if not field.nullable and column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise SchemaMismatch(
            f"column {field.name!r} is not null in the table, but {numbered_row(row)} is"
        )
    return column


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    expected = f"column {field.name!r}: expected {field.type}, found {column.type}"
    if not _akin(column.type, field.type):
        raise SchemaMismatch(f"{expected}: cast it first")
    try:
        if pa.types.is_dictionary(field.type):
            return column.cast(field.type.value_type).dictionary_encode()
        made = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(f"{expected}, and casting would lose data ({error})") from None
    if pa.types.is_floating(field.type) and pa.types.is_floating(column.type):
        _check_finite(column, made, expected)
    return made


def _check_finite(column: pa.ChunkedArray, made: pa.ChunkedArray, expected: str) -> None:
    """Refuse a number that became infinite in a narrower type."""
    endless = pc.is_inf(made.cast(pa.float64()))
    lost = pc.and_(endless, pc.invert(pc.is_inf(column.cast(pa.float64()))))
    row = pc.index(lost, True).as_py()
    if row >= 0:
        raise SchemaMismatch(
            f"{expected}, which is too small for {column[row]} in {numbered_row(row)}"
        )


def _akin(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether two types differ in representation at most."""
    if isinstance(found, pa.BaseExtensionType):
        return _akin(found.storage_type, expected)
    if pa.types.is_dictionary(found):
        return _akin(found.value_type, expected)
    if pa.types.is_dictionary(expected):
        return _akin(found, expected.value_type)
    if pa.types.is_null(found):
        return True
    if pa.types.is_uint64(expected) and pa.types.is_decimal(found):
        return bool(found.scale == 0)  # as Spark holds them
    if pa.types.is_nested(found):
        return _akin_nested(found, expected)
    return any(kind(found) and kind(expected) for kind in _KINDS) or found == expected


def _akin_nested(found: pa.DataType, expected: pa.DataType) -> bool:
    if _is_list(found) and _is_list(expected):
        return _akin(found.value_type, expected.value_type)
    if pa.types.is_struct(found) and pa.types.is_struct(expected):
        return [f.name for f in found] == [f.name for f in expected] and all(
            _akin(f.type, e.type) for f, e in zip(found, expected, strict=True)
        )
    if pa.types.is_map(found) and pa.types.is_map(expected):
        return _akin(found.key_type, expected.key_type) and _akin(
            found.item_type, expected.item_type
        )
    return bool(found == expected)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


_KINDS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    _is_text,
    _is_bytes,
)


def check_times(
    column: pa.Array | pa.ChunkedArray, name: str, first_row: int = 0
) -> tuple[Instant, Instant] | None:
    """Return the first and last event time, or None for no rows.

    Args:
        column: the time column.
        name: its name, for messages.
        first_row: the number of its first row, for messages.

    Raises:
        TimeOutOfRange: if one is null or outside the range of a table.
    """
    if not len(column):
        return None
    times = instants(column)
    bounds = pc.min_max(times)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if not times.null_count and first >= ALL_TIME.start and last < ALL_TIME.end:
        return first, last
    row = pc.index(impossible_times(column), True).as_py()
    found = column.cast(column.type).slice(row, 1)
    value = found.cast(_plain(found.type))[0].as_py()
    shown = "null" if value is None else f"{value} ({found.type})"
    raise TimeOutOfRange(
        f"{numbered_row(first_row + row)}: event time {name} is {shown}: it must lie in "
        f"{ALL_TIME}; drop such rows, or check the unit"
    )


def impossible_times(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return which event times are null, or outside the range of a table."""
    times = instants(column)
    inside = pc.and_(pc.greater_equal(times, ALL_TIME.start), pc.less(times, ALL_TIME.end))
    return pc.invert(inside).fill_null(True)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


FEW = 16_384
"""Up to so many rows a dictionary is small, and the sample would cost more than it saves."""
_SAMPLE = 8_192


def dictionary_columns(rows: pa.Table) -> list[str] | bool:
    """Return the columns, by path, of which a dictionary is written; True for all.

    Args:
        rows: the first row group.
    """
    if rows.num_rows <= FEW:
        return True
    places = pa.array(np.arange(0, rows.num_rows, rows.num_rows // _SAMPLE))
    unlike = {
        field.name
        for number, field in enumerate(rows.schema)
        if _is_plain(field.type) and not _repeats(rows.column(number).take(places))
    }
    return [path for path in _paths(rows.schema) if path not in unlike]


def _is_plain(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_temporal(kind))


def _repeats(sample: pa.ChunkedArray) -> bool:
    return 2 * len(pc.unique(sample)) <= len(sample)


def _paths(schema: pa.Schema) -> list[str]:
    """Return the paths of a file's columns."""
    if not any(pa.types.is_nested(field.type) for field in schema):
        return list(schema.names)
    stream = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), stream)
    stored = pq.read_metadata(pa.BufferReader(stream.getvalue())).schema
    return [stored.column(number).path for number in range(len(stored))]


GROUP_ROWS = 1_000_000
GROUP_BYTES = 128 << 20
PARQUET: dict[str, Any] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 1,
    "write_statistics": True,
    "write_page_index": True,
    "write_page_checksum": True,
}
ENCODINGS = {ROW: "DELTA_BINARY_PACKED"}
"""Row numbers mostly ascend: deltas take half the space of a dictionary or of plain values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlacement:
    """A segment's place among others; fields as in ``Segment``."""

    shard: Shard
    clustering: str = ""
    replaces: tuple[Roots, ...] = ()
    deletes_applied_through: int = 0
    schema: int = 0
    buckets: int = 0


def emptied(segment_id: SegmentId, created: Instant, placement: SegmentPlacement) -> Segment:
    """Return a segment without rows: it has no file, and its time range is its whole chunk."""
    return Segment(
        id=segment_id,
        shard=placement.shard,
        path="",
        rows=0,
        size=0,
        row_groups=0,
        time_min=segment_id.interval.start,
        time_max=segment_id.interval.end - 1,
        created=created,
        clustering=placement.clustering,
        replaces=placement.replaces,
        deletes_applied_through=placement.deletes_applied_through,
        schema=placement.schema,
        buckets=placement.buckets,
    )


def _commit(sink: Sink) -> None:
    sink.commit()


Described = tuple[Segment, Mapping[bytes, bytes]]
"""The descriptor of a file, and entries of its footer besides."""


def write_segment(  # noqa: PLR0913 - each is written to the file
    files: DataFiles,
    rows: pa.Table | Iterable[pa.RecordBatch],
    *,
    segment_id: SegmentId,
    time_column: str,
    created: Instant,
    token: str,
    sort: bool = False,
    placement: SegmentPlacement | None = None,
    definition: bytes = b"",
    commit: Callable[[Sink], None] = _commit,
    path: str = "",
    describe: Callable[[Segment], Described] | None = None,
    group_rows: int | None = None,
) -> Segment:
    """Write a segment from rows in memory or a stream, and return its descriptor.

    Args:
        files: the data files to write to.
        rows: in the table's schema (see ``check_rows``); batches are streamed.
        segment_id: an allocated id.
        time_column: the event time, checked here too.
        created: when the append began.
        token: 16 unguessable hex digits.
        sort: sort the rows by event time first (stable); holds them in memory.
        placement: the segment's place among others; first generation by default.
        definition: for the footer, from ``data.parquet.descriptor.encode_definition``.
            The file's columns get their ids from it.
        commit: commits the file, or begins to.
        path: the path of the file; named by id and token by default.
        describe: completes the descriptor when all rows are written.
        group_rows: the rows of a full row group; ``GROUP_ROWS`` by default.

    Raises:
        InvalidInput: there are no rows, or some lie outside the segment's interval.
        TimeOutOfRange: an event time is null or out of range.
        StorageError: nothing is visible.
    """
    path = path or segment_path(segment_id, token)
    groups = _groups(_sorted(rows, time_column) if sort else rows, group_rows or GROUP_ROWS)
    first = next(groups, None)
    if first is None:
        raise InvalidInput(f"segment {segment_id} would have no rows")
    with files.create(path) as plain:
        sink = ChecksumSink(plain)
        schema, number = _identified(first.schema, definition)
        file = JoiningFile(sink)
        options = {**PARQUET, "use_dictionary": dictionary_columns(first)}
        with pq.ParquetWriter(file, schema, **options) as writer:
            own = placement or SegmentPlacement(shard=Shard.first_generation(segment_id.partition))
            every = chain(iter([first]), groups)
            del first  # one row group at a time is in memory
            written = _write_groups(writer, every, segment_id, own, time_column)
            written = replace(written, path=path, created=created, schema=number)
            segment, more = describe(written) if describe else (written, {})
            entries = {KEY: encode_descriptor(segment), **definition_entry(definition), **more}
            file.settle()  # the checksums' entry follows the last page
            writer.add_key_value_metadata(entries | sink.entry())
        file.settle()
        segment = replace(segment, size=sink.position, footer=sink.footer)
        commit(sink)
    return segment


def _identified(schema: pa.Schema, definition: bytes) -> tuple[pa.Schema, int]:
    """Return the schema of a file, with ids, and its number among the table's schemas."""
    bare = schema.remove_metadata()  # it describes the rows' source, not this file
    if not definition:
        return bare, 0
    table, _ = decode_definition(definition, "the definition given")
    return with_ids(bare, field_ids(table.schema, table.kind)), table.schema.number


def _write_groups(
    writer: pq.ParquetWriter,
    groups: Iterable[pa.Table],
    segment_id: SegmentId,
    placement: SegmentPlacement,
    time_column: str,
) -> Segment:
    rows = count = events = 0
    bounds: list[Instant] = []
    for group in groups:
        bounds += check_times(group.column(time_column), time_column, rows) or ()
        _check_interval(min(bounds), max(bounds), segment_id)
        writer.write_table(group, row_group_size=group.num_rows)
        rows, count = rows + group.num_rows, count + 1
        events += ingested(group)
        del group
    return Segment(
        id=segment_id,
        shard=placement.shard,
        path="",
        rows=rows,
        size=0,
        row_groups=count,
        time_min=min(bounds),
        time_max=max(bounds),
        created=0,
        events=events,
        clustering=placement.clustering,
        replaces=placement.replaces,
        deletes_applied_through=placement.deletes_applied_through,
        buckets=placement.buckets,
    )


def ingested(rows: pa.Table) -> int:
    """Return the number of ingested rows that rows of a file stand for."""
    if EVENTS not in rows.column_names:
        return int(rows.num_rows)
    return int(pc.sum(rows.column(EVENTS)).as_py() or 0)


def _check_interval(first: Instant, last: Instant, segment_id: SegmentId) -> None:
    for at in (first, last):
        if not segment_id.interval.holds(at):
            raise TimeOutOfRange(
                f"event time {iso(at)} is outside the segment's time chunk "
                f"{segment_id.interval}: split rows by chunk before writing"
            )


def _sorted(rows: pa.Table | Iterable[pa.RecordBatch], time_column: str) -> pa.Table:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches(rows)
    return table.take(pc.sort_indices(instants(table.column(time_column))))


def _groups(rows: pa.Table | Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Cut rows into row groups of full size; the last has the rest.

    Nothing refers to a row group after it was yielded, so that one at a time is in memory.
    """
    held = _Held(most)
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
        held.add(batch)
        while held.full:
            yield held.taken()
    if held.rows:
        yield held.taken()


@dataclass(slots=True)
class _Held:
    """Rows for the next row group, of at most so many rows."""

    most: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    @property
    def full(self) -> bool:
        """Return whether there are rows for a full row group."""
        return self.rows >= self.most or self.size >= GROUP_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold a batch."""
        if batch.num_rows:
            self.batches.append(batch)
            self.rows, self.size = self.rows + batch.num_rows, self.size + batch.nbytes

    def taken(self) -> pa.Table:
        """Take out the rows of a row group."""
        held = pa.Table.from_batches(self.batches)
        width = max(1, self.size // self.rows)
        step = min(self.most, max(1, GROUP_BYTES // width))
        rest = held.slice(step)
        self.batches, self.rows, self.size = rest.to_batches(), rest.num_rows, rest.nbytes
        return held.slice(0, step)

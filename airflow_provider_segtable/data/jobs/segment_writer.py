"""Writing first-generation segments.

1. Rows were checked before (``row_checks``). Event times are checked again as they are written.
2. Row groups are large (a million rows or 128 MiB), with statistics, page indexes and checksums.
3. Columns have dictionaries where they pay (rules 5 and 6).
4. The footer has the segment's descriptor: rows, first and last event time, ingested rows.

Dictionaries:

5. Text, bytes and nested columns always have one. So have all columns of few rows; of very few
   rows, a dictionary of numbers costs more than their values.
6. Numbers and times have one if they repeat, by a sample of the first row group. A dictionary of
   values that hardly repeat makes a file larger, takes as long to try as all else, and a reader
   keeps it in memory while it reads the row group.

Compression:

7. Zstandard, at its quickest level; none for numbers that neither repeat nor shrink
   (``column_codecs``).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import lru_cache, partial
from inspect import signature
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.segment import ROW, Roots, Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
from airflow_provider_segtable.core.time import Instant, iso
from airflow_provider_segtable.data.jobs.column_codecs import (
    CODEC,
    LEVEL,
    codec_options,
    incompressible,
)
from airflow_provider_segtable.data.open_files import SinkFile
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    SMALL_BLOCK,
    ChecksumSink,
    decode_definition,
    definition_entry,
    encode_descriptor,
    segment_path,
)
from airflow_provider_segtable.data.parquet.table_file import with_ids, with_own_ids
from airflow_provider_segtable.data.row_checks import check_times
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort_keys import plain, whole
from airflow_provider_segtable.ports.files import DataFiles, Sink

FEW = 16_384
"""Up to so many rows a dictionary is small, and the sample would cost more than it saves."""
VERY_FEW = 1_024
"""Up to so many rows numbers have no dictionary: to make one takes longer than all else."""
_SAMPLE = 8_192
ARROW_SCHEMA = b"ARROW:schema"
JOINED = 256 << 10
"""The most bytes that ``joined_writes`` holds."""
_KNOWN = 64
"""Definitions that are kept: each file has one, and a table has few."""


def unlike_numbers(rows: pa.Table) -> frozenset[str]:
    """Return the columns of numbers and times that hardly repeat, by a sample; none of few rows.

    Args:
        rows: the first row group.
    """
    if rows.num_rows <= FEW:
        return frozenset()
    places = pa.array(np.arange(0, rows.num_rows, rows.num_rows // _SAMPLE))
    return frozenset(
        field.name
        for number, field in enumerate(rows.schema)
        if is_number(field.type) and not _repeats(rows.column(number).take(places))
    )


def dictionary_columns(rows: pa.Table, unlike: Collection[str]) -> list[str] | bool:
    """Return the columns, by path, of which a dictionary is written; True for all.

    Args:
        rows: the first row group.
        unlike: its ``unlike_numbers``.
    """
    if rows.num_rows <= FEW:
        nested = any(pa.types.is_nested(field.type) for field in rows.schema)
        if nested or rows.num_rows > VERY_FEW:
            return True
        return [field.name for field in rows.schema if not is_number(field.type)]
    return [path for path in paths(rows.schema) if path not in unlike]


def is_number(kind: pa.DataType) -> bool:
    """Return whether values are numbers or times of a fixed width."""
    is_ = pa.types
    return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_temporal(kind))


def _repeats(sample: pa.ChunkedArray) -> bool:
    return 2 * len(pc.unique(sample)) <= len(sample)


def paths(schema: pa.Schema) -> list[str]:
    """Return the paths of a file's columns: those of nested ones are of their leaves."""
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
    "compression": CODEC,
    "compression_level": LEVEL,
    "write_statistics": True,
    "write_page_index": True,
    "write_page_checksum": True,
}
PAGE_ROWS = 8_192
"""The rows of a page of files whose rows are looked up by key: a page is decoded as a whole.

Of eight columns, a row from pages of 20,000 rows takes 2.4 times as long. Reading all rows takes
1.00 to 1.03 times as long with pages of 8,192 rows, 1.13 to 1.22 with 4,096, 1.4 with 2,048.
"""
_CUTS_BY_ROWS = "max_rows_per_page" in signature(pq.ParquetWriter.__init__).parameters
"""Whether pages can be cut by rows; an older pyarrow cuts them by their bytes alone."""
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


Keep: TypeAlias = Callable[[str, pa.Table], None]
"""Takes each row group of a file, by its path, as it was written."""


def keep_none(path: str, rows: pa.Table) -> None:
    """Keep no rows."""
    del path, rows


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
    page_rows: int | None = None,
    keep: Keep = keep_none,
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
        page_rows: the most rows of a page, of a file whose rows are looked up; by default those
            of pyarrow, 20,000.
        keep: takes each row group that was written.

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
        sink = ChecksumSink(plain, SMALL_BLOCK if page_rows else None)
        schema, number = _identified(first.schema, definition)
        with (
            joined_writes(sink) as file,
            pq.ParquetWriter(file, schema, **_options(first, page_rows)) as writer,
        ):
            own = placement or SegmentPlacement(shard=Shard.first_generation(segment_id.partition))
            every = chain(iter([first]), groups)
            del first  # one row group at a time is in memory
            kept = partial(keep, path)
            written = _write_groups(writer, every, segment_id, own, time_column, kept)
            written = replace(written, path=path, created=created, schema=number)
            segment, more = describe(written) if describe else (written, {})
            entries = {
                KEY: encode_descriptor(segment),
                **_arrow_schema(schema),
                **definition_entry(definition),
                **more,
            }
            file.flush()  # the checksums' entry follows the last page
            writer.add_key_value_metadata(entries | sink.entry())
            writer.close()
            file.flush()
        segment = replace(segment, size=sink.position, footer=sink.footer)
        commit(sink)
    return segment


class _OpenFile(SinkFile):
    """A ``SinkFile`` that takes nothing more once it has ended."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.ended = False

    def write(self, data: Any) -> int:
        """Append bytes, unless the file has ended."""
        return len(data) if self.ended else super().write(data)


@contextmanager
def joined_writes(sink: Sink) -> Iterator[pa.NativeFile]:
    """Return a writable Arrow file that joins small writes; flush it before using the sink itself.

    It writes nothing after the context: when it is collected, the sink may be closed already.
    """
    file = _OpenFile(sink)
    try:
        yield pa.BufferedOutputStream(pa.PythonFile(file, mode="w"), JOINED)
    finally:
        file.ended = True


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with value types instead of dictionary types; fields keep their ids."""
    return with_own_ids(pa.schema([field.with_type(plain(field.type)) for field in schema]))


def arrow_schema_entry(schema: pa.Schema) -> bytes:
    """Return the footer entry in which pyarrow's writer stores a schema."""
    stream = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), stream, **PARQUET)
    entry: bytes = pq.read_metadata(pa.BufferReader(stream.getvalue())).metadata[ARROW_SCHEMA]
    return entry


def _arrow_schema(schema: pa.Schema) -> dict[bytes, bytes]:
    """Return the footer entry of the table's types, if the rows have dictionaries."""
    if not any(pa.types.is_dictionary(field.type) for field in schema):
        return {}  # the writer adds it
    return {ARROW_SCHEMA: arrow_schema_entry(plain_schema(schema))}


def of_used_words(rows: pa.Table) -> pa.Table:
    """Return rows whose dictionaries have each value that occurs, and no other.

    Parquet's writer stores a dictionary as it is given: values of rows that were left out, too.
    """
    for at, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type):
            rows = rows.set_column(at, rows.schema.field(at), _used_words(whole(column)))
    return rows


def _used_words(column: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = column.indices.drop_null() if column.null_count else column.indices
    used = np.zeros(len(column.dictionary), np.bool_)
    used[indices.to_numpy()] = True
    if used.all():
        return column
    places = pa.array(np.cumsum(used) - 1, column.indices.type)
    return pa.DictionaryArray.from_arrays(
        places.take(column.indices), column.dictionary.filter(pa.array(used))
    )


def _options(first: pa.Table, page_rows: int | None) -> Mapping[str, Any]:
    """Return how to write a file, by its first row group and the rows of a page."""
    pages = {"max_rows_per_page": page_rows} if page_rows and _CUTS_BY_ROWS else {}
    types = {"store_schema": not _arrow_schema(first.schema)}
    unlike = unlike_numbers(first)
    codecs = codec_options(incompressible(first, unlike), partial(paths, first.schema))
    words = dictionary_columns(first, unlike)
    return {**PARQUET, **codecs, **pages, **types, "use_dictionary": words}


def _identified(schema: pa.Schema, definition: bytes) -> tuple[pa.Schema, int]:
    """Return the schema of a file, with ids, and its number among the table's schemas."""
    bare = schema.remove_metadata()  # it describes the rows' source, not this file
    return written_schema(bare.serialize().to_pybytes(), definition) if definition else (bare, 0)


@lru_cache(maxsize=_KNOWN)
def written_schema(schema: bytes, definition: bytes) -> tuple[pa.Schema, int]:
    """Return a schema with the ids of a table's columns, and the number of the table's schema.

    As bytes, schemas are equal if the metadata of their fields are, too.
    """
    table, _ = decode_definition(definition, "the definition given")
    ids = field_ids(table.schema, table.kind)
    return with_ids(pa.ipc.read_schema(pa.py_buffer(schema)), ids), table.schema.number


def _write_groups(
    writer: pq.ParquetWriter,
    groups: Iterable[pa.Table],
    segment_id: SegmentId,
    placement: SegmentPlacement,
    time_column: str,
    keep: Callable[[pa.Table], None],
) -> Segment:
    rows = count = events = 0
    bounds: list[Instant] = []
    for group in groups:
        bounds += check_times(group.column(time_column), time_column, rows) or ()
        _check_interval(min(bounds), max(bounds), segment_id)
        writer.write_table(of_used_words(group), row_group_size=group.num_rows)
        rows, count = rows + group.num_rows, count + 1
        events += ingested(group)
        keep(group)
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
        if step >= self.rows:
            self.batches, self.rows, self.size = [], 0, 0
            return held
        rest = held.slice(step)
        self.batches, self.rows, self.size = rest.to_batches(), rest.num_rows, rest.nbytes
        return held.slice(0, step)

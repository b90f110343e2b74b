"""Move row groups from file to file undecoded, or rewrite them as full row groups.

Moving row groups undecoded:

::

    input A   PAR1 | chunks ............ | blooms | column ix | offset ix | footer
    input B   PAR1 | chunks ... | blooms | column ix | offset ix | footer
                      |  one copy per input
    output    PAR1 | chunks of A | chunks of B | blooms | column ix A,B | offset ix A,B | footer

1. The column chunks of one input lie between its first and its last chunk; that range is copied
   in one piece, so all its offsets move by one shift. Other bytes in the range are copied too.
2. Column indexes contain no offsets and are copied unchanged; offset indexes contain the offset of
   every page and are patched; both are written before the new footer.
3. Bloom filters outside the range are copied one by one, which needs their length.
4. The row group structs of the old footers are copied with every absolute offset replaced: file
   offset, data, dictionary and index page, bloom filter, column index, offset index; and the
   ordinal. All other fields, statistics included, stay byte for byte.
5. Row groups without rows are left out.
6. A file that does not fit these rules is *foreign*: ``examined`` returns the reason, and the file
   must be decoded.

Rewriting: rows are decoded and encoded as Parquet files in memory, one full row group each.

7. Memory is bounded: one row group decoded, one encoded.
8. Columns of few distinct values stay dictionaries, which saves decoding and hashing each value.
   They are chosen by the first file's sizes: if values hardly repeat, a dictionary takes three
   times as long. Address roots always stay dictionaries.
9. Rows may be changed between reading and writing: rows dropped, columns filled in. Files of an
   earlier schema are read in the columns of the target (``data.parquet.table_file``).

Source of the idea: parquet-java ``ParquetFileWriter.appendFile``, which drops page indexes and
bloom filters or rewrites them one chunk at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.segment import ROOT
from airflow_provider_segtable.data.arrow_schema import FIELD_ID as ID
from airflow_provider_segtable.data.jobs.segment_writer import (
    ENCODINGS,
    GROUP_BYTES,
    GROUP_ROWS,
    PARQUET,
)
from airflow_provider_segtable.data.open_files import MemorySource
from airflow_provider_segtable.data.parquet import thrift
from airflow_provider_segtable.data.parquet.descriptor import ChecksumSink, file_schema
from airflow_provider_segtable.data.parquet.footer import (
    MAGIC,
    FieldSpans,
    Footer,
    Group,
    chunk_start,
    footer_bytes,
)
from airflow_provider_segtable.data.parquet.source_file import seekable
from airflow_provider_segtable.data.parquet.table_file import opened, stored_columns, with_own_ids
from airflow_provider_segtable.data.parquet.thrift import (
    LIST,
    SKIP,
    BrokenThrift,
    Span,
    UnknownField,
)
from airflow_provider_segtable.data.row_checks import conformed
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

# Moving row groups undecoded
MOST_GROUPS = 32767
"""A row group's ordinal is a 16 bit number."""

_PAGE_LOCATION: thrift.Shape = {1: "offset", 2: SKIP, 3: SKIP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Movable:
    """A file whose row groups can be moved: its footer, and its page indexes' bytes.

    ``pages`` maps the file offset of each offset index to the spans of its page offsets.
    """

    footer: Footer
    index_start: int = 0
    indexes: bytes = b""
    pages: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)

    def index(self, column: FieldSpans, name: str) -> bytes:
        """Return the bytes of a chunk's column or offset index."""
        if name not in column:
            return b""
        start = column[name][2] - self.index_start
        return self.indexes[start : start + column[f"{name}_length"][2]]


def examined(source: Source, footer: Footer) -> Movable | str:
    """Return the file as movable, or the reason why it is not."""
    if footer.foreign:
        return footer.foreign
    columns = [column for group in footer.groups if group.rows for column in group.columns]
    for column in columns:
        for name in ("column_index", "offset_index"):
            if (name in column) != (f"{name}_length" in column):
                return f"a {name} has no length"
        if "bloom" in column and "bloom_length" not in column:
            return "a bloom filter has no length"
        if "bloom" in column and not _inside(footer, column["bloom"], column["bloom_length"]):
            return "a bloom filter lies outside the file"
    return _with_indexes(source, footer, columns)


def _inside(footer: Footer, start: Span, length: Span) -> bool:
    return len(MAGIC) <= start[2] and length[2] >= 0 and start[2] + length[2] <= footer.start


def _with_indexes(source: Source, footer: Footer, columns: Sequence[FieldSpans]) -> Movable | str:
    offset_indexes = [c for c in columns if "offset_index" in c]
    places = [
        (column[name], column[f"{name}_length"])
        for name in ("column_index", "offset_index")
        for column in columns
        if name in column
    ]
    bare = replace(footer, tail=b"")
    if not places:
        return Movable(footer=bare)
    if not all(_inside(footer, *place) for place in places):
        return "a page index lies outside the file"
    first = min(start[2] for start, _ in places)
    have = footer.start - len(footer.tail)
    indexes = (
        footer.tail[first - have :]
        if first >= have
        else source.read_at(first, max(s[2] + n[2] for s, n in places) - first)
    )
    try:
        pages = {
            at: tuple(_page_offsets(indexes, at - first, c["offset_index_length"][2]))
            for c in offset_indexes
            for at in (c["offset_index"][2],)
        }
    except (BrokenThrift, UnknownField, IndexError, KeyError) as error:
        return f"an offset index is unknown ({error!r})"
    return Movable(footer=bare, index_start=first, indexes=indexes, pages=pages)


def _page_offsets(data: bytes, start: int, length: int) -> list[Span]:
    """Return the spans of the page offsets in an offset index, relative to its start."""
    data = data[start : start + length]
    found: list[Span] = []
    at = last = 0
    while True:
        last, kind, at = thrift.read_field(data, at, last)
        if not kind:
            return found
        if (last, kind) == (1, LIST):
            count, _, at = thrift.read_list(data, at)
            for _ in range(count):
                location: dict[str, Span] = {}
                at = thrift.scan(data, at, _PAGE_LOCATION, location)
                found.append(location["offset"])
        elif (last, kind) == (2, LIST):  # sizes of strings, no offsets
            at = thrift.skip(data, at, kind)
        else:
            raise UnknownField(f"field {last} is not known")


@dataclass(frozen=True, slots=True)
class _Moved:
    """A moved row group: its shift, its bloom filters' new offsets, its page indexes."""

    footer: Footer
    group: Group
    body: tuple[int, int]
    shift: int
    blooms: Mapping[int, int]
    column_indexes: tuple[bytes, ...]
    offset_indexes: tuple[bytes, ...]


class Assembly:
    """A Parquet file being put together from row groups of other files, in order."""

    def __init__(self, sink: Sink) -> None:
        """Start the file."""
        self._sink = sink
        self._moved: list[_Moved] = []
        sink.write(MAGIC)

    @property
    def rows(self) -> int:
        """Return the rows so far."""
        return sum(moved.group.rows for moved in self._moved)

    @property
    def row_groups(self) -> int:
        """Return the row groups so far."""
        return len(self._moved)

    def append(self, source: Source, file: Movable, first: int = 0, end: int | None = None) -> None:
        """Append the row groups ``[first, end)`` of a file, undecoded.

        Args:
            source: the open file.
            file: the result of ``examined``.
            first: the first row group.
            end: one past the last row group; None for all.
        """
        groups = [group for group in file.footer.groups[first:end] if group.rows]
        if not groups:
            return
        extents = [group.extent for group in groups]
        body = min(start for start, _ in extents), max(end for _, end in extents)
        shift = self._sink.position - body[0]
        self._sink.copy_from(source, body[0], body[1] - body[0])
        for group in groups:
            self._moved.append(
                _Moved(
                    footer=file.footer,
                    group=group,
                    body=body,
                    shift=shift,
                    blooms=self._blooms(source, group, body, shift),
                    column_indexes=tuple(file.index(c, "column_index") for c in group.columns),
                    offset_indexes=tuple(_shifted(file, c, shift) for c in group.columns),
                )
            )

    def _blooms(
        self, source: Source, group: Group, body: tuple[int, int], shift: int
    ) -> dict[int, int]:
        """Return the new offset of each bloom filter; copy the filters outside the body."""
        places: dict[int, int] = {}
        for column in group.columns:
            if "bloom" in column:
                at, length = column["bloom"][2], column["bloom_length"][2]
                if body[0] <= at and at + length <= body[1]:
                    places[at] = at + shift
                else:
                    places[at] = self._sink.position
                    self._sink.copy_from(source, at, length)
        return places

    def finish(self, metadata: Mapping[bytes, bytes], created_by: bytes, like: Footer) -> None:
        """Write page indexes and footer.

        Args:
            metadata: the file's key-value metadata, except the sink's own.
            created_by: the writer of the pages, for readers with workarounds for old writers.
            like: the footer to take schema and column orders from.
        """
        own = self._sink.entry() if isinstance(self._sink, ChecksumSink) else {}
        column_at = self._sink.position
        column_indexes = [ix for moved in self._moved for ix in moved.column_indexes]
        offset_at = column_at + sum(map(len, column_indexes))
        offset_indexes = [ix for moved in self._moved for ix in moved.offset_indexes]
        groups = []
        for ordinal, moved in enumerate(self._moved):
            groups.append(_group_bytes(moved, ordinal, column_at, offset_at))
            column_at += sum(map(len, moved.column_indexes))
            offset_at += sum(map(len, moved.offset_indexes))
        footer = footer_bytes(
            like,
            version=max((moved.footer.version for moved in self._moved), default=like.version),
            groups=groups,
            rows=self.rows,
            metadata={**metadata, **own}.items(),
            created_by=created_by,
        )
        self._sink.write(b"".join((*column_indexes, *offset_indexes, footer)))


def _shifted(file: Movable, column: FieldSpans, shift: int) -> bytes:
    """Return a chunk's offset index with every page offset moved."""
    data = file.index(column, "offset_index")
    if not data:
        return data
    edits = [(span, span[2] + shift) for span in file.pages[column["offset_index"][2]]]
    return thrift.patched(data, 0, len(data), edits)


def _group_bytes(moved: _Moved, ordinal: int, column_at: int, offset_at: int) -> bytes:
    """Return a row group's struct with every absolute offset replaced."""
    group = moved.group
    edits: list[tuple[Span, int]] = []
    indexes = zip(moved.column_indexes, moved.offset_indexes, strict=True)
    for column, (column_index, offset_index) in zip(group.columns, indexes, strict=True):
        edits += _page_edits(moved, column)
        if "offset_index" in column:
            edits.append((column["offset_index"], offset_at))
            edits.append((column["offset_index_length"], len(offset_index)))
        if "column_index" in column:
            edits.append((column["column_index"], column_at))
        column_at += len(column_index)
        offset_at += len(offset_index)
    if "file_offset" in group.spans:
        edits.append((group.spans["file_offset"], chunk_start(group.columns[0]) + moved.shift))
    if "ordinal" in group.spans:
        edits.append((group.spans["ordinal"], ordinal))
    edits.sort()
    return thrift.patched(moved.footer.data, group.start, group.end, edits)


def _page_edits(moved: _Moved, column: FieldSpans) -> list[tuple[Span, int]]:
    edits = [(column["data"], column["data"][2] + moved.shift)]
    for name in ("dictionary", "index"):
        if name in column and column[name][2] > 0:  # some writers store 0 for a missing page
            edits.append((column[name], column[name][2] + moved.shift))
    if "bloom" in column:
        edits.append((column["bloom"], moved.blooms[column["bloom"][2]]))
    if "file_offset" in column and column["file_offset"][2]:
        # Deprecated: 0, or the first page, or a copy of the metadata, which is not copied.
        old = column["file_offset"][2]
        inside = moved.body[0] <= old < moved.body[1]
        edits.append((column["file_offset"], old + moved.shift if inside else 0))
    return edits


# Rewriting rows as full row groups
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

    If the file has ids, its columns also have their fields in files of earlier schemas.
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
    """Return a file's field with the type and metadata of its column."""
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
            file = seekable(source, _WHOLE)
            metadata = pq.read_metadata(file)
            target = target or _with_dictionaries(with_own_ids(schema), metadata)
            words = [f.name for f in target if f.type != schema.field(f.name).type]
            with opened(file, schema, words=words, metadata=metadata) as parquet:
                batches = parquet.iter_batches(row_groups=list(one.groups))
                for batch, at in _cut(batches, *(one.cut or (0, metadata.num_rows))):
                    rows = pa.Table.from_batches([batch])
                    changed = one.change(rows, one.first + at) if one.change else rows
                    yield conformed(changed, target)


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
    names = {*schema.names}
    known = {name: how for name, how in ENCODINGS.items() if name in names}
    if not known:
        return {}
    stream = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), stream)
    paths = _paths(pq.read_metadata(pa.BufferReader(stream.getvalue())))
    return {"use_dictionary": sorted(paths - known.keys()), "column_encoding": known}

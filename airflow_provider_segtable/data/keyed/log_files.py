"""Write the records of one write as log files, and hold records as bytes or in layers of memory.

Log files of one write: records are split by time chunk and bucket, sorted, and written.

1. A library or a Spark task writes them; only the driver of a write commits.
2. Ids are provisional: the event that publishes a file gives it its id. Tokens are unguessable, so
   no two attempts ever share a name.
3. Of equal keys in one write the later record wins: in a file by its place, of two files of a
   bucket by their versions.

Records as bytes, to be sent where a file is not worth its cost:

4. The bytes are an Arrow IPC stream, compressed as a whole with zstd: of a few rows, the schema is
   most of it.
5. Its columns are the rows' columns, and ``GONE``: whether a row is a tombstone of its key.

Layers of records in memory: the writes of one table, in the order of their precedence.

6. A layer has the records of one write (``Records``): rows, and tombstones of keys.
7. Of equal keys the later layer wins, and within a layer the later row. A key whose last record is
   a tombstone is absent.
8. Layers may have a part of the table's columns, if the primary key is among them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP, MergeRules
from airflow_provider_segtable.core.time import Instant, Layout
from airflow_provider_segtable.data.jobs.segment_writer import (
    PAGE_ROWS,
    Described,
    Keep,
    SegmentPlacement,
    keep_none,
    write_segment,
)
from airflow_provider_segtable.data.keyed.group_reader import log_path
from airflow_provider_segtable.data.keyed.key_groups import Flags, Places
from airflow_provider_segtable.data.keyed.keyed_rows import key_hashes, log_parts, log_rows
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.data.rows import numbered_by_chunk
from airflow_provider_segtable.ports.files import DataFiles, Sink

# Log files of one write
LOG_BYTES = 128 * 1024 * 1024
"""Decoded bytes of rows from which on a write rolls over to another log file of the bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Upserts, and deletes of keys, in order: of one key the later row wins.

    ``rows`` are in the table's columns; ``deleted`` says which rows delete their key.
    """

    rows: pa.Table
    deleted: Flags


def deletions(column: pa.ChunkedArray | None, name: str) -> Flags:
    """Return which rows delete their key, as a column of a user's says.

    Raises:
        InvalidInput: the column is missing, null or not boolean.
    """
    if column is None or not pa.types.is_boolean(column.type) or column.null_count:
        found = "missing" if column is None else f"{column.type}, {column.null_count} null"
        raise InvalidInput(
            f"column {name!r} says which rows are deleted, so it is boolean and never null: it is "
            f"{found}"
        )
    return np.asarray(column.to_numpy())


def commit_now(sink: Sink) -> None:
    """Commit a file, and wait until it is durable."""
    sink.commit()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWriter:
    """Writes the log files of one write, or of one task of it.

    Attributes:
        files: the data files to write to.
        table: the table's definition.
        rules: how the records of a key become its row.
        layout: the layout of time chunks.
        base_version: the table's first version.
        instant: when the write began.
        token: returns 16 unguessable hex digits.
        commit: commits a file, or begins to.
        keep: takes each row group that was written.
        order: the instant that orders the records, ``instant`` by default; with
            ``keyed_files.IN_ORDER`` they count in the order of the commits.
        versions: the last version of each bucket.
        first_version: the version of the first file of each bucket.
        token_start: the begin of the write tokens, where they decide which record is higher.
        entries: entries of the footers besides the segment's and the table's.
        version: the version of the provisional ids; the table's first one by default.
        ingested: whether the rows count as ingested; if not, the segments have no events.
    """

    files: DataFiles
    table: TableDefinition
    rules: MergeRules
    layout: Layout
    base_version: Instant
    instant: Instant
    token: Callable[[], str]
    commit: Callable[[Sink], None] = commit_now
    keep: Keep = keep_none
    order: Instant | None = None
    versions: dict[ChunkKey, int] = field(default_factory=dict)
    first_version: int = 0
    token_start: str = ""
    entries: Mapping[bytes, bytes] = field(default_factory=dict)
    version: Instant | None = None
    ingested: bool = True

    def written(self, records: Records) -> Iterator[Segment]:
        """Write records by time chunk and bucket; yield the segments.

        Raises:
            InvalidInput: a key is null, or there are no rows.
        """
        definition = encode_definition(self.table, self.base_version)
        places, chunk_of = self._placed(records.rows)
        for place, rows in log_parts(records.rows, self.rules, places, records.deleted):
            chunk = chunk_of(place)
            step = max(1, LOG_BYTES // max(1, rows.nbytes // rows.num_rows))
            for start in range(0, rows.num_rows, step):
                yield self._file(chunk, rows.slice(start, step), definition)

    def _file(self, chunk: ChunkKey, rows: pa.Table, definition: bytes) -> Segment:
        version = self.versions.get(chunk, self.first_version - 1) + 1
        self.versions[chunk] = version
        token = self.token()
        segment_id = chunk.provisional(token)
        order = self.instant if self.order is None else self.order
        placement = SegmentPlacement(
            shard=Shard.first_generation(segment_id.partition),
            buckets=self.layout.own_buckets(chunk.interval.start),
        )
        return write_segment(
            self.files,
            rows,
            segment_id=segment_id,
            page_rows=PAGE_ROWS,
            time_column=self.table.time_column,
            created=self.instant,
            token=token,
            placement=placement,
            definition=definition,
            commit=self.commit,
            keep=self.keep,
            path=log_path(segment_id, order, version, self.token_start + token),
            describe=self._described,
        )

    def _described(self, segment: Segment) -> Described:
        return segment if self.ingested else replace(segment, events=0), self.entries

    def _placed(self, rows: pa.Table) -> tuple[Places, Callable[[int], ChunkKey]]:
        """Return the place of each row, and the file group of a place; in the order of time."""
        numbers, intervals = numbered_by_chunk(rows, self.table.time_column, self.layout)
        counts = np.array([self.layout.buckets_at(each.start) for each in intervals])
        buckets = np.mod(key_hashes(rows, self.rules.bucket_key), counts[numbers])
        most = int(counts.max())
        version = self.base_version if self.version is None else self.version

        def chunk_of(place: int) -> ChunkKey:
            return ChunkKey(intervals[place // most], version, place % most)

        narrow = np.min_scalar_type(most * len(intervals))  # so narrow numbers sort in linear time
        return (numbers * most + buckets).astype(narrow), chunk_of


# Records as bytes
GONE = HIDDEN + "gone"


def encode_records(records: Records) -> bytes:
    """Return records as bytes."""
    rows = records.rows.append_column(GONE, pa.array(records.deleted))
    rows = rows.combine_chunks()
    sink = pa.BufferOutputStream()
    with (
        pa.CompressedOutputStream(sink, "zstd") as packed,
        pa.ipc.new_stream(packed, rows.schema) as writer,
    ):
        writer.write_table(rows)
    return bytes(sink.getvalue())


def decode_records(data: bytes, where: str) -> Records:
    """Return the records of ``encode_records``.

    Raises:
        CorruptTable: the bytes are broken.
    """
    try:
        packed = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
        with pa.ipc.open_stream(packed) as reader:
            rows = reader.read_all()
        deleted = np.asarray(rows.column(GONE).to_numpy())
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptTable(
            f"{where}: its entries are broken ({error}): rebuild the index"
        ) from None
    return Records(rows=rows.drop_columns([GONE]), deleted=deleted)


# Layers of records in memory
def layer_of(rows: pa.Table) -> Records:
    """Return rows as a layer without tombstones."""
    return Records(rows=rows, deleted=np.zeros(rows.num_rows, bool))


def joined_records(schema: pa.Schema, layers: Sequence[Records]) -> Records:
    """Return layers as one, in their order, with the columns of a schema."""
    parts = [_in_schema(layer.rows, schema) for layer in layers]
    flags = [np.zeros(0, bool), *(layer.deleted for layer in layers)]
    return Records(
        rows=pa.concat_tables([schema.empty_table(), *parts]), deleted=np.concatenate(flags)
    )


def _in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema; mostly they have them, and a cast costs much."""
    found = rows.select(schema.names)
    return found if found.schema.equals(schema) else found.cast(schema)


def rows_of_layers(schema: pa.Schema, layers: Sequence[Records], rules: MergeRules) -> pa.Table:
    """Return the row of each key, sorted by key, with the columns of a schema.

    Args:
        schema: the columns, with the primary key's.
        layers: the lowest first.
        rules: the table's rules.
    """
    records = joined_records(schema, layers)
    rows = log_rows(records.rows, rules, records.deleted)
    kept = rows.filter(pc.not_equal(rows.column(OP), DELETE))
    return kept.select(schema.names).cast(schema)

"""Checkpoints: a state as one Parquet file, with segments decoded on demand.

1. One row per segment, sorted by chunk; all segments of a chunk are in one row group. Key-value
   metadata contain the rest: ``segtable`` is the head (JSON), ``segtable.chunks`` is a table with
   one row per chunk (a Parquet file, base64): the place of its segments and their summary.
2. ``read_checkpoint(write_checkpoint(state)) == state``, always. Any other file is refused, and
   the reader folds the log instead.
3. Reading decodes the head and the chunk table. A chunk's segments are decoded at its first use
   (``checkpoint_chunks``). Writing copies the chunks that are still packed.
4. The key-value metadata contain a checksum of all bytes under ``segtable.checksum``. It is
   computed over the file with zeros in its place, then overwrites them.
"""

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.digest import digest
from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable, SegtableError
from airflow_provider_segtable.core.locks.lock_types import Generation
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.id_space import IdSpace, IdSpaces
from airflow_provider_segtable.core.segments.packed_chunk import AnyChunk, PackedChunk
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.table.log.checkpoint_chunks import SCHEMA as CHUNKS
from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks, chunk_row
from airflow_provider_segtable.table.log.checkpoint_head import decode_head, encode_head
from airflow_provider_segtable.table.log.segment_rows import (
    REPEATING,
    SCHEMA,
    rows_of,
    segments_in,
)

FORMAT = 7
READABLE = (2, 3, 4, 5, 6, FORMAT)
"""Format 2 had no cleaning, 3 no deletions, 4 no checksums, 5 no chunk table, 6 one schema; all are
read, because the log behind them may be gone."""
CHUNKED = 6
"""First format with a chunk table."""
SUMMED = 5
"""First format with a checksum."""
GROUP_ROWS = 4096
"""A row group ends with the chunk that brings it to this number of segments."""

_HEAD = b"segtable"
_CHUNKS = b"segtable.chunks"
_CHECKSUM_KEY = b"segtable.checksum"
_BLANK = b"sha256/16:" + b"0" * 16
"""The value of ``segtable.checksum`` while the digest is computed."""
_CHECKSUM = re.compile(re.escape(_BLANK[:10]) + rb"([0-9a-f]{16})")
_WRITTEN: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "write_statistics": False,
}


def write_checkpoint(state: State) -> bytes:
    """Encode the state as the content of a checkpoint file."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA, use_dictionary=REPEATING, **_WRITTEN) as writer:
        table = io.BytesIO()
        pq.write_table(_Copy(state).written(writer), table, **_WRITTEN)
        head = json.dumps({"format": FORMAT, **encode_head(state)})
        writer.add_key_value_metadata(
            {
                _HEAD: head.encode(),
                _CHUNKS: base64.b64encode(table.getvalue()),
                _CHECKSUM_KEY: _BLANK,
            }
        )
    data = sink.getvalue()
    at = data.rindex(_BLANK)
    return data[:at] + _BLANK[:10] + digest(data).encode() + data[at + len(_BLANK) :]


class _Copy:
    """The writing of a state's chunks; copies those that are as in the checkpoint it came from."""

    def __init__(self, state: State) -> None:
        self.state = state
        packed = (c.source for c in state.timeline.chunks() if isinstance(c, PackedChunk))
        sources = (each for each in packed if isinstance(each, CheckpointChunks))
        self.source = next(sources, None)
        self.changed = state.ids.changed_from(self.source.spaces) if self.source else None
        self.copied: set[int] = set()

    def written(self, writer: pq.ParquetWriter) -> pa.Table:
        """Write the segments of all chunks in row groups; return the chunk table."""
        group, pieces, first, table = 0, list[pa.Table](), 0, list[pa.Table]()
        for chunks in self.runs():
            table.append(self.chunk_rows(chunks, (group, first)))
            pieces.append(self.rows(chunks))
            first += pieces[-1].num_rows
            if first >= GROUP_ROWS:
                writer.write_table(pa.concat_tables(pieces), row_group_size=first)
                group, pieces, first = group + 1, [], 0
        if first:
            writer.write_table(pa.concat_tables(pieces), row_group_size=first)
        return pa.concat_tables([*table, self.idle()])

    def runs(self) -> Iterator[list[AnyChunk]]:
        """Group neighbouring packed chunks of one row group; yield other chunks singly."""
        run: list[AnyChunk] = []
        following, group = -1, -1
        for chunk in self.state.timeline.chunks():
            at = self.number(chunk)
            if at < 0 or at != following or self.group(at) != group:
                if run:
                    yield run
                run = []
            run.append(chunk)
            following, group = (at + 1, self.group(at)) if at >= 0 else (-1, -1)
        if run:
            yield run

    def number(self, chunk: AnyChunk) -> int:
        """Return the chunk's number in the source; -1 if it is not copied from there."""
        if isinstance(chunk, PackedChunk) and chunk.source is self.source:
            return chunk.at
        return -1

    def group(self, at: int) -> int:
        return self.source.row_group(at) if self.source else -1

    def rows(self, chunks: list[AnyChunk]) -> pa.Table:
        at, last = self.number(chunks[0]), self.number(chunks[-1])
        if self.source and at >= 0:
            return self.source.rows(at, last + 1)
        return rows_of(segment for chunk in chunks for segment in chunk.segments())

    def chunk_rows(self, chunks: list[AnyChunk], place: tuple[int, int]) -> pa.Table:
        at, last = self.number(chunks[0]), self.number(chunks[-1])
        if self.source and at >= 0:
            self.copied.update(range(at, last + 1))
            if self.changed is not None and self.changed.isdisjoint(c.key for c in chunks):
                return self.source.chunk_rows(at, last + 1, place)
        group, row = place
        rows = []
        for chunk in chunks:
            rows.append(chunk_row(chunk.key, (group, row), chunk.summary, self.state.ids))
            row += chunk.count
        return pa.Table.from_pylist(rows, schema=CHUNKS)

    def idle(self) -> pa.Table:
        """Return the rows of chunks without segments that have id spaces."""
        ids, timeline = self.state.ids, self.state.timeline
        if self.source and self.changed is not None:
            named = {*self.changed, *self.source.keys_without(self.copied)}
        else:
            named = {key for key, _ in ids}
        rows = [
            chunk_row(key, (-1, 0), timeline.summary(key), ids)
            for key in sorted(named)
            if not timeline.summary(key).count
        ]
        return pa.Table.from_pylist(rows, schema=CHUNKS)


def read_checkpoint(data: bytes) -> State:
    """Return the state in a checkpoint file.

    Raises:
        ChecksumMismatch: the bytes do not match their checksum.
        CorruptTable: the file is truncated, not a checkpoint, or of an unknown format.
    """
    summed = _checked(data)
    try:
        # Single-threaded: a process that ends while Arrow starts its threads is aborted.
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        entries = file.metadata.metadata or {}
        head = json.loads(entries[_HEAD])
        _check_format(head["format"], summed=summed)
        if head["format"] < CHUNKED:
            return _read_whole(file, head)
        table = pa.BufferReader(base64.b64decode(entries[_CHUNKS]))
        chunks = CheckpointChunks(
            file, pq.ParquetFile(table, pre_buffer=False).read(use_threads=False)
        )
        return decode_head(head, chunks.timeline(), chunks.ids())
    except CorruptTable:
        raise
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, SegtableError) as error:
        raise CorruptTable(f"checkpoint is unreadable: {error}") from error


def _check_format(found: int, *, summed: bool) -> None:
    if found not in READABLE:
        raise CorruptTable(f"checkpoint has format {found}, expected {FORMAT}")
    if found >= SUMMED and not summed:
        raise ChecksumMismatch("checkpoint has no checksum, though its format has one")


def _checked(data: bytes) -> bool:
    """Verify the checksum; return False if the file has none."""
    found = [*_CHECKSUM.finditer(data, max(0, data.rfind(_CHECKSUM_KEY)))]
    if not found:
        return False
    start, end = found[-1].span()
    if digest(data[:start] + _BLANK + data[end:]).encode() != found[-1][1]:
        raise ChecksumMismatch("checkpoint was damaged after it was written")
    return True


def _read_whole(file: pq.ParquetFile, head: Mapping[str, Any]) -> State:
    """Return the state in a checkpoint of an older format."""
    segments = segments_in(file.read(use_threads=False))
    spaces = {
        (ChunkKey.parse(chunk), Generation(generation)): IdSpace(following, frozenset(holes))
        for chunk, generation, following, holes in head["ids"]
    }
    return decode_head(head, Timeline.empty().with_changes(add=segments), IdSpaces(spaces))

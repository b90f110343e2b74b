"""Checkpoints: a state as one Parquet file, with segments decoded on demand.

1. One row per segment, sorted by chunk; all segments of a chunk are in one row group. Key-value
   metadata contain the rest: ``segtable`` is the head (JSON), ``segtable.chunks`` is a table with
   one row per chunk (a Parquet file, base64): the place of its segments and their summary.
2. ``read_checkpoint(write_checkpoint(state)) == state``, always. Any other file is refused, and
   the reader folds the log instead.
3. Reading decodes the head and the chunk table. A chunk's segments are decoded at its first use
   (``checkpoint_chunks``). Writing copies the row groups of chunks that are still packed, without
   decoding them (``checkpoint_writer``).
4. The key-value metadata contain a checksum of all bytes under ``segtable.checksum``. It is
   computed over the file with zeros in its place, then overwrites them.
"""

import base64
import io
import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import (
    ChecksumMismatch,
    CorruptTable,
    OtherFormat,
    SegtableError,
)
from airflow_provider_segtable.core.id_space import IdSpace, IdSpaces
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks
from airflow_provider_segtable.table.log.checkpoint_head import decode_head, encode_head
from airflow_provider_segtable.table.log.checkpoint_writer import WRITTEN, ChunkWriter
from airflow_provider_segtable.table.log.segment_rows import (
    segments_in,
)

FORMAT = 8
INDEXED = 9
"""The format of tables with indexes: an older segtable must not read them without."""
LOGGED = 10
"""The format of tables with a log store: an older segtable must not commit to them."""
READABLE = (2, 3, 4, 5, 6, 7, FORMAT, INDEXED, LOGGED)
"""Format 2 had no cleaning, 3 no deletions, 4 no checksums, 5 no chunk table, 6 one schema, 7 no
buckets; all are read, because the log behind them may be gone."""
CHUNKED = 6
"""First format with a chunk table."""
SUMMED = 5
"""First format with a checksum."""

_HEAD = b"segtable"
_CHUNKS = b"segtable.chunks"
_CHECKSUM_KEY = b"segtable.checksum"
_BLANK = b"sha256/16:" + b"0" * 16
"""The value of ``segtable.checksum`` while the digest is computed."""
_CHECKSUM = re.compile(re.escape(_BLANK[:10]) + rb"([0-9a-f]{16})")


def write_checkpoint(state: State) -> bytes:
    """Encode the state as the content of a checkpoint file."""
    writer = ChunkWriter(state)
    table = io.BytesIO()
    pq.write_table(writer.write(), table, **WRITTEN)
    head = json.dumps({"format": _format(state), "bases": True, **encode_head(state)})
    data = writer.finish(
        {
            _HEAD: head.encode(),
            _CHUNKS: base64.b64encode(table.getvalue()),
            _CHECKSUM_KEY: _BLANK,
        }
    )
    at = data.rindex(_BLANK)
    return data[:at] + _BLANK[:10] + digest(data).encode() + data[at + len(_BLANK) :]


def _format(state: State) -> int:
    if state.log_store:
        return LOGGED
    return INDEXED if state.indexes else FORMAT


def read_checkpoint(data: bytes) -> State:
    """Return the state in a checkpoint file.

    Raises:
        ChecksumMismatch: the bytes do not match their checksum.
        OtherFormat: an older or newer segtable wrote the file.
        CorruptTable: the file is truncated, or not a checkpoint.
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
            data,
            pq.ParquetFile(table, pre_buffer=False).read(use_threads=False),
            with_bases="bases" in head,
        )
        return decode_head(head, chunks.timeline(), chunks.ids())
    except CorruptTable:
        raise
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, SegtableError) as error:
        raise CorruptTable(f"checkpoint is unreadable: {error}") from error


def _check_format(found: int, *, summed: bool) -> None:
    if found not in READABLE:
        raise OtherFormat(f"checkpoint has format {found}, expected {FORMAT}")
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

"""The chunks of a checkpoint: a table of their summaries, and their segments on demand.

1. The chunk table (``SCHEMA``) has one row per chunk that has segments or id spaces: the place of
   its segments in the checkpoint (row group, first row), its ``ChunkSummary`` and its id spaces.
2. A chunk's segments are in one row group. ``CheckpointChunks`` reads a row group when one of its
   chunks is used, and caches the last decoded chunks.
3. Unchanged chunks go to the next checkpoint undecoded (``checkpoint_writer``): whole row groups as
   bytes, other segments as Arrow columns (``rows``).
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.chunk import Chunk, ChunkSummary
from airflow_provider_segtable.core.errors import CorruptTable, SegtableError
from airflow_provider_segtable.core.id_space import IdSpace, IdSpaces, SpaceKey
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import PackedChunk, Timeline
from airflow_provider_segtable.data.files.open_files import MemorySource
from airflow_provider_segtable.table.log.arrow_columns import in_columns, values_of
from airflow_provider_segtable.table.log.segment_rows import SCHEMA as SEGMENTS
from airflow_provider_segtable.table.log.segment_rows import segments_in

ADDED_LATER: Mapping[str, Any] = {
    "bucket": NO_BUCKET,
    "schema": 0,
    "completed": 0,
    "buckets": 0,
    "base": None,
}
"""What the columns would hold that older formats with a chunk table lack."""
CHUNKS_KEPT = 128
"""Number of decoded chunks that a checkpoint caches."""

_UNREADABLE = (
    *(pa.ArrowException, OSError, LookupError, TypeError, ValueError),
    SegtableError,
)
_NESTED = ("sizes", "clustered")
_PLAIN = tuple(name for name in ChunkSummary._fields if name not in _NESTED)
_SPACES = tuple(generation.value for generation in Generation)

SCHEMA = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("version", pa.int64()),
        ("bucket", pa.int32()),
        ("row_group", pa.int32()),
        ("first_row", pa.int32()),
        *((name, pa.bool_() if name == "complete" else pa.int64()) for name in _PLAIN),
        *((name, pa.string()) for name in _NESTED),
        *((f"next_{name}", pa.int32()) for name in _SPACES),
        *((f"holes_{name}", pa.string()) for name in _SPACES),
    ]
)


def chunk_row(key: ChunkKey, summary: ChunkSummary, ids: IdSpaces) -> dict[str, Any]:
    """Return a chunk's row; its place is that of a chunk without segments."""
    nested = {name: getattr(summary, name) for name in _NESTED}
    row = {
        "start": key.interval.start,
        "end": key.interval.end,
        "version": key.version,
        "bucket": key.bucket,
        "row_group": -1,
        "first_row": 0,
        **{name: getattr(summary, name) for name in _PLAIN},
        **{name: json.dumps(some) if some else None for name, some in nested.items()},
    }
    for generation in Generation:
        space = ids.get((key, generation))
        row[f"next_{generation.value}"] = space.next if space else None
        holes = sorted(space.holes) if space else ()
        row[f"holes_{generation.value}"] = json.dumps(holes) if holes else None
    return row


class CheckpointChunks:
    """The chunks of one checkpoint; a thread-safe ``ChunkSource``."""

    def __init__(self, data: bytes, chunks: pa.Table, *, with_bases: bool) -> None:
        """Read the segments of ``chunks`` from the checkpoint file ``data`` on demand.

        Without bases, an older segtable wrote the file: how many segments are beside a base is
        known only of chunks that cannot have one.
        """
        # Single-threaded: a process that ends while Arrow starts its threads is aborted.
        self._file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        self.bytes = MemorySource("checkpoint", data)
        chunks = in_columns(chunks, SCHEMA, ADDED_LATER)
        if not with_bases:
            chunks = _without_late(chunks)
        self._table = chunks.combine_chunks()
        self._columns: dict[str, Sequence[Any]] = {
            name: values_of(chunks.column(name)) for name in SCHEMA.names
        }
        self._lock = Lock()
        self._group = lru_cache(maxsize=2)(self._read_group)
        self._group_paths = lru_cache(maxsize=1)(self._read_paths)
        self.chunk = lru_cache(maxsize=CHUNKS_KEPT)(self._decode)
        columns = self._columns
        self._summaries = _summaries(columns)
        self.used = sum(1 for count in columns["count"] if count)
        self._keys = tuple(
            ChunkKey(Interval(start, end), version, bucket)
            for start, end, version, bucket in _named(columns)
        )
        self.spaces = _PackedSpaces(self._keys, columns)

    def timeline(self) -> Timeline:
        """Return the timeline of the chunks that have segments."""
        counts = self._columns["count"]
        packed = (PackedChunk(key, self, at) for at, key in enumerate(self._keys) if counts[at])
        return Timeline.of_packed(packed, sum(counts))

    def ids(self) -> IdSpaces:
        """Return the id spaces of all chunks."""
        columns = self._columns
        with_holes = [
            (self._keys[at], generation)
            for generation in Generation
            for at, holes in enumerate(columns[f"holes_{generation.value}"])
            if holes
        ]
        return IdSpaces(self.spaces, with_holes)

    def keys_without(self, used: AbstractSet[int]) -> Iterator[ChunkKey]:
        """Yield the chunks with numbers other than these."""
        return (key for at, key in enumerate(self._keys) if at not in used)

    def group(self, at: int) -> tuple[int, int, int]:
        """Return the row group of a chunk, its first chunk, and the first chunk after it."""
        groups = self._columns["row_group"]
        group = groups[at]
        return (
            group,
            bisect_left(groups, group, 0, self.used),
            bisect_right(groups, group, 0, self.used),
        )

    def first_rows(self, at: int, until: int) -> Sequence[int]:
        """Return the first rows of neighbouring chunks in their row groups."""
        return self._columns["first_row"][at:until]

    def counts(self, at: int, until: int) -> list[int]:
        """Return the number of segments of each of neighbouring chunks."""
        return list(self._columns["count"][at:until])

    def chunk_rows(self, at: int, until: int) -> pa.Table:
        """Return the chunk table's rows of neighbouring chunks."""
        return self._table.slice(at, until - at)

    def key(self, at: int) -> ChunkKey:
        """Return the interval and version of a chunk."""
        return self._keys[at]

    def rows(self, at: int, until: int) -> pa.Table:
        """Return the segment rows of neighbouring chunks in one row group."""
        columns = self._columns
        first = columns["first_row"][at]
        count = columns["first_row"][until - 1] + columns["count"][until - 1] - first
        return self._group(columns["row_group"][at]).slice(first, count)

    def summary(self, at: int) -> ChunkSummary:
        """Return the summary of a chunk."""
        return self._summaries[at]

    def paths(self, at: int) -> Sequence[str]:
        """Return the paths of the files of a chunk's segments; only this column is read."""
        columns = self._columns
        first = columns["first_row"][at]
        found = self._group_paths(columns["row_group"][at])[first : first + columns["count"][at]]
        return [path for path in found if path]

    def _read_group(self, group: int) -> pa.Table:
        with self._lock:
            # Single-threaded: a process that ends while Arrow starts its threads is aborted.
            rows = self._file.read_row_group(group, use_threads=False)
        return in_columns(rows.replace_schema_metadata(), SEGMENTS, ADDED_LATER)

    def _read_paths(self, group: int) -> Sequence[str]:
        with self._lock:
            rows = self._file.read_row_group(group, columns=["path"], use_threads=False)
        paths: list[str] = rows.column(0).to_pylist()
        return paths

    def _decode(self, at: int) -> Chunk:
        key = self._keys[at]
        try:
            found = Chunk(key=key).with_changes(segments_in(self.rows(at, at + 1)), ())
        except _UNREADABLE as error:
            raise CorruptTable(f"checkpoint is unreadable at chunk {key}: {error}") from error
        return found


def _without_late(chunks: pa.Table) -> pa.Table:
    """Return chunk rows that do not say what is beside a base, where there may be one."""
    unknown = pc.or_(pc.greater(chunks["core"], 0), pc.greater(chunks["bucket"], NO_BUCKET))
    late = pc.if_else(unknown, pa.scalar(None, pa.int64()), chunks["late"])
    return chunks.set_column(SCHEMA.get_field_index("late"), SCHEMA.field("late"), late)


def _named(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield start, end, version and bucket of each chunk."""
    return zip(*(columns[name] for name in ("start", "end", "version", "bucket")), strict=True)


def _summaries(columns: Mapping[str, Sequence[Any]]) -> list[ChunkSummary]:
    """Return the summaries of all chunks; chunks with equal segments share their counts."""
    bits = {text: _by_bits(text) for text in set(columns["sizes"])}
    names = {text: json.loads(text or "{}") for text in set(columns["clustered"])}
    nested = {
        "sizes": map(bits.get, columns["sizes"]),
        "clustered": map(names.get, columns["clustered"]),
    }
    some = (nested.get(name) or columns[name] for name in ChunkSummary._fields)
    return list(map(ChunkSummary._make, zip(*some, strict=True)))


def _by_bits(text: str | None) -> Mapping[int, int]:
    return {int(bits): count for bits, count in json.loads(text or "{}").items()}


class _PackedSpaces(Mapping[SpaceKey, IdSpace]):
    """Id spaces stored as columns; an ``IdSpace`` is created at each lookup."""

    def __init__(self, keys: Sequence[ChunkKey], columns: Mapping[str, Sequence[Any]]) -> None:
        self._keys = keys
        self._columns = columns
        self._places = {name: at for at, name in enumerate(_named(columns))}
        following = (columns[f"next_{name}"] for name in _SPACES)
        self._length = sum(one is not None for some in following for one in some)

    def number(self, chunk: ChunkKey) -> int | None:
        """Return the number of a chunk, or None."""
        interval = chunk.interval
        return self._places.get((interval.start, interval.end, chunk.version, chunk.bucket))

    def __getitem__(self, key: SpaceKey) -> IdSpace:
        chunk, generation = key
        at = self.number(chunk)
        following = None if at is None else self._columns[f"next_{generation.value}"][at]
        if at is None or following is None:
            raise KeyError(key)
        holes = self._columns[f"holes_{generation.value}"][at]
        return IdSpace(following, frozenset(json.loads(holes)) if holes else frozenset())

    def __iter__(self) -> Iterator[SpaceKey]:
        for generation in Generation:
            for at, following in enumerate(self._columns[f"next_{generation.value}"]):
                if following is not None:
                    yield self._keys[at], generation

    def __len__(self) -> int:
        return self._length

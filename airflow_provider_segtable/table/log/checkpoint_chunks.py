"""The chunks of a checkpoint: a table of their summaries, and their segments on demand.

1. The chunk table (``SCHEMA``) has one row per chunk that has segments or id spaces: the place of
   its segments in the checkpoint (row group, first row), its ``ChunkSummary`` and its id spaces.
2. A chunk's segments are in one row group. ``CheckpointChunks`` reads a row group when one of its
   chunks is used, and caches the last decoded chunks.
3. ``ChunkWriter`` writes chunks in order. A row group ends with the chunk that brings it to
   ``GROUP_ROWS`` segments.
4. A row group of a file that the state came from is copied as bytes if all its chunks are
   still packed and no row is pending before it. So the cost grows with the number of row groups
   that changed, and hardly with the table.
5. Other packed chunks are copied as Arrow columns (``table.log.segment_rows``). Only decoded chunks
   are encoded.
6. A row of the chunk table is copied, too, unless the chunk or its id spaces changed.

ADR 0030 has the reasons.
"""

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate, groupby
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.chunk import Chunk, ChunkSummary
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, SegtableError
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.state import IdSpace, IdSpaces, SpaceKey, State
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import AnyChunk, ChunkSource, PackedChunk
from airflow_provider_segtable.data.jobs.passthrough import Assembly, Movable, examined
from airflow_provider_segtable.data.open_files import MemorySink, MemorySource
from airflow_provider_segtable.data.parquet.footer import Footer, read_footer
from airflow_provider_segtable.table.log.opening import OpenedSpaces, Opening
from airflow_provider_segtable.table.log.segment_rows import (
    REPEATING,
    SEGMENT_SCHEMA,
    column,
    in_columns,
    rows_of,
    segments_in,
    table_of,
    values_of,
)
from airflow_provider_segtable.table.log.segment_rows import SEGMENT_SCHEMA as SEGMENTS

ADDED_LATER: Mapping[str, Any] = {
    "bucket": NO_BUCKET,
    "schema": 0,
    "completed": 0,
    "buckets": 0,
    "base": None,
    "least": None,
    "second": None,
    "most": None,
    "time_min": None,
    "spanned": None,
}
"""The values of columns that older formats with a chunk table lack."""
CHUNKS_KEPT = 128
"""Number of decoded chunks that a checkpoint caches."""

_UNREADABLE = (
    *(pa.ArrowException, OSError, LookupError, TypeError, ValueError),
    SegtableError,
)
_NESTED = ("sizes", "clustered")
_IMPLIED = ("files",)
"""The fields of a summary that follow from others."""
_PLAIN = tuple(name for name in ChunkSummary._fields if name not in (*_NESTED, *_IMPLIED))
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
    """The chunks of one file of a checkpoint; a thread-safe ``ChunkSource``."""

    def __init__(
        self,
        data: bytes,
        file: pq.ParquetFile,
        chunks: pa.Table,
        *,
        with_bases: bool,
        opening: Opening,
    ) -> None:
        """Read the segments of ``chunks`` on demand from a checkpoint: its bytes, and these opened.

        Without bases, an older segtable wrote the file: the number of segments beside a base is
        then known only for chunks that cannot have a base.
        """
        self.opening = opening
        self.bytes = MemorySource("checkpoint", data)
        chunks = in_columns(chunks, SCHEMA, ADDED_LATER)
        if not with_bases:
            chunks = _without_late(chunks)
        self._table = chunks.combine_chunks()
        self._columns: dict[str, Sequence[Any]] = {
            name: values_of(chunks.column(name)) for name in SCHEMA.names
        }
        columns, groups = self._columns, _RowGroups(file)
        self._summaries = _summaries(columns)
        self.used = sum(1 for count in columns["count"] if count)
        self._keys = tuple(
            ChunkKey(Interval(start, end), version, bucket)
            for start, end, version, bucket in _named(columns)
        )
        self.spaces = _PackedSpaces(self._keys, columns, opening)
        # No cache refers to this object: a state that is let go leaves memory at once.
        self._group = lru_cache(maxsize=2)(groups.read)
        self._group_paths = lru_cache(maxsize=1)(groups.paths)
        decode = partial(_decoded, self._keys, columns, self._group)
        self.chunk = lru_cache(maxsize=CHUNKS_KEPT)(decode)

    @property
    def stored(self) -> "CheckpointChunks":
        """Return itself."""
        return self

    @property
    def segments(self) -> int:
        """Return the number of segments."""
        return sum(self._columns["count"])

    @property
    def keys(self) -> Sequence[ChunkKey]:
        """Return the keys of all chunks: first of those with segments, then of the others."""
        return self._keys

    def numbers(self) -> Iterator[tuple[ChunkKey, int]]:
        """Yield the chunks that have segments, with their numbers."""
        counts = self._columns["count"]
        return ((key, at) for at, key in enumerate(self._keys) if counts[at])

    def with_holes(self) -> Iterator[SpaceKey]:
        """Yield the keys of id spaces with holes."""
        for generation in Generation:
            for at, holes in enumerate(self._columns[f"holes_{generation.value}"]):
                if holes:
                    yield self._keys[at], generation

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
        return _rows(self._columns, self._group, at, until)

    def summary(self, at: int) -> ChunkSummary:
        """Return the summary of a chunk."""
        return self._summaries[at]

    def paths(self, at: int) -> Sequence[str]:
        """Return the paths of the files of a chunk's segments; only this column is read."""
        columns = self._columns
        first = columns["first_row"][at]
        found = self._group_paths(columns["row_group"][at])[first : first + columns["count"][at]]
        return [path for path in found if path]

    def alike(self, at: int, other: ChunkSource, other_at: int) -> bool:
        """Return whether a chunk has the same rows as one of another file."""
        if not isinstance(other, CheckpointChunks | LoadedChunks):
            return False
        theirs = other.stored
        if self.key(at) != theirs.key(other_at) or self.counts(at, at + 1) != theirs.counts(
            other_at, other_at + 1
        ):
            return False
        return bool(self.rows(at, at + 1).equals(theirs.rows(other_at, other_at + 1)))


class LoadedChunks:
    """The chunks of a file that is read on demand, and again if it was let go meanwhile."""

    def __init__(self, path: str, load: Callable[[], CheckpointChunks]) -> None:
        """Read the file of a path by ``load``, which may keep it for a while."""
        self._path = path
        self._load = load

    def __eq__(self, other: object) -> bool:
        """Return whether both are chunks of one file."""
        return isinstance(other, LoadedChunks) and self._path == other._path

    def __hash__(self) -> int:
        """Hash the path."""
        return hash(self._path)

    @property
    def stored(self) -> CheckpointChunks:
        """Return the chunks of the file; their numbers are those of this source."""
        return self._load()

    def summary(self, at: int) -> ChunkSummary:
        """Return the summary of a chunk."""
        return self._load().summary(at)

    def chunk(self, at: int) -> Chunk:
        """Return the decoded chunk."""
        return self._load().chunk(at)

    def paths(self, at: int) -> Sequence[str]:
        """Return the paths of the files of a chunk's segments."""
        return self._load().paths(at)

    def alike(self, at: int, other: ChunkSource, other_at: int) -> bool:
        """Return whether a chunk has the same rows as one of another file."""
        return self._load().alike(at, other, other_at)


class _RowGroups:
    """The row groups of a checkpoint, read by one thread at a time."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._lock = Lock()

    def read(self, group: int) -> pa.Table:
        """Return the segment rows of a row group."""
        with self._lock:
            # Single-threaded: a process that ends while Arrow starts its threads is aborted.
            rows = self._file.read_row_group(group, use_threads=False)
        return in_columns(rows.replace_schema_metadata(), SEGMENTS, ADDED_LATER)

    def paths(self, group: int) -> Sequence[str]:
        """Return the paths of a row group's segments; no other column is read."""
        with self._lock:
            rows = self._file.read_row_group(group, columns=["path"], use_threads=False)
        paths: list[str] = rows.column(0).to_pylist()
        return paths


_Columns = Mapping[str, Sequence[Any]]


def _rows(columns: _Columns, group: Callable[[int], pa.Table], at: int, until: int) -> pa.Table:
    first = columns["first_row"][at]
    count = columns["first_row"][until - 1] + columns["count"][until - 1] - first
    return group(columns["row_group"][at]).slice(first, count)


def _decoded(
    keys: Sequence[ChunkKey], columns: _Columns, group: Callable[[int], pa.Table], at: int
) -> Chunk:
    key = keys[at]
    try:
        return Chunk(key=key).with_changes(segments_in(_rows(columns, group, at, at + 1)), ())
    except _UNREADABLE as error:
        raise CorruptTable(f"checkpoint is unreadable at chunk {key}: {error}") from error


def _without_late(chunks: pa.Table) -> pa.Table:
    """Return chunk rows with an unknown number of segments beside a base, if there may be one."""
    unknown = pc.or_(pc.greater(chunks["core"], 0), pc.greater(chunks["bucket"], NO_BUCKET))
    late = pc.if_else(unknown, pa.scalar(None, pa.int64()), chunks["late"])
    return chunks.set_column(SCHEMA.get_field_index("late"), SCHEMA.field("late"), late)


def _named(columns: _Columns) -> Iterator[tuple[Any, ...]]:
    """Yield start, end, version and bucket of each chunk."""
    return zip(*(columns[name] for name in ("start", "end", "version", "bucket")), strict=True)


def _summaries(columns: _Columns) -> list[ChunkSummary]:
    """Return the summaries of all chunks; chunks with equal segments share their counts."""
    bits = {text: _by_bits(text) for text in set(columns["sizes"])}
    names = {text: json.loads(text or "{}") for text in set(columns["clustered"])}
    files = {text: sum(some.values()) for text, some in bits.items()}
    nested = {
        "files": map(files.get, columns["sizes"]),
        "sizes": map(bits.get, columns["sizes"]),
        "clustered": map(names.get, columns["clustered"]),
    }
    some = (nested.get(name) or columns[name] for name in ChunkSummary._fields)
    return list(map(ChunkSummary._make, zip(*some, strict=True)))


def _by_bits(text: str | None) -> Mapping[int, int]:
    return {int(bits): count for bits, count in json.loads(text or "{}").items()}


class _PackedSpaces(OpenedSpaces):
    """Id spaces stored as columns; an ``IdSpace`` is created at each lookup."""

    def __init__(self, keys: Sequence[ChunkKey], columns: _Columns, opening: Opening) -> None:
        self.opening = opening
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


GROUP_ROWS = 4096
"""Number of segments that completes a row group."""
_BARE: Mapping[str, Any] = {"write_statistics": False, "store_schema": False}
DENSE: Mapping[str, Any] = {"compression": "zstd", "compression_level": 1, **_BARE}
"""How complete row groups are written: they are most of a large checkpoint."""
QUICK: Mapping[str, Any] = {"compression": "lz4", **_BARE}
"""How chunk tables and incomplete row groups are written: their pages are many and small, and zstd
takes longer to begin with a page than to read it."""
_PATH = "checkpoint"


class ChunkWriter:
    """Writes chunks of a state, then the rest of the file."""

    def __init__(self, state: State) -> None:
        """Begin a file with chunks of ``state``."""
        self._state = state
        self._changed = state.ids.changed
        self._last: _Source | None = None
        self._store: dict[str, bytes] = {}
        self._sink = MemorySink(_PATH, self._store)
        self._file = Assembly(self._sink)
        self._pending: list[pa.Table] = []
        self._rows = 0  # that are pending
        self._table: list[pa.Table] = []
        self._places = {"row_group": array("i"), "first_row": array("i")}

    def write(self, chunks: Iterable[AnyChunk], idle: Iterable[ChunkKey]) -> pa.Table:
        """Write the segments of chunks; return the chunk table.

        Args:
            chunks: the chunks, by key; each has segments.
            idle: the chunks without segments that have id spaces, by key.
        """
        for stretch, some in groupby(enumerate(map(_stored, chunks)), _stretch):
            found = [each for _, each in some]
            _, source, at = found[0]
            if stretch is None or source is None:
                self._encode(chunk for chunk, _, _ in found)
            else:
                self._copy(source, at, at + len(found))
        self._flush()
        table = pa.concat_tables([*self._table, self._fresh_rows(())])
        for name, numbers in self._places.items():
            at, field = SCHEMA.get_field_index(name), SCHEMA.field(name)
            table = table.set_column(at, field, column(numbers, field.type))
        return pa.concat_tables([table, self._fresh_rows(idle)])

    def add(self, rows: pa.Table, chunks: pa.Table) -> None:
        """Write chunks that are columns already.

        Args:
            rows: their segments, chunk by chunk (``SEGMENT_SCHEMA``).
            chunks: their rows of the chunk table (``SCHEMA``), whose places are replaced.
        """
        self._put(rows, values_of(chunks["count"]))
        self._table.append(chunks)

    def finish(self, metadata: Mapping[bytes, bytes]) -> bytes:
        """Return the file, with key-value metadata."""
        like = _blank()
        self._file.finish({**like.metadata, **metadata}, like.created_by, like)
        self._sink.commit()
        return self._store[_PATH]

    def _copy(self, source: CheckpointChunks, at: int, until: int) -> None:
        """Write neighbouring chunks of a checkpoint."""
        known = self._last
        if known is None or known.chunks is not source:
            known = self._last = _known_source(source, self._state.ids, self._changed)
        while at < until:
            group, first, after = source.group(at)
            end = min(after, until)
            if known.movable and not self._rows and (at, end) == (first, after):
                self._place([self._file.row_groups] * (end - at), source.first_rows(at, end))
                self._file.append(source.bytes, known.movable, group, group + 1)
            else:
                self._put(source.rows(at, end), source.counts(at, end))
            self._table += self._copied_rows(source, known.renumbered, at, end)
            at = end

    def _copied_rows(
        self, source: CheckpointChunks, renumbered: Sequence[int] | None, at: int, until: int
    ) -> Iterator[pa.Table]:
        """Yield the chunk table's rows of neighbours in a checkpoint."""
        if renumbered is None:
            yield self._fresh_rows(map(source.key, range(at, until)))
            return
        first, last = (bisect_left(renumbered, edge) for edge in (at, until))
        for changed in renumbered[first:last]:
            yield source.chunk_rows(at, changed)
            yield self._fresh_rows([source.key(changed)])
            at = changed + 1
        yield source.chunk_rows(at, until)

    def _encode(self, chunks: Iterable[AnyChunk]) -> None:
        """Write decoded chunks."""
        some: list[AnyChunk] = []
        for chunk in chunks:
            some.append(chunk)
            if self._rows + sum(each.count for each in some) >= GROUP_ROWS:
                self._encode_together(some)
                some = []
        self._encode_together(some)

    def _encode_together(self, chunks: list[AnyChunk]) -> None:
        if chunks:
            segments = (segment for chunk in chunks for segment in chunk.segments())
            self._put(rows_of(segments), [chunk.count for chunk in chunks])
            self._table.append(self._fresh_rows([chunk.key for chunk in chunks]))

    def _put(self, rows: pa.Table, counts: list[int]) -> None:
        """Write the rows of chunks into the pending row group; end it if it is complete."""
        firsts = accumulate(counts[:-1], initial=self._rows)
        self._place([self._file.row_groups] * len(counts), firsts)
        self._pending.append(rows)
        self._rows += rows.num_rows
        if self._rows >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        """End the pending row group."""
        if self._rows:
            source = _encoded(pa.concat_tables(self._pending))
            found = examined(source, read_footer(source))
            if isinstance(found, str):
                raise AssertionError(f"a row group just written cannot be moved: {found}")
            self._file.append(source, found)
            self._pending, self._rows = [], 0

    def _place(self, groups: Iterable[int], first_rows: Iterable[int]) -> None:
        self._places["row_group"].extend(groups)
        self._places["first_row"].extend(first_rows)

    def _fresh_rows(self, keys: Iterable[ChunkKey]) -> pa.Table:
        timeline, ids = self._state.timeline, self._state.ids
        rows = [chunk_row(key, timeline.summary(key), ids) for key in keys]
        return table_of(rows, SCHEMA)


_Stored = tuple[AnyChunk, CheckpointChunks | None, int]
"""A chunk with the checkpoint that it is copied from, and its number there; or None and -1."""


def _stored(chunk: AnyChunk) -> _Stored:
    if isinstance(chunk, PackedChunk) and isinstance(chunk.source, CheckpointChunks | LoadedChunks):
        return chunk, chunk.source.stored, chunk.at
    return chunk, None, -1


def _stretch(numbered: tuple[int, _Stored]) -> tuple[int, int] | None:
    """Return a value that neighbouring chunks of a checkpoint share; None for other chunks."""
    place, (_, source, at) = numbered
    return None if source is None else (id(source), at - place)


@dataclass(frozen=True, slots=True)
class _Source:
    """A checkpoint that chunks are copied from.

    ``movable`` is None if its row groups have to be decoded; ``renumbered`` are the numbers of its
    chunks whose id spaces changed, None if that is not known.
    """

    chunks: CheckpointChunks
    movable: Movable | None
    renumbered: Sequence[int] | None


def _known_source(source: CheckpointChunks, ids: IdSpaces, changed: Iterable[ChunkKey]) -> _Source:
    renumbered = None
    if isinstance(ids.opened, OpenedSpaces) and ids.opened.opening is source.opening:
        numbers = map(source.spaces.number, changed)
        renumbered = sorted(number for number in numbers if number is not None)
    return _Source(source, _movable(source), renumbered)


def _movable(source: CheckpointChunks) -> Movable | None:
    """Return a checkpoint as movable; None if its row groups have to be decoded."""
    footer, like = read_footer(source.bytes), _blank()
    found = examined(source.bytes, footer)
    same = (footer.schema, footer.column_orders) == (like.schema, like.column_orders)
    return found if same and isinstance(found, Movable) else None


def _encoded(rows: pa.Table) -> MemorySource:
    """Return rows as a Parquet file of one row group."""
    sink = pa.BufferOutputStream()
    most, how = max(1, rows.num_rows), DENSE if rows.num_rows >= GROUP_ROWS else QUICK
    pq.write_table(rows, sink, use_dictionary=REPEATING, row_group_size=most, **how)
    return MemorySource(_PATH, sink.getvalue().to_pybytes())


@cache
def _blank() -> Footer:
    """Return the footer of a checkpoint without segments."""
    return read_footer(_encoded(pa.Table.from_batches([], schema=SEGMENT_SCHEMA)))

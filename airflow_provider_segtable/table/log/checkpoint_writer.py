"""Writing the chunks of a checkpoint; what did not change is copied undecoded.

1. Chunks are written in order, all segments of a chunk in one row group. A row group ends with the
   chunk that brings it to ``GROUP_ROWS`` segments.
2. A row group of the checkpoint that the state came from is copied as bytes if all its chunks are
   still packed and no row is pending before it. So the cost grows with the number of row groups
   that changed, and hardly with the table.
3. Other packed chunks are copied as Arrow columns. Only decoded chunks are encoded.
4. A row of the chunk table is copied, too, unless the chunk or its id spaces changed.

ADR 0030 has the reasons.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate, groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.timeline import AnyChunk, PackedChunk
from airflow_provider_segtable.data.files.open_files import MemorySink, MemorySource
from airflow_provider_segtable.data.parquet.metadata.footer import Footer, read_footer
from airflow_provider_segtable.data.parquet.passthrough import Assembly, Movable, examined
from airflow_provider_segtable.table.log.arrow_columns import column, table_of
from airflow_provider_segtable.table.log.checkpoint_chunks import SCHEMA as CHUNKS
from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks, chunk_row
from airflow_provider_segtable.table.log.segment_rows import REPEATING, SCHEMA, rows_of

GROUP_ROWS = 4096
"""Number of segments from which on a row group is complete."""
WRITTEN: Mapping[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "write_statistics": False,
}
"""How checkpoints and their chunk tables are written."""
_PATH = "checkpoint"


class ChunkWriter:
    """Writes the chunks of a state, then the rest of the file."""

    def __init__(self, state: State) -> None:
        """Begin a checkpoint of ``state``."""
        self._state = state
        self._source = _source_of(state)
        self._movable = self._source and _movable(self._source)
        self._renumbered = _with_other_ids(state, self._source)
        self._store: dict[str, bytes] = {}
        self._sink = MemorySink(_PATH, self._store)
        self._file = Assembly(self._sink)
        self._pending: list[pa.Table] = []
        self._rows = 0  # that are pending
        self._table: list[pa.Table] = []
        self._places = {"row_group": array("i"), "first_row": array("i")}
        self._copied: set[int] = set()

    def write(self) -> pa.Table:
        """Write the segments of all chunks; return the chunk table."""
        for stretch, some in groupby(enumerate(self._state.timeline.chunks()), self._stretch):
            chunks = [chunk for _, chunk in some]
            if stretch is None or self._source is None:
                self._encode(chunks)
            else:
                at = self._number(chunks[0])
                self._copy(self._source, at, at + len(chunks))
        self._flush()
        table = pa.concat_tables([*self._table, self._fresh_rows(())])
        for name, numbers in self._places.items():
            at, field = CHUNKS.get_field_index(name), CHUNKS.field(name)
            table = table.set_column(at, field, column(numbers, field.type))
        return pa.concat_tables([table, self._idle()])

    def finish(self, metadata: Mapping[bytes, bytes]) -> bytes:
        """Return the file, with key-value metadata."""
        like = _blank()
        self._file.finish({**like.metadata, **metadata}, like.created_by, like)
        self._sink.commit()
        return self._store[_PATH]

    def _number(self, chunk: AnyChunk) -> int:
        """Return the chunk's number in the source; -1 if it is not copied from there."""
        if isinstance(chunk, PackedChunk) and chunk.source is self._source:
            return chunk.at
        return -1

    def _stretch(self, numbered: tuple[int, AnyChunk]) -> int | None:
        """Return a number that neighbours in the source share; None for all other chunks."""
        at = self._number(numbered[1])
        return None if at < 0 else at - numbered[0]

    def _copy(self, source: CheckpointChunks, at: int, until: int) -> None:
        """Write neighbouring chunks of the source."""
        while at < until:
            group, first, after = source.group(at)
            end = min(after, until)
            if self._movable and not self._rows and (at, end) == (first, after):
                self._place([self._file.row_groups] * (end - at), source.first_rows(at, end))
                self._file.append(source.bytes, self._movable, group, group + 1)
            else:
                self._put(source.rows(at, end), source.counts(at, end))
            self._table += self._copied_rows(source, at, end)
            at = end

    def _copied_rows(self, source: CheckpointChunks, at: int, until: int) -> Iterator[pa.Table]:
        """Yield the chunk table's rows of neighbours in the source."""
        self._copied.update(range(at, until))
        if self._renumbered is None:
            yield self._fresh_rows(map(source.key, range(at, until)))
            return
        first, last = (bisect_left(self._renumbered, edge) for edge in (at, until))
        for changed in self._renumbered[first:last]:
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
        return table_of(rows, CHUNKS)

    def _idle(self) -> pa.Table:
        """Return the rows of chunks without segments that have id spaces."""
        source, ids, timeline = self._source, self._state.ids, self._state.timeline
        changed = ids.changed_from(source.spaces) if source else None
        if source is None or changed is None:
            named = {key for key, _ in ids}
        else:
            named = {*changed, *source.keys_without(self._copied)}
        return self._fresh_rows(sorted(key for key in named if not timeline.summary(key).count))


def _source_of(state: State) -> CheckpointChunks | None:
    """Return the checkpoint that the state came from; None if it has no packed chunk."""
    packed = (c.source for c in state.timeline.chunks() if isinstance(c, PackedChunk))
    return next((each for each in packed if isinstance(each, CheckpointChunks)), None)


def _with_other_ids(state: State, source: CheckpointChunks | None) -> list[int] | None:
    """Return the numbers of the source's chunks whose id spaces changed; None if not known."""
    changed = state.ids.changed_from(source.spaces) if source else None
    if source is None or changed is None:
        return None
    return sorted(at for key in changed if (at := source.spaces.number(key)) is not None)


def _movable(source: CheckpointChunks) -> Movable | None:
    """Return a checkpoint as movable; None if its row groups have to be decoded."""
    footer, like = read_footer(source.bytes), _blank()
    found = examined(source.bytes, footer)
    same = (footer.schema, footer.column_orders) == (like.schema, like.column_orders)
    return found if same and isinstance(found, Movable) else None


def _encoded(rows: pa.Table) -> MemorySource:
    """Return rows as a Parquet file of one row group."""
    sink = pa.BufferOutputStream()
    most = max(1, rows.num_rows)
    pq.write_table(rows, sink, use_dictionary=REPEATING, row_group_size=most, **WRITTEN)
    return MemorySource(_PATH, sink.getvalue().to_pybytes())


@cache
def _blank() -> Footer:
    """Return the footer of a checkpoint without segments."""
    return read_footer(_encoded(pa.Table.from_batches([], schema=SCHEMA)))

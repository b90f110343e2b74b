"""A checkpoint copies what did not change since the one that its state came from."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import PackedChunk
from airflow_provider_segtable.health.verify import same_state
from airflow_provider_segtable.table.log import checkpoint_chunks
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks
from tests.golden import make_checkpoint
from tests.support.builders import created, first

CHUNKS = [ChunkKey(Interval(hour, hour + 1), 1) for hour in range(6)]


def with_segments(state: State, *ids: tuple[int, int]) -> State:
    """Return the state with appended segments, each of a chunk and a partition."""
    some = [first(partition, chunk=CHUNKS[chunk]) for chunk, partition in ids]
    timeline = state.timeline.with_changes(add=some)
    return replace(state, timeline=timeline, ids=state.ids.settle([s.id for s in some]))


def row_groups(data: bytes) -> list[bytes]:
    """Return the encoded bytes of each row group of a checkpoint."""
    groups = pq.ParquetFile(pa.BufferReader(data)).metadata
    found = []
    for number in range(groups.num_row_groups):
        columns = [groups.row_group(number).column(c) for c in range(groups.num_columns)]
        starts = [c.dictionary_page_offset or c.data_page_offset for c in columns]
        ends = [at + c.total_compressed_size for at, c in zip(starts, columns, strict=True)]
        found.append(data[min(starts) : max(ends)])
    return found


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return a checkpoint of six chunks, two in each row group."""
    monkeypatch.setattr(checkpoint_chunks, "GROUP_ROWS", 4)
    every = [(chunk, partition) for chunk in range(len(CHUNKS)) for partition in range(2)]
    return write_checkpoint(with_segments(created(), *every))


def test_row_groups_of_unchanged_chunks_are_copied_as_bytes(before: bytes) -> None:
    """Of three row groups one has a changed chunk: it alone is decoded and encoded."""
    state = with_segments(read_checkpoint(before), (2, 2))
    after = write_checkpoint(state)
    unchanged = next(state.timeline.chunks())
    assert isinstance(unchanged, PackedChunk)
    assert isinstance(unchanged.source, CheckpointChunks)
    assert unchanged.source.chunk.cache_info().misses == 1
    assert not unchanged.source.rows(0, 1).schema.metadata, "it holds the whole chunk table"
    old, new = row_groups(before), row_groups(after)
    assert [new[0], new[-1]] == [old[0], old[2]]
    assert len(new) == 3
    assert read_checkpoint(after) == state


def test_changed_ids_of_an_unchanged_chunk_are_written(before: bytes) -> None:
    """The chunk's segments are copied, its row of the chunk table is not."""
    state = read_checkpoint(before)
    state = replace(state, ids=state.ids.settle([CHUNKS[3].segment(7)]))
    after = write_checkpoint(state)
    assert row_groups(after) == row_groups(before)
    assert read_checkpoint(after).ids == state.ids


def test_small_row_groups_are_joined_with_the_next(before: bytes) -> None:
    """A chunk between two copied row groups makes no row group of its own."""
    between = ChunkKey(Interval(1, 3), 1)
    state = read_checkpoint(before)
    state = replace(state, timeline=state.timeline.with_changes(add=[first(0, chunk=between)]))
    after = write_checkpoint(state)
    assert [len(row_groups(data)) for data in (before, after)] == [3, 3]
    assert read_checkpoint(after) == state


@pytest.mark.parametrize("found", make_checkpoint.PLACES)
def test_a_checkpoint_with_other_columns_is_decoded(found: str) -> None:
    """Formats 6 and 7 have no column of schemas or buckets: their row groups are encoded anew."""
    state = read_checkpoint(make_checkpoint.PLACES[found].read_bytes())
    after = write_checkpoint(state)
    assert same_state(read_checkpoint(after), make_checkpoint.golden_state())
    assert {"schema", "bucket"} <= {*pq.read_schema(pa.BufferReader(after)).names}

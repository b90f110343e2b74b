"""Numbers about a large table come from the summaries of its time chunks."""

from dataclasses import replace

from airflow_provider_segtable.cli.advice import advise_filled
from airflow_provider_segtable.cli.display.output import err
from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, tombstone
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.core.timeline import PackedChunk
from airflow_provider_segtable.library.table_facts import describe_facts
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.support.builders import BASE, after, created, first

DAYS = 20
SMALL = int(Policy().small_size)
"""Its neighbours have as many bits, so a summary does not tell on which side they are."""


def day(n: int) -> ChunkKey:
    return ChunkKey(Interval(n * DAY_US, (n + 1) * DAY_US), BASE)


def given(*near: int) -> State:
    """Return a table of 20 days: deleted rows in day 3, and segments of some sizes in day 5."""
    made = [first(p, chunk=day(n), size=1000 + n) for n in range(DAYS) for p in range(2)]
    made += [first(2 + p, chunk=day(5), size=size) for p, size in enumerate(near)]
    state = after(created(), Appended(segments=(*made,)))
    file = VectorFile(path="deletes/v.arrow", size=1, rows={day(3).segment(1): 4})
    state = after(state, RowsChanged(kind="delete", vectors=(file,), seen=state.n))
    empty = tombstone(day(DAYS), BASE)
    return replace(state, timeline=state.timeline.with_changes(add=[empty]))


def decoded(state: State) -> list[int]:
    """Return the days whose chunks were decoded."""
    found = []
    for chunk in state.timeline.chunks():
        assert isinstance(chunk, PackedChunk)
        before = chunk.source.chunk.cache_info().hits  # type: ignore[attr-defined]
        _ = chunk.unpacked
        if chunk.source.chunk.cache_info().hits > before:  # type: ignore[attr-defined]
            found.append(chunk.key.interval.start // DAY_US)
    return found


def test_a_description_decodes_what_summaries_do_not_tell() -> None:
    """Deleted rows and sizes near the limit need their chunks, and all numbers are exact."""
    plain = given(SMALL - 1, SMALL, SMALL + 1)
    packed = read_checkpoint(write_checkpoint(plain))
    found = describe_facts("t", packed)
    assert decoded(packed) == [3, 5]
    assert found == describe_facts("t", plain)
    segments = [s for s in plain.timeline.visible_segments() if not s.tombstone]
    small = [s for s in segments if s.size < SMALL]
    assert found["counts"] == {
        "chunks": DAYS,
        "segments": len(segments),
        "rows": sum(s.rows for s in segments),
        "deleted_rows": 4,
        "deleted_predicates": 0,
        "events": sum(s.events for s in segments),
        "bytes": sum(s.size for s in segments),
        "hidden_segments": 0,
        "tombstones": 1,
    }
    assert found["health"]["small_segments"] == len(small) == len(segments) - 2
    assert found["health"]["worst_small_segments"] == 3
    assert found["health"]["worst_interval"] == str(day(5).interval)
    assert found["health"]["deleted_share"] == round(4 / sum(s.rows for s in segments), 4)


def test_advice_decodes_nothing() -> None:
    """The starts and sizes of chunks are in their summaries; tombstones do not count."""
    packed = read_checkpoint(write_checkpoint(given()))
    with err.capture() as said:
        advise_filled("t", packed)
    assert decoded(packed) == []
    assert "makes 20 time chunks" in " ".join(said.get().split())


def test_the_chunks_near_some_roots_are_decoded_alone() -> None:
    """Rows stay in the interval of their root: other chunks need not be looked into."""
    packed = read_checkpoint(write_checkpoint(given()))
    wanted = [day(7).interval, Interval(8 * DAY_US + 5, 8 * DAY_US + 6)]
    near = [*packed.timeline.visible_near(wanted)]
    assert {s.id.chunk for s in near} == {day(7), day(8)}
    groups = packed.timeline.lookup_near(wanted)
    assert [s for group in groups for s in group.segments] == near
    assert {group.interval for group in groups} == {day(7).interval, day(8).interval}
    assert decoded(packed) == [7, 8]

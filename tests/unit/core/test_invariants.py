"""What ``core.log.invariants`` notices, and what it must not complain about."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.fold import Conflict, admit
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.time import DAY_US, Interval
from tests.support.builders import BASE, CHUNK, JANUARY, after, created, first

NEWER = ChunkKey(JANUARY, BASE + 1)


def of_core(partition: int, core: int, chunk: ChunkKey = NEWER) -> Segment:
    """Return a segment that says that its version began with ``core`` segments."""
    shard = Shard.first_generation(partition, core=core)
    return replace(first(partition, chunk=chunk), shard=shard)


def test_a_complete_lower_version_may_show() -> None:
    """A higher version whose core set has a gap hides nothing, as readers have it."""
    torn = after(created(), Appended(segments=(first(0), of_core(1, 2))))
    assert [s.id.version for s in torn.timeline.visible_segments()] == [BASE]
    assert list(violations(torn)) == []
    alone = after(created(), Appended(segments=(of_core(1, 2),)))
    assert [s.id.version for s in alone.timeline.visible_segments()] == [BASE + 1]
    assert list(violations(alone)) == []


def test_one_chunk_has_one_core_set() -> None:
    """Segments of one chunk that disagree about its core set are named."""
    state = after(created(), Appended(segments=(of_core(0, 1), of_core(1, 2))))
    (found,) = violations(state)
    assert found.startswith(f"segments of {NEWER} disagree about the size of its core set")


@pytest.mark.parametrize("present", [(), (of_core(0, 1),)])
def test_segments_that_disagree_about_the_core_set_are_not_committed(
    present: tuple[Segment, ...],
) -> None:
    """Neither with each other nor with what is there, but for what the same event takes away."""
    state = after(created(), Appended(segments=present))
    coming = (of_core(1, 2), of_core(2, 2 if present else 3))
    refused = admit(TableRepaired(segments=coming, lost=(), voided=(), reason="test"), state)
    assert isinstance(refused, Conflict)
    assert "core set" in refused.reason
    instead = TableRepaired(
        segments=(of_core(1, 2), of_core(2, 2)),
        lost=tuple(segment.id for segment in present),
        voided=(),
        reason="test",
    )
    assert admit(instead, state) == instead


def test_chunks_of_one_version_do_not_hide_rows_of_each_other() -> None:
    """A row at the end of January is hidden by a week of the same version that begins later."""
    week = Interval(JANUARY.end - 3 * DAY_US, JANUARY.end + 4 * DAY_US)
    chunk = ChunkKey(week, BASE)
    beside = replace(first(0, chunk=chunk), time_min=JANUARY.end)
    early = replace(first(0), time_max=week.start - 1)
    assert list(violations(after(created(), Appended(segments=(early, beside))))) == []
    (found,) = violations(after(created(), Appended(segments=(first(0), beside))))
    assert found == f"rows of {CHUNK.segment(0)} are hidden by chunk {chunk} of the same version"

"""Packed chunks answer as decoded ones do, through any changes and any number of checkpoints."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import PackedChunk, Timeline
from airflow_provider_segtable.table.log import checkpoint_chunks
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.examples import examples
from tests.property.overshadow_model import Instants, all_groups, segments
from tests.property.test_overshadow_random import (
    LAST,
    arbitrary_family,
    check_lookup,
    legal_family,
    some_chunks,
)
from tests.support.builders import created


def packed(timeline: Timeline) -> Timeline:
    """Return the timeline as a checkpoint gives it back."""
    state = replace(created(), timeline=timeline)
    found = read_checkpoint(write_checkpoint(state))
    assert all(isinstance(chunk, PackedChunk) for chunk in found.timeline.chunks())
    return found.timeline


def check(timeline: Timeline, present: list[Segment]) -> None:
    """Compare every answer with the naive rules, and every summary with the decoded chunk."""
    naive = Instants(present)
    check_lookup(timeline, naive, None)
    assert len(timeline) == len(present)
    assert list(timeline.chunk_keys()) == sorted({s.id.chunk for s in present})
    for chunk in timeline.chunks():
        decoded = chunk.unpacked
        assert chunk.summary == decoded.summary
        assert chunk.count == decoded.count
        assert chunk.complete == decoded.complete
        assert chunk.shows_any == bool(decoded.visible)
        assert chunk.core == timeline.core(chunk.key) == decoded.core
        assert [*chunk.paths()] == [*decoded.paths()]
    for key, held in naive.chunks.items():
        for group in all_groups(held):
            assert timeline.state(key, group) is naive.state(key, group)


@examples(25)
@given(st.randoms(use_true_random=False), st.booleans())
def test_packed_chunks_answer_as_decoded_ones(
    draw: random.Random,
    legal: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    """Pack, change and pack again: answers stay those of the naive rules."""
    make = legal_family if legal else arbitrary_family
    pool = [s for key in some_chunks(draw) for s in segments(make(draw, 2, 2), key)]
    timeline, present = Timeline.empty(), dict[Segment, None]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_chunks, "GROUP_ROWS", draw.choice([1, 3, 1000]))
        for _ in range(4):
            some = draw.sample(pool, draw.randint(1, len(pool)))
            gone = [s for s in some if s in present and draw.random() < 0.6]
            come = [s for s in some if s not in present]
            timeline = timeline.with_changes(add=come, remove=[s.id for s in gone])
            present = {s: None for s in present if s not in gone} | dict.fromkeys(come)
            before = timeline
            timeline = packed(timeline)
            assert timeline == before
            check(timeline, list(present))


@examples(15)
@given(st.randoms(use_true_random=False))
def test_a_checkpoint_of_a_changed_checkpoint_is_that_of_its_state(draw: random.Random) -> None:
    """Whatever is copied from the one before: chunks come and go, ids are settled anywhere."""
    pool = [s for key in some_chunks(draw) for s in segments(legal_family(draw, 2, 2), key)]
    state = created()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_chunks, "GROUP_ROWS", draw.choice([1, 3, 1000]))
        for _ in range(5):
            present = [*state.timeline.segments()]
            gone = [s.id for s in present if draw.random() < 0.3]
            others = [s for s in pool if s not in present]
            come = draw.sample(others, min(len(others), draw.randint(0, 2)))
            settled = [replace(s.id, partition=draw.randint(0, 9)) for s in draw.sample(pool, 1)]
            state = replace(
                state,
                timeline=state.timeline.with_changes(add=come, remove=gone),
                ids=state.ids.settle([*(s.id for s in come), *settled]),
            )
            data = write_checkpoint(state)
            assert read_checkpoint(data) == state
            if draw.random() < 0.7:
                state = read_checkpoint(data)


def test_looking_into_one_chunk_decodes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only chunks whose segments are asked for are decoded; which chunk wins is known without."""
    chunks = [ChunkKey(Interval(hour, hour + 1), 1) for hour in range(LAST)]
    pool = [s for key in chunks for s in segments(legal_family(random.Random(1), 3, 1), key)]
    timeline = packed(Timeline.empty().with_changes(add=pool))
    decoded: list[object] = []
    real = PackedChunk.unpacked.fget
    assert real is not None

    def counted(chunk: PackedChunk) -> object:
        decoded.append(chunk.key)
        return real(chunk)

    monkeypatch.setattr(PackedChunk, "unpacked", property(counted))
    assert len(timeline.visible_chunks()) == LAST
    assert all(timeline.complete(key) for key in chunks)
    assert decoded == []
    assert timeline.visible_segments(chunks[3].interval)
    assert set(decoded) == {chunks[3]}

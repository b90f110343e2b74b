"""A checkpoint with sidecars is its state, through any changes and any number of checkpoints."""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.log.state import IdSpaces, State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.core.timeline_blocks import (
    blocks_without,
    hidden_beside,
    latest_time,
)
from airflow_provider_segtable.table.log import checkpoint_chunks, sidecars
from airflow_provider_segtable.table.log.checkpoint import (
    CheckpointFiles,
    SidecarFiles,
    checkpoint_files,
    read_checkpoint,
    write_checkpoint,
)
from airflow_provider_segtable.table.log.sidecars import Layers, layers_of
from tests.examples import examples
from tests.property.overshadow_model import segments
from tests.property.test_overshadow_random import legal_family, some_chunks
from tests.support.builders import created


@dataclass
class Files:
    """The sidecars that were written, and the states of checkpoints, for those that get lost."""

    stored: dict[str, bytes] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    reads: int = 0

    def read(self, path: str) -> bytes:
        """Return a sidecar's bytes."""
        self.reads += 1
        if path not in self.stored:
            raise NotFound(path)
        return self.stored[path]

    def rebuilt(self, n: int) -> State:
        """Return a state that was noted, as a log that has not expired does."""
        if n not in self.states:
            raise CorruptTable("the events have expired")
        return self.states[n]

    def write(self, state: State) -> CheckpointFiles:
        """Keep the new sidecars of a checkpoint; return its files."""
        found = checkpoint_files(state)
        self.stored.update(found.new)
        return found

    def open(self, files: CheckpointFiles) -> State:
        """Return the state in a checkpoint."""
        return read_checkpoint(files.own, SidecarFiles(self.read, self.rebuilt))


def unpacked(state: State) -> State:
    """Return the state with a timeline and id spaces that no file is needed for."""
    alone = Timeline.empty().with_changes(add=state.timeline.segments())
    return replace(state, timeline=alone, ids=IdSpaces(dict(state.ids)))


def changed(draw: random.Random, state: State, pool: list[Segment]) -> State:
    """Return the next state: segments come and go, whole chunks too, and ids are settled."""
    present = [*state.timeline.segments()]
    share = draw.choice([0.1, 0.1, 0.8])
    gone = [s.id for s in present if draw.random() < share]
    others = [s for s in pool if s not in present]
    come = draw.sample(others, min(len(others), draw.randint(0, 4)))
    settled = [replace(s.id, partition=draw.randint(0, 9)) for s in draw.sample(pool, 1)]
    return replace(
        state,
        n=state.n + 1,
        timeline=state.timeline.with_changes(add=come, remove=gone),
        ids=state.ids.settle([*(s.id for s in come), *settled]),
    )


def check_layers(layers: Layers, files: CheckpointFiles) -> None:
    """Ranges are disjoint and in order, and each sidecar is as it is listed."""
    for before, each in zip(files.listed, files.listed[1:], strict=False):
        assert before.high < each.low
    for number, each in enumerate(files.listed):
        found = layers.load(number)
        used = [key for key, _ in found.numbers()]
        assert {each.low, each.high} <= {*found.keys} | {each.low, each.high}
        assert all(not (key < each.low or each.high < key) for key in found.keys)
        assert (each.first, each.last) == ((used[0], used[-1]) if used else (None, None))
        assert each.segments == found.segments


def check_hidden(found: State, plain: State, noted: set[str], pool: list[Segment]) -> None:
    """What blocks are noted to lack is not there, and the latest time and visible ones agree."""
    hidden = [*plain.timeline.hidden_segments()]
    assert [*hidden_beside(found.timeline, noted)] == hidden
    noted |= blocks_without(found.timeline, hidden)
    times = [s.time_max for s in plain.timeline.visible_summaries().values()]
    assert latest_time(found.timeline) == max((t for t in times if t is not None), default=None)
    some = {segment.id.chunk for segment in pool[::2]}
    shown = {s.id for s in plain.timeline.each_visible() if s.id.chunk in some}
    among = [s.id for s in found.timeline.visible_among(some)]
    assert (set(among), len(among)) == (shown, len(shown))


@examples(12)
@given(st.randoms(use_true_random=False))
def test_a_checkpoint_with_sidecars_is_its_state(draw: random.Random) -> None:
    """Whatever moved to sidecars, stayed beside them, or was written anew."""
    pool = [s for key in some_chunks(draw) for s in segments(legal_family(draw, 2, 2), key)]
    state, files, known, noted = created(), Files(), list[State](), set[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_chunks, "GROUP_ROWS", draw.choice([1, 3, 1000]))
        patch.setattr(sidecars, "MOST_SEGMENTS", draw.choice([2, 6]))
        patch.setattr(sidecars, "MOST_CHUNKS", draw.choice([1, 2, 4]))
        patch.setattr(sidecars, "PATIENCE", draw.choice([1, 4, 1000]))
        patch.setattr(sidecars, "KEPT", draw.choice([1, 32]))
        for _ in range(6):
            state = changed(draw, state, pool)
            plain = unpacked(state)
            written = files.write(state)
            found = files.open(written)
            layers = layers_of(found)
            assert layers is not None
            check_layers(layers, written)
            assert found == state == plain
            assert found.ids.with_holes == state.ids.with_holes
            assert len(found.timeline) == len(plain.timeline)
            assert found.timeline.span == plain.timeline.span
            assert found.timeline.lookup() == plain.timeline.lookup()
            for segment in pool:
                assert found.timeline.get(segment.id) == plain.timeline.get(segment.id)
                near = segment.id.interval
                assert found.timeline.chunk_keys(near) == plain.timeline.chunk_keys(near)
            for earlier in known:
                differing = {
                    key
                    for key in {*found.timeline.chunk_keys(), *earlier.timeline.chunk_keys()}
                    if [*found.timeline.groups(key)] != [*earlier.timeline.groups(key)]
                }
                assert found.timeline.changed_chunks(earlier.timeline) == differing
            check_hidden(found, plain, noted, pool)
            known = [found]
            assert read_checkpoint(write_checkpoint(found)) == state
            state = found if draw.random() < 0.7 else state


@examples(10)
@given(st.randoms(use_true_random=False))
def test_a_lost_sidecar_is_made_again_and_written_anew(draw: random.Random) -> None:
    """The state is that of the checkpoint; the next one lists no sidecar that is gone."""
    pool = [s for key in some_chunks(draw) for s in segments(legal_family(draw, 2, 2), key)]
    files = Files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecars, "MOST_SEGMENTS", 2)
        patch.setattr(sidecars, "MOST_CHUNKS", 2)
        state = replace(created(), n=1, timeline=Timeline.empty().with_changes(add=pool))
        opened = files.open(files.write(state))
        after = files.write(changed(draw, opened, pool))
        again = files.open(after)
        if not after.listed:
            return
        files.states[again.n] = unpacked(files.open(after))
        lost = draw.choice(after.listed).path
        files.stored[lost] = b"" if draw.random() < 0.5 else files.stored[lost][:-1]
        assert again == files.states[again.n]
        last = files.write(replace(again, n=again.n + 1))
        assert lost not in {each.path for each in last.listed}
        assert files.open(last) == replace(again, n=again.n + 1)

"""Bases: which segments are one, and what compactions, restores and older events make of it."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    Shard,
    base_after,
    base_of,
    base_restored,
    implied,
    torn_base,
    with_base_of,
)
from tests.support.builders import (
    BASE,
    CHUNK,
    JANUARY,
    after,
    created,
    first,
    minor_plan,
)
from tests.unit.core.keyed_actions import BUCKET, KEYED

NEWER = ChunkKey(JANUARY, BASE + 5)
FILED = ChunkKey(JANUARY, BASE + 5, 1)


def based(*bases: int, chunk: ChunkKey = NEWER, core: int = 2) -> tuple[Segment, ...]:
    """Return neighbours of a chunk, in bases that end where the numbers say."""
    return tuple(
        replace(first(p, chunk=chunk), shard=Shard.first_generation(p, core=core, base=base))
        for p, base in enumerate(bases)
    )


@pytest.mark.parametrize(
    ("bases", "size"),
    [
        ((), 0),
        ((0, 0), 0),
        ((2, 2), 2),
        ((2, 2, 0), 2),
        ((3, 3, 0), 0),
        ((1, 2), 1),
        ((2, 3, 3), 0),
    ],
)
def test_a_base_counts_as_a_whole(bases: tuple[int, ...], size: int) -> None:
    """All its roots are covered by its segments, from the first one on."""
    segments = based(*bases)
    assert base_of(segments) == segments[:size]


def test_a_gap_is_no_base() -> None:
    """A lost segment leaves none."""
    assert base_of(based(2, 2)[1:]) == ()


def test_a_base_ends_after_its_segments() -> None:
    """A descriptor that contradicts itself is damage."""
    with pytest.raises(CorruptTable):
        Shard.first_generation(2, core=3, base=2)


def test_what_compactions_make() -> None:
    """Of a base alone, the same one; of a file group's first roots, a new one; else none."""
    for chunk, begun in ((NEWER, 0), (FILED, 3)):
        segments = based(2, 2, 0, chunk=chunk)
        assert base_after(segments[:1], chunk, (0, 1)) == 2
        assert base_after(segments[1:2], chunk, (1, 2)) == 2
        assert base_after(segments, chunk, (0, 3)) == begun
        assert base_after(segments[1:], chunk, (1, 3)) == 0
    assert base_after(based(2, 0), NEWER, (0, 2)) == 0


def test_a_plan_takes_no_base_of_a_bucket_apart() -> None:
    """It takes all of it, or nothing else; in other chunks the rest is late, and that is all."""
    segments = based(2, 2, 0, chunk=FILED)
    ids = [segment.id for segment in segments]
    assert torn_base(ids[1:], segments[:2]) == str(ids[0])
    assert not any(torn_base(some, segments[:2]) for some in (ids, ids[:1], ids[2:]))
    others = based(2, 2, 0)
    assert torn_base([segment.id for segment in others[1:]], others[:2]) == ""


def test_a_request_that_takes_a_base_apart_is_refused() -> None:
    """Before anything is written, with what it leaves of the base."""
    segments = based(2, 2, 0, chunk=BUCKET)
    state = after(created(KEYED), Appended(segments=segments))
    with pytest.raises(InvalidInput, match=f"takes the base of {BUCKET} apart: {segments[0].id}"):
        admit(PlanRequested(plan=minor_plan(segments[1:])), state)
    assert admit(PlanRequested(plan=minor_plan(segments)), state)


def test_older_descriptors_tell_what_a_compaction_wrote() -> None:
    """By their numbers, where these can mean nothing else."""
    core = Shard.first_generation(0, core=2)
    assert implied(core, NEWER.segment(0), carried=False).base == 2
    assert implied(core, NEWER.segment(0), carried=True).base == 0
    assert implied(Shard.first_generation(2, core=2), NEWER.segment(2), carried=False).base == 0
    for chunk, start, base in ((FILED, 0, 3), (FILED, 1, 0), (NEWER, 0, 0)):
        partition = chunk.numbering.later.start
        shard = Shard(
            partition=partition, root_start=start, root_end=3, minor_version=1, group_size=1
        )
        assert implied(shard, chunk.segment(partition), carried=False).base == base


def test_a_descriptor_has_the_base_of_the_other_unless_both_tell() -> None:
    """What numbers alone say may be an older segtable's; two bases that were recorded differ."""
    numbers, none, two, one = (based(base, core=3)[0] for base in (3, 0, 2, 1))
    for older in (numbers, none):
        assert with_base_of(older, two) == two
        assert with_base_of(two, older) == older
    assert with_base_of(two, one) == two


def test_older_restores_tell_by_the_files() -> None:
    """Segments are looked up by the ids in their files, whatever ids they had in between."""
    before = based(2, 2, 0)
    restored = [s.carried(FILED.segment(p), core=3) for p, s in enumerate(before)]
    assert base_restored(restored, before) == 2
    assert base_restored(restored, before[:2]) == 0
    assert base_restored(restored, based(0, 0, 0)) == 0
    assert base_restored(restored[1:], before) == 0


def test_a_summary_counts_what_is_beside_a_base() -> None:
    """Tombstones and segments without rows are neither in nor beside it."""
    state = after(created(), Appended(segments=(*based(2, 2, 0), first(0))))
    assert state.timeline.summary(NEWER).late == 1
    assert not state.timeline.summary(NEWER).baseless
    assert state.timeline.summary(CHUNK).baseless

"""What a table is, told by descriptors alone."""

from dataclasses import replace

from airflow_provider_segtable.core.recovery.claims import Reason, Recovered, holes, unproven
from airflow_provider_segtable.core.recovery.replay import recover
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    Shard,
    inherited,
    replaced,
)
from airflow_provider_segtable.core.time import Granularity, Layout
from tests.support.builders import BASE, CHUNK, JANUARY, first, merged

NEW = ChunkKey(JANUARY, BASE + 5)
OLD = tuple(first(p) for p in range(3))


def found(*segments: Segment) -> Recovered:
    """Recover a table by months."""
    return recover(segments, Layout(granularity=Granularity.MONTH))


def core(partition: int, inputs: tuple[Segment, ...], *, of: int = 1) -> Segment:
    """Return a segment of a core set, with its share of the inputs' rows."""
    return replace(
        first(partition, chunk=NEW, rows=sum(s.rows for s in inputs) // of),
        path=f"data/{partition}-new.parquet",
        shard=Shard.first_generation(partition, core=of),
        replaces=() if partition else replaced(inputs),
    )


def ids(recovered: Recovered) -> list[SegmentId]:
    """Return the ids of what is shown."""
    return [segment.id for segment in recovered.shown]


def test_a_full_group_hides_its_roots() -> None:
    """The joined segment shows, its inputs are kept below it, nothing is in doubt."""
    joined = merged(32768, OLD[:2])
    recovered = found(*OLD, joined)
    assert ids(recovered) == [OLD[2].id, joined.id]
    assert (len(recovered.kept), recovered.doubts) == (4, ())


def test_a_torn_group_hides_nothing() -> None:
    """Without its sibling a segment is left out, and the inputs show."""
    half = merged(32768, OLD[:2])
    half = replace(half, shard=replace(half.shard, group_size=2))
    recovered = found(*OLD, half)
    assert (recovered.shown, recovered.dropped, recovered.doubts) == (OLD, (half,), ())


def test_a_torn_group_without_inputs_is_a_loss() -> None:
    """What is left of it is shown under another id, and the loss blocks."""
    half = merged(32768, OLD[:2])
    half = replace(half, shard=replace(half.shard, group_size=2))
    recovered = found(OLD[2], half)
    assert [doubt.reason for doubt in recovered.doubts] == [Reason.ROWS_LOST]
    assert {segment.path for segment in recovered.shown} == {OLD[2].path, half.path}


def test_a_second_attempt_at_a_group_changes_nothing() -> None:
    """Two attempts made of equal roots: one of them is taken."""
    one = merged(32768, OLD[:2])
    two = replace(merged(32769, OLD[:2]), created=BASE + 9)
    recovered = found(*OLD, one, two)
    assert ids(recovered) == [OLD[2].id, two.id]
    assert recovered.dropped == (one,)


def test_a_whole_version_stands_and_takes_over_what_came_meanwhile() -> None:
    """It replaces what it names; the rest is carried over."""
    made = core(0, OLD[:2])
    recovered = found(*OLD, made)
    assert ids(recovered) == [made.id, NEW.segment(1)]
    assert recovered.carried[0].origin == OLD[2].id
    assert (recovered.replaced, recovered.doubts) == (OLD, ())


def test_a_version_without_all_its_rows_falls_back() -> None:
    """One of two core segments is gone, all inputs are there: the inputs show."""
    recovered = found(*OLD, core(0, OLD[:2], of=2))
    assert (recovered.shown, recovered.doubts) == (OLD, ())


def test_a_version_whose_inputs_were_cleaned_stands() -> None:
    """Nothing else can hold its rows; what was appended to the old version is carried over."""
    made = core(0, OLD[:2])
    recovered = found(made, OLD[2])
    assert ids(recovered) == [made.id, NEW.segment(1)]


def test_an_attempt_that_came_to_nothing_is_left_out() -> None:
    """Two versions name the same roots: the lower one was never seen."""
    dead = core(0, OLD)
    chunk = ChunkKey(JANUARY, BASE + 7)
    alive = replace(dead, id=chunk.segment(0), path="data/alive.parquet")
    recovered = found(*OLD, dead, alive)
    assert ids(recovered) == [alive.id]
    assert recovered.dropped == (dead,)


def test_carried_over_and_compacted_is_not_doubled() -> None:
    """A compaction at the new version names what its inputs were called before."""
    made = core(0, OLD[:2])
    moved = OLD[2].carried(NEW.segment(1), 1)
    joined = replace(
        merged(32768, (made, moved)),
        shard=Shard(
            partition=32768, root_start=0, root_end=2, minor_version=1, group_size=1, core=1
        ),
        replaces=inherited((made, moved)),
    )
    recovered = found(*OLD, made, joined)
    assert ids(recovered) == [joined.id]


def test_between_versions_that_are_gone_nothing_is_guessed() -> None:
    """Of three versions the middle one is gone, and a file of the first is left: is it in there?"""
    middle = core(0, OLD[:2])
    last = replace(core(0, (middle,)), id=SegmentId(JANUARY, BASE + 9, 0), path="data/last.parquet")
    recovered = found(OLD[2], last)
    assert [doubt.reason for doubt in recovered.doubts] == [Reason.MAYBE_DOUBLED]


def test_two_files_of_one_id() -> None:
    """Neither is shown."""
    twin = replace(OLD[0], path="data/twin.parquet")
    recovered = found(*OLD, twin)
    assert recovered.shown == OLD[1:]
    assert [doubt.reason for doubt in recovered.doubts] == [Reason.SAME_ID]


def test_appends_are_proven_by_events_alone() -> None:
    """What an event names is proven; other appended files are listed, but do not block."""
    (doubt,) = unproven(found(*OLD), [OLD[0].path])
    assert (doubt.paths, doubt.blocking) == ((OLD[1].path, OLD[2].path), False)


def test_holes_are_voided() -> None:
    """An id between others that nothing stands for must not separate them for ever."""
    assert holes((OLD[0], OLD[2]), [CHUNK.segment(7)]) == (CHUNK.segment(1), CHUNK.segment(7))

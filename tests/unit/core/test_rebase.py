"""Rebase rules: each cell of the table in ``core.log.fold``, and the books."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.errors import InvalidInput, RowsOutOfBalance
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.append_events import Adopted, Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.fold import Conflict, admit
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Run, Segment, Shard
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    after,
    created,
    first,
    merged,
    minor_plan,
)

FOUR = tuple(first(partition) for partition in range(4))
PLAN = minor_plan(FOUR[:3])
OUTPUT = merged(32768, FOUR[:3])


def inflight(attempt: str, number: int, *, epoch: str = "e", output: int = 32768) -> PlanInflight:
    return PlanInflight(
        plan_id=PLAN.id,
        attempt=attempt,
        token=FencingToken(epoch, number),
        outputs=(CHUNK.segment(output),),
    )


def completed(attempt: str = "a1") -> PlanCompleted:
    return PlanCompleted(plan_id=PLAN.id, attempt=attempt, segments=(OUTPUT,))


def running(*more: Action) -> State:
    return after(
        created(), Appended(segments=FOUR), PlanRequested(plan=PLAN), inflight("a1", 1), *more
    )


def refused(action: Action, state: State) -> Conflict:
    answer = admit(action, state)
    assert isinstance(answer, Conflict), answer
    return answer


def test_append_commutes_with_everything_around_it() -> None:
    """An append is admitted unchanged whatever compactions are pending or done."""
    action = Appended(segments=(first(4),))
    assert admit(action, running()) == action
    assert admit(action, running(completed())) == action


def test_append_under_a_used_or_voided_id_gets_another() -> None:
    """Ids are settled once, and a writer that was thought dead loses nothing: its file is kept."""
    taken = admit(Appended(segments=(first(0),)), running())
    assert isinstance(taken, Appended)
    moved = replace(first(0), id=CHUNK.segment(4), shard=first(4).shard, origin=CHUNK.segment(0))
    own_root = (Run(CHUNK.segment(4), 0, 10),)  # rows of root 0 are another file's
    assert taken.segments == (replace(moved, lineage=own_root),)
    voided = running(Voided(ids=(CHUNK.segment(5),), reason="dead"))
    late = admit(Appended(segments=(first(5), first(6), first(4))), voided)
    assert isinstance(late, Appended)
    assert [s.id.partition for s in late.segments] == [6, 7, 4]
    assert [s.file_id.partition for s in late.segments] == [5, 6, 4]
    assert [s.runs[0].root.partition for s in late.segments] == [6, 7, 4]


def test_late_append_fills_its_hole() -> None:
    """Ids that were allocated earlier may be published later, as long as nobody voided them."""
    state = after(created(), Appended(segments=(first(3),)))
    assert not isinstance(admit(Appended(segments=(first(1),)), state), Conflict)


def test_compaction_completes_over_later_appends() -> None:
    """Segments appended during a compaction stay visible beside its output."""
    state = running(Appended(segments=(first(4),)))
    assert admit(completed(), state) == completed()
    done = after(state, completed())
    assert {s.id.partition for s in done.timeline.visible_segments()} == {3, 4, 32768}


def test_superseded_attempt_is_refused() -> None:
    """Only the newest attempt may complete; the conflict names the event that took over."""
    state = running(inflight("a2", 2, output=32769))
    conflict = refused(completed("a1"), state)
    assert "taken over" in conflict.reason
    assert conflict.winner == state.n


def test_older_token_of_one_epoch_cannot_supersede() -> None:
    """A stale worker whose grant is certainly older cannot take a plan over."""
    assert "taken over" in refused(inflight("a0", 0, output=32769), running()).reason


def test_output_ids_are_used_once() -> None:
    """An attempt that names an id which an earlier attempt had is told to ask for new ones."""
    conflict = refused(inflight("a2", 2, output=32768), running())
    assert f"segment id {CHUNK.segment(32768)} was used already" in conflict.reason


def test_token_of_another_epoch_may_supersede() -> None:
    """After the coordinator was wiped its numbers start again, so log order decides."""
    action = inflight("a2", 0, epoch="f", output=32769)
    assert admit(action, running()) == action


def test_finished_plan_is_finished_once() -> None:
    """A second completion, start or abort of a completed plan names the first one's event."""
    done = running(completed())
    for action in (
        completed(),
        inflight("a2", 2, output=32769),
        PlanAborted(plan_id=PLAN.id, attempt="a1", reason="late"),
    ):
        conflict = refused(action, done)
        assert "completed by test" in conflict.reason
        assert conflict.winner == done.n


def test_abort_that_missed_an_attempt_is_refused() -> None:
    """A planner may only abort the attempt it saw."""
    assert isinstance(
        admit(PlanAborted(plan_id=PLAN.id, attempt=None, reason="dead"), running()), Conflict
    )
    action = PlanAborted(plan_id=PLAN.id, attempt="a1", reason="dead")
    assert admit(action, running()) == action


def test_overlapping_plans_are_refused() -> None:
    """An input that a pending plan claims cannot be claimed again."""
    other = minor_plan(FOUR[2:])
    state = running()
    conflict = refused(PlanRequested(plan=other), state)
    assert "claimed by pending plan" in conflict.reason
    assert conflict.winner == state.plans[PLAN.id].last_n


def test_a_plan_is_requested_once() -> None:
    """While it is pending or after it completed, a second request names the first one's event."""
    for state, status in ((running(), "inflight"), (running(completed()), "completed")):
        conflict = refused(PlanRequested(plan=PLAN), state)
        assert conflict.reason == f"plan {PLAN.id} is {status} already"
        assert conflict.winner == state.plans[PLAN.id].last_n


def test_a_repair_restores_no_settled_id() -> None:
    """A segment whose id was published or voided since it looked is refused: look again."""
    state = running(Voided(ids=(CHUNK.segment(5),), reason="dead"))
    for segment in (first(3), first(5)):
        conflict = refused(TableRepaired(segments=(segment,), reason="found"), state)
        assert f"{segment.id} was published or voided meanwhile" in conflict.reason
    action = TableRepaired(segments=(first(6),), reason="found")
    assert admit(action, state) == action


def core(chunk: ChunkKey, partition: int, size: int) -> Segment:
    shard = Shard.first_generation(partition, core=size)
    return replace(first(partition, chunk=chunk), shard=shard)


def test_a_repair_restores_core_sets_of_several_chunks() -> None:
    """Each chunk has a core set of its own size; one chunk has only one."""
    one, two = (ChunkKey(CHUNK.interval, BASE + n) for n in (1, 2))
    action = TableRepaired(
        segments=(core(one, 0, 1), core(two, 0, 2), core(two, 1, 2)), reason="found"
    )
    assert admit(action, created()) == action
    torn = replace(action, segments=(core(two, 0, 2), core(two, 1, 3)))
    assert "core set" in refused(torn, created()).reason


def test_a_repair_agrees_with_the_core_set_in_the_table() -> None:
    """Unless it removes all that says otherwise."""
    there = core(CHUNK, 0, 2)
    state = after(created(), TableRepaired(segments=(there,), reason="found"))
    action = TableRepaired(segments=(core(CHUNK, 1, 2),), reason="found")
    assert admit(action, state) == action
    other = replace(action, segments=(core(CHUNK, 1, 3),))
    assert "has 3 segments, others say 2" in refused(other, state).reason
    instead = replace(other, lost=(there.id,))
    assert admit(instead, state) == instead


def test_a_repair_that_comes_too_late_looks_again() -> None:
    """What it would remove is gone, or the file of what it would restore was cleaned."""
    state = replace(running(), pending_delete=frozenset([first(6).path]))
    gone = TableRepaired(segments=(), lost=(CHUNK.segment(7),), reason="lost")
    assert f"{CHUNK.segment(7)} is not in the table any more" in refused(gone, state).reason
    swept = TableRepaired(segments=(first(6),), reason="found")
    assert f"{first(6).path} was cleaned meanwhile" in refused(swept, state).reason


def test_plan_over_replaced_inputs_names_the_winner() -> None:
    """A plan made from an old snapshot learns which plan replaced its input."""
    done = running(completed())
    conflict = refused(PlanRequested(plan=minor_plan(FOUR[1:])), done)
    assert f"replaced by plan {PLAN.id}" in conflict.reason
    assert conflict.winner == done.n


def test_of_several_plans_that_replaced_an_input_the_newest_is_named() -> None:
    """A lost output brings its inputs back, and another plan may take them."""
    newer = minor_plan(FOUR[:2])
    output = merged(32769, FOUR[:2])
    state = running(
        completed(),
        TableRepaired(segments=(), lost=(OUTPUT.id,), reason="its file is lost"),
        PlanRequested(plan=newer),
        replace(inflight("b1", 2, output=32769), plan_id=newer.id),
        PlanCompleted(plan_id=newer.id, attempt="b1", segments=(output,)),
    )
    conflict = refused(PlanRequested(plan=minor_plan(FOUR[1:])), state)
    assert f"replaced by plan {newer.id}" in conflict.reason


def test_an_attempt_over_a_lost_input_neither_begins_nor_completes() -> None:
    """No plan took the input, so none is named; nothing is published without it."""
    lost = TableRepaired(segments=(), lost=(FOUR[0].id,), reason="its file is lost")
    waiting = after(created(), Appended(segments=FOUR), PlanRequested(plan=PLAN), lost)
    for action, state in ((inflight("a1", 1), waiting), (completed(), running(lost))):
        conflict = refused(action, state)
        assert conflict.reason == f"input {FOUR[0].id} of plan {PLAN.id} was replaced meanwhile"
        assert conflict.winner is None


def test_aborted_plan_may_come_back() -> None:
    """Its id is a function of its inputs, so an abort must not forbid it for ever."""
    state = running(PlanAborted(plan_id=PLAN.id, attempt="a1", reason="dead"))
    assert not isinstance(admit(PlanRequested(plan=PLAN), state), Conflict)


def test_plan_across_a_hole_is_refused_and_across_a_void_admitted() -> None:
    """Something may still come to live in a hole; a voided id is empty for ever."""
    apart = (first(0), first(2))
    holed = after(created(), Appended(segments=apart))
    action = PlanRequested(plan=minor_plan(apart))
    with pytest.raises(InvalidInput, match="not contiguous"):
        admit(action, holed)
    voided = after(holed, Voided(ids=(CHUNK.segment(1),), reason="dead"))
    assert admit(action, voided) == action


def test_plan_that_takes_a_group_apart_is_refused() -> None:
    """All segments of an atomic update group are compacted together."""
    plan = replace(minor_plan(FOUR[:2]), inputs=(FOUR[0].id, CHUNK.segment(1), FOUR[3].id))
    with pytest.raises(InvalidInput, match="not contiguous"):
        admit(PlanRequested(plan=plan), after(created(), Appended(segments=FOUR)))


def test_a_change_looks_again_if_deletions_were_cleaned_meanwhile() -> None:
    """They may have deleted its rows; what its author had read by then decides."""
    state = replace(running(), vectors_pruned_through=3)
    file = VectorFile(path="deletes/a", size=9, rows={FOUR[0].id: 1})
    seen = RowsChanged(kind="delete", vectors=(file,), seen=3)
    assert admit(seen, state) == seen
    conflict = refused(replace(seen, seen=2), state)
    assert (
        conflict.reason
        == "deletions up to event 3 were cleaned or undone since event 2; look again"
    )
    assert conflict.winner == 3
    appending = RowsChanged(kind="update", segments=(first(4),), seen=2)
    assert admit(appending, state) == appending


def test_void_keeps_only_what_is_still_open() -> None:
    """An id published meanwhile is dropped from a void; nothing left is a conflict."""
    state = after(created(), Appended(segments=(first(0), first(3))))
    both = Voided(ids=(CHUNK.segment(0), CHUNK.segment(1)), reason="dead")
    assert admit(both, state) == replace(both, ids=(CHUNK.segment(1),))
    assert "settled" in refused(replace(both, ids=(CHUNK.segment(0),)), state).reason


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (replace(OUTPUT, rows=20, lineage=OUTPUT.lineage[:2]), "lineage"),
        (
            replace(OUTPUT, lineage=(*OUTPUT.lineage[:2], Run(CHUNK.segment(1), 0, 10))),
            "lineage",
        ),
        (merged(32769, FOUR[:3]), "output ids"),
        (replace(OUTPUT, shard=replace(OUTPUT.shard, root_end=4)), "root range"),
        (replace(OUTPUT, shard=replace(OUTPUT.shard, group_size=2)), "group size"),
    ],
)
def test_books_are_checked(output: object, words: str) -> None:
    """Outputs that lose, double or mislabel rows are refused at commit."""
    action = replace(completed(), segments=(output,))  # type: ignore[arg-type]
    with pytest.raises(RowsOutOfBalance, match=words):
        admit(action, running())


def test_an_output_goes_above_its_inputs() -> None:
    """At their own minor version it would not hide them; the plan and both versions are named."""
    again = minor_plan((OUTPUT, FOUR[3]))
    output = merged(32769, (OUTPUT, FOUR[3]))
    started = PlanInflight(
        plan_id=again.id, attempt="b", token=FencingToken("e", 9), outputs=(output.id,)
    )
    state = running(completed(), PlanRequested(plan=again), started)
    action = PlanCompleted(plan_id=again.id, attempt="b", segments=(output,))
    assert admit(action, state) == action
    level = replace(output, shard=replace(output.shard, minor_version=1))
    with pytest.raises(
        RowsOutOfBalance, match=f"plan {again.id} .*minor version .* is 1, must be over 1"
    ):
        admit(replace(action, segments=(level,)), state)


def test_table_is_created_once() -> None:
    """A second creation conflicts with event 0."""
    assert refused(DEFINITION, created()).winner == 0


def foreign(partition: int, path: str) -> Segment:
    """Return the descriptor of a file that another program wrote."""
    return replace(first(partition), path=path)


def test_a_file_is_adopted_once() -> None:
    """Not again while the log names it: as a segment's file, or as pending deletion."""
    state = after(created(), Adopted(segments=(foreign(0, "a.parquet"),)))
    assert state.adopts
    again = Adopted(segments=(foreign(1, "b.parquet"), foreign(2, "a.parquet")))
    assert "a.parquet is in the table already" in refused(again, state).reason
    pending = replace(created(), pending_delete=frozenset({"a.parquet"}))
    assert "a.parquet" in refused(again, pending).reason
    other = Adopted(segments=(foreign(1, "b.parquet"),))
    assert admit(other, state) == other


def test_an_adoption_gets_other_ids_like_an_append() -> None:
    """Its record keeps the ids that the files were to have."""
    state = after(created(), Appended(segments=(first(0),)))
    found = admit(Adopted(segments=(foreign(0, "a.parquet"),)), state)
    assert isinstance(found, Adopted)
    (segment,) = found.segments
    assert (segment.id.partition, segment.file_id.partition) == (1, 0)

"""Deletions: where they apply, how long they are kept, and what commutes with them."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import Deletion, VectorFile, needed, with_file
from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Compare, Compares
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.tables.rollup_kind import Metric, Rollup
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.support.builders import (
    CHUNK,
    DEFINITION,
    after,
    created,
    first,
    merged,
    minor_plan,
    rewritten,
)

TWO = (first(0), first(1))
PLAN = minor_plan(TWO)


def vectors(name: str = "v", **rows: int) -> VectorFile:
    """Return a file that deletes so many rows of the roots named by partition: ``p0=2``."""
    counts = {CHUNK.segment(int(root[1:])): count for root, count in rows.items()}
    return VectorFile(path=f"deletes/{name}.arrow", size=100, rows=counts)


def delete(seen: int, name: str = "v", **rows: int) -> RowsChanged:
    """Return a delete whose author knew the table up to event ``seen``."""
    return RowsChanged(kind="delete", vectors=(vectors(name, **rows),), seen=seen)


def begun() -> State:
    """Return a table of two segments with their compaction in flight, at event 3."""
    started = PlanInflight(
        plan_id=PLAN.id,
        attempt="a1",
        token=FencingToken("e", 1),
        outputs=(CHUNK.segment(32768),),
    )
    return after(created(), Appended(segments=TWO), PlanRequested(plan=PLAN), started)


def completed(output: Segment) -> PlanCompleted:
    """Return the end of that compaction."""
    return PlanCompleted(plan_id=PLAN.id, attempt="a1", segments=(output,))


def test_a_deletion_applies_to_what_was_written_without_it() -> None:
    """Before the compaction or after its begin: the rows are known by their first name."""
    state = after(begun(), delete(3, p0=2), completed(merged(32768, TWO)))
    (output,) = state.timeline.visible_segments()
    wanted = {CHUNK.segment(0): (Deletion(n=4, path="deletes/v.arrow", rows=2),)}
    assert state.deletions(output) == wanted
    assert state.deletions(TWO[1]) == {}
    later = after(state, delete(5, "w", p1=1))
    assert set(later.deletions(output)) == {CHUNK.segment(0), CHUNK.segment(1)}
    assert list(violations(later)) == []


def test_a_deletion_does_not_apply_where_it_was_applied() -> None:
    """An output that is purged up to its event has none of its rows."""
    before = after(created(), Appended(segments=TWO), delete(1, p0=2), PlanRequested(plan=PLAN))
    started = PlanInflight(
        plan_id=PLAN.id, attempt="a1", token=FencingToken("e", 1), outputs=(CHUNK.segment(32768),)
    )
    state = after(before, started, completed(rewritten(TWO, 18, 4)))
    (output,) = state.timeline.visible_segments()
    assert state.deletions(output) == {}
    assert state.deletions(TWO[0]) != {}
    assert list(violations(state)) == []


@pytest.mark.parametrize(
    ("rows", "deletes_applied_through", "words"),
    [
        (17, 4, "events: expected 18, found 17"),
        (20, 4, "events: expected 18, found 20"),
        (18, 1, "events: expected 20, found 18"),
        (18, 99, "purged up to event 99: expected 0 to 4"),
    ],
)
def test_deleted_rows_are_in_the_books(rows: int, deletes_applied_through: int, words: str) -> None:
    """Rows out are rows in, less exactly those deleted by the event that outputs are purged to."""
    before = after(created(), Appended(segments=TWO), delete(1, p0=2), PlanRequested(plan=PLAN))
    started = PlanInflight(
        plan_id=PLAN.id, attempt="a1", token=FencingToken("e", 1), outputs=(CHUNK.segment(32768),)
    )
    with pytest.raises(RowsOutOfBalance, match=words):
        admit(completed(rewritten(TWO, rows, deletes_applied_through)), after(before, started))


def test_rows_may_not_lose_their_addresses() -> None:
    """An output that neither lineage nor roots tie to the inputs is refused."""
    stranger = replace(merged(32768, TWO), lineage=())
    with pytest.raises(RowsOutOfBalance, match="which no input has"):
        admit(completed(stranger), begun())


def test_two_deletions_of_one_root_meet_only_if_neither_knew_the_other() -> None:
    """The later one has to look; of other roots nobody needs to."""
    state = after(begun(), delete(3, p0=2))
    refused = admit(delete(3, "w", p0=1), state)
    assert isinstance(refused, Conflict)
    assert refused.winner == 4
    assert admit(delete(4, "w", p0=1), state) == delete(4, "w", p0=1)
    assert admit(delete(3, "w", p1=1), state) == delete(3, "w", p1=1)


def test_what_an_update_appends_goes_where_an_append_would() -> None:
    """Its ids were settled meanwhile: it gets others."""
    update = RowsChanged(
        kind="update", segments=(first(0, rows=2),), vectors=(vectors(p1=2),), seen=1
    )
    admitted = admit(update, begun())
    assert isinstance(admitted, RowsChanged)
    assert [segment.id for segment in admitted.segments] == [CHUNK.segment(2)]
    state = after(begun(), admitted)
    assert len(state.timeline.visible_segments()) == 3


def test_vectors_stay_as_long_as_any_present_segment_needs_them() -> None:
    """A hidden input counts: an older version shows it, and readers may fall back to it."""
    named = with_file({}, 4, vectors(p0=2, p1=1))
    assert needed(named, TWO) == named
    deletes_applied_through = rewritten(TWO, 17, 4)
    assert needed(named, [deletes_applied_through]) == {}
    assert set(needed(named, [deletes_applied_through, TWO[1]])) == {CHUNK.segment(1)}
    moved = TWO[0].carried(ChunkKey(CHUNK.interval, CHUNK.version + 9).segment(5), core=1)
    assert set(needed(named, [moved])) == {CHUNK.segment(0)}


def test_cleaning_forgets_what_nobody_needs_and_remembers_that_it_did() -> None:
    """The file is doomed with the inputs, and who looked before must look again."""
    before = after(created(), Appended(segments=TWO), delete(1, p0=2), PlanRequested(plan=PLAN))
    started = PlanInflight(
        plan_id=PLAN.id, attempt="a1", token=FencingToken("e", 1), outputs=(CHUNK.segment(32768),)
    )
    state = after(before, started, completed(rewritten(TWO, 18, 4)))
    assert after(state, Cleaned(retained_from=5, ids=())).vectors == state.vectors
    cleaned = after(state, Cleaned(retained_from=5, ids=tuple(s.id for s in TWO)))
    assert cleaned.vectors == {}
    assert cleaned.vectors_pruned_through == 2
    assert cleaned.pending_delete == {*(s.path for s in TWO), "deletes/v.arrow"}
    refused = admit(delete(1, "w", p1=1), cleaned)
    assert isinstance(refused, Conflict)
    assert "look again" in refused.reason
    assert read_checkpoint(write_checkpoint(cleaned)) == cleaned
    assert read_checkpoint(write_checkpoint(state)) == state


def test_a_predicate_takes_what_was_there_and_nothing_later() -> None:
    """In a rollup table an append is purged up to the event before its own."""
    rollup = Rollup(dimensions=("carrier",), metrics=(Metric.parse("flights=count"),))
    table = after(created(replace(DEFINITION, kind=rollup)), Appended(segments=TWO))
    gone = RowsChanged(kind="delete", predicate=Compare("carrier", Compares.EQUAL, "UA"), matched=3)
    state = after(table, gone)
    admitted = admit(Appended(segments=(first(2),)), state)
    assert isinstance(admitted, Appended)
    state = after(state, admitted)
    erased = {s.id.partition: len(state.erased(s)) for s in state.timeline.visible_segments()}
    assert erased == {0: 1, 1: 1, 2: 0}
    assert read_checkpoint(write_checkpoint(state)) == state

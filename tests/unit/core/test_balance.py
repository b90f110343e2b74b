"""The balance check: which outputs account for the rows of their inputs, deleted ones left out."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.log.replacement import unaccounted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import IsNull
from airflow_provider_segtable.core.segment import ChunkKey, Segment, roots_of, tombstone
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.core.timeline import Timeline
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    JANUARY,
    created,
    first,
    rewritten,
)

TWO = (first(0), first(1))
FEBRUARY = ChunkKey(Interval.parse("2013-02-01/2013-03-01"), BASE)


def table(*segments: Segment, n: int = 9, **deleted: int) -> State:
    """Return a table; ``p0=4`` means that event 4 deleted three rows of partition 0."""
    vectors = {
        CHUNK.segment(int(name[1:])): (Deletion(n=at, path=f"deletes/{at}", rows=3),)
        for name, at in deleted.items()
    }
    timeline = Timeline.empty().with_changes(add=segments)
    return replace(created(), n=n, timeline=timeline, vectors=vectors)


def output(rows: int, through: int, inputs: tuple[Segment, ...] = TWO) -> Segment:
    """Return one output with hidden columns, of so many rows."""
    return rewritten(inputs, rows, through)


def told(inputs: tuple[Segment, ...], outputs: tuple[Segment, ...], state: State) -> list[str]:
    """Return what is reported of events and of applied deletes."""
    found = unaccounted(inputs, outputs, state)
    return [each for each in found if each.startswith(("events", "outputs are purged"))]


@pytest.mark.parametrize("rows", [16, 17, 18])
def test_outputs_leave_out_what_was_deleted_through_their_event(rows: int) -> None:
    """No row more and no row less; the event itself counts, a later one does not."""
    state = table(*TWO, p0=4, p1=7)
    for through, left in ((3, 20), (4, 17), (6, 17), (7, 14), (9, 14)):
        expected = [] if rows == left else [f"events: expected {left}, found {rows}"]
        assert told(TWO, (output(rows, through),), state) == expected


def test_inputs_that_had_applied_a_delete_hold_none_of_its_rows() -> None:
    """What one input left out before is not missing now."""
    done = replace(TWO[0], rows=7, events=7, deletes_applied_through=4)
    state = table(done, TWO[1], p0=4, p1=7)
    assert told((done, TWO[1]), (output(17, 6, (done, TWO[1])),), state) == []
    assert told((done, TWO[1]), (output(14, 7, (done, TWO[1])),), state) == []
    assert told((done, TWO[1]), (output(13, 6, (done, TWO[1])),), state)


def test_rows_spread_over_two_inputs_of_which_one_applied_the_delete() -> None:
    """How many of them the other one holds is not recorded: at most all of them."""
    halves = tuple(
        replace(first(p), lineage=(), roots=roots_of(TWO[:1]), deletes_applied_through=n)
        for p, n in ((2, 4), (3, 0))
    )
    for applied, expected in ((4, True), (5, True), (3, False)):
        some = (replace(halves[0], deletes_applied_through=applied), halves[1])
        state = table(*some, p0=4)
        assert told(some, (output(17, 6, some),), state) == []
        found = [bool(told(some, (output(rows, 6, some),), state)) for rows in (16, 18, 20, 21)]
        assert found == [True, not expected, not expected, True], applied


@pytest.mark.parametrize("outside", ["segment", "tombstone", "february", "other root"])
def test_rows_that_may_lie_outside_the_inputs_may_be_missing(outside: str) -> None:
    """In the root's own chunk: a segment with its rows, or a tombstone, which names no root."""
    roots = roots_of(TWO[:1])
    half = replace(first(2), lineage=(), roots=roots)
    day = ChunkKey(Interval(JANUARY.start, JANUARY.start + DAY_US), BASE + 1)
    beside, exact = {
        "segment": (replace(first(3), lineage=(), roots=roots), False),
        "tombstone": (tombstone(day, BASE), False),
        "february": (tombstone(FEBRUARY, BASE), True),
        "other root": (first(3), True),
    }[outside]
    state = table(half, beside, p0=4)
    assert told((half,), (output(7, 6, (half,)),), state) == []
    for rows in (8, 10):
        assert bool(told((half,), (output(rows, 6, (half,)),), state)) is exact
    assert told((half,), (output(6, 6, (half,)),), state)
    assert told((half,), (output(11, 6, (half,)),), state)


def test_roots_of_several_chunks_are_looked_up_where_they_lie() -> None:
    """A root of February is not spread because January has a tombstone."""
    there = first(0, chunk=FEBRUARY)
    vectors = {s.id: (Deletion(n=4, path="deletes/4", rows=3),) for s in (TWO[0], there)}
    day = ChunkKey(Interval(JANUARY.start, JANUARY.start + DAY_US), BASE + 1)
    inputs = (TWO[0], there)
    for stones, exact in (((), True), ((tombstone(day, BASE),), False)):
        state = replace(table(*inputs, *stones), vectors=vectors)
        made = output(14, 6, (TWO[0],))
        assert told(inputs, (made,), state) == []
        assert bool(told(inputs, (replace(made, rows=17, events=17),), state)) is exact
        assert told(inputs, (replace(made, rows=18, events=18),), state)


def test_no_outputs_account_for_inputs_that_are_all_deleted() -> None:
    """Without an output, all deletes up to now are applied; left rows are missed."""
    state = table(TWO[0], n=4, p0=4)
    gone = {TWO[0].id: (Deletion(n=4, path="deletes/4", rows=10),)}
    assert told(TWO[:1], (), replace(state, vectors=gone)) == []
    assert told(TWO[:1], (), state) == ["events: expected 7, found 0"]


def test_a_pending_predicate_may_have_deleted_any_rows() -> None:
    """From none to all, if the outputs applied it; otherwise none."""
    erased = (PredicateDelete(n=4, predicate=IsNull("carrier")),)
    state = replace(table(*TWO), predicate_deletes=erased)
    for through, rows, fine in (
        (4, 0, True),
        (4, 20, True),
        (5, 7, True),
        (4, 21, False),
        (3, 19, False),
        (3, 20, True),
    ):
        made = replace(output(1, through), rows=1, events=rows)
        assert (told(TWO, (made,), state) == []) is fine, (through, rows)
    applied = tuple(replace(s, deletes_applied_through=4) for s in TWO)
    assert told(applied, (output(19, 5, applied),), state)


def test_outputs_apply_the_same_deletes_no_fewer_than_inputs_and_none_to_come() -> None:
    """From the newest of the inputs to the newest event, both included."""
    inputs = (replace(TWO[0], deletes_applied_through=3), TWO[1])
    state = table(*inputs)
    for through, fine in ((2, False), (3, True), (9, True), (10, False)):
        found = told(inputs, (output(20, through, inputs),), state)
        wrong = f"outputs are purged up to event {through}: expected 3 to 9"
        assert found == ([] if fine else [wrong])
    halves = tuple(output(10, through, inputs) for through in (3, 5))
    assert "outputs are purged up to different events: [3, 5]" in told(inputs, halves, state)


def test_a_region_without_rows_may_be_replaced_by_a_tombstone() -> None:
    """There are no inputs, so nothing is applied and nothing is missed."""
    assert told((), (tombstone(FEBRUARY, BASE),), table(*TWO)) == []


def test_the_kind_of_the_table_is_asked_too() -> None:
    """An append table's outputs have as many rows, under roots of the inputs."""
    state = table(*TWO)
    assert state.table == DEFINITION
    fewer = replace(output(20, 0), rows=19)
    assert told(TWO, (fewer,), state) == []
    assert [*unaccounted(TWO, (fewer,), state)]
    assert [*unaccounted(TWO, (output(20, 0),), state)] == []

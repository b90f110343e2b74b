"""Deleted rows as a reason to plan: how many there are by the log alone, and who rewrites them."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    may_hold,
)
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard, roots_of
from airflow_provider_segtable.core.time import DAY_US, MINUTE_US, Interval
from airflow_provider_segtable.planning.planner_context import deleted_in
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    after,
    created,
    first,
    merged,
)

POLICY = Policy(target_size=1000, min_segments=4, major="off")
NOW = BASE + MINUTE_US
LARGE, OVERSIZED = 900, 5000


def table(*segments: Segment) -> State:
    return after(created(), Appended(segments=segments))


def deleting(state: State, path: str = "deletes/a.arrow", **rows: int) -> State:
    """Delete so many rows of roots: ``p3=2`` are two of partition 3."""
    counts = {CHUNK.segment(int(name[1:])): n for name, n in rows.items()}
    file = VectorFile(path=path, size=1, rows=counts)
    return after(state, RowsChanged(kind="delete", vectors=(file,), seen=state.n))


def hidden(state: State, parts: int, rows: int, deletes_applied_through: int) -> State:
    """Sort everything into some segments with hidden columns."""
    inputs = state.timeline.visible_segments()
    whole = merged(40_000, inputs)
    outputs = tuple(
        replace(
            whole,
            id=CHUNK.segment(40_000 + p),
            shard=replace(whole.shard, partition=40_000 + p, group_size=parts),
            path=f"{p}.parquet",
            rows=rows,
            events=rows,
            lineage=(),
            roots=roots_of(inputs),
            deletes_applied_through=deletes_applied_through,
        )
        for p in range(parts)
    )
    return replace(state, timeline=state.timeline.with_changes(add=outputs))


def plans(state: State, policy: Policy = POLICY) -> list[tuple[str, list[int], str]]:
    return [
        (p.kind, [i.partition for i in p.inputs], p.reason.rpartition(": ")[2])
        for p in plan_all(state, policy, NOW).chosen
    ]


def test_rows_of_appended_segments_are_counted_exactly() -> None:
    """Each root is one segment, so the log's numbers are the segments'."""
    state = deleting(deleting(table(first(0), first(1)), p0=3), "deletes/b.arrow", p0=1, p1=10)
    rows = deleted_in(state).rows
    assert rows == {CHUNK.segment(0): 4, CHUNK.segment(1): 10}


def test_a_joined_segment_has_what_its_roots_lost_unless_it_is_purged() -> None:
    """Lineage tells which deletions are in it, but for those applied when it was written."""
    state = deleting(table(first(0), first(1)), p0=3)
    joined = merged(40_000, state.timeline.visible_segments())
    for deletes_applied_through, rows in ((0, 3), (state.n, 0)):
        given = replace(joined, deletes_applied_through=deletes_applied_through)
        now = replace(state, timeline=state.timeline.with_changes(add=[given]))
        assert deleted_in(now).rows_of([given]) == rows


def test_rows_behind_hidden_columns_are_spread_in_proportion() -> None:
    """Who may hold the root shares its deletions; none has more deleted than it has."""
    state = deleting(hidden(table(first(0), first(1)), 4, rows=5, deletes_applied_through=0), p0=8)
    assert set(deleted_in(state).rows.values()) == {2.0}


def test_a_segment_of_which_much_is_deleted_is_rewritten_alone() -> None:
    """However large it is; its neighbours stay, and the reason is said."""
    state = deleting(table(first(0, size=LARGE), first(1, size=LARGE)), p0=1)
    assert plans(state) == [("minor", [0], "10 % of its rows are deleted")]
    assert plans(state, replace(POLICY, deleted_share=0.11)) == []


def test_small_neighbours_need_not_wait_where_much_is_deleted() -> None:
    """Two small segments are fewer than four, but one of them has to be rewritten anyway."""
    state = table(first(0), first(1), first(2))
    assert plans(state, replace(POLICY, target_size=10**6)) == []
    (found,) = plans(deleting(state, p1=5), replace(POLICY, target_size=10**6))
    assert found == ("minor", [0, 1, 2], "17 % of its rows are deleted")


def test_a_group_too_large_for_one_output_is_left_to_semi_major() -> None:
    """Without a clustering, too: sorted by event time, and nothing beside it."""
    state = hidden(
        table(*(first(p, size=OVERSIZED) for p in range(3))), 2, rows=15, deletes_applied_through=0
    )
    large = deleting(after(state, Appended(segments=(first(3, size=LARGE),))), p1=9)
    assert plans(large) == [("semi-major", [40_000, 40_001], "30 % of its rows are deleted")]
    assert plans(large, replace(POLICY, semi_major="off")) == []


def test_a_sorted_chunk_of_which_much_is_deleted_is_sorted_again() -> None:
    """A minor compaction would undo the order; one that was sorted just now waits."""
    state = table(replace(first(0, size=LARGE), clustering="carrier"))
    policy = replace(POLICY, clustering="carrier")
    assert plans(state, policy) == []
    assert plans(deleting(state, p0=5), policy) == [
        ("semi-major", [0], "50 % of its rows are deleted")
    ]


def test_a_cold_chunk_of_which_much_is_deleted_is_replaced() -> None:
    """Where major compaction is on, and it is due: instead of the smaller ones."""
    state = deleting(table(first(0, size=LARGE)), p0=5)
    found = plan_all(state, replace(POLICY, major="auto"), NOW + 2 * DAY_US).chosen
    assert [p.kind for p in found] == [MajorPlan.kind]
    assert found[0].reason.endswith("50 % of its rows are deleted")


def test_what_lost_all_rows_does_not_keep_its_neighbours_apart() -> None:
    """An empty group is joined with others, and is no reason of its own."""
    empty = replace(first(1), rows=0, events=0, path="", size=0)
    assert plans(table(first(0, size=LARGE), empty)) == []
    small = (first(0, size=10), empty, first(2, size=10), first(3, size=10))
    assert [p[1] for p in plans(table(*small))] == [[0, 1, 2, 3]]


def test_predicates_wait_for_what_they_may_hold_for() -> None:
    """Nobody knows how many rows they delete; where their time is another, none."""
    cut = Compare("time_hour", Compares.LESS, Moment(CHUNK.interval.start + DAY_US))
    early = replace(first(0, size=LARGE), time_max=CHUNK.interval.start)
    late = replace(first(1, size=LARGE), time_min=CHUNK.interval.start + DAY_US)
    state = after(table(early, late), RowsChanged(kind="delete", seen=1, predicate=cut))
    assert plans(state) == [("minor", [0], "1 deletion by predicate waits for it")]
    assert plans(state, replace(POLICY, deleted_predicates=2)) == []
    later = after(
        state, Appended(segments=(replace(first(2, size=LARGE), deletes_applied_through=state.n),))
    )
    assert deleted_in(later).predicates == {CHUNK.segment(0): 1}


def test_predicates_over_dates_wait_only_where_they_may_hold() -> None:
    """A time column of dates is compared with days, whose instants are their midnights."""
    day = CHUNK.interval.start // DAY_US
    cut = Compare("time_hour", Compares.LESS, Day(day + 1))
    schema = Schema((Column(name="time_hour", type="date32[day]", nullable=False),))
    early = replace(first(0, size=LARGE), time_max=CHUNK.interval.start)
    late = replace(first(1, size=LARGE), time_min=CHUNK.interval.start + DAY_US)
    state = after(
        created(replace(DEFINITION, schema=schema)),
        Appended(segments=(early, late)),
        RowsChanged(kind="delete", seen=1, predicate=cut),
    )
    assert deleted_in(state).predicates == {CHUNK.segment(0): 1}


def test_times_finer_than_an_instant_may_lie_behind_it() -> None:
    """A row 500 ns after the latest instant of its segment is later than that instant."""
    later = Compare("at", Compares.MORE, Moment(20))
    assert not may_hold(later, "at", 10, 20)
    assert may_hold(later, "at", 10, 20, exact=False)
    assert not may_hold(Compare("at", Compares.AT_LEAST, Moment(21)), "at", 10, 20, exact=False)


TEN = Moment(10)
CASES: list[tuple[Predicate, bool]] = [
    (Compare("at", Compares.LESS, TEN), False),
    (Compare("at", Compares.AT_MOST, TEN), True),
    (Compare("at", Compares.MORE, Moment(20)), False),
    (Compare("at", Compares.AT_LEAST, Moment(20)), True),
    (Compare("at", Compares.EQUAL, Moment(21)), False),
    (Compare("at", Compares.UNEQUAL, Moment(21)), True),
    (Among("at", (Moment(9), Moment(21))), False),
    (Among("at", (Moment(9), Moment(15))), True),
    (Not(Compare("at", Compares.LESS, TEN)), True),
    (Not(Compare("at", Compares.AT_LEAST, TEN)), False),
    (Not(Compare("at", Compares.AT_MOST, Moment(20))), False),
    (Not(Compare("at", Compares.UNEQUAL, Moment(21))), False),
    (Compare("carrier", Compares.EQUAL, "UA"), True),
    (IsNull("carrier"), True),
    (AllOf((Compare("carrier", Compares.EQUAL, "UA"), Compare("at", Compares.LESS, TEN))), False),
    (AnyOf((Compare("carrier", Compares.EQUAL, "UA"), Compare("at", Compares.LESS, TEN))), True),
    (Not(AnyOf((IsNull("carrier"), Compare("at", Compares.AT_LEAST, TEN)))), False),
    (AllOf(()), True),
    (AnyOf(()), False),
    (Compare("at", Compares.AT_LEAST, Day(1)), False),
    (Among("at", (Day(0), Day(1))), False),
    (Not(Among("at", (Moment(15),))), True),
    (AllOf((Compare("at", Compares.MORE, TEN), Compare("at", Compares.LESS, TEN))), False),
    (AllOf((Not(Compare("at", Compares.EQUAL, TEN)), Compare("at", Compares.AT_MOST, TEN))), False),
]


@pytest.mark.parametrize(("predicate", "expected"), CASES)
def test_a_predicate_is_left_out_only_where_its_time_is_another(
    predicate: Predicate, *, expected: bool
) -> None:
    """For rows of the times 10 to 20; what is said of other columns may always be true."""
    assert may_hold(predicate, "at", 10, 20) is expected


def test_roots_of_another_time_are_not_held() -> None:
    """A segment with hidden columns holds rows of its own chunk's time, whatever it may name."""
    day = Interval(CHUNK.interval.start, CHUNK.interval.start + DAY_US)
    segment = replace(
        first(0, chunk=ChunkKey(day, BASE + 1)),
        roots=roots_of([first(0), first(0, chunk=ChunkKey(Interval(0, 10), BASE))]),
        shard=Shard.first_generation(0, core=1),
    )
    assert segment.may_hold(CHUNK.segment(0))
    assert not segment.may_hold(ChunkKey(Interval(0, 10), BASE).segment(0))


def test_shares_out_of_range_are_refused() -> None:
    """A share over 1 would switch it off by accident, and says so."""
    with pytest.raises(InvalidInput, match=r"deleted_share = 1\.5 is a share"):
        Policy.read({"compaction.deleted_share": "1.5"})

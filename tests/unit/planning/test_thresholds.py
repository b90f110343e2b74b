"""The planners at their thresholds: just below and exactly at each number of the policy."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.deletion import Deletion
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Shard
from airflow_provider_segtable.core.time import DAY_US, MINUTE_US, Granularity
from airflow_provider_segtable.planning.finders.major import MajorFinder
from airflow_provider_segtable.planning.finders.minor import minor_candidates
from airflow_provider_segtable.planning.finders.semi_major import SemiMajorFinder
from airflow_provider_segtable.planning.planner_context import look_at_table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Candidate, Skipped, joined
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.support.builders import (
    BASE,
    CHUNK,
    JANUARY,
    after,
    first,
    major_plan,
    minor_plan,
)
from tests.unit.planning.one_kind import plan_of
from tests.unit.planning.test_major import COLD, late
from tests.unit.planning.test_minor import partitions, reasons, sized, table
from tests.unit.planning.test_semi_major import ordered

POLICY = Policy(target_size=1000, min_segments=4)
SORTED = replace(POLICY, clustering="carrier", major="off")
NOW = BASE + MINUTE_US


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((749, 749), [[0, 1]]),  # both are small
        ((750, 749), []),  # one is exactly small_below of the target
        ((370, 380), [[0, 1]]),  # together exactly a small size: they fill an output
        ((370, 379), []),
        ((5, 5, 5, 5), [[0, 1, 2, 3]]),
        ((40, 10, 2), []),
        ((40, 5, 5, 5, 5), [[0, 1, 2, 3, 4]]),  # twice the others
        ((80, 5, 5, 5, 5), [[0, 1, 2, 3, 4]]),  # exactly tier_ratio times the others
        ((81, 5, 5, 5, 5), [[1, 2, 3, 4]]),
        ((5, 5, 121, 5, 5, 5, 5), [[3, 4, 5, 6]]),
        ((5, 5, 5, 5, 300, 5, 5, 5, 5), [[0, 1, 2, 3], [5, 6, 7, 8]]),
        ((740, 5, 5), [[0, 1, 2]]),  # they fill an output, so the large one is taken
        ((739, 5, 5), []),
    ],
)
def test_minor_compaction_joins(sizes: tuple[int, ...], expected: list[list[int]]) -> None:
    """Small neighbours, of like size, that are enough or fill an output."""
    assert sorted(partitions(plan_of(MinorPlan, table(*sized(*sizes)), POLICY, NOW))) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((500, 500, 500, 500), [[0, 1], [2, 3]]),  # exactly a target closes a batch
        ((499, 500, 500, 500), [[0, 1, 2]]),  # below it another one is taken
        ((600, 399, 701, 100), [[0, 1, 2]]),  # more than the target, below largest_output
        ((700, 299, 700, 101, 100), [[0, 1, 2]]),
        ((700, 200, 740, 740), [[0, 1, 2]]),
        ((740, 740, 740, 740), [[0, 1], [2, 3]]),
    ],
)
def test_batches_fill_one_output(sizes: tuple[int, ...], expected: list[list[int]]) -> None:
    """A batch is full at the target size, and never above the largest output."""
    policy = replace(POLICY, min_segments=3)
    found = sorted(partitions(plan_of(MinorPlan, table(*sized(*sizes)), policy, NOW)))
    assert found == expected
    for inputs in found:
        assert sum(sizes[p] for p in inputs) <= policy.largest_output


def test_an_output_may_be_exactly_the_largest() -> None:
    """Nine hundred and nine hundred are 1.8 times the target; one byte more is not taken."""
    policy = replace(POLICY, small_below=0.95, target_size=1000, min_segments=2)
    assert partitions(plan_of(MinorPlan, table(*sized(900, 900)), policy, NOW)) == [[0, 1]]
    assert partitions(plan_of(MinorPlan, table(*sized(900, 901)), policy, NOW)) == []


def test_the_oldest_segment_decides_the_age() -> None:
    """At exactly max_age_minutes it is old enough."""
    young = first(1, size=10, created=BASE + 30 * MINUTE_US)
    state = table(first(0, size=10), young)
    assert plan_of(MinorPlan, state, POLICY, BASE + 60 * MINUTE_US - 1).chosen == ()
    (plan,) = plan_of(MinorPlan, state, POLICY, BASE + 60 * MINUTE_US).chosen
    assert plan.reason.endswith("the oldest is 60 min old")
    assert (plan.rows, plan.size) == (20, 20)


def test_a_pair_of_unlike_size_is_left_alone() -> None:
    """However old it is; of four times the size it is joined."""
    assert partitions(plan_of(MinorPlan, table(*sized(40, 10)), POLICY, COLD)) == [[0, 1]]
    assert partitions(plan_of(MinorPlan, table(*sized(41, 10)), POLICY, COLD)) == []


def test_the_gain_is_the_segments_that_go() -> None:
    """Four become one; deleted bytes would count besides."""
    found = look_at_table(table(*sized(10, 10, 10, 10)), POLICY, NOW)
    (candidate,) = minor_candidates(found, CHUNK, [])
    assert candidate.gain == 3.0


def test_large_unsorted_segments_are_due_to_be_sorted() -> None:
    """Also if nothing else is due in their chunk, and sorted ones are not."""
    some = sized(900, 900, 700)
    (plan,) = plan_all(table(*some), SORTED, NOW).chosen
    assert (plan.kind, plan.rows, plan.size) == (SemiMajorPlan.kind, 30, 2500)
    assert plan_all(table(*ordered(*some)), SORTED, NOW).chosen == ()
    other = plan_all(table(*some), replace(SORTED, clustering="-carrier"), NOW).chosen
    assert [p.id for p in other] != [plan.id]


def test_chunks_that_wait_to_be_sorted_are_named() -> None:
    """For a plan over the whole interval, or over some of the segments."""
    state = table(*sized(900, 900, 700))
    claimed = after(state, PlanRequested(plan=major_plan(sized(900, 900))))
    (taken,) = plan_of(SemiMajorPlan, claimed, SORTED, NOW).skipped
    assert (taken.chunk, taken.reason[:24]) == (CHUNK, "claimed by pending plan ")
    pending = after(state, PlanRequested(plan=minor_plan(sized(900, 900))))
    (drains,) = plan_of(SemiMajorPlan, pending, SORTED, NOW).skipped
    assert (drains.chunk, drains.partitions) == (CHUNK, ())
    assert drains.reason.startswith("held back: semi-major compaction is due, once plan minor-")


def test_one_unsorted_group_is_sorted_if_asked() -> None:
    """One that is sorted already is not; several are joined by it."""
    for some, expected in (
        (sized(900), [[0]]),
        (ordered(*sized(900)), []),
        (ordered(*sized(900, 900)), [[0, 1]]),
    ):
        found, skipped = look_at_table(table(*some), SORTED, NOW), list[Skipped]()
        plans = SemiMajorFinder().asked(found, [CHUNK], "because", skipped)
        assert [[i.partition for i in plan.inputs] for plan in plans] == expected
        assert bool(skipped) is not bool(plans)


def test_the_oversized_group_with_most_deleted_bytes_is_rewritten() -> None:
    """Without a clustering, one at a time; a minor compaction could not take it."""
    state = table(*sized(2000, 3000, 4000))
    vectors = {
        CHUNK.segment(p): (Deletion(n=2, path=f"deletes/{p}", rows=rows),)
        for p, rows in ((0, 2), (1, 9), (2, 4))
    }
    state = replace(state, n=2, vectors=vectors)
    plain = replace(POLICY, major="off")
    assert partitions(plan_of(SemiMajorPlan, state, plain, NOW)) == [[1]]


def test_a_single_small_segment_is_left_alone() -> None:
    """However old it is, there is nothing to join."""
    alone = plan_of(MinorPlan, table(first(0, size=10)), POLICY, COLD)
    assert (alone.chosen, reasons(alone)) == ((), "alone: no small neighbour next to it")


def test_a_reason_says_why_a_batch_is_joined() -> None:
    """Enough of them comes before that they fill an output."""
    many = plan_of(MinorPlan, table(*sized(200, 200, 200, 200)), POLICY, NOW)
    assert many.chosen[0].reason == "4 small segments of 200 B -> 1 of 800 B: at least 4 of them"
    few = plan_of(MinorPlan, table(*sized(400, 400)), POLICY, NOW)
    assert few.chosen[0].reason == "2 small segments of 400 B -> 1 of 800 B: they fill an output"


@pytest.mark.parametrize(
    ("sizes", "loose", "due"),
    [
        ((500, 500), 1, True),  # exactly half is not sorted
        ((501, 499), 1, False),
        ((499, 501), 1, True),
        ((500, 499), 2, False),  # less than a target, fewer than min_segments
        ((500, 500), 2, True),
        ((9, 9, 9), 3, False),
        ((9, 9, 9, 9), 4, True),
    ],
)
def test_semi_major_compaction_sorts(
    sizes: tuple[int, ...],
    loose: int,
    due: bool,  # noqa: FBT001
) -> None:
    """A chunk of which enough is not sorted: a target's size, or min_segments."""
    some = sized(*sizes)
    kept = len(some) - loose
    state = table(*ordered(*some[:kept]), *some[kept:])
    assert bool(plan_of(SemiMajorPlan, state, SORTED, NOW).chosen) == due


def test_a_chunk_of_exactly_the_budget_is_sorted() -> None:
    """One byte more is over the budget of a run."""
    state = table(*sized(600, 600))
    assert plan_of(SemiMajorPlan, state, replace(SORTED, max_plan_bytes=1200), NOW).chosen
    assert not plan_of(SemiMajorPlan, state, replace(SORTED, max_plan_bytes=1199), NOW).chosen


@pytest.mark.parametrize(
    ("sizes", "outputs"), [((600, 400), 4), ((600, 401), 6), ((9, 9, 9, 9), 4)]
)
def test_ids_are_allocated_for_twice_the_outputs(sizes: tuple[int, ...], outputs: int) -> None:
    """As many targets as the bytes need, rounded up, twice, and two."""
    (plan,) = plan_of(SemiMajorPlan, table(*sized(*sizes)), SORTED, NOW).chosen
    assert plan.outputs == outputs


@pytest.mark.parametrize(
    ("sizes", "due"),
    [
        ((300, 300), True),  # two for one
        ((750, 300, 300, 300), True),
        ((750, 749), False),  # one is small
        ((600, 600, 600), False),  # three, but two are needed for their bytes
        ((600, 600, 100, 100), True),  # four for two
        ((1801,), True),  # oversized
        ((1800,), False),  # exactly the largest output
    ],
)
def test_major_compaction_tidies(sizes: tuple[int, ...], due: bool) -> None:  # noqa: FBT001
    """At least twice as many segments as needed, two of them small, or one oversized."""
    assert bool(plan_of(MajorPlan, table(*sized(*sizes)), POLICY, COLD).chosen) == due


@pytest.mark.parametrize(("loose", "due"), [(99, False), (100, True), (101, True)])
def test_a_tenth_that_is_not_sorted_is_enough(loose: int, due: bool) -> None:  # noqa: FBT001
    """Of a chunk of a thousand bytes."""
    policy = replace(POLICY, clustering="carrier")
    state = table(*ordered(first(0, size=1000 - loose)), first(1, size=loose))
    assert bool(plan_of(MajorPlan, state, policy, COLD).chosen) == due


def test_all_reasons_of_a_major_compaction_are_given() -> None:
    """Each need in its own words, those of the layout first."""
    policy = replace(POLICY, clustering="carrier", major_granularity="year")
    (plan,) = plan_of(MajorPlan, table(*sized(300, 300, 300)), policy, COLD).chosen
    assert plan.reason == (
        "3 segments, 900 B -> about 1 in a new version, by year, sorted by carrier: "
        "it is to be cut by year; 100 % are not sorted by carrier; 3 are small"
    )
    assert (plan.rows, plan.size, plan.granularity) == (30, 900, Granularity.YEAR)


def test_a_chunk_is_cold_exactly_when_its_time_is_over() -> None:
    """From its end, or from the oldest segment to tidy, whichever is later."""
    state = table(*sized(300, 300))
    wait = 1440 * MINUTE_US
    assert plan_of(MajorPlan, state, POLICY, BASE + wait).chosen
    early = plan_of(MajorPlan, state, POLICY, BASE + wait - MINUTE_US)
    assert early.chosen == ()
    assert "3 are small" not in reasons(early)
    assert "it is not cold: 1439 min since that was written, of 1440" in reasons(early)
    running = replace(CHUNK, interval=Granularity.MONTH.chunk(BASE))
    hot = table(*sized(300, 300, chunk=running))
    ended = plan_of(MajorPlan, hot, POLICY, running.interval.end + wait - MINUTE_US)
    assert "it is not cold: 1439 min since it ended, of 1440" in reasons(ended)
    assert plan_of(MajorPlan, hot, POLICY, running.interval.end + wait).chosen
    beginning = plan_of(MajorPlan, hot, POLICY, running.interval.end)
    assert "0 min since it ended" in reasons(beginning)


def test_a_region_of_exactly_the_budget_is_replaced() -> None:
    """One byte more is over the budget, with the way out."""
    state = table(*sized(300, 300))
    assert plan_of(MajorPlan, state, replace(POLICY, max_plan_bytes=600), COLD).chosen
    over = plan_of(MajorPlan, state, replace(POLICY, max_plan_bytes=599), COLD)
    assert "2 are small, but 600 B are over the budget: raise max_plan_bytes" in reasons(over)


def test_reasons_name_the_region_that_waits() -> None:
    """Whether it is not due yet, or due once a pending plan in it is done."""
    state = table(*sized(300, 300, 300))
    (early,) = plan_of(MajorPlan, state, POLICY, BASE).skipped
    assert (early.chunk, early.kind, early.partitions) == (CHUNK, MajorPlan.kind, ())
    pending = after(state, PlanRequested(plan=minor_plan(sized(300, 300))))
    (drains,) = plan_of(MajorPlan, pending, POLICY, COLD).skipped
    assert (drains.chunk, drains.kind, drains.partitions) == (CHUNK, MajorPlan.kind, ())
    assert drains.reason.startswith("held back: major compaction is due, once plan minor-")
    claimed = after(state, PlanRequested(plan=major_plan(sized(300, 300, 300))))
    taken, *_ = plan_of(MajorPlan, claimed, POLICY, COLD).skipped
    assert taken.reason.startswith("claimed by pending plan major-")


def test_an_asked_region_waits_for_another_plan_over_it_only() -> None:
    """Asked for again as it is pending, it is the same plan; in another order it has to wait."""
    state = table(*sized(900, 900))
    (plan,) = asked(state, POLICY)
    pending = after(state, PlanRequested(plan=plan))
    assert asked(pending, POLICY) == [plan]
    skipped: list[Skipped] = []
    assert asked(pending, replace(POLICY, clustering="carrier"), skipped) == []
    assert [each.reason for each in skipped] == [f"claimed by pending plan {plan.id}"]
    assert plan.reason.endswith("sorted by event time: because")


def asked(state: State, policy: Policy, skipped: list[Skipped] | None = None) -> list[Plan]:
    """Return the major compactions that somebody asks for in January."""
    found = look_at_table(state, policy, NOW)
    return MajorFinder().asked(found, [CHUNK], "because", [] if skipped is None else skipped)


def test_a_late_segment_beside_a_core_set_is_tidied() -> None:
    """Only what was appended since counts as untidy, and a full core set never does."""
    core = tuple(
        replace(segment, shard=Shard.first_generation(p, core=4, base=4))
        for p, segment in enumerate(sized(100, 100, 100, 100))
    )
    assert plan_of(MajorPlan, table(*core), POLICY, COLD).chosen == ()
    assert plan_of(MajorPlan, table(*core, late(4, 4, size=100)), POLICY, COLD).chosen


@pytest.mark.parametrize(
    ("first_day", "last_day", "about"), [(0, 0, 1), (0, 1, 2), (3, 5, 3), (0, 30, 20)]
)
def test_each_new_chunk_with_rows_is_one_output(first_day: int, last_day: int, about: int) -> None:
    """From the day of the first row to that of the last one, but no more than there are rows."""
    times = (JANUARY.start + first_day * DAY_US + 5, JANUARY.start + last_day * DAY_US + 7)
    some = tuple(replace(s, time_min=times[0], time_max=times[1]) for s in sized(300, 300))
    policy = replace(POLICY, major_granularity="day")
    (plan,) = plan_of(MajorPlan, table(*some), policy, COLD).chosen
    assert plan.outputs == about


def test_gain_is_divided_by_a_fixed_cost_and_the_bytes() -> None:
    """A MiB to copy costs as much as the plan itself; what is replaced counts if it is better."""
    plan = replace(minor_plan(sized(10, 10)), size=3 * MIB)
    one = Candidate(plan=plan, gain=8.0)
    assert one.score == one.urgency == 2.0
    small = Candidate(plan=replace(plan, size=0), gain=3.0)
    assert Candidate(plan=plan, gain=8.0, instead=(small,)).urgency == 3.0
    assert Candidate(plan=plan, gain=16.0, instead=(small, one)).urgency == 4.0


def test_better_candidates_come_first() -> None:
    """More segments removed for the same bytes; at equal gain the earlier time."""
    months = [Granularity.MONTH.chunk(JANUARY.start)]
    while len(months) < 3:
        months.append(Granularity.MONTH.chunk(months[-1].end))
    chunks = [ChunkKey(month, BASE) for month in months]
    state = table(
        *sized(*[30] * 4, chunk=chunks[0]),
        *sized(*[20] * 6, chunk=chunks[1]),
        *sized(*[30] * 4, chunk=chunks[2]),
    )
    planned = plan_of(MinorPlan, state, POLICY, NOW)
    assert [plan.chunk for plan in planned.chosen] == [chunks[1], chunks[0], chunks[2]]


def test_lines_with_one_reason_come_together() -> None:
    """Neighbouring intervals are one, whichever lines stood between them."""
    hot, few = ("major", "hot"), ("minor", "few")
    lines = [("3/4", *hot), ("1/2", *hot), ("1/2", *few), ("2/3", *hot), ("6/7", *hot)]
    assert joined(lines) == [("1/4", *hot), ("6/7", *hot), ("1/2", *few)]

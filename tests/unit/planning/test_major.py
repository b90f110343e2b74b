"""The major planner: when a region is cold and worth replacing, and how far it reaches."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.tables.rollup_kind import (
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.core.time import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    Granularity,
    GranularityOverride,
    Interval,
    parse_instant,
)
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    JANUARY,
    after,
    created,
    first,
)
from tests.unit.planning.one_kind import plan_of
from tests.unit.planning.test_minor import partitions, reasons, sized, table

POLICY = Policy(target_size=1000, min_segments=4)
COLD = BASE + 1441 * MINUTE_US
ROLLUP = Rollup(
    dimensions=("carrier",),
    metrics=(Metric(name="n", kind=MetricKind.COUNT),),
    query_granularity=QueryGranularity.DAY,
)


def core(*sizes: int, chunk: ChunkKey = CHUNK) -> tuple[Segment, ...]:
    """Return the core set that a major compaction made."""
    size = len(sizes)
    shards = (Shard.first_generation(p, core=size, base=size) for p in range(size))
    return tuple(
        replace(segment, shard=shard)
        for segment, shard in zip(sized(*sizes, chunk=chunk), shards, strict=True)
    )


def late(partition: int, of: int, size: int = 900) -> Segment:
    """Return what was appended beside a core set of ``of`` segments."""
    shard = Shard.first_generation(partition, core=of)
    return replace(first(partition, size=size), shard=shard)


def rolled(*segments: Segment) -> State:
    return after(created(replace(DEFINITION, kind=ROLLUP)), Appended(segments=segments))


def only(state: State, policy: Policy = POLICY, now: int = COLD) -> Plan:
    (plan,) = plan_of(MajorPlan, state, policy, now).chosen
    return plan


def test_a_cold_chunk_of_small_segments_is_replaced() -> None:
    """The region is the chunk, the lock its time, and the cut stays."""
    plan = only(table(*sized(300, 300, 300)))
    assert (plan.kind, plan.region, plan.granularity) == (MajorPlan.kind, JANUARY, None)
    assert (plan.outputs, plan.rows, plan.size) == (1, 30, 900)
    assert plan.reason == (
        "3 segments, 900 B -> about 1 in a new version, sorted by event time: 3 are small"
    )


def test_only_cold_chunks_are_replaced() -> None:
    """Neither what ended nor what was written a short while ago; the reason says which."""
    state = table(*sized(300, 300, 300))
    early = plan_of(MajorPlan, state, POLICY, BASE + 60 * MINUTE_US)
    assert early.chosen == ()
    assert "not cold: 60 min since that was written, of 1440" in reasons(early)
    hot = ChunkKey(Interval.parse("2026-01-01/2026-02-01"), BASE)
    running = plan_of(MajorPlan, table(*sized(300, 300, 300, chunk=hot)), POLICY, COLD)
    assert running.chosen == ()
    assert "not cold: not over yet, of 1440" in reasons(running)


@pytest.mark.parametrize(
    "segments",
    [
        sized(900, 900),
        core(10, 10, 10, 10),
        (*core(900), late(1, 1)),
        core(*[5000] * 2),
    ],
)
def test_nothing_to_gain_is_not_mentioned(segments: tuple[Segment, ...]) -> None:
    """Well-sized chunks, and what a major compaction made, however that came out, are left."""
    planned = plan_of(MajorPlan, table(*segments), POLICY, COLD)
    assert (planned.chosen, planned.skipped) == ((), ())


def test_oversized_segments_are_cut() -> None:
    """One segment of five times the target is worth it, unless a major compaction made it."""
    assert "1 are oversized" in only(table(first(0, size=5000))).reason


def test_rollup_is_made_perfect_once() -> None:
    """Whatever shows besides the core set of the newest version may hold rows of its groups."""
    assert "2 of 2 are not rolled up perfectly" in only(rolled(*sized(900, 900))).reason
    assert "1 of 2 are not rolled up perfectly" in only(rolled(*core(900), late(1, 1))).reason
    assert plan_of(MajorPlan, rolled(*core(900, 900)), POLICY, COLD).chosen == ()


def test_a_late_row_waits_before_it_is_rolled_up() -> None:
    """The clock starts with what there is to tidy, so a chunk is replaced once a day at most."""
    state = rolled(*core(900), replace(late(1, 1), created=COLD))
    planned = plan_of(MajorPlan, state, POLICY, COLD + 10 * MINUTE_US)
    assert planned.chosen == ()
    assert "10 min since that was written" in reasons(planned)
    assert only(state, now=COLD + 1440 * MINUTE_US)


def test_a_little_disorder_is_enough_in_a_cold_chunk() -> None:
    """A tenth that is not sorted is worth a major compaction, but no semi-major one."""
    policy = replace(POLICY, clustering="carrier")
    sorted_ = tuple(replace(s, clustering="carrier") for s in sized(900, 900, 900))
    plan = only(table(*sorted_, first(3, size=900)), policy)
    assert (plan.clustering, "25 % are not sorted by carrier" in plan.reason) == ("carrier", True)
    assert plan_of(MajorPlan, table(*sorted_), policy, COLD).chosen == ()


def hourly(*hours: int) -> State:
    """Return a table of hours with one well-sized segment each."""
    start = created(replace(DEFINITION, granularity=Granularity.HOUR))
    chunks = [
        ChunkKey(Interval(JANUARY.start + h * HOUR_US, JANUARY.start + (h + 1) * HOUR_US), BASE)
        for h in hours
    ]
    return after(start, *(Appended(segments=(first(0, size=900, chunk=c),)) for c in chunks))


def test_hours_are_cut_into_days_together() -> None:
    """Chunks of one day make one plan over the whole day; another day makes another."""
    policy = replace(POLICY, major_granularity="day")
    plans = plan_of(MajorPlan, hourly(0, 1, 23, 24), policy, COLD).chosen
    found = [(p.region, p.granularity, len(p.inputs)) for p in plans]
    assert sorted(found, key=str) == [
        (Interval(JANUARY.start, JANUARY.start + DAY_US), Granularity.DAY, 3),
        (Interval(JANUARY.start + DAY_US, JANUARY.start + 2 * DAY_US), Granularity.DAY, 1),
    ]


def month(text: str) -> Interval:
    return Granularity.MONTH.chunk(parse_instant(text))


WEEK = Granularity.WEEK.chunk(parse_instant("2018-01-29"))
JANUARY_18, FEBRUARY_18 = month("2018-01-01"), month("2018-02-01")


def weekly(*late: int) -> State:
    """Return a table of weeks, whose January 2018 was cut by month, and rows of February after."""
    start = after(created(replace(DEFINITION, granularity=Granularity.WEEK)))
    state = replace(start, overrides=(GranularityOverride(JANUARY_18, Granularity.MONTH),))
    recut = core(900, chunk=ChunkKey(JANUARY_18, BASE + 1))
    in_february = (
        replace(first(p, size=size, chunk=ChunkKey(WEEK, BASE)), time_min=FEBRUARY_18.start)
        for p, size in enumerate(late)
    )
    return after(state, Appended(segments=recut), Appended(segments=tuple(in_february)))


def test_a_week_that_sticks_into_a_month_is_planned_with_it() -> None:
    """January is cut as wanted, so it alone takes no region; the week at its end takes it along."""
    policy = replace(POLICY, major_granularity="month")
    assert plan_of(MajorPlan, weekly(), policy, COLD).chosen == ()
    plan = only(weekly(900), policy)
    assert plan.region == Interval(JANUARY_18.start, FEBRUARY_18.end)
    assert (plan.granularity, len(plan.inputs), plan.outputs) == (Granularity.MONTH, 2, 2)


def test_chunks_that_cross_are_cut_as_the_zone_is() -> None:
    """At one version the week would hide the end of January, so it becomes part of a month."""
    plan = only(weekly(9, 9, 9, 9))
    assert plan.region == Interval(JANUARY_18.start, FEBRUARY_18.end)
    assert plan.granularity is Granularity.MONTH
    assert "by month, sorted" in plan.reason


def test_a_region_over_the_budget_of_plans_has_its_own_reason() -> None:
    """The reason is given for the whole region, not for its first chunk."""
    policy = replace(POLICY, major_granularity="day", max_plans=1)
    planned = plan_of(MajorPlan, hourly(0, 5, 24, 30), policy, COLD)
    (left,) = planned.skipped
    (chosen,) = planned.chosen
    assert not left.chunk.interval.overlaps(chosen.interval)
    assert left.chunk.interval.end - left.chunk.interval.start == DAY_US


def test_what_is_cut_so_already_stays() -> None:
    """The granularity is given only where it changes something."""
    policy = replace(POLICY, major_granularity="month")
    assert plan_of(MajorPlan, table(*sized(900, 900)), policy, COLD).chosen == ()
    assert only(table(*sized(90, 90, 90)), policy).granularity is None


def test_days_may_be_cut_into_hours() -> None:
    """A finer cut needs no more than its chunk."""
    plan = only(table(*sized(900, 900)), replace(POLICY, major_granularity="day"))
    assert (plan.region, plan.granularity) == (JANUARY, Granularity.DAY)
    assert (plan.rows, plan.outputs) == (20, 20)  # of 31 days, 20 at most have rows


def test_a_pending_major_keeps_all_others_out() -> None:
    """Its region gets no other plan of any kind; other regions do."""
    february = ChunkKey(Interval.parse("2013-02-01/2013-03-01"), CHUNK.version)
    state = table(*sized(300, 300, 300))
    pending = after(state, PlanRequested(plan=only(state)))
    more = Appended(
        segments=(
            *(first(p, size=9) for p in range(3, 9)),
            *sized(9, 9, 9, 9, chunk=february),
        )
    )
    planned = plan_all(after(pending, more), POLICY, BASE + 60 * MINUTE_US)
    assert [plan.chunk for plan in planned.chosen] == [february]
    assert f"claimed by pending plan {only(state).id}" in reasons(planned)


def test_a_due_region_drains() -> None:
    """While others are pending in it, nothing new is planned; afterwards the major one is."""
    state = table(*sized(*[90] * 8))
    minor = plan_all(state, replace(POLICY, major="off"), COLD).chosen[0]
    planned = plan_all(after(state, PlanRequested(plan=minor)), POLICY, COLD)
    assert planned.chosen == ()
    assert f"held back: major compaction is due, once plan {minor.id}" in reasons(planned)


def test_the_larger_one_goes_first_if_there_is_room() -> None:
    """A due region is replaced instead of being joined; over budget it is joined meanwhile."""
    january, february = sized(*[90] * 8), Interval.parse("2013-02-01/2013-03-01")
    other = sized(*[90] * 8, chunk=ChunkKey(february, CHUNK.version))
    state = table(*january, *other)
    planned = plan_all(state, POLICY, COLD)
    assert [plan.kind for plan in planned.chosen] == [MajorPlan.kind] * 2
    assert reasons(planned).count(f"plan {planned.chosen[0].id} does it") == 1
    tight = plan_all(state, replace(POLICY, max_plans=1), COLD)
    assert [plan.kind for plan in tight.chosen] == [MajorPlan.kind]
    small = plan_all(state, replace(POLICY, max_plan_bytes=719), COLD)
    assert {plan.kind for plan in small.chosen} <= {MinorPlan.kind}
    assert "raise max_plan_bytes" in reasons(small)


def test_the_hot_end_is_not_replaced() -> None:
    """Major compaction leaves alone, by reason, what reaches into the time of the skip offset."""
    policy = replace(POLICY, skip_offset_minutes=1440)
    planned = plan_of(MajorPlan, table(*sized(300, 300, 300)), policy, COLD)
    assert planned.chosen == ()
    assert "3 are small, but ends less than 1440 min before the latest event time" in reasons(
        planned
    )


def test_off_means_off() -> None:
    """Switched off, nothing is planned and nothing needs a reason."""
    planned = plan_of(MajorPlan, table(*sized(9, 9, 9)), replace(POLICY, major="off"), COLD)
    assert (planned.chosen, planned.skipped) == ((), ())


def test_ids_tell_purposes_apart() -> None:
    """Equal inputs to be sorted or cut in another way are another plan."""
    state = table(*sized(300, 300, 300))
    policies = [
        POLICY,
        replace(POLICY, clustering="carrier"),
        replace(POLICY, major_granularity="day"),
    ]
    assert len({only(state, policy).id for policy in policies}) == 3
    assert only(state).id.startswith("major-20130101-")
    assert partitions(plan_of(MajorPlan, state, POLICY, COLD)) == [[0, 1, 2]]

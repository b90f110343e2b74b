"""A place where a run gained little rests, longer each time, until new rows are written there."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.log.work import Work
from airflow_provider_segtable.core.segment import Shard
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Instant
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_plan import Code, plan_fleet
from airflow_provider_segtable.planning.fleet.objectives import Measure
from airflow_provider_segtable.planning.fleet.rests import LITTLE, gained, rests_until, runs_of
from airflow_provider_segtable.planning.fleet.table_look import look_of
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.support.builders import BASE, after, created, first, merged, minor_plan
from tests.support.completions import completed

SEGMENTS = tuple(first(partition) for partition in range(12))
PLAN = minor_plan(SEGMENTS[:11])  # removes ten files
END = BASE + HOUR_US
FLEET = read_fleet("[groups.g]\ntables = ['*']", "fleet.toml")


def work(*, written: int = 11, size: int = 11_000, after: float = 5.0, reordered: int = 0) -> Work:
    """Return the work of a run over files that overlap five times; by default it gained nothing."""
    return Work(
        files_read=11,
        bytes_read=11_000,
        files_written=written,
        bytes_written=size,
        overlap_before=5.0,
        overlap_after=after,
        reordered=reordered,
    )


def until(*runs: PlanState, new: int = 0, minutes: float = 60) -> Instant | None:
    """Return the rest of a plan of which so many segments were written after the runs."""
    segments = tuple(
        replace(each, created=END + 1) if at < new else each for at, each in enumerate(SEGMENTS)
    )
    state = after(created(), Appended(segments=segments))
    policy = Policy(retry_aborted_minutes=minutes)
    return rests_until(state, policy, runs_of(runs), minor_plan(segments))


def run(n: int = 1, found: Work | None = None, end: Instant = END) -> PlanState:
    """Return a completed run; by default one that gained nothing."""
    return completed(PLAN, n=n, end=end, work=found or work())


@pytest.mark.parametrize(
    ("found", "share"),
    [
        (work(), 0.0),
        (work(written=1), 1.0),
        (work(written=6), 0.5),
        (work(after=2.0), 0.75),
        (work(size=8_250), 0.25),
        (work(reordered=5_500), 0.5),
        (work(written=22, size=22_000, after=9.0), 0.0),
    ],
)
def test_a_gain_is_the_best_of_its_shares(found: Work, share: float) -> None:
    """Of files, overlap, bytes and order; a run that made things worse gained nothing."""
    assert gained(run(found=found)) == pytest.approx(share)


def test_a_gain_that_nothing_tells_is_unknown() -> None:
    """No file was to be removed, and none overlapped; nor is it known of older segtables."""
    one = replace(PLAN, inputs=PLAN.inputs[:1])
    assert gained(completed(one)) is None
    assert gained(replace(run(), work=None)) is None


def test_a_rest_doubles_with_each_run_in_a_row_up_to_a_day() -> None:
    """It begins as long as one after an abort; a run that gained enough ends the row."""
    assert until() is None
    assert until(run()) == END + HOUR_US
    assert until(run(1), run(2)) == END + 2 * HOUR_US
    assert until(run(3), run(1, work(written=1)), run(2)) == END + 2 * HOUR_US
    assert until(run(1), run(2, work(written=1))) is None
    assert until(*(run(n) for n in range(40))) == END + DAY_US
    assert until(run(), minutes=0) == END
    assert until(run(found=work(reordered=round(11_000 * LITTLE)))) is None


def test_new_rows_end_a_rest() -> None:
    """A quarter of the next plan's bytes; fewer do not."""
    assert until(run(), new=2) == END + HOUR_US
    assert until(run(), new=3) is None


def test_a_planner_leaves_a_place_where_a_run_made_as_many_files_as_it_read() -> None:
    """By the events of the log alone; once the rest is over, the plan begins."""
    inputs = SEGMENTS[:4]
    plan = minor_plan(inputs)
    shard = Shard(partition=32768, root_start=0, root_end=4, minor_version=1, group_size=4)
    outputs = tuple(
        replace(merged(32768 + at, [each]), shard=replace(shard, partition=32768 + at))
        for at, each in enumerate(inputs)
    )
    start = PlanInflight(
        plan_id=plan.id,
        attempt="a",
        token=FencingToken("e", 1),
        outputs=tuple(each.id for each in outputs),
    )
    done = PlanCompleted(plan_id=plan.id, attempt="a", segments=outputs)
    state = after(created(), Appended(segments=inputs), PlanRequested(plan=plan), start, done)
    policy = Policy(min_segments=2, semi_major="off")
    planned = plan_all(state, policy, state.time)
    look = look_of("t", state, policy, planned, Measure(), (), state.time)
    (left,) = plan_fleet(FLEET, [look], state.time).left
    assert (left.code, left.until) == (Code.RESTING, state.time + HOUR_US)
    assert plan_fleet(FLEET, [look], state.time + HOUR_US).left == ()


def test_runs_of_another_kind_time_or_bucket_are_no_reason_to_rest() -> None:
    """The place of a plan is all three."""
    elsewhere = replace(PLAN, chunk=replace(PLAN.chunk, bucket=3))
    assert until(completed(elsewhere, end=END, work=work())) is None

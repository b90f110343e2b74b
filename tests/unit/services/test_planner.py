"""The planner run: idempotent requests, the dead and the abandoned, dry runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import LockLost, SchemaMismatch
from airflow_provider_segtable.core.locks import FencingToken, Generation, LockRequest, Mode
from airflow_provider_segtable.core.log.families.plan_events import PlanInflight, PlanYielded
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.services.attempt import Done, in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import PlannerRun, plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.append import AppendTicket, append
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.support.clock import FakeClock
from tests.unit.services.conftest import rows


def clock_of(ports: TableContext) -> FakeClock:
    assert isinstance(ports.clock, FakeClock)
    return ports.clock


def test_two_planners_request_once(ports: TableContext, other: TableContext) -> None:
    """A plan's id is a function of its inputs: the second planner launches the same runs."""
    first, second = plan_table(ports), plan_table(other)
    assert [x.plan_id for x in first.launches] == [x.plan_id for x in second.launches]
    assert first.launches == second.launches
    assert len(Table(ports).state().plans) == 2


def test_dry_run_writes_nothing_and_needs_no_coordinator(ports: TableContext) -> None:
    """The dry run is the same answer, with nothing in the log."""
    version = Table(ports).state().n
    dry = plan_table(replace(ports, optional_coordinator=None), dry_run=True)
    assert Table(ports).state().n == version
    wet = plan_table(ports)
    assert [x.plan_id for x in dry.launches] == [x.plan_id for x in wet.launches]


def test_running_plans_are_not_launched_again(ports: TableContext, other: TableContext) -> None:
    """A plan whose worker is alive is named with its holder, not launched."""
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    seen = []

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        seen.append(plan_table(other))
        yield from in_process(ports.files)(jobs)

    compact(ports, plans, execute)
    assert seen[0].launches == ()
    assert seen[0].running == dict.fromkeys(plans, "first")


def test_dead_worker_gets_a_new_run(ports: TableContext) -> None:
    """After a failed attempt the plan is launched again, by its newest event and attempt."""
    before = plan_table(ports).launches
    compact(ports, [launch.plan_id for launch in before], lambda _: iter(()))
    after = plan_table(ports).launches
    assert {x.plan_id for x in after} == {x.plan_id for x in before}
    assert {x.attempts for x in before} == {0}
    assert {x.attempts for x in after} == {1}
    assert min(x.event for x in after) > max(x.event for x in before)


def test_an_unclaimed_launch_stays_the_same(ports: TableContext) -> None:
    """However late the planner runs again: whoever emits it knows it by that."""
    now = plan_table(ports).launches
    clock_of(ports).advance(600)
    assert plan_table(ports).launches == now


def test_hopeless_plan_is_aborted_and_rests(ports: TableContext) -> None:
    """After ``max_attempts`` dead workers a plan is given up, with the reason, for a while."""
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    for _ in range(2):
        compact(ports, plans, lambda _: iter(()))
    run = plan_table(ports)
    assert set(run.aborted) == set(plans)
    assert run.launches == ()
    assert any("rests 60 min" in skipped.reason for skipped in run.skipped)
    clock_of(ports).advance(3700)
    assert {launch.plan_id for launch in plan_table(ports).launches} == set(plans)


def test_abandoned_ids_are_voided(
    ports: TableContext, other: TableContext, service: MemoryService
) -> None:
    """A writer that died leaves a hole; the planner voids it, and the neighbours are joined."""

    def die(_: AppendTicket) -> list[object]:
        Table(ports).append(rows(9))
        service.expire(other.coordinator.session)  # type: ignore[attr-defined]
        raise LockLost("died")

    chunk = Table(ports).state().timeline.visible_chunks()[0]
    with pytest.raises(LockLost):
        append(other, lambda _: ({chunk.interval: 1}, die), commit_id="dead")  # type: ignore[arg-type]
    assert Table(ports).state().id_space(chunk, Generation.FIRST).holes == {4}
    run = plan_table(ports)
    assert [str(voided) for voided in run.voided] == [str(chunk.segment(4))]
    plans = [launch.plan_id for launch in run.launches]
    compact(ports, plans, in_process(ports.files))
    assert len(Table(ports).state().timeline.visible_groups(chunk)) == 1


def test_ids_of_a_living_writer_are_left_alone(ports: TableContext, other: TableContext) -> None:
    """A slow append is not taken for a dead one."""
    chunk = Table(ports).state().timeline.visible_chunks()[0]
    seen = []

    def slow(_: AppendTicket) -> list[object]:
        Table(ports).append(rows(9))
        seen.append(plan_table(ports))
        raise LockLost("enough")

    with pytest.raises(LockLost):
        append(other, lambda _: ({chunk.interval: 1}, slow), commit_id="slow")  # type: ignore[arg-type]
    assert seen[0].voided == ()


def test_giving_way_is_not_dying(ports: TableContext) -> None:
    """Attempts that were revoked do not count as dead workers, and the planner names them."""
    (plan, *_) = [launch.plan_id for launch in plan_table(ports).launches]
    for turn in range(3):
        state = Table(ports).state()
        token = FencingToken("e", turn)
        start = PlanInflight(plan_id=plan, attempt=f"{turn}", token=token, outputs=())
        commit(ports, state, Change(action=start, commit_id=f"start-{turn}"))
        gave_way = PlanYielded(plan_id=plan, attempt=f"{turn}", reason="an ingest came")
        commit(ports, state, Change(action=gave_way, commit_id=f"yield-{turn}"))
    run = plan_table(ports)
    assert run.aborted == {}
    assert run.yielded == {plan: "yielded 3 times, last: an ingest came"}
    assert {launch.plan_id: launch.yields for launch in run.launches}[plan] == 3


class Interrupted(FakeClock):
    """A clock that does something else while somebody sleeps."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        """Let the others work."""
        self.meanwhile()
        super().sleep(seconds)


def test_who_waits_for_locks_is_alive(ports: TableContext, service: MemoryService) -> None:
    """A major compaction that waits for others' locks is not launched a second time."""
    (major, *_) = request(ports, "major")
    wanted = LockRequest(
        table="t",
        group="first",
        purpose="something else",
        holder="somebody",
        mode=Mode.REPLACE,
        intervals=(major.plan.interval,),
    )
    lease = ports.coordinator.acquire(wanted, wait_s=0)
    seen: list[PlannerRun] = []

    def look() -> None:
        seen.append(plan_table(ports))
        lease.release()

    waiting = replace(wanted, group="second", purpose=major.plan.id, holder="patient")
    MemoryCoordinator(Interrupted(look), service).acquire(waiting, wait_s=60).release()
    assert seen[0].running == {major.plan.id: "patient"}
    assert major.plan.id not in {launch.plan_id for launch in seen[0].launches}
    assert major.plan.id in {launch.plan_id for launch in plan_table(ports).launches}


def test_an_order_of_unknown_columns_is_refused(ports: TableContext) -> None:
    """A policy that could never be carried out is named before anything is requested."""
    version = Table(ports).state().n
    with pytest.raises(SchemaMismatch, match="no column 'carrier' for the clustering"):
        plan_table(ports, policy=Policy(clustering="carrier"))
    assert Table(ports).state().n == version

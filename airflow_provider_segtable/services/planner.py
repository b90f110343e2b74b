"""One planner run over a table: settle what is stuck, plan what pays, say what to launch.

1. Ids whose writer holds no lock any more are voided, so that they never break adjacency.
2. A pending plan that no live worker holds is launched again; after ``max_attempts`` dead
   workers it is aborted, with the reason.
3. What ``planning`` chooses is committed as ``PlanRequested``. A plan's id is a function of its
   inputs: two planners at once request it once.
4. Every launch has a deterministic run id (from the plan, its request and its attempts), so
   emitting it twice makes one DAG run.

Liveness comes from the coordinator: a worker's lock lives as long as its session. The log is
read first and the locks second, so a worker that finishes in between is never taken for dead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.events import PlanAborted, PlanRequested, Voided
from airflow_provider_segtable.core.interval import Instant
from airflow_provider_segtable.core.lockbox import Generation, Lock
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.state import PlanState, State
from airflow_provider_segtable.planning.minor import plan_minor
from airflow_provider_segtable.planning.policy import MINUTE_US, Policy
from airflow_provider_segtable.planning.reasons import Skipped
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.log import EventLog
from airflow_provider_segtable.table.ports import TablePorts

RELAUNCH_AFTER_MINUTES = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A plan to be carried out now; ``run_id`` is fit for a DAG run."""

    plan_id: str
    kind: str
    run_id: str
    reason: str
    segments: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRun:
    """What a planner run did and found; the dry run is the same object."""

    version: int
    launches: tuple[Launch, ...]
    skipped: tuple[Skipped, ...]
    running: Mapping[str, str]
    aborted: tuple[str, ...] = ()
    voided: tuple[SegmentId, ...] = ()


def plan_table(
    ports: TablePorts, *, policy: Policy | None = None, dry_run: bool = False
) -> PlannerRun:
    """Run the planner over one table.

    Args:
        ports: the table's ports.
        policy: overrides the one in the table's properties.
        dry_run: find out everything, write nothing; needs no coordinator.
    """
    state = EventLog(ports.storage).load()
    policy = policy or Policy.read(state.table.properties)
    blind = dry_run and ports.coordinator_ is None
    locks = () if blind else ports.coordinator.locks(state.table.table_id)
    abandoned = () if blind else _abandoned(state, locks)
    aborted: tuple[str, ...] = ()
    if not dry_run:
        state = _void(ports, state, abandoned)
        state, aborted = _abort_hopeless(ports, state, policy, locks)
    now = ports.clock.now()
    planned = plan_minor(state, policy, now)
    stalled = _stalled(state, locks)
    if not dry_run:
        for plan in planned.chosen:
            change = Change(
                action=PlanRequested(plan=plan), commit_id=f"request-{ports.chance.token()}"
            )
            outcome = commit(ports, state, change)
            state = outcome.state if isinstance(outcome, Committed) else state
        state = EventLog(ports.storage).refresh(state)
    chosen = [state.plans[p.id] for p in planned.chosen if p.id in state.plans]
    fresh = [known for known in chosen if known.status.pending]
    launches = [_launch(state, known, now) for known in (*stalled, *fresh)]
    if dry_run:
        launches += [
            Launch(
                plan_id=p.id,
                kind=p.kind,
                run_id="",
                reason=p.reason,
                segments=len(p.inputs),
                size=p.size,
            )
            for p in planned.chosen
        ]
    return PlannerRun(
        version=state.n,
        launches=tuple({launch.plan_id: launch for launch in launches}.values()),
        skipped=planned.skipped,
        running={lock.purpose: lock.holder for lock in locks if lock.purpose in state.plans},
        aborted=aborted,
        voided=abandoned,
    )


def run_id(table: str, known: PlanState, now: Instant) -> str:
    """Return the run id of a plan's next launch.

    It names the request event and the attempts so far, so one launch has one id; a launch that
    never got as far as its first event may be emitted again after some minutes.
    """
    since_us = max(now - known.changed_at, 0)
    turn = int(since_us // (RELAUNCH_AFTER_MINUTES * MINUTE_US))
    return f"{known.plan.kind}__{table}__{known.plan.id}__{known.last_n}.{known.attempts}.{turn}"


def _launch(state: State, known: PlanState, now: Instant) -> Launch:
    return Launch(
        plan_id=known.plan.id,
        kind=known.plan.kind,
        run_id=run_id(state.table.name, known, now),
        reason=known.plan.reason,
        segments=len(known.plan.inputs),
        size=known.plan.size,
    )


def _abandoned(state: State, locks: tuple[Lock, ...]) -> tuple[SegmentId, ...]:
    alive = {segment_id for lock in locks for segment_id in lock.allocated}
    holes = (
        chunk.segment(partition)
        for (chunk, generation), space in state.ids.items()
        if generation is Generation.FIRST
        for partition in sorted(space.holes)
    )
    return tuple(hole for hole in holes if hole not in alive)


def _void(ports: TablePorts, state: State, abandoned: tuple[SegmentId, ...]) -> State:
    if not abandoned:
        return state
    action = Voided(ids=abandoned, reason="no live writer holds them")
    change = Change(action=action, commit_id=f"void-{ports.chance.token()}")
    outcome = commit(ports, state, change)
    return outcome.state if isinstance(outcome, Committed) else state


def _abort_hopeless(
    ports: TablePorts, state: State, policy: Policy, locks: tuple[Lock, ...]
) -> tuple[State, tuple[str, ...]]:
    aborted: list[str] = []
    for known in _stalled(state, locks):
        if known.attempts < policy.max_attempts:
            continue
        reason = f"{known.attempts} workers died over it, the last was {known.author}"
        action = PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason=reason)
        outcome = commit(
            ports, state, Change(action=action, commit_id=f"abort-{ports.chance.token()}")
        )
        if isinstance(outcome, Committed):
            state = outcome.state
            aborted.append(known.plan.id)
    return state, tuple(aborted)


def _stalled(state: State, locks: tuple[Lock, ...]) -> tuple[PlanState, ...]:
    held = {lock.purpose for lock in locks}
    return tuple(known for known in state.pending_plans() if known.plan.id not in held)

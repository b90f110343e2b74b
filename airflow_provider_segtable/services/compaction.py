"""Compaction: plans that are in the log, carried out.

1. For each plan: lock its inputs and allocate its outputs in one step; commit ``PlanInflight``
   (which supersedes any earlier attempt); run the kernel; commit ``PlanCompleted``.
2. Started twice, a plan is finished once: the second finds the locks held, or the plan done, and
   says so. A plan whose worker died is simply run again.
3. The lease is checked before every put; losing it stops the commit. A worker that missed the
   news is stopped by the log: its attempt is no longer the plan's newest.
4. Files are deleted only after a certain failure. An attempt that died leaves files under names
   nobody else uses and ids nobody else gets.
5. Many plans run in one call, so that one Spark application pays its start-up once. One plan's
   failure does not stop the others.

Source of the ideas: Druid (locks on inputs and outputs), Hudi (requested/inflight/completed).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    CoordinationError,
    LockTimeout,
    SegtableError,
)
from airflow_provider_segtable.core.events import PlanAborted, PlanCompleted, PlanInflight
from airflow_provider_segtable.core.lockbox import Allocation, Generation, LockRequest
from airflow_provider_segtable.core.plan import CompactionPlan
from airflow_provider_segtable.core.rebase import Conflict
from airflow_provider_segtable.core.segment import Segment, SegmentId, Shard
from airflow_provider_segtable.core.state import PlanStatus, State
from airflow_provider_segtable.data.minor import MinorJob
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.services.execution import Done, Execute
from airflow_provider_segtable.table.append import check_clock
from airflow_provider_segtable.table.committer import (
    Change,
    Committed,
    Unknown,
    commit,
    commit_files,
)
from airflow_provider_segtable.table.log import EventLog
from airflow_provider_segtable.table.ports import TablePorts

COMPACTION_PRIORITY = 25


class Ended(StrEnum):
    """How the run of one plan ended; only FAILED needs anybody's attention."""

    COMPLETED = "completed"
    DONE_ALREADY = "done already"
    RUNNING_ELSEWHERE = "running elsewhere"
    OVERTAKEN = "overtaken"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What became of one plan; sizes in bytes."""

    plan_id: str
    ended: Ended
    message: str
    segments_in: int = 0
    segments_out: int = 0
    rows: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    plan: CompactionPlan
    lease: Lease
    job: MinorJob
    state: State


Report = Callable[[PlanResult], None]


def compact(
    ports: TablePorts,
    plan_ids: Sequence[str],
    execute: Execute,
    *,
    wait_s: float = 0.0,
    report: Report = lambda _: None,
) -> tuple[PlanResult, ...]:
    """Carry out plans that are in the log.

    Args:
        ports: the table's ports.
        plan_ids: which plans.
        execute: runs the kernels.
        wait_s: how long to wait for locks that others hold.
        report: told each result as it comes, for progress.

    Returns:
        One result a plan, in the order they ended.
    """
    results: list[PlanResult] = []
    attempts: list[_Attempt] = []

    def ended(result: PlanResult) -> None:
        results.append(result)
        report(result)

    try:
        for plan_id in dict.fromkeys(plan_ids):
            begun = _begin(ports, plan_id, wait_s)
            if isinstance(begun, PlanResult):
                ended(begun)
            else:
                attempts.append(begun)
        for result in _run(ports, attempts, execute):
            ended(result)
    finally:
        for attempt in attempts:
            attempt.lease.release()
    return tuple(results)


def _begin(ports: TablePorts, plan_id: str, wait_s: float) -> _Attempt | PlanResult:
    state = EventLog(ports.storage).load()
    known = state.plans.get(plan_id)
    if known is None:
        return _not_remembered(ports, plan_id)
    if not known.status.pending:
        return _not_pending(plan_id, state)
    try:
        lease = ports.coordinator.acquire(_request(ports, known.plan, state), wait_s=wait_s)
        check_clock(ports, lease)
    except LockTimeout as held:
        return PlanResult(plan_id=plan_id, ended=Ended.RUNNING_ELSEWHERE, message=str(held))
    except SegtableError as error:
        return _failed(plan_id, error)
    try:
        return _start(ports, known.plan, lease, state)
    except SegtableError as error:
        lease.release()
        return _failed(plan_id, error)
    except BaseException:
        lease.release()
        raise


def _not_remembered(ports: TablePorts, plan_id: str) -> PlanResult:
    """State keeps the last finished plans only; the log knows them all."""
    for event in EventLog(ports.storage).events(0):
        action = event.action
        if isinstance(action, PlanCompleted | PlanAborted) and action.plan_id == plan_id:
            done = isinstance(action, PlanCompleted)
            return PlanResult(
                plan_id=plan_id,
                ended=Ended.DONE_ALREADY if done else Ended.OVERTAKEN,
                message=f"plan {plan_id} ended long ago: {event.kind} is event {event.n}",
            )
    why = f"{ports.uri} has no plan {plan_id}: `segtable plan` lists the pending ones"
    return PlanResult(plan_id=plan_id, ended=Ended.FAILED, message=why)


def _not_pending(plan_id: str, state: State) -> PlanResult:
    known = state.plans[plan_id]
    note = f" ({known.note})" if known.note else ""
    return PlanResult(
        plan_id=plan_id,
        ended=Ended.DONE_ALREADY if known.status is PlanStatus.COMPLETED else Ended.OVERTAKEN,
        message=f"plan {plan_id} was {known.status} by {known.author}, event {known.last_n}{note}",
    )


def _request(ports: TablePorts, plan: CompactionPlan, state: State) -> LockRequest:
    outputs = Allocation(
        chunk=plan.chunk,
        generation=Generation.LATER,
        count=plan.outputs,
        at_least=state.id_space(plan.chunk, Generation.LATER).next,
    )
    return LockRequest(
        table=state.table.table_id,
        group=f"{plan.id}-{ports.chance.token()}",
        purpose=plan.id,
        holder=ports.author,
        segments=frozenset(plan.inputs),
        allocate=(outputs,),
        priority=COMPACTION_PRIORITY,
    )


def _start(
    ports: TablePorts, plan: CompactionPlan, lease: Lease, state: State
) -> _Attempt | PlanResult:
    attempt = ports.chance.token()
    action = PlanInflight(
        plan_id=plan.id, attempt=attempt, token=lease.token, outputs=lease.allocated
    )
    change = Change(action=action, commit_id=f"inflight-{attempt}", guard=lease.check)
    outcome = commit(ports, state, change)
    if isinstance(outcome, Committed):
        job = _job(ports, plan, lease.allocated, outcome.state, attempt)
        return _Attempt(plan=plan, lease=lease, job=job, state=outcome.state)
    lease.release()
    return _not_committed(plan.id, outcome)


def _job(
    ports: TablePorts,
    plan: CompactionPlan,
    outputs: tuple[SegmentId, ...],
    state: State,
    attempt: str,
) -> MinorJob:
    minor = state.timeline.max_minor(plan.chunk, plan.root_start, plan.root_end) + 1
    shards = (
        Shard(
            partition=output.partition,
            root_start=plan.root_start,
            root_end=plan.root_end,
            minor_version=minor,
            group_size=len(outputs),
        )
        for output in outputs
    )
    inputs = tuple(s for i in plan.inputs if (s := state.timeline.get(i)))
    return MinorJob(
        uri=ports.uri,
        storage_options=dict(ports.storage_options),
        inputs=inputs,
        outputs=tuple(zip(outputs, shards, strict=True)),
        created=ports.clock.now(),
        time_column=state.table.time_column,
        attempt=attempt,
    )


def _run(ports: TablePorts, attempts: Sequence[_Attempt], execute: Execute) -> Iterator[PlanResult]:
    if not attempts:
        return
    left = set(range(len(attempts)))
    for done in execute([attempt.job for attempt in attempts]):
        left.discard(done.index)
        yield _finish(ports, attempts[done.index], done)
    for index in sorted(left):
        lost = Done(index=index, error="its job ended without a result")
        yield _finish(ports, attempts[index], lost)


def _finish(ports: TablePorts, attempt: _Attempt, done: Done) -> PlanResult:
    plan = attempt.plan
    try:
        if done.error is not None:
            return PlanResult(plan_id=plan.id, ended=Ended.FAILED, message=done.error)
        return _publish(ports, attempt, done.segments)
    except SegtableError as error:
        return _failed(plan.id, error)
    finally:
        attempt.lease.release()


def _publish(ports: TablePorts, attempt: _Attempt, segments: tuple[Segment, ...]) -> PlanResult:
    plan = attempt.plan
    change = Change(
        action=PlanCompleted(plan_id=plan.id, attempt=attempt.job.attempt, segments=segments),
        commit_id=f"completed-{attempt.job.attempt}",
        guard=attempt.lease.check,
    )
    outcome = commit_files(ports, attempt.state, change, segments)
    if not isinstance(outcome, Committed):
        return _not_committed(plan.id, outcome)
    return PlanResult(
        plan_id=plan.id,
        ended=Ended.COMPLETED,
        message=f"event {outcome.n}: {plan.reason}",
        segments_in=len(plan.inputs),
        segments_out=len(segments),
        rows=sum(segment.rows for segment in segments),
        size=sum(segment.size for segment in segments),
    )


def _not_committed(plan_id: str, outcome: Conflict | Unknown) -> PlanResult:
    if isinstance(outcome, Conflict):
        won = "" if outcome.winner is None else f" (event {outcome.winner} won)"
        return PlanResult(plan_id=plan_id, ended=Ended.OVERTAKEN, message=f"{outcome.reason}{won}")
    unknown = CommitUnknown(f"the reply to event {outcome.n} was lost; run the plan again")
    return _failed(plan_id, unknown)


def _failed(plan_id: str, error: SegtableError) -> PlanResult:
    kind = "coordination" if isinstance(error, CoordinationError) else type(error).__name__
    return PlanResult(plan_id=plan_id, ended=Ended.FAILED, message=f"{kind}: {error}")

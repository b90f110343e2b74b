"""Compaction: execute plans that are in the log.

1. For each plan: acquire its locks and commit its first event (``services.compaction.attempt``),
   run its stages of jobs (``services.compaction.stages``), commit ``PlanCompleted``.
2. If a plan is started twice, it completes once: the second worker finds the locks held or the
   plan completed, and reports that. If a worker died, its plan is run again.
3. Before it commits, an attempt enters the publishing section of its lock; from then on it cannot
   be revoked. The lease is checked before every put; a lost lease stops the commit. If a worker
   misses the loss, the log refuses its commit: its attempt is no longer the plan's newest.
4. A revoked attempt commits ``PlanYielded`` and releases its locks; the plan stays pending. So does
   an index build that pauses.
5. Files are deleted only after a certain failure. The files of a dead attempt have unique names
   and ids that are never reused.
6. One call runs many plans, so that a Spark application starts only once: the jobs of all plans
   are submitted together, stage by stage. A failed plan does not stop the others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    CoordinationError,
    LockRevoked,
    LockTimeout,
    SegtableError,
)
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Event, PlanAborted, PlanCompleted
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.sort.sorting import discard
from airflow_provider_segtable.services.compaction.attempt import Attempt, begin, give_way
from airflow_provider_segtable.services.compaction.execution import (
    Done,
    End,
    Execute,
    Job,
    Paused,
    Stages,
    Stop,
)
from airflow_provider_segtable.services.compaction.publication import complete
from airflow_provider_segtable.services.compaction.stages import stages_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Committed, Unknown
from airflow_provider_segtable.table.log.event_log import EventLog


class Ended(StrEnum):
    """The outcome of one plan's run; only FAILED needs attention."""

    COMPLETED = "completed"
    DONE_ALREADY = "done already"
    RUNNING_ELSEWHERE = "running elsewhere"
    OVERTAKEN = "overtaken"
    YIELDED = "yielded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The result of one plan's run; sizes in bytes."""

    plan_id: str
    ended: Ended
    message: str
    segments_in: int = 0
    segments_out: int = 0
    rows: int = 0
    size: int = 0


@dataclass(slots=True)
class _Running:
    """An attempt during a stage: its jobs and their results."""

    attempt: Attempt
    stages: Stages
    jobs: Sequence[Job] = ()
    values: dict[int, Any] = field(default_factory=dict)
    error: str | None = None
    stage: int = 0

    def tell(self) -> None:
        """Report the progress at the lock, for ``segtable locks``."""
        done = f"{len(self.values)} of {len(self.jobs)} jobs"
        self.attempt.lease.report({"stage": f"{self.stage}: {self.jobs[0].title}", "done": done})


Report = Callable[[PlanResult], None]


def compact(
    ports: TableContext,
    plan_ids: Sequence[str],
    execute: Execute,
    *,
    wait_s: float = 0.0,
    parallelism: int = 2,
    timeout_s: float | None = None,
    report: Report = lambda _: None,
) -> tuple[PlanResult, ...]:
    """Execute plans that are in the log.

    Args:
        ports: the table's ports.
        plan_ids: the plans to execute.
        execute: runs the kernel jobs.
        wait_s: how long to wait for locks that other processes hold.
        parallelism: approximate number of concurrent jobs.
        timeout_s: after this time an index build pauses; the table's setting if None.
        report: called with each result, for progress.

    Returns:
        One result per plan, in the order in which they ended.
    """
    results: list[PlanResult] = []
    begun: list[_Running] = []

    def ended(result: PlanResult) -> None:
        results.append(result)
        report(result)

    try:
        for plan_id in dict.fromkeys(plan_ids):
            attempt = _begin(ports, plan_id, wait_s)
            if isinstance(attempt, PlanResult):
                ended(attempt)
            else:
                stages = stages_of(ports, attempt, parallelism=parallelism, timeout_s=timeout_s)
                begun.append(_Running(attempt, stages))
        for result in _run(ports, begun, execute):
            ended(result)
    finally:
        for running in begun:
            running.stages.close()
            running.attempt.lease.release()
    return tuple(results)


def _begin(ports: TableContext, plan_id: str, wait_s: float) -> Attempt | PlanResult:
    log = ports.log
    state = log.load()
    over = ending(plan_id, state, whole(log))
    if over:
        return over
    try:
        begun = begin(ports, state.plans[plan_id], state, wait_s=wait_s)
    except LockTimeout as held:
        return PlanResult(plan_id=plan_id, ended=Ended.RUNNING_ELSEWHERE, message=str(held))
    except LockRevoked as revoked:  # no attempt is in the log yet: nothing to record
        return PlanResult(plan_id=plan_id, ended=Ended.YIELDED, message=str(revoked))
    except SegtableError as error:
        return _failed(plan_id, error)
    return begun if isinstance(begun, Attempt) else _not_committed(plan_id, begun)


def ending(plan_id: str, state: State, events: Iterable[Event]) -> PlanResult | None:
    """Return the outcome of a plan, or None while it is pending.

    Args:
        plan_id: the plan.
        state: the newest state of the table.
        events: the log (``whole``); read only if the state no longer contains the plan.
    """
    known = state.plans.get(plan_id)
    if known is None:
        return _forgotten(plan_id, state, events)
    if known.status.pending:
        return None
    note = f" ({known.note})" if known.note else ""
    return PlanResult(
        plan_id=plan_id,
        ended=Ended.DONE_ALREADY if known.status is PlanStatus.COMPLETED else Ended.OVERTAKEN,
        message=f"plan {plan_id} was {known.status} by {known.author}, event {known.last_n}{note}",
    )


def _forgotten(plan_id: str, state: State, events: Iterable[Event]) -> PlanResult:
    """Search the log for the outcome of a plan; a state keeps only the last finished plans.

    An aborted plan may have been requested again, so the newest outcome counts.
    """
    over: PlanResult | None = None
    for event in events:
        action = event.action
        if isinstance(action, PlanCompleted | PlanAborted) and action.plan_id == plan_id:
            done = isinstance(action, PlanCompleted)
            over = PlanResult(
                plan_id=plan_id,
                ended=Ended.DONE_ALREADY if done else Ended.OVERTAKEN,
                message=f"plan {plan_id} ended long ago: {event.kind} is event {event.n}",
            )
    why = (
        f"version {state.n} of {state.table.name} has no plan {plan_id}: "
        "`segtable plan` lists the pending ones"
    )
    return over or PlanResult(plan_id=plan_id, ended=Ended.FAILED, message=why)


def whole(log: EventLog) -> Iterator[Event]:
    """Yield the remaining events of a log; the log is read lazily."""
    yield from log.events(log.first())


def _run(ports: TableContext, begun: Sequence[_Running], execute: Execute) -> Iterator[PlanResult]:
    """Run all attempts stage by stage; publish each as soon as its last job has ended."""
    live = list(begun)
    for running in begun:
        yield from _advance(ports, running, live)
    while live:
        jobs = [(running, at) for running in live for at in range(len(running.jobs))]
        asked = execute([running.jobs[at] for running, at in jobs])
        left = set(range(len(jobs)))
        for done in asked:
            left.discard(done.index)
            running, at = jobs[done.index]
            yield from _take(ports, running, at, done, live)
        for index in sorted(left):
            running, at = jobs[index]
            lost = Done(index=index, error="its job ended without a result")
            yield from _take(ports, running, at, lost, live)


def _take(
    ports: TableContext, running: _Running, at: int, done: Done, live: list[_Running]
) -> Iterator[PlanResult]:
    running.values[at] = done.value
    running.error = running.error or done.error
    running.tell()
    if len(running.values) < len(running.jobs):
        return
    if running.error is None:
        yield from _advance(ports, running, live)
        return
    live.remove(running)
    running.stages.close()
    discard(ports.files, tuple(running.values.values()))
    running.attempt.lease.release()
    yield PlanResult(plan_id=running.attempt.plan.id, ended=Ended.FAILED, message=running.error)


def _advance(ports: TableContext, running: _Running, live: list[_Running]) -> Iterator[PlanResult]:
    """Start the next stage, or publish the outputs after the last stage."""
    attempt = running.attempt
    results = [running.values[at] for at in range(len(running.jobs))]
    try:
        attempt.lease.check()
        running.values = {}
        running.jobs = running.stages.send(results) if results else next(running.stages)
        running.stage += 1
    except StopIteration as finished:
        live.remove(running)
        yield _ended(ports, attempt, finished.value)
    except SegtableError as error:
        live.remove(running)
        running.stages.close()
        discard(ports.files, results)
        yield _stopped(ports, attempt, error)
    else:
        return
    attempt.lease.release()


def _ended(ports: TableContext, attempt: Attempt, end: End) -> PlanResult:
    if end.stop is None:
        return _publish(ports, attempt, end)
    return replace(_stopped_by(ports, attempt, end.stop), segments_in=end.files)


def _stopped_by(ports: TableContext, attempt: Attempt, stop: Stop) -> PlanResult:
    if isinstance(stop, Paused):
        return _given_way(ports, attempt, stop.reason)
    return _not_committed(attempt.plan.id, stop)


def _publish(ports: TableContext, attempt: Attempt, end: End) -> PlanResult:
    plan, lease, segments = attempt.plan, attempt.lease, end.segments
    try:
        lease.publish()
    except SegtableError as error:
        discard(ports.files, [segments])
        return _stopped(ports, attempt, error)
    try:
        outcome, segments = complete(ports, attempt, segments)
    except SegtableError as error:
        return _stopped(ports, attempt, error)
    if not isinstance(outcome, Committed):
        return _not_committed(plan.id, outcome)
    return PlanResult(
        plan_id=plan.id,
        ended=Ended.COMPLETED,
        message=f"event {outcome.n}: {plan.done(end.files)}",
        segments_in=end.files,
        segments_out=len(segments),
        rows=sum(segment.rows for segment in segments),
        size=sum(segment.size for segment in segments),
    )


def _stopped(ports: TableContext, attempt: Attempt, error: SegtableError) -> PlanResult:
    if not isinstance(error, LockRevoked):
        return _failed(attempt.plan.id, error)
    return _given_way(ports, attempt, str(error))


def _given_way(ports: TableContext, attempt: Attempt, reason: str) -> PlanResult:
    plan_id = attempt.plan.id
    try:
        give_way(ports, attempt, reason)
    except SegtableError as other:
        return _failed(plan_id, other)
    return PlanResult(plan_id=plan_id, ended=Ended.YIELDED, message=reason)


def _not_committed(plan_id: str, outcome: Conflict | Unknown) -> PlanResult:
    if isinstance(outcome, Conflict):
        won = "" if outcome.winner is None else f" (event {outcome.winner} won)"
        return PlanResult(plan_id=plan_id, ended=Ended.OVERTAKEN, message=f"{outcome.reason}{won}")
    unknown = CommitUnknown(f"the reply to event {outcome.n} was lost; run the plan again")
    return _failed(plan_id, unknown)


def _failed(plan_id: str, error: SegtableError) -> PlanResult:
    kind = "coordination" if isinstance(error, CoordinationError) else type(error).__name__
    return PlanResult(plan_id=plan_id, ended=Ended.FAILED, message=f"{kind}: {error}")

"""Compaction: execute plans that are in the log, and complete them.

1. For each plan: acquire its locks and commit its first event (``services.attempt``), run its
   stages of jobs, commit ``PlanCompleted``.
2. If a plan is started twice, it completes once: the second worker finds the locks held or the
   plan completed, and reports that. If a worker died, its plan is run again.
3. One call runs many plans, so that a Spark application starts only once: the jobs of all plans
   are submitted together, stage by stage. A failed plan does not stop the others.
4. A revoked attempt commits ``PlanYielded`` and releases its locks; the plan stays pending. So does
   an index build that pauses.

Stages: the plan decides the steps (``core.log.plan``), the table's kind decides their jobs
(``data.table_kinds``).

===================  ==========================================  ==================================
rewrite              append table                                rollup table
===================  ==========================================  ==================================
in the inputs'       rows in order, undecoded if possible        merged and rolled up, best effort
order
sorted               sorted by the clustering, in target sizes   the same; rolled up within its
                                                                 inputs
===================  ==========================================  ==================================

5. In a primary-key table whole files are merged by key (``data.keyed``). If time chunks or buckets
   change, each file is divided (``data.keyed.merge_job``).
6. If inputs have few rows over a long time, an earlier stage reads the event times of these, to
   find the time chunks of the outputs (``data.jobs.minor_job``).
7. A rewrite of a rollup table with sketches is one stage with one job, for Spark's driver: it
   always sorts and rolls up all its input rows.
8. Every rewrite omits the rows that are deleted in the attempt's state; its outputs record the last
   event of that state as ``deletes_applied_through``.
9. A build of an index commits its pieces itself (``services.indexing``), and has no outputs.

Completion:

10. Before the commit the attempt makes its lease irrevocable: from then on no request revokes it.
    The lease is checked before every put; a lost lease stops the commit. If a worker misses the
    loss, the log refuses its commit, because its attempt is no longer the plan's newest.
11. The commit is rebased over the events that landed meanwhile (``core.log.families.plan_events``).
12. Writers of primary-key tables hold no locks. If time chunks or buckets change, the completion
    cannot carry over log files that landed meanwhile. The plan divides them (``Plan.division``), in
    this process, because they are few, and the commit is tried again, ``PASSES`` times. Records
    that lose against others of their keys are corrected then (``table.indexes.routing``).
13. These late files are read and written in the columns of the state that the commit met, not in
    those of ``PlanInflight``: one may have been written after an alteration, but none in later
    columns.
14. Files are deleted only after a certain failure; the plan stays pending, to be run again. The
    files of a dead attempt have unique names and ids that are never reused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, assert_never

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    CoordinationError,
    LockRevoked,
    LockTimeout,
    SegtableError,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted, PlanCompleted
from airflow_provider_segtable.core.log.plan import BuildIndex, Complete, PlanStatus, Rewrite
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Place,
    Segment,
    SegmentId,
    Shard,
    replaced,
)
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import HOUR_US, Instant
from airflow_provider_segtable.data.jobs.minor_job import ChunksJob, MinorJob
from airflow_provider_segtable.data.keyed.merging import NEVER
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.data.sort.sorting import (
    Outputs,
    SortSpec,
    SortStages,
    discard,
    run_stages,
)
from airflow_provider_segtable.data.table_kinds import ArrowKind, arrow_kind_of
from airflow_provider_segtable.data.vector_file import row_filters
from airflow_provider_segtable.planning.properties import IndexSettings, Policy, Retention
from airflow_provider_segtable.services.attempt import (
    Attempt,
    Done,
    End,
    Execute,
    Job,
    Paused,
    Stages,
    Stop,
    begin,
    give_way,
)
from airflow_provider_segtable.services.indexing import build
from airflow_provider_segtable.table.committer import Change, Committed, Outcome, Unknown, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.routing import Target, parted_corrections
from airflow_provider_segtable.table.log.event_log import EventLog


def stages_of(
    ports: TableContext, attempt: Attempt, *, parallelism: int, timeout_s: float | None = None
) -> Stages:
    """Return the stages of an attempt.

    Args:
        ports: the table's ports.
        attempt: the attempt.
        parallelism: approximate number of concurrent jobs.
        timeout_s: after this time a build of an index pauses; the table's setting if None.
    """
    done: list[tuple[Segment, ...]] = []
    files = len(attempt.inputs)
    while True:
        step = attempt.plan.next_step(attempt.inputs, done, attempt.state)
        match step:
            case Complete(segments=segments):
                return End(files=files, segments=segments)
            case Rewrite():
                done.append((yield from rewritten(ports, attempt, step, parallelism)))
            case BuildIndex():
                most_s = _timeout_s(attempt) if timeout_s is None else timeout_s
                built = yield from build(
                    ports, attempt, step, timeout_s=most_s, parallelism=parallelism
                )
                if built.stop is not None:
                    return End(files=built.files, stop=built.stop)
                files, done = built.files, [()]
            case _:
                assert_never(step)


def _timeout_s(attempt: Attempt) -> float:
    return 60 * IndexSettings.read(attempt.state.table.properties).timeout_minutes


def rewritten(ports: TableContext, attempt: Attempt, step: Rewrite, parallelism: int) -> SortStages:
    """Return the stages of one rewrite."""
    kind = arrow_kind_of(attempt.state.table.kind)
    if step.sparse:
        found = yield [_chunks_job(ports, attempt, segment, step) for segment in step.sparse]
        step = step.with_chunks(chunk for chunks in found for chunk in chunks)
    if step.clustering is None and kind.joins:
        results = yield [kind.join_job(_minor(ports, attempt, step), attempt.state.table.schema)]
        return tuple(results[0])
    spec = _spec(ports, attempt, step, kind, parallelism)
    if step.late:
        return (yield from kind.sort_stages(spec, step.late, _provisional(ports, attempt)))
    return (yield from kind.sort_stages(spec, attempt.inputs, attempt.name))


def _chunks_job(
    ports: TableContext, attempt: Attempt, segment: Segment, step: Rewrite
) -> ChunksJob:
    table = attempt.state.table
    return ChunksJob(
        uri=ports.uri,
        storage_options=ports.storage_options,
        segment=segment,
        layout=step.layout or attempt.state.layout,
        definition=encode_definition(table, attempt.state.base_version),
        attempt=attempt.token,
    )


def _minor(ports: TableContext, attempt: Attempt, step: Rewrite) -> MinorJob:
    (chunk,) = map(Place, step.intervals)
    return MinorJob(
        uri=ports.uri,
        storage_options=ports.storage_options,
        inputs=attempt.inputs,
        outputs=tuple(attempt.name({chunk: step.most})[chunk]),
        created=ports.clock.now(),
        time_column=attempt.state.table.time_column,
        attempt=attempt.token,
        row_filters=row_filters(ports.files, attempt.state, attempt.inputs),
        deletes_applied_through=attempt.state.n,
        definition=_first_definition(attempt),
    )


def _first_definition(attempt: Attempt) -> bytes:
    """Return the definition for outputs of adopted files; empty if there are none."""
    if not any(segment.adopted for segment in attempt.inputs):
        return b""
    state = attempt.state
    return encode_definition(state.table.as_created(), state.base_version)


def _spec(
    ports: TableContext, attempt: Attempt, step: Rewrite, kind: ArrowKind, parallelism: int
) -> SortSpec:
    table = attempt.state.table
    return SortSpec(
        uri=ports.uri,
        storage_options=ports.storage_options,
        schema=table.schema,
        time_column=table.time_column,
        order=Order.parse(step.clustering or ""),
        intervals=step.intervals,
        target_size=Policy.read(table.properties).target_size,
        parallelism=parallelism,
        attempt=attempt.token,
        created=ports.clock.now(),
        row_kind=kind,
        replaces=() if step.one_group else replaced(attempt.inputs),
        buckets=step.buckets,
        most=step.most,
        member=step.one_group,
        row_filters=row_filters(ports.files, attempt.state, attempt.inputs),
        deletes_applied_through=attempt.state.n,
        definition=encode_definition(table, attempt.state.base_version),
        drop_before=NEVER if step.late else _drop_before(ports, table),
    )


def _drop_before(ports: TableContext, table: TableDefinition) -> Instant:
    hours = Retention.read(table.properties).tombstone_hours
    return ports.clock.now() - round(hours * HOUR_US)


def _provisional(ports: TableContext, attempt: Attempt) -> Outputs:
    """Return the names of log files in the attempt's version; the commit gives them their ids."""
    version = attempt.state.plans[attempt.plan.id].version or 0

    def named(place: Place) -> tuple[SegmentId, Shard]:
        chunk = ChunkKey(place.interval, version, place.bucket)
        segment_id = chunk.provisional(ports.randomness.token())
        return segment_id, Shard.first_generation(segment_id.partition)

    def name(counts: Mapping[Place, int]) -> dict[Place, Sequence[tuple[SegmentId, Shard]]]:
        return {place: [named(place) for _ in range(size)] for place, size in counts.items()}

    return name


PASSES = 20


def complete(
    ports: TableContext, attempt: Attempt, outputs: tuple[Segment, ...]
) -> tuple[Outcome, tuple[Segment, ...]]:
    """Commit ``PlanCompleted``; return the outcome, and the segments that it names.

    Raises:
        CommitUnknown: the event may have landed; the files stay.
        SegtableError: nothing was committed; the files were deleted.
    """
    segments, late = outputs, tuple[SegmentId, ...]()
    try:
        outcome, state = _tried(ports, attempt, segments, late)
        for _ in range(PASSES):
            step = _division(attempt, late, state) if isinstance(outcome, Conflict) else None
            if step is None:
                break
            stages = rewritten(ports, replace(attempt, state=state), step, 1)
            segments = (*segments, *run_stages(stages, ports.files))
            target = Target(
                layout=attempt.plan.layout_after(state.layout),
                version=state.plans[attempt.plan.id].version or 0,
            )
            for segment in parted_corrections(ports, state, target, step.late):
                segments = (*segments, segment)
            late = (*late, *(segment.id for segment in step.late))
            outcome, state = _tried(ports, attempt, segments, late)
    except CommitUnknown:
        raise
    except Exception:
        discard(ports.files, [segments])
        raise
    if isinstance(outcome, Conflict):
        discard(ports.files, [segments])
    return outcome, segments


def _tried(
    ports: TableContext,
    attempt: Attempt,
    segments: tuple[Segment, ...],
    late: tuple[SegmentId, ...],
) -> tuple[Outcome, State]:
    """Return the outcome of a commit, and after a conflict the state that it met."""
    action = PlanCompleted(
        plan_id=attempt.plan.id, attempt=attempt.token, segments=segments, late=late
    )
    commit_id = f"completed-{attempt.token}"
    change = Change(action=action, commit_id=commit_id, guard=attempt.lease.check)
    outcome = commit(ports, ports.log.newer(attempt.state), change)
    met = isinstance(outcome, Conflict)
    return outcome, ports.log.refresh(attempt.state) if met else attempt.state


def _division(attempt: Attempt, late: tuple[SegmentId, ...], state: State) -> Rewrite | None:
    """Return the division of late files; None if the commit was refused for another reason."""
    found = state.plans.get(attempt.plan.id)
    if found is None or not found.status.pending or found.attempt != attempt.token:
        return None
    return attempt.plan.division(found.with_inputs(late), state)


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

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "plan": self.plan_id,
            "ended": self.ended.value,
            "message": self.message,
            "segments_in": self.segments_in,
            "segments_out": self.segments_out,
            "rows": self.rows,
            "bytes": self.size,
        }


@dataclass(slots=True)
class _Running:
    """An attempt during a stage: its jobs and their results."""

    attempt: Attempt
    stages: Stages
    jobs: Sequence[Job] = ()
    values: dict[int, Any] = field(default_factory=dict)
    error: str | None = None
    stage: int = 0

    def report(self) -> None:
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
    state = knowing(log, [plan_id])
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
    if isinstance(begun, Attempt):
        return begun
    return ending(plan_id, log.known(), whole(log)) or _not_committed(plan_id, begun)


def knowing(log: EventLog, plan_ids: Iterable[str]) -> State:
    """Return a state that has some plans, if there are any such; the commit looks at newer ones."""
    state = log.known()
    return state if all(each in state.plans for each in plan_ids) else log.load()


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
    running.report()
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
        return _complete(ports, attempt, end)
    return replace(_stopped_by(ports, attempt, end.stop), segments_in=end.files)


def _stopped_by(ports: TableContext, attempt: Attempt, stop: Stop) -> PlanResult:
    if isinstance(stop, Paused):
        return _given_way(ports, attempt, stop.reason)
    return _not_committed(attempt.plan.id, stop)


def _complete(ports: TableContext, attempt: Attempt, end: End) -> PlanResult:
    plan, lease, segments = attempt.plan, attempt.lease, end.segments
    try:
        lease.make_irrevocable()
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

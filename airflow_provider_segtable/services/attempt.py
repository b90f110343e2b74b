"""Begin an attempt at a plan, and run its jobs.

The beginning, in this order:

1. If the plan can never complete, because another plan was faster, abort it, so that no worker
   starts it again.
2. Acquire the locks, ids and version that the plan asks for (``Plan.lock``).
3. Read the log again under the lock, for a plan that finds its inputs there
   (``Plan.inputs_under_lock``), and where a look at the log costs no round trip.
4. Commit ``PlanInflight``. It supersedes every earlier attempt.

The jobs:

5. ``execute(jobs)`` yields ``Done`` for every job exactly once, in any order: from this process
   (``in_process``) or from Spark tasks (``spark.writes.distribution``).
6. An attempt with several stages is a generator (``Stages``). It yields lists of jobs, never an
   empty one, receives their results in order, and returns its end.

Source of the ideas: Druid (locks on inputs and outputs), Hudi (requested/inflight/completed).
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import TableGone
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanInflight,
    PlanYielded,
)
from airflow_provider_segtable.core.log.plan import Named, Plan, PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Done, Job, run_one
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit
from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A plan in flight with its locks held.

    ``state`` is the table right after ``PlanInflight``; for late log files, the table that the
    commit met (``services.compaction``).
    """

    plan: Plan
    lease: Lease
    token: str
    state: State

    @property
    def inputs(self) -> tuple[Segment, ...]:
        """Return the input segments."""
        known = self.state.plans[self.plan.id]
        return tuple(s for i in known.inputs if (s := self.state.timeline.get(i)))

    def name(self, counts: Mapping[Place, int]) -> dict[Place, Named]:
        """Return ids and shards for the given number of outputs in each place."""
        return self.plan.name_outputs(self.state.plans[self.plan.id], counts, self.state)


def begin(
    ports: TableContext, known: PlanState, state: State, *, wait_s: float
) -> Attempt | Conflict | Unknown:
    """Acquire a plan's locks and commit ``PlanInflight``.

    Raises:
        LockTimeout: other processes hold the locks.
        SegtableError: coordination or storage failed; no lock is held.
    """
    plan = known.plan
    gone = plan.hopeless(state)
    if gone:
        return _hopeless(ports, known, gone, state)
    lease = ports.coordinator.acquire(_request(ports, known, state), wait_s=wait_s)
    try:
        ports.check_lease_clock(lease)
        return _start(ports, plan, lease, _under_lock(ports, plan, state))
    except BaseException as error:
        lease.release()
        if isinstance(error, TableGone):
            ports.coordinator.forget(state.table.table_id)
        raise


def _under_lock(ports: TableContext, plan: Plan, state: State) -> State:
    """Return the state for an attempt's first event, whose commit decides on the newest one.

    So where a look is a round trip, only a plan that finds its inputs under the lock looks first.
    """
    named = plan.claim.segments is not None
    return state if named and ports.storage.remote else ports.log.refresh(state)


def _request(ports: TableContext, known: PlanState, state: State) -> LockRequest:
    plan = known.plan
    asked = LockRequest(
        table=state.table.table_id,
        group=f"{plan.id}-{ports.randomness.token()}",
        purpose=plan.id,
        holder=ports.author,
        priority=plan.priority,
        yields=known.yields,
    )
    return plan.lock(asked, state)


def _start(
    ports: TableContext, plan: Plan, lease: Lease, state: State
) -> Attempt | Conflict | Unknown:
    token = ports.randomness.token()
    action = PlanInflight(
        plan_id=plan.id,
        attempt=token,
        token=lease.token,
        outputs=lease.allocated,
        inputs=plan.inputs_under_lock(state),
        version=lease.version,
    )
    change = Change(action=action, commit_id=f"inflight-{token}", guard=lease.check)
    outcome = commit(ports, state, change)
    if isinstance(outcome, Committed):
        return Attempt(plan=plan, lease=lease, token=token, state=outcome.state)
    lease.release()
    return outcome


def _hopeless(ports: TableContext, known: PlanState, gone: Conflict, state: State) -> Conflict:
    action = PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason=gone.reason)
    commit(ports, state, Change(action=action, commit_id=f"abort-{ports.randomness.token()}"))
    return gone


def give_way(ports: TableContext, attempt: Attempt, reason: str) -> None:
    """Record in the log that the attempt stops, for a more urgent request or a pause."""
    action = PlanYielded(plan_id=attempt.plan.id, attempt=attempt.token, reason=reason)
    commit(ports, attempt.state, Change(action=action, commit_id=f"yielded-{attempt.token}"))


__all__ = ["Done", "End", "Execute", "Job", "Paused", "Stages", "in_process", "run_one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The attempt stops, and leaves the rest of its plan to the next one."""

    reason: str


Stop: TypeAlias = Paused | Conflict | Unknown
"""Why an attempt ends before its plan does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of an attempt's stages.

    Attributes:
        files: the number of files that it read.
        segments: the new segments, to be published.
        stop: why the plan is not completed; None if it is to be.
    """

    files: int
    segments: tuple[Segment, ...] = ()
    stop: Stop | None = None


Execute: TypeAlias = Callable[[Sequence[Job]], Iterator[Done]]
Stages: TypeAlias = Generator[Sequence[Job], Sequence[Any], End]


def in_process(files: DataFiles | None = None) -> Execute:
    """Run jobs one after another in this process, on ``files`` or on each job's own files."""

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        for index, job in enumerate(jobs):
            yield run_one(index, job, files)

    return execute

"""Begin an attempt at a plan: its locks, its ids, its first event.

=============  ====================================  ==========================================
kind           lock                                  new ids
=============  ====================================  ==========================================
minor,         EXCLUSIVE on the input segments       allocated with the lock (central,
semi-major                                           incremental)
major          REPLACE on the region: appends        numbered by the attempt, in a version
               continue                              allocated with the lock (local, bulk)
major to a     EXCLUSIVE on the region: appends      the same
finer          wait, or revoke the lock
granularity
=============  ====================================  ==========================================

1. The locks are acquired first; then ``PlanInflight`` supersedes any earlier attempt.
2. A major compaction reads the log again under its lock: its inputs are the region's visible
   segments then. Later appends are carried over when it commits.
3. If a plan's inputs are gone (another compaction was faster), the plan is aborted here, so that
   it is not started again.

Source of the ideas: Druid (locks on inputs and outputs), Hudi (requested/inflight/completed).
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.locks.lockbox import (
    Allocation,
    Generation,
    LockRequest,
    Mode,
)
from airflow_provider_segtable.core.log.admission import Conflict
from airflow_provider_segtable.core.log.events import PlanAborted, PlanInflight, PlanYielded
from airflow_provider_segtable.core.log.families.plan_events import inputs_gone
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.plans.plan_state import PlanState
from airflow_provider_segtable.core.segments.replacement import carries_appends
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment, SegmentId, Shard
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, Committed, Unknown, commit

COMPACTION_PRIORITY = 25

Named = tuple[tuple[SegmentId, Shard], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A plan in flight with its locks held; ``state`` is the table right after ``PlanInflight``."""

    plan: CompactionPlan
    lease: Lease
    token: str
    state: State

    @property
    def inputs(self) -> tuple[Segment, ...]:
        """Return the input segments."""
        known = self.state.plans[self.plan.id]
        return tuple(s for i in known.inputs if (s := self.state.timeline.get(i)))

    def name(self, counts: dict[Interval, int]) -> dict[Interval, Named]:
        """Return ids and shards for the given number of outputs in each time chunk."""
        if self.plan.kind is PlanKind.MAJOR:
            version = self.lease.version or 0
            return {i: _core_set(ChunkKey(i, version), n) for i, n in counts.items()}
        return {i: self._group(n) for i, n in counts.items()}

    def _group(self, size: int) -> Named:
        plan, timeline = self.plan, self.state.timeline
        minor = timeline.max_minor(plan.chunk, plan.root_start, plan.root_end) + 1
        core = timeline.core(plan.chunk)
        return tuple(
            (
                output,
                Shard(
                    partition=output.partition,
                    root_start=plan.root_start,
                    root_end=plan.root_end,
                    minor_version=minor,
                    group_size=size,
                    core=core,
                ),
            )
            for output in self.lease.allocated[:size]
        )


def _core_set(chunk: ChunkKey, size: int) -> Named:
    return tuple((chunk.segment(p), Shard.first_generation(p, core=size)) for p in range(size))


def begin(
    ports: TableContext, known: PlanState, state: State, *, wait_s: float
) -> Attempt | Conflict | Unknown:
    """Acquire a plan's locks and commit ``PlanInflight``.

    Raises:
        LockTimeout: other processes hold the locks.
        SegtableError: coordination or storage failed; no lock is held.
    """
    plan = known.plan
    gone = inputs_gone(plan, plan.inputs, state) if plan.kind is not PlanKind.MAJOR else None
    if gone:
        return _hopeless(ports, known, gone, state)
    lease = ports.coordinator.acquire(_request(ports, known, state), wait_s=wait_s)
    try:
        ports.check_lease_clock(lease)
        return _start(ports, plan, lease, ports.log.refresh(state))
    except BaseException:
        lease.release()
        raise


def _request(ports: TableContext, known: PlanState, state: State) -> LockRequest:
    plan = known.plan
    common = {
        "table": state.table.table_id,
        "group": f"{plan.id}-{ports.randomness.token()}",
        "purpose": plan.id,
        "holder": ports.author,
        "priority": COMPACTION_PRIORITY,
        "yields": known.yields,
    }
    if plan.kind is PlanKind.MAJOR:
        return LockRequest(
            **common,  # type: ignore[arg-type]
            mode=Mode.REPLACE if carries_appends(plan, state.layout) else Mode.EXCLUSIVE,
            intervals=(plan.interval,),
            version_above=state.version_above(plan.interval),
        )
    outputs = Allocation(
        chunk=plan.chunk,
        generation=Generation.LATER,
        count=plan.outputs,
        at_least=state.id_space(plan.chunk, Generation.LATER).next,
    )
    return LockRequest(
        **common,  # type: ignore[arg-type]
        segments=frozenset(plan.inputs),
        allocate=(outputs,),
    )


def _start(
    ports: TableContext, plan: CompactionPlan, lease: Lease, state: State
) -> Attempt | Conflict | Unknown:
    token = ports.randomness.token()
    action = PlanInflight(
        plan_id=plan.id,
        attempt=token,
        token=lease.token,
        outputs=lease.allocated,
        inputs=_found(plan, state),
        version=lease.version,
    )
    change = Change(action=action, commit_id=f"inflight-{token}", guard=lease.check)
    outcome = commit(ports, state, change)
    if isinstance(outcome, Committed):
        return Attempt(plan=plan, lease=lease, token=token, state=outcome.state)
    lease.release()
    return outcome


def _found(plan: CompactionPlan, state: State) -> tuple[SegmentId, ...]:
    if plan.kind is not PlanKind.MAJOR:
        return ()
    visible = state.timeline.visible_segments(plan.interval)
    return tuple(segment.id for segment in visible if not segment.tombstone)


def _hopeless(ports: TableContext, known: PlanState, gone: Conflict, state: State) -> Conflict:
    action = PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason=gone.reason)
    commit(ports, state, Change(action=action, commit_id=f"abort-{ports.randomness.token()}"))
    return gone


def give_way(ports: TableContext, attempt: Attempt, reason: str) -> None:
    """Record in the log that a more urgent request revoked the attempt's locks."""
    action = PlanYielded(plan_id=attempt.plan.id, attempt=attempt.token, reason=reason)
    commit(ports, attempt.state, Change(action=action, commit_id=f"yielded-{attempt.token}"))

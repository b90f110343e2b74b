"""Cancel the plans of a task that is ended from outside, and take them up again.

1. A plan that the task has begun, or that nobody has begun, is aborted, with the reason. Its inputs
   stay, and it rests as any aborted plan (``compaction.retry_aborted_minutes``). A plan that
   another worker has is left to that one.
2. What the task still does for an aborted plan is never committed: the log refuses it.
3. Another try of the same task requests its cancelled plans again. So a worker that is shut down,
   and a task that runs out of time or is cleared, go on where they were; a run that was marked as
   failed or successful does not come back.
"""

from collections.abc import Callable, Iterator, Sequence

from airflow_provider_segtable.core.log.families.plan_events import PlanAborted, PlanRequested
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.context import TableContext

CANCELLED = "cancelled"
"""The beginning of the reason of a cancelled plan."""
Mine = Callable[[str], bool]
"""Returns whether an author is a try of the task."""


def cancel(ports: TableContext, plan_ids: Sequence[str], mine: Mine, why: str) -> list[str]:
    """Abort the pending plans of a task, and return their ids."""
    state, done = ports.log.load(), []
    for known in _known(ports, plan_ids):
        if not known.status.pending or (known.attempts and not mine(known.author)):
            continue
        action = PlanAborted(
            plan_id=known.plan.id, attempt=known.attempt, reason=f"{CANCELLED}: {why}"
        )
        change = Change(action=action, commit_id=f"cancel-{ports.randomness.token()}")
        outcome = commit(ports, state, change)
        if isinstance(outcome, Committed):
            state = outcome.state
            done.append(known.plan.id)
    return done


def revive(ports: TableContext, plan_ids: Sequence[str], mine: Mine) -> list[str]:
    """Request plans again that an earlier try of the task cancelled, and return their ids."""
    state, done = ports.log.load(), []
    for known in _known(ports, plan_ids):
        cancelled = known.status is PlanStatus.ABORTED and known.note.startswith(CANCELLED)
        if not cancelled or not mine(known.author):
            continue
        change = Change(
            action=PlanRequested(plan=known.plan), commit_id=f"revive-{ports.randomness.token()}"
        )
        outcome = commit(ports, state, change)
        if isinstance(outcome, Committed):
            state = outcome.state
            done.append(known.plan.id)
    return done


def _known(ports: TableContext, plan_ids: Sequence[str]) -> Iterator[PlanState]:
    plans = ports.log.load().plans
    return (plans[plan_id] for plan_id in plan_ids if plan_id in plans)

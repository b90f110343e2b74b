"""Cancel the plans of a task that is ended from outside, and take them up again.

1. A plan that the task has begun, or that nobody has begun, is aborted, with the reason. Its inputs
   stay, and it rests as any aborted plan (``compaction.retry_aborted_minutes``). A plan that
   another worker has is left to that one.
2. What the task still does for an aborted plan is never committed: the log refuses it.
3. Another try of the same task requests its cancelled plans again. So a worker that is shut down,
   and a task that runs out of time or is cleared, go on where they were; a run that was marked as
   failed or successful does not come back.
"""

from collections.abc import Callable, Sequence

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

    def aborted(known: PlanState) -> PlanAborted | None:
        if not known.status.pending or (known.attempts and not mine(known.author)):
            return None
        reason = f"{CANCELLED}: {why}"
        return PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason=reason)

    return _committed(ports, plan_ids, aborted, "cancel")


def revive(ports: TableContext, plan_ids: Sequence[str], mine: Mine) -> list[str]:
    """Request plans again that an earlier try of the task cancelled, and return their ids."""

    def requested(known: PlanState) -> PlanRequested | None:
        cancelled = known.status is PlanStatus.ABORTED and known.note.startswith(CANCELLED)
        return PlanRequested(plan=known.plan) if cancelled and mine(known.author) else None

    return _committed(ports, plan_ids, requested, "revive")


def _committed(
    ports: TableContext,
    plan_ids: Sequence[str],
    action_of: Callable[[PlanState], PlanAborted | PlanRequested | None],
    name: str,
) -> list[str]:
    """Commit the action of each plan that has one, and return the ids of these plans."""
    state, done = ports.log.load(), list[str]()
    for plan_id in plan_ids:
        known = state.plans.get(plan_id)
        action = None if known is None else action_of(known)
        if action is None:
            continue
        change = Change(action=action, commit_id=f"{name}-{ports.randomness.token()}")
        outcome = commit(ports, state, change)
        if isinstance(outcome, Committed):
            state = outcome.state
            done.append(plan_id)
    return done

"""Release a lock whose holder hangs, or remove an unreadable node.

1. A lock ends by itself with its holder's session. So a release is for a live holder that hangs.
2. The coordinator takes the lock away first: the holder cannot commit under it any more.
3. If the lock is of a plan that runs, the plan yields by an event of the log. So the timeline names
   the one who released it, and a planner launches the plan again.
"""

from shlex import quote

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.locks import Lock
from airflow_provider_segtable.core.log.families.plan_events import PlanYielded
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.ports.coordination import StrayNode
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.context import TableContext


def held_by(ports: TableContext, state: State, group: str) -> Lock | StrayNode:
    """Return the lock of a group, or the unreadable node of that name.

    Raises:
        InvalidInput: there is none.
        CoordinatorUnavailable: there is no coordinator, or it does not answer.
    """
    table = state.table.table_id
    named = (each for each in ports.coordinator.locks(table) if each.group == group)
    strays = (each for each in ports.coordinator.strays(table) if each.name == group)
    found = next(named, None) or next(strays, None)
    if found is None:
        raise InvalidInput(
            f"{ports.uri} has no lock of group {group!r}: "
            f"`segtable locks {quote(ports.uri)}` lists the groups"
        )
    return found


def claims(lock: Lock) -> str:
    """Return what a lock excludes others from, in words."""
    parts = [f"{each}" for each in lock.intervals]
    if lock.segments:
        parts.append(counted(len(lock.segments), "segment"))
    if lock.allocated:
        parts.append(counted(len(lock.allocated), "new segment id"))
    return ", ".join(parts) or "nothing but its purpose"


def release_lock(ports: TableContext, state: State, found: Lock | StrayNode) -> bool:
    """Release a lock, or remove an unreadable node; return whether it was still there."""
    group = found.group if isinstance(found, Lock) else found.name
    released = ports.coordinator.break_lock(state.table.table_id, group)
    if released and isinstance(found, Lock):
        _yield_plan(ports, ports.log.refresh(state), found)
    return released


def _yield_plan(ports: TableContext, state: State, lock: Lock) -> None:
    """Return the lock's plan to the requested ones; a finished plan stays as it is."""
    known = state.plans.get(lock.purpose)
    if known is None or known.status is not PlanStatus.INFLIGHT or known.attempt is None:
        return
    reason = f"its lock was released by {ports.author}"
    action = PlanYielded(plan_id=known.plan.id, attempt=known.attempt, reason=reason)
    commit(ports, state, Change(action=action, commit_id=f"unlock-{ports.randomness.token()}"))

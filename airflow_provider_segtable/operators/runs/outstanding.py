"""Find which of the requested plans are still to do, and how the others ended.

1. Read the log first and the locks second. A plan that finishes in between is launched, and the
   application reports it as done already.
2. A plan whose lock is held, or waited for, has a live worker: perhaps the orphan of an earlier
   try of the same task. If nothing else is to do, wait for that worker. At the deadline the plan
   *runs elsewhere*, which is no failure: if its worker dies, the planner launches the plan again.
3. After an application has ended, the log settles the plans that it did not report.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.services.compaction import Ended, PlanResult, ending, whole
from airflow_provider_segtable.table.context import TableContext

LOOK_AGAIN_S = 2.0
"""Longest pause between looks: a lock that ends with its session is not announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """``todo``: plans to launch now. ``settled``: outcomes of the others."""

    todo: tuple[str, ...]
    settled: tuple[PlanResult, ...]


def outstanding(
    ports: TableContext,
    asked: Sequence[str] | None,
    *,
    wait_s: float,
    tell: Callable[[str], None] = lambda _: None,
) -> Outstanding:
    """Sort plans into plans to launch and settled plans.

    Args:
        ports: the table, with a coordinator.
        asked: plan ids; every pending plan if None.
        wait_s: how long to wait, in seconds, if all plans that are left run elsewhere.
        tell: called once with the reason for waiting.
    """
    log, clock = ports.log, ports.clock
    state = log.load()
    plan_ids = _named(state, asked)
    over: dict[str, PlanResult] = {}
    deadline = clock.monotonic() + wait_s
    told = False
    while True:
        holders = _holders(ports, _id(state))
        for plan_id in plan_ids:
            if plan_id not in over and (result := ending(plan_id, state, whole(log))):
                over[plan_id] = result
        found = _sorted(plan_ids, over, holders)
        busy = [r for r in found.settled if r.ended is Ended.RUNNING_ELSEWHERE]
        left = deadline - clock.monotonic()
        if found.todo or not busy or left <= 0:
            return found
        if not told:
            tell(
                f"waiting up to {wait_s:g} s for {counted(len(busy), 'plan')} elsewhere: "
                f"{busy[0].message}"
            )
            told = True
        pause = min(left, LOOK_AGAIN_S)
        ports.coordinator.wait_head(_id(state), beyond=state.n, wait_s=pause)
        state = log.refresh(state)


def settle(
    ports: TableContext, plan_ids: Sequence[str], reported: Sequence[PlanResult], error: str
) -> tuple[PlanResult, ...]:
    """Complete an application's report from the log.

    Args:
        ports: the table, for reading.
        plan_ids: the plans that were launched.
        reported: results that the application reported; may miss plans.
        error: the message of missing plans that are still pending.
    """
    missing = set(plan_ids) - {result.plan_id for result in reported}
    if not missing:
        return tuple(reported)
    log = ports.log
    state = log.load()
    found = {i: ending(i, state, whole(log)) for i in plan_ids if i in missing}
    known = (result for result in found.values() if result)
    failed = (
        PlanResult(plan_id=plan_id, ended=Ended.FAILED, message=error)
        for plan_id, result in found.items()
        if result is None
    )
    return (*reported, *known, *failed)


def _holders(ports: TableContext, table: str) -> dict[str, str]:
    """Return for each plan the holder of its locks, or a waiter for them."""
    found = (*ports.coordinator.waiters(table), *ports.coordinator.locks(table))
    return {lock.purpose: lock.holder for lock in found}


def _named(state: State, asked: Sequence[str] | None) -> tuple[str, ...]:
    if asked is None:
        return tuple(known.plan.id for known in state.pending_plans())
    return tuple(dict.fromkeys(asked))


def _sorted(
    plan_ids: Sequence[str], over: Mapping[str, PlanResult], holders: Mapping[str, str]
) -> Outstanding:
    todo: list[str] = []
    settled: list[PlanResult] = []
    for plan_id in plan_ids:
        ended = over.get(plan_id)
        if ended is None and plan_id in holders:
            message = f"plan {plan_id} is held by {holders[plan_id]}"
            ended = PlanResult(plan_id=plan_id, ended=Ended.RUNNING_ELSEWHERE, message=message)
        if ended is None:
            todo.append(plan_id)
        else:
            settled.append(ended)
    return Outstanding(todo=tuple(todo), settled=tuple(settled))


def _id(state: State) -> str:
    return state.table.table_id

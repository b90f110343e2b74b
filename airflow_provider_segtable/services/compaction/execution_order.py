"""The order in which one process executes plans, so that its plans never wait for each other.

1. Smaller kinds run first (``Plan.rank``): the lock of a larger one may wait for segments that a
   smaller one holds.
2. A kind has its own patience (``Plan.wait_s``). Without any, a plan whose segments another worker
   holds is left to that worker.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.plan_kinds import kinds, smallest
from airflow_provider_segtable.core.log.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBatch:
    """Plans that may run together, and how long to wait for their locks."""

    plan_ids: tuple[str, ...]
    wait_s: float


def execution_order(
    state: State, plan_ids: Iterable[str], wait_s: float | None = None
) -> Iterator[PlanBatch]:
    """Yield plans in execution order.

    Args:
        state: the table's state; plans that it does not contain run first.
        plan_ids: the plans to execute.
        wait_s: how long to wait for locks; if None, that of each kind.
    """
    by_kind: dict[type[Plan], list[str]] = {kind: [] for kind in kinds()}
    for plan_id in dict.fromkeys(plan_ids):
        known = state.plans.get(plan_id)
        by_kind[type(known.plan) if known else smallest()].append(plan_id)
    for kind, ids in by_kind.items():
        if ids:
            yield PlanBatch(plan_ids=tuple(ids), wait_s=kind.wait_s if wait_s is None else wait_s)

"""The order in which one process executes plans, so that its plans never wait for each other.

1. Smaller kinds run first: a major compaction's lock waits for segments that a minor one holds.
2. A major compaction waits some minutes for other workers in its region. The smaller kinds do not
   wait: if another worker holds their segments, they leave the plan to that worker.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.compaction_plan import PlanKind
from airflow_provider_segtable.planning.planner_context import KINDS

WAIT_S = {PlanKind.MINOR: 0.0, PlanKind.SEMI_MAJOR: 0.0, PlanKind.MAJOR: 600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Plans that may run together, and how long to wait for their locks."""

    plan_ids: tuple[str, ...]
    wait_s: float


def turns(state: State, plan_ids: Iterable[str], wait_s: float | None = None) -> Iterator[Turn]:
    """Yield plans in execution order.

    Args:
        state: the table's state; plans that it does not contain run first.
        plan_ids: the plans to execute.
        wait_s: how long to wait for locks; if None, ``WAIT_S`` of each kind.
    """
    by_kind: dict[PlanKind, list[str]] = {kind: [] for kind in KINDS}
    for plan_id in dict.fromkeys(plan_ids):
        known = state.plans.get(plan_id)
        by_kind[known.plan.kind if known else PlanKind.MINOR].append(plan_id)
    for kind, ids in by_kind.items():
        if ids:
            yield Turn(plan_ids=tuple(ids), wait_s=WAIT_S[kind] if wait_s is None else wait_s)

"""In which order plans are carried out by one process, so that none waits for another of its own.

1. Smaller kinds go first: a major compaction's lock waits for the segments that a minor one has.
2. A major compaction waits for others' work in its region, which takes minutes, rather than give
   up; the smaller kinds leave what others hold to those.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.compaction_plan import PlanKind
from airflow_provider_segtable.planning.planner_context import KINDS

WAIT_S = {PlanKind.MINOR: 0.0, PlanKind.SEMI_MAJOR: 0.0, PlanKind.MAJOR: 600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Plans that may be carried out at once, and how long to wait for their locks."""

    plan_ids: tuple[str, ...]
    wait_s: float


def turns(state: State, plan_ids: Iterable[str], wait_s: float | None = None) -> Iterator[Turn]:
    """Yield plans in the order in which to carry them out.

    Args:
        state: the table; plans that it does not know go first.
        plan_ids: which plans.
        wait_s: how long to wait for locks; what suits each kind if None.
    """
    by_kind: dict[PlanKind, list[str]] = {kind: [] for kind in KINDS}
    for plan_id in dict.fromkeys(plan_ids):
        known = state.plans.get(plan_id)
        by_kind[known.plan.kind if known else PlanKind.MINOR].append(plan_id)
    for kind, ids in by_kind.items():
        if ids:
            yield Turn(plan_ids=tuple(ids), wait_s=WAIT_S[kind] if wait_s is None else wait_s)

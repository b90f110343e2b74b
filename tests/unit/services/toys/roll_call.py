"""How roll calls are found: never by the planner, for every chunk that a user names."""

from collections.abc import Sequence
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.log.plan import Plan, plan_id
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.finders.finder import Finder, open_among
from airflow_provider_segtable.planning.planner_context import PlannerContext
from airflow_provider_segtable.planning.selection import Skipped
from tests.unit.services.toys.roll_call_plan import RollCallPlan


class RollCallFinder(Finder):
    """Finds nothing by itself."""

    plan: ClassVar[type[Plan]] = RollCallPlan

    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        return False

    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        return [_plan(found, chunk, why) for chunk in open_among(found, chunks, skipped)]


def _plan(found: PlannerContext, chunk: ChunkKey, why: str) -> RollCallPlan:
    segments = found.segments(chunk.interval)
    inputs = tuple(segment.id for segment in segments)
    return RollCallPlan(
        id=plan_id(found.state.table.table_id, RollCallPlan.kind, inputs),
        chunk=chunk,
        inputs=inputs,
        outputs=0,
        rows=sum(segment.rows for segment in segments),
        size=sum(segment.size for segment in segments),
        reason=why,
    )


FINDER = RollCallFinder()

"""How groups to polish are found: each that compaction has made and that does not shine."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.log.plan import Plan, plan_id
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Group
from airflow_provider_segtable.planning.finders.finder import Finder, open_among
from airflow_provider_segtable.planning.planner_context import PlannerContext, members, skip
from airflow_provider_segtable.planning.selection import Candidate, Skipped
from tests.unit.services.toys.polish_plan import PolishPlan

SHINE = "row"


class PolishFinder(Finder):
    """Finds groups to polish."""

    plan: ClassVar[type[Plan]] = PolishPlan

    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        return any(summary.minor_version for summary in summaries)

    def in_chunk(
        self, found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]
    ) -> tuple[Candidate, ...]:
        return tuple(_candidates(found, chunk, "it is dull", skipped))

    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        free = open_among(found, chunks, skipped)
        return [c.plan for chunk in free for c in _candidates(found, chunk, why, skipped)]


def _candidates(
    found: PlannerContext, chunk: ChunkKey, why: str, skipped: list[Skipped]
) -> Iterator[Candidate]:
    for group in found.groups(chunk):
        segments = group.segments
        shines = "it shines" if all(s.clustering == SHINE for s in segments) else None
        why_not = shines or found.claim(segments, PolishPlan)
        if why_not:
            skipped.append(skip(chunk, segments, why_not, PolishPlan))
        elif group.key.minor_version:
            yield Candidate(plan=_plan(found, chunk, group, why), gain=1.0)


def _plan(found: PlannerContext, chunk: ChunkKey, group: Group, why: str) -> PolishPlan:
    segments = members([group])
    inputs = tuple(segment.id for segment in segments)
    return PolishPlan(
        id=plan_id(found.state.table.table_id, PolishPlan.kind, inputs, SHINE),
        chunk=chunk,
        inputs=inputs,
        outputs=2,
        rows=sum(segment.rows for segment in segments),
        size=sum(segment.size for segment in segments),
        reason=why,
        root_start=group.start,
        root_end=group.end,
        shine=SHINE,
    )


FINDER = PolishFinder()

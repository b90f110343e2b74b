"""What a planner answers: chosen plans, and why everything else was left alone."""

from dataclasses import dataclass

from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.segments.segment import ChunkKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Segments (by partition; none means the whole chunk) that were left alone, and why.

    ``kind`` is the compaction that left them; for a major one ``chunk`` has its whole region.
    """

    chunk: ChunkKey
    partitions: tuple[int, ...]
    reason: str
    kind: PlanKind = PlanKind.MINOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Chosen plans, best first, and a reason for everything skipped."""

    chosen: tuple[CompactionPlan, ...]
    skipped: tuple[Skipped, ...]


def describe_size(size: float) -> str:
    """Return bytes as people read them: ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"

"""Find chunks with many deleted rows that no plan rewrites; pure, from observations."""

from collections.abc import Iterator

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.findings.health_findings import Observed
from airflow_provider_segtable.planning.planner_context import PlannerContext, look_at_table


def undone_deletions(seen: Observed) -> Iterator[Finding]:
    """Yield a finding if chunks with many deleted rows have no plan, with the planner's reason."""
    found = look_at_table(seen.state, seen.policy, seen.now)
    about = [known.plan.interval for known in found.pending]
    about += [plan.interval for plan in seen.planned.chosen]
    idle = {
        chunk.interval: much
        for chunk in found.chunks()
        if not any(interval.overlaps(chunk.interval) for interval in about)
        and (much := found.much_deleted(found.segments(chunk.interval)))
    }
    if not idle:
        return
    worst = max(idle, key=lambda interval: _weight(found, interval))
    rows = found.deleted.rows_of(found.segments(worst))
    yield Finding(
        code="deleted-rows",
        severity=Severity.WARNING,
        where=str(worst),
        what=f"{idle[worst]} ({counted(round(rows), 'row')}), and no compaction is planned"
        f"{_why(seen, worst)}; affected time chunks: {len(idle)}",
        why="scans decode deleted rows only to drop them, and their space is not freed",
        do=f"segtable compact TABLE --kind major --interval {worst}",
    )


def _weight(found: PlannerContext, interval: Interval) -> tuple[float, int]:
    segments = found.segments(interval)
    return found.deleted.bytes_of(segments), found.deleted.waiting(segments)


def _why(seen: Observed, interval: Interval) -> str:
    reasons = (s.reason for s in seen.planned.skipped if s.chunk.interval.overlaps(interval))
    reason = next((reason for reason in reasons if "delete" in reason), None)
    return f": {reason}" if reason else ""

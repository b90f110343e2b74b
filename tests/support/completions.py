"""Completed plans, as a log would keep them."""

from airflow_provider_segtable.core.log.plan import Plan, PlanState, PlanStatus
from airflow_provider_segtable.core.log.work import Work
from airflow_provider_segtable.core.time import SECOND_US, Instant
from tests.support.builders import BASE


def completed(
    plan: Plan, *, n: int = 1, seconds: float = 1.0, end: Instant = BASE, work: Work | None = None
) -> PlanState:
    """Return a plan that took some seconds, and did what it was expected to do by default."""
    started = end - round(seconds * SECOND_US)
    as_expected = Work(
        files_read=len(plan.inputs),
        bytes_read=plan.size,
        files_written=plan.outputs,
        bytes_written=plan.size,
    )
    return PlanState(
        plan=plan,
        status=PlanStatus.COMPLETED,
        requested_at=started - SECOND_US,
        changed_at=end,
        last_n=n,
        author="test",
        attempts=1,
        started_at=started,
        work=work or as_expected,
    )

"""A glance at a table: what a list of tables shows of it, beside what its planner keeps.

1. A glance costs no listing. It follows from the state that a planner's look has loaded; only the
   events after the positions of consumers are read.
2. It has the findings for which that is enough (``health_findings.at_a_glance``). The doctor finds
   more (``health.doctor``): what needs listings, locks, or a look into each chunk.
3. It does not grow with the table: of the findings it keeps ``MOST``, the worst ones.
"""

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, worst_first
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.findings.health_findings import (
    Bounds,
    Observed,
    at_a_glance,
    lagging_consumers,
)
from airflow_provider_segtable.planning.properties import Policy, Retention
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.kept_versions import unread_since

MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The plan that changed last: its kind, when, and its status then."""

    kind: str
    at: Instant
    status: PlanStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What is seen of a table at a glance.

    Attributes:
        findings: the worst ones.
        unread_since: the time of the oldest event that a consumer has not read; None without one.
        last_run: None if no plan is known.
    """

    findings: tuple[Finding, ...] = ()
    unread_since: Instant | None = None
    last_run: LastRun | None = None


def glance(
    ports: TableContext, state: State, policy: Policy, planned: Planned, now: Instant
) -> Glance:
    """Return what is seen of a table at a glance.

    Args:
        ports: the table's.
        state: the newest.
        policy: by which it was planned.
        planned: its worthwhile plans.
        now: the wall clock.

    Raises:
        StorageError: the events of a consumer cannot be read.
    """
    seen = Observed(table=ports.uri, state=state, now=now, policy=policy, planned=planned)
    unread = {name: unread_since(ports.log, state, each) for name, each in state.consumers.items()}
    findings = [*at_a_glance(seen, Bounds())]
    try:
        hours = Retention.read(state.table.properties).consumer_hours
        findings += lagging_consumers(state, unread, now=now, hours=hours)
    except InvalidInput:  # the planner says so
        pass
    last = max(state.plans.values(), key=lambda each: each.last_n, default=None)
    return Glance(
        findings=tuple(each.of_table(ports.uri) for each in worst_first(findings)[:MOST]),
        unread_since=min((at for at in unread.values() if at is not None), default=None),
        last_run=None
        if last is None
        else LastRun(kind=str(last.plan.kind), at=last.changed_at, status=last.status),
    )

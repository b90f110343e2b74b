"""Request the plan that builds what an index lacks."""

from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown
from airflow_provider_segtable.core.log.events import PlanRequested
from airflow_provider_segtable.core.log.index_plan import pending_plan
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.planning.finders.index import index_plan
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.lifecycle import index_named
from airflow_provider_segtable.table.log.committer import (
    Change,
    Committed,
    Unknown,
    commit,
    way_out,
)

ATTEMPTS = 5
"""Most requests, if other events forbid the plan each time."""


def requested_plan(ports: TableContext, name: str) -> PlanState | None:
    """Return the pending plan of an index, requested now unless it is there already.

    Args:
        ports: the table's ports.
        name: the index.

    Returns:
        None if the index lacks nothing.

    Raises:
        InvalidInput: there is no index of this name.
        CommitConflict: other requests were first, repeatedly.
        CommitUnknown: request it again, it is not requested twice.
    """
    state, reason = ports.log.load(), ""
    for _ in range(ATTEMPTS):
        index = index_named(state, name, ports.uri)
        known = pending_plan(index.definition.id, state.pending_plans())
        plan = index_plan(state, index, f"asked for by {ports.author}")
        if known is not None or plan is None:
            return known
        change = Change(
            action=PlanRequested(plan=plan), commit_id=f"request-{ports.randomness.token()}"
        )
        outcome = commit(ports, state, change)
        if isinstance(outcome, Unknown):
            raise CommitUnknown(way_out(ports, change, outcome.n))
        if isinstance(outcome, Committed):
            return outcome.state.plans[plan.id]
        state, reason = ports.log.refresh(state), outcome.reason
    raise CommitConflict(f"{ports.uri}: index {name} cannot be planned: {reason}; request it again")

"""Plans of one kind alone, as ``plan_all`` would find them if there were no other kind."""

from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.finders.finder import finder_of
from airflow_provider_segtable.planning.planner_context import look_at_table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned, Skipped, choose
from airflow_provider_segtable.planning.table_plan import candidates_in


def plan_of(kind: type[Plan], state: State, policy: Policy, now: Instant) -> Planned:
    """Plan the compactions of one kind."""
    skipped: list[Skipped] = []
    found = candidates_in(look_at_table(state, policy, now), [finder_of(kind)], skipped)
    return choose(found, policy, skipped)

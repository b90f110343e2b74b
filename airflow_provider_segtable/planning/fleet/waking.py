"""Decide whether an event of a table's log may give a fleet's planner work."""

from airflow_provider_segtable.core.log.events import Event, effects
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.families.table_events import TableAltered


def wakes(event: Event) -> bool:
    """Return whether a planner should look: rows or settings changed, or a plan was completed.

    A completed plan leaves its place in the budget to another one. The planner's own requests, and
    the beginnings of attempts, are no reason to look again; nor is a plan that was cancelled.
    """
    return bool(effects(event.action)) or isinstance(event.action, PlanCompleted | TableAltered)

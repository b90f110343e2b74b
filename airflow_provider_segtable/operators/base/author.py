"""Author names for events and locks, so that a lock can be traced to its task."""

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.table.context import this_process


def author_of(context: Context) -> str:
    """Return ``host:pid dag/run/task`` of a running task."""
    here, ti = this_process(), context.get("ti")
    return f"{here} {ti.dag_id}/{ti.run_id}/{ti.task_id}" if ti else here


def task_of(author: str) -> str:
    """Return ``dag/run/task`` of an author, equal for all tries; empty if it is no task."""
    return author.partition(" ")[2]

"""Links of a task: its table in the store's console, and the planner's run behind its plans.

Airflow asks for them once, in the task's own process, when it has ended, and keeps the answers.
It shows no link whose address is empty.
"""

from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import (
    AirflowNotFoundException,
    BaseOperator,
    BaseOperatorLink,
    Context,
    conf,
)

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.storage.table_paths import console_page


class SegtableTableLink(BaseOperatorLink):
    """The folder of the task's table, if its store has a console (S3, Google Cloud Storage)."""

    name = "Table"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002
        """Return the address; empty where none is known."""
        task: Any = operator
        try:
            place = SegtableHook(task.segtable_conn_id).place
            return console_page(place.uri(task.table), place.storage_options)
        except (InvalidInput, AirflowNotFoundException):  # the task has failed of it
            return ""


class SegtablePlannerLink(BaseOperatorLink):
    """The run of the planner DAG that emitted the task's run; its log has the plans' reasons."""

    name = "Planner run"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002
        """Return the address; empty if no planner emitted the run."""
        task: Any = operator
        dag_id, _, run_id = str(task.planned_by or "").partition("/")
        if not (dag_id and run_id):
            return ""
        base = conf.get("api", "base_url", fallback="/").rstrip("/")
        return f"{base}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}"


def run_name(context: Context) -> str:
    """Return ``DAG/RUN`` of a running task, as ``planned_by`` takes it; empty outside a run."""
    ti = context.get("ti")
    return f"{ti.dag_id}/{ti.run_id}" if ti else ""

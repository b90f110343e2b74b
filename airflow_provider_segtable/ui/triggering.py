"""DAG runs by Airflow's own functions, and the right to them, in the API server.

1. A run is made as by the button *Trigger*, in the user's name. Equal run ids are one run.
2. The right to it is the right of that button: ``POST`` of runs of the DAG. If it cannot be
   checked, it is denied.
3. Airflow 3.1 to 3.3 have these functions in the same places; a run's note is newer.
"""

import logging
from collections.abc import Mapping
from inspect import signature
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.compat.sdk import conf as settings

from airflow_provider_segtable.core.errors import ExecutionFailed

SKIPPED = "skipped"
_LOG = logging.getLogger(__name__)


class RunsOfServer:
    """DAG runs that a user makes (``operators.dag_runs.DagRuns``); ``last`` was asked for last."""

    def __init__(self, user: str) -> None:
        """Take the name that runs have."""
        self._user = user
        self.last = ("", "")

    def trigger(self, dag_id: str, run_id: str, *, conf: Mapping[str, Any], note: str) -> bool:
        """Make a run; False if there is one with this id.

        Raises:
            ExecutionFailed: Airflow refused; the message says why.
        """
        from airflow.api.common.trigger_dag import trigger_dag
        from airflow.exceptions import DagRunAlreadyExists
        from airflow.utils.types import DagRunTriggeredByType
        from sqlalchemy.exc import IntegrityError

        self.last = (dag_id, run_id)
        noted: dict[str, Any] = (
            {"note": note} if "note" in signature(trigger_dag).parameters else {}
        )
        try:
            trigger_dag(
                dag_id,
                triggered_by=DagRunTriggeredByType.UI,
                triggering_user_name=self._user,
                run_id=run_id,
                conf=dict(conf),
                **noted,
            )
        except (DagRunAlreadyExists, IntegrityError):  # the latter if both are made at once
            return False
        except (AirflowException, ValueError) as error:
            raise ExecutionFailed(f"no run of DAG {dag_id} was made: {error}") from error
        return True

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run; empty if there is none."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            wanted = (DagRun.dag_id == dag_id, DagRun.run_id == run_id)
            found = session.scalar(select(DagRun.state).where(*wanted))
            return str(getattr(found, "value", found) or "")

    def skipped(self, dag_id: str, run_id: str) -> bool:
        """Return whether the tasks of a run were skipped."""
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            wanted = (TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
            states = session.scalars(select(TaskInstance.state).where(*wanted)).all()
            return {str(getattr(each, "value", each)) for each in states} == {SKIPPED}

    def paused(self, dag_id: str) -> bool:
        """Return whether runs of a DAG do not begin until it is unpaused."""
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            found = session.get(DagModel, dag_id)
            return found is not None and bool(found.is_paused)


def address_of(dag_id: str, run_id: str) -> str:
    """Return the path of a run's page."""
    base = urlsplit(settings.get("api", "base_url", fallback="") or "/").path.rstrip("/")
    return f"{base}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}"


def may_not_run(identity: Any, dag_id: str) -> str:
    """Return why a user may not trigger a DAG; empty if it is allowed."""
    from fastapi import HTTPException

    try:
        from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
        from airflow.api_fastapi.core_api.security import requires_access_dag

        check: Any = requires_access_dag("POST", DagAccessEntity.RUN, dag_id)
        check(None, identity)
    except HTTPException:
        return f"you may not trigger DAG {dag_id}, which this needs"
    except Exception:  # noqa: BLE001 - whatever it is, the right is denied
        _LOG.exception("the right to DAG %s cannot be checked: it is denied", dag_id)
        return f"the right to trigger DAG {dag_id} cannot be checked"
    return ""

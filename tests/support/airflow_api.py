"""What can be asked of a running Airflow without a login, by its REST API."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

from airflow_provider_segtable.core.errors import ExecutionFailed

Found = TypeVar("Found")
ENDED = ("success", "failed")
ANSWER_S = 120.0
"""How long a request waits: a busy machine may serve few requests while tasks start."""
REPEATABLE = ("GET", "PATCH")
TRIES = 4
POLL_S, MOST_POLL_S = 0.25, 2.0
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A DAG run."""

    dag_id: str
    run_id: str
    state: str
    conf: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Return whether the run has ended, by success or failure."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A task instance; ``pid`` is the process of its newest try, if it ever ran."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEvent:
    """An event of the asset ``uri``; ``source_run_id`` is the run whose task emitted it."""

    uri: str
    extra: Mapping[str, Any]
    source_run_id: str


class AirflowApi:
    """A client of the API server at ``url``; ``token`` is its user's, if it asks for a login."""

    url: str
    token: str = ""

    def wait_dag(self, dag_id: str, *, timeout_s: float = 180.0) -> None:
        """Wait until the DAG processor has read a DAG.

        Raises:
            ExecutionFailed: if the DAG does not appear; has the import errors.
        """

        def there() -> bool | None:
            return self._ask(f"dags/{dag_id}", missing=None) is not None or None

        if not poll(there, timeout_s):
            errors = self._ask("importErrors")["import_errors"]
            told = "; ".join(error["stack_trace"] for error in errors) or "no import error"
            raise ExecutionFailed(f"DAG {dag_id} was not found within {timeout_s:g} s: {told}")

    def unpause(self, dag_id: str) -> None:
        """Wait until a DAG exists, and unpause it."""
        self.wait_dag(dag_id)
        self._ask(f"dags/{dag_id}", method="PATCH", body={"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """Start no more runs of a DAG."""
        self._ask(f"dags/{dag_id}", method="PATCH", body={"is_paused": True})

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, *, run_id: str | None = None
    ) -> str:
        """Create a run of a DAG, unless it is there; return its id."""
        self.wait_dag(dag_id)
        named = run_id or f"manual__{uuid4()}"
        body = {"conf": dict(conf or {}), "logical_date": None, "dag_run_id": named}
        self._ask(f"dags/{dag_id}/dagRuns", method="POST", body=body, there=None)
        return named

    def runs(self, dag_id: str) -> list[Run]:
        """Return the runs of a DAG, oldest first."""
        found = self._ask(f"dags/{dag_id}/dagRuns?limit=100&order_by=id", missing={"dag_runs": []})
        return [_run(run) for run in found["dag_runs"]]

    def run(self, dag_id: str, run_id: str) -> Run | None:
        """Return one run."""
        found = self._ask(f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}", missing=None)
        return None if found is None else _run(found)

    def wait_run(self, dag_id: str, run_id: str, *, timeout_s: float = 120.0) -> Run:
        """Wait until a run has ended, and return it.

        Raises:
            ExecutionFailed: if it has not ended in time; has the states of its tasks.
        """

        def ended() -> Run | None:
            run = self.run(dag_id, run_id)
            return run if run is not None and run.ended else None

        run = poll(ended, timeout_s)
        if run is None:
            raise ExecutionFailed(
                f"run {run_id} of {dag_id} has not ended after {timeout_s:g} s: "
                f"{self.tasks(dag_id, run_id)}"
            )
        return run

    def tasks(self, dag_id: str, run_id: str) -> list[TaskRun]:
        """Return the task instances of a run."""
        where = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances"
        return [
            TaskRun(
                task_id=task["task_id"],
                map_index=task["map_index"],
                state=task["state"],
                try_number=task["try_number"],
                pid=task["pid"],
            )
            for task in self._ask(where)["task_instances"]
        ]

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Mark a run as failed or successful, or queue it again."""
        where = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
        self._ask(where, method="PATCH", body={"state": state})

    def mark_task(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task as failed or successful."""
        where = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}"
        self._ask(where, method="PATCH", body={"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Have a task of a run done again."""
        asked = {"dag_run_id": run_id, "task_ids": [task_id]}
        body = {**asked, "dry_run": False, "only_failed": False}
        self._ask(f"dags/{dag_id}/clearTaskInstances", method="POST", body=body)

    def links(self, dag_id: str, run_id: str, task_id: str) -> Mapping[str, str | None]:
        """Return the links of a task, by name; None where it has no address."""
        where = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/links"
        found: Mapping[str, str | None] = self._ask(where)["extra_links"]
        return found

    def asset_events(self, dag_id: str, run_id: str) -> list[AssetEvent]:
        """Return the asset events that triggered a run, oldest first."""
        where = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/upstreamAssetEvents"
        found = sorted(self._ask(where)["asset_events"], key=lambda event: event["id"])
        return [
            AssetEvent(uri=event["uri"], extra=event["extra"], source_run_id=event["source_run_id"])
            for event in found
        ]

    def backfill(
        self,
        dag_id: str,
        first: datetime,
        last: datetime,
        *,
        conf: Mapping[str, Any] | None = None,
        again: bool = False,
        max_active_runs: int = 4,
    ) -> int:
        """Create a run of a DAG for each of its intervals, as ``airflow backfill create`` does.

        Returns the backfill's id.

        Args:
            dag_id: the DAG.
            first: the start of the first interval.
            last: the start of the last one.
            conf: every run's conf.
            again: clear the runs that are there; they are left alone otherwise.
            max_active_runs: how many run at once.
        """
        body = {
            "dag_id": dag_id,
            "from_date": first.isoformat(),
            "to_date": last.isoformat(),
            "dag_run_conf": dict(conf or {}),
            "reprocess_behavior": "completed" if again else "none",
            "max_active_runs": max_active_runs,
        }
        return int(self._ask("backfills", method="POST", body=body)["id"])

    def wait_backfill(self, backfill: int, *, timeout_s: float = 120.0) -> None:
        """Wait until Airflow has noticed that a backfill is over; until then it makes no other.

        Raises:
            ExecutionFailed: it has not been noticed in time.
        """

        def over() -> bool | None:
            return self._ask(f"backfills/{backfill}")["completed_at"] is not None or None

        if not poll(over, timeout_s):
            raise ExecutionFailed(f"backfill {backfill} is not over after {timeout_s:g} s")

    def page(self, path: str, **headers: str) -> tuple[int, Any]:
        """Return status and JSON of a path of the provider's own page."""
        request = urllib.request.Request(  # noqa: S310  # a loopback server
            f"{self.url}/segtable/{path}", headers=headers
        )
        try:
            return HTTPStatus.OK, json.loads(_answer(request, tries=TRIES))
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def _login(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Any = None,
        missing: Any = ...,
        there: Any = ...,
    ) -> Any:
        """Return an answer: ``missing`` if there is no such thing, ``there`` if it was made before.

        With ``there`` a request may be made twice.
        """
        request = urllib.request.Request(  # noqa: S310  # a loopback server
            f"{self.url}/api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **self._login()},
        )
        repeatable = method in REPEATABLE or there is not ...
        known = {HTTPStatus.NOT_FOUND: missing, HTTPStatus.CONFLICT: there}
        try:
            return json.loads(_answer(request, tries=TRIES if repeatable else 1) or b"null")
        except urllib.error.HTTPError as error:
            if known.get(HTTPStatus(error.code), ...) is not ...:
                return known[HTTPStatus(error.code)]
            told = error.read().decode(errors="replace")
            raise ExecutionFailed(f"{method} {path}: HTTP {error.code}: {told}") from error


def _run(told: Mapping[str, Any]) -> Run:
    return Run(
        dag_id=told["dag_id"],
        run_id=told["dag_run_id"],
        state=told["state"],
        conf=told.get("conf") or {},
    )


def _answer(request: urllib.request.Request, *, tries: int) -> bytes:
    """Return a server's answer, repeating the request after a failure while there are tries left.

    The database of a trial's Airflow may be busy, which the server answers with status 500.
    """
    try:
        with _HTTP.open(request, timeout=ANSWER_S) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        if tries <= 1 or error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
    except OSError:
        if tries <= 1:
            raise
    time.sleep(POLL_S)
    return _answer(request, tries=tries - 1)


def poll(look: Callable[[], Found | None], timeout_s: float) -> Found | None:
    """Return what ``look`` finds, asked again until the time is over; None then."""
    begun = time.monotonic()
    while (found := look()) is None:
        waited_s = time.monotonic() - begun
        if waited_s > timeout_s:
            return None
        time.sleep(pause_s(waited_s))
    return found


def pause_s(waited_s: float, least_s: float = POLL_S) -> float:
    """Return how long to pause before the next look: longer, the longer nothing was found.

    Most looks are requests, each of which costs Airflow much processor time.
    """
    return min(max(least_s, waited_s / 10), MOST_POLL_S)

"""Base of the operators that start a Spark application: settings, launch, report, kill.

1. A driver below the task writes its report to a temporary file of the task.
2. The end of a driver on a cluster (a Spark connection in cluster mode) is read from the table:
   from the log, or from the result that the application left beside it. With ``deferrable`` the
   triggerer waits from the submission on; else the worker waits once ``spark-submit`` returned.
3. If the application died without a report, the operator reads the log.
4. Rendered template values are checked before anything is started. A refused value fails the
   task at once, because a retry would be refused again. Values of ``spark_conf`` and ``options``
   that are credentials are masked before Airflow stores the rendered fields. Triggers and XComs
   carry names, never credentials.
"""

import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import conf

from airflow_provider_segtable.core.arguments import option, plain
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    ExecutionFailed,
)
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.hooks.submission import (
    Launcher,
    LocalSparkSubmit,
    SparkSubmit,
    Submission,
    local_spark_here,
)
from airflow_provider_segtable.operators.base.asset_events import AssetEventOperator
from airflow_provider_segtable.operators.base.rendered import refused_at_once
from airflow_provider_segtable.spark.driver.session import RESULT_PREFIX, spark_app_path
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.remote_results import fetch, forget
from airflow_provider_segtable.triggers.detached import DetachedTrigger, Ending
from airflow_provider_segtable.triggers.watch import deadline_after, wait_here


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an application ended: the ``facts`` it reported, and the ``error`` if it failed.

    ``detached``: without facts, the log has the outcome. ``running``: it may still be running.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    detached: bool = False
    running: bool = False


class SegtableSparkOperator(AssetEventOperator):
    """Run one of the provider's Spark applications (``app``) over one table; a base class.

    Args:
        table: below the connection's root, or a URI.
        segtable_conn_id: the connection.
        spark_conn_id: submit by this Spark connection; by default the segtable connection's
            ``spark_conn_id``, and without one Spark runs on this worker.
        spark_master: for Spark on this worker; by default the segtable connection's, else all
            local cores.
        spark_conf: settings of the application.
        launcher: starts the application, instead of the two built-in launchers.
        deferrable: if the driver runs on a cluster, wait in the triggerer and take no worker
            slot. The task always waits itself for a driver below it.
        wait_timeout: how long to wait for a driver on a cluster, queues included.
        poll_interval: seconds between checks for its end, if ZooKeeper announces nothing.
        retries: how often a failed or killed try is repeated.
        retry_delay: pause before a retry; longer than ZooKeeper keeps the locks of a dead holder.
    """

    app: ClassVar[str]
    template_fields: Sequence[str] = (
        "table",
        "segtable_conn_id",
        "spark_conn_id",
        "spark_master",
        "spark_conf",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"spark_conf": "json"}

    def __init__(  # noqa: PLR0913 - each is an option
        self,
        *,
        table: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        spark_conn_id: str | None = None,
        spark_master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        launcher: Launcher | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        wait_timeout: timedelta = timedelta(hours=24),
        poll_interval: float = 30.0,
        retries: int = 2,
        retry_delay: timedelta = timedelta(seconds=40),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.table = table
        self.segtable_conn_id = segtable_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_master = spark_master
        self.spark_conf = spark_conf
        self.launcher = launcher
        self.deferrable = deferrable
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields whose values may be credentials, by name."""
        return (self.spark_conf,)

    def on_kill(self) -> None:
        """End the application."""
        if self.launcher is not None:
            self.launcher.kill()

    def launch(
        self,
        place: Place,
        asked: Sequence[str],
        *,
        commit_id: str | None = None,
        plans: Sequence[str] = (),
        reader_options: Mapping[str, str] | None = None,
        carried: Mapping[str, Any],
    ) -> Report:
        """Run the application to its end, or defer to ``execute_complete``.

        Args:
            place: the connection's settings.
            asked: the application's arguments, without the addresses of table and ZooKeeper.
            commit_id: commit id of the change; once it is in the log, the application has ended.
            plans: ids of its plans; once none is pending, the application has ended.
            reader_options: credentials of Spark's readers; kept off the command line.
            carried: more arguments of ``execute_complete``.

        Raises:
            CoordinatorUnavailable: the connection names no ZooKeeper.
            TaskDeferred: the driver is on a cluster and ``deferrable`` is set.
        """
        self.launcher = self.launcher or self._chosen_launcher(place)
        if self.launcher.attached:
            if self.deferrable:
                self.log.info(
                    "not deferred: the driver is a child process of this task (client mode)"
                )
            return self._run(place, asked, reader_options or {})
        ending = Ending(
            table=self.table,
            result=f"{self.app}-{secrets.token_hex(8)}",
            commit_id=commit_id,
            plans=tuple(plans),
        )
        told = ("--leave-result", ending.result)
        error = self._submit(place, asked, told, reader_options or {})
        if error is not None:
            facts = self._left(place, ending.result)
            return Report(facts=facts, error=error, detached=True, running=not facts)
        deadline = deadline_after(self.wait_timeout.total_seconds())
        if self.deferrable:
            self._defer(ending, deadline, carried)
        event = wait_here(
            place,
            ending,
            poll_interval=self.poll_interval,
            deadline=deadline,
            tell=self.log.info,
        )
        return self.report_of(place, event, ending.result)

    def can_launch(self, place: Place) -> bool:
        """Return whether an application can be started: by a connection, launcher or from here."""
        if self.launcher is not None or self.spark_conn_id or place.spark_conn_id:
            return True
        return local_spark_here()

    def report_of(self, place: Place, event: Mapping[str, Any] | None, result: str) -> Report:
        """Return how a detached application ended.

        Args:
            place: the connection's settings.
            event: the event that ended the wait.
            result: name of the result file that the application leaves in the table.
        """
        told = event or {"message": "the trigger ended without an event"}
        facts = self._left(place, result) or told.get("facts") or {}
        if facts or told.get("status") == "success":
            code = facts.get("code")
            told_why = redacted(str(facts.get("error") or f"it ended with exit code {code}"))
            error = told_why if code else None
            return Report(facts=facts, error=error, detached=True)
        why = f"waiting for it failed: {told.get('message', told)}"
        if told.get("status") == "timeout":
            why = (
                f"it did not end within {self.wait_timeout}: {told['message']}. Look for "
                f"{self._name} on the cluster: it may wait for resources, or have died"
            )
        return Report(error=why, detached=True, running=True)

    @property
    def _name(self) -> str:
        return plain("table", f"segtable-{self.app}-{Path(self.table).name}")

    def _run(self, place: Place, asked: Sequence[str], reader_options: Mapping[str, str]) -> Report:
        with tempfile.TemporaryDirectory(prefix="segtable-") as folder:
            file = Path(folder, "result.json")
            here = ("--result-file", str(file), "--die-with-parent")
            error = self._submit(place, asked, here, reader_options)
            return Report(facts=_read(file), error=error)

    def _submit(
        self,
        place: Place,
        asked: Sequence[str],
        told: Sequence[str],
        reader_options: Mapping[str, str],
    ) -> str | None:
        """Start the application; return the error, if any.

        Raises:
            AirflowFailException: a value is refused; nothing was started.
        """
        if place.zookeeper is None:
            raise CoordinatorUnavailable(
                f"connection {place.conn_id} names no ZooKeeper: set zookeeper in its extra"
            )
        assert self.launcher is not None  # noqa: S101  # chosen by ``launch``
        where = (
            option("table", absolute(place.uri(self.table))),
            option("zookeeper", place.zookeeper),
        )
        with refused_at_once(f"{self.app} over {self.table}"):
            submission = Submission(
                application=spark_app_path(self.app),
                arguments=(*asked, *where, *told),
                name=self._name,
                conf=self.spark_conf or {},
                storage_options=place.storage_options,
                reader_options=reader_options,
                zookeeper_options=place.zookeeper_options,
                wait=not self.deferrable,
            )
            try:
                self.launcher.launch(submission, self._pass_on)
            except ExecutionFailed as fault:
                return redacted(str(fault))
        return None

    def _pass_on(self, line: str) -> None:
        """Log a line of the application, except its result, which the task logs in words."""
        if not line.startswith(RESULT_PREFIX):
            self.log.info("%s", line)

    def _defer(self, ending: Ending, deadline: Instant, carried: Mapping[str, Any]) -> None:
        trigger = DetachedTrigger(
            table=self.table,
            segtable_conn_id=self.segtable_conn_id,
            result=ending.result,
            commit_id=ending.commit_id,
            plans=ending.plans,
            poll_interval=self.poll_interval,
            deadline=deadline,
        )
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            kwargs={"result": ending.result, **carried},
        )

    def _left(self, place: Place, result: str) -> Mapping[str, Any]:
        """Read and delete the result that an application left in the table."""
        with place.table_ports(self.table) as ports:
            facts = fetch(ports.storage, result)
            if facts is not None:
                forget(ports.storage, result)
        return facts or {}

    def _chosen_launcher(self, place: Place) -> Launcher:
        conn_id = self.spark_conn_id or place.spark_conn_id
        if conn_id and not self.spark_master:
            return SparkSubmit(plain("spark_conn_id", conn_id))
        return LocalSparkSubmit(self.spark_master or place.spark_master)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return found

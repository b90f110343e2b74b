"""Bases of the operators that start a Spark application or commit one event.

Start a Spark application (settings, launch, report, kill):

1. A driver below the task writes its report to a temporary file of the task.
2. The end of a driver on a cluster (a Spark connection in cluster mode) is read from the table:
   from the log, or from the result that the application left beside it. With ``deferrable`` the
   triggerer waits from the submission on; else the worker waits after the end of ``spark-submit``.
3. If the application died without a report, the operator reads the log.
4. Rendered template values are checked before an application is started. A refused value fails
   the task at once, because a retry would be refused again. Credentials in ``spark_conf`` and
   ``options`` are masked before Airflow stores the rendered fields. Triggers and XComs carry
   names, never credentials.

Commit one event (an append, an overwrite, a change of rows):

5. The event has a commit id, by default the name of the task instance: DAG, run, task. If the log
   contains it, an earlier try landed, and nothing is done. So a retried task commits once.
6. The task does the work itself if it can (``here``), else a Spark application does. The triggerer
   may wait for its driver.
7. Judge by the application's report; without one (cluster mode, or it died after its commit), by
   the log. An error that a retry meets again (wrong SQL, an unknown column) fails the task at once;
   any other error is retried.
8. The commit is emitted as an asset event of the table (``operators.rendered``).
"""

import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    Context,
    conf,
)

from airflow_provider_segtable.core.arguments import option, plain, seconds
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    ExecutionFailed,
    Exit,
    InvalidInput,
)
from airflow_provider_segtable.core.secret import is_secret_name, redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.hooks.submission import (
    Launcher,
    LocalSparkSubmit,
    SparkSubmit,
    Submission,
    local_spark_here,
)
from airflow_provider_segtable.operators.rendered import (
    AssetEventOperator,
    author_of,
    refused_at_once,
)
from airflow_provider_segtable.planning.engine import LOCAL_BYTES, Engine
from airflow_provider_segtable.table.remote_results import fetch, forget
from airflow_provider_segtable.triggers.detached import Ending
from airflow_provider_segtable.triggers.watch import TableTrigger, deadline_after, wait_here

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.engine import Choice
    from airflow_provider_segtable.table.context import TableContext


# Start a Spark application
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
    """Work over one table in the task itself, or by a Spark application (``app``); a base class.

    Args:
        engine: ``local``: in the task itself, with rows in its memory. ``spark``: by the
            application. ``auto``: local up to ``local_bytes``, else Spark; always Spark for work
            that needs it.
        local_bytes: most bytes of input that ``auto`` reads in the task itself.
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
        kwargs: see ``TableOperator``.
    """

    app: ClassVar[str]
    template_fields: Sequence[str] = (
        *("engine", "spark_conn_id", "spark_master", "spark_conf"),
        *AssetEventOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"spark_conf": "json"}

    def __init__(  # noqa: PLR0913 - each is an option
        self,
        *,
        engine: str = Engine.AUTO,
        local_bytes: int = LOCAL_BYTES,
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
        self.engine = str(engine)
        self.local_bytes = local_bytes
        self.spark_conn_id = spark_conn_id
        self.spark_master = spark_master
        self.spark_conf = spark_conf
        self.launcher = launcher
        self.deferrable = deferrable
        self.wait_timeout = wait_timeout
        self.poll_interval = poll_interval

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields with values that may be credentials, by name."""
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
            AirflowFailException: Spark has no such deploy mode there; nothing was started.
            CoordinatorUnavailable: the connection names no ZooKeeper.
            TaskDeferred: the driver is on a cluster and ``deferrable`` is set.
        """
        self.launcher = self.launcher or self._chosen_launcher(place)
        with refused_at_once(f"{self.app} over {self.table}"):
            attached = self.launcher.attached  # looks up the connection's deploy mode
        if attached:
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
        report_to = ("--leave-result", ending.result)
        error = self._submit(place, asked, report_to, reader_options or {})
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
            report=self.log.info,
        )
        return self.report_of(place, event, ending.result)

    def chosen_engine(self, *, size: int, only_spark: str) -> "Choice":
        """Return the engine for the work (``planning.engine``).

        Args:
            size: bytes of its input.
            only_spark: why only Spark can do it; empty if this process can.

        Raises:
            InvalidInput: the field ``engine`` names none.
        """
        from airflow_provider_segtable.planning.engine import chosen_engine

        return chosen_engine(
            Engine.of(self.engine),
            size=size,
            only_spark=only_spark,
            spark_here=lambda: self.can_launch(self.place),
            local_bytes=self.local_bytes,
        )

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
        ended = event or {"message": "the trigger ended without an event"}
        facts = self._left(place, result) or ended.get("facts") or {}
        if facts or ended.get("status") == "success":
            code = facts.get("code")
            why = redacted(str(facts.get("error") or f"it ended with exit code {code}"))
            return Report(facts=facts, error=why if code else None, detached=True)
        why = f"waiting for it failed: {ended.get('message', ended)}"
        if ended.get("status") == "timeout":
            why = (
                f"it did not end within {self.wait_timeout}: {ended['message']}. Look for "
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
        report_to: Sequence[str],
        reader_options: Mapping[str, str],
    ) -> str | None:
        """Start the application; return the error, if any.

        Raises:
            AirflowFailException: a value is refused; nothing was started.
        """
        from airflow_provider_segtable.spark.driver.session import spark_app_path
        from airflow_provider_segtable.storage.table_paths import absolute

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
                arguments=(*asked, *where, *report_to),
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
        from airflow_provider_segtable.spark.driver.session import RESULT_PREFIX

        if not line.startswith(RESULT_PREFIX):
            self.log.info("%s", line)

    def _defer(self, ending: Ending, deadline: Instant, carried: Mapping[str, Any]) -> None:
        trigger = TableTrigger(
            ending,
            segtable_conn_id=self.segtable_conn_id,
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


CHANGED = ("matched", "deleted", "inserted")
"""Counts of a result that its asset event has, too."""


# Commit one event
class SegtableCommitOperator(SegtableSparkOperator):
    """Commit one event to a table, at most once; a base class.

    Args:
        commit_id: equal ids commit once; by default ``dag/run/task``.
        options: options of Spark's reader of files.
        wait_s: how long to wait for the coordinator, in seconds.
        kwargs: see ``SegtableSparkOperator``.
    """

    kind: ClassVar[str]
    """The work in one word, for asset events."""
    before: ClassVar[str]
    """The key in the result that says whether an earlier try had committed."""
    nothing: ClassVar[str]
    """The effect of a failed try on the table, in words."""
    template_fields: Sequence[str] = (
        "commit_id",
        "options",
        *SegtableSparkOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SegtableSparkOperator.template_fields_renderers,
        "options": "json",
    }

    def __init__(
        self,
        *,
        commit_id: str | None = None,
        options: Mapping[str, str] | None = None,
        wait_s: float = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.commit_id = commit_id
        self.options = options
        self.wait_s = wait_s

    # ---- each operator's part ---------------------------------------------------------------

    @property
    def title(self) -> str:
        """Return the work in words, for messages: ``delete in trips``."""
        raise NotImplementedError

    def asked(self, commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments; those of either engine are checked here.

        Raises:
            InvalidInput: the operator's arguments are empty or contradictory.
        """
        raise NotImplementedError

    def here(self, ports: "TableContext", commit_id: str | None) -> dict[str, Any] | None:  # noqa: ARG002
        """Do the work in this process, and return its result; None if Spark has to do it."""
        return None

    def logged(self, ports: "TableContext", n: int) -> dict[str, Any] | None:
        """Return the result of event ``n``; None if the event is of another kind."""
        raise NotImplementedError

    def reported(self, ports: "TableContext", facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result that a successful application reports; None if it reports none."""
        raise NotImplementedError

    def sentence(self, told: Mapping[str, Any]) -> str:
        """Return a result in one line."""
        raise NotImplementedError

    # ---- the way of every commit ------------------------------------------------------------

    def execute(self, context: Context) -> dict[str, Any]:
        """Commit the event, unless an earlier try did."""
        with refused_at_once(self.title):
            commit_id = self.commit_id or self.name_of(context)
            waits = option("wait-s", f"{seconds('wait_s', self.wait_s):g}")
            asked = (*self.asked(commit_id), waits)
            place = self.place
            with place.table_ports(self.table, author=author_of(context)) as ports:
                result = self._landed(ports, commit_id, before=True) or self.here(ports, commit_id)
                if result is not None:
                    return self._ended(context, ports, result)
        return self._on_spark(context, place, asked, commit_id)

    def _on_spark(
        self, context: Context, place: Place, asked: Sequence[str], commit_id: str | None
    ) -> dict[str, Any]:
        """Run the application, or defer to ``execute_complete``; return its result."""
        report = self.launch(
            place,
            asked,
            commit_id=commit_id,
            reader_options=self.secret_options(),
            carried={"commit_id": commit_id},
        )
        with place.table_ports(self.table) as ports:
            return self._ended(context, ports, self._outcome(ports, commit_id, report))

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        *,
        result: str,
        commit_id: str | None,
    ) -> dict[str, Any]:
        """Go on after the trigger's event."""
        place = self.place
        report = self.report_of(place, event, result)
        with place.table_ports(self.table) as ports:
            return self._ended(context, ports, self._outcome(ports, commit_id, report))

    def kind_in(self, ports: "TableContext") -> str:  # noqa: ARG002  # for kinds of table
        """Return the work in one word, for asset events."""
        return self.kind

    def name_of(self, context: Context) -> str | None:
        """Return the default commit id: the name of the task instance; None outside a run."""
        return commit_id_of(context)

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields whose values may be credentials, by name."""
        return (self.spark_conf, self.options)

    def refuse_reader_options(self) -> None:
        """Refuse options of Spark's reader for work in this process.

        Raises:
            InvalidInput: there are some.
        """
        if self.options:
            raise InvalidInput(
                f"options {', '.join(self.options)} are for Spark's reader: leave them out, or "
                "set engine to auto or spark"
            )

    def secret_options(self) -> dict[str, str]:
        """Return the credentials among the reader's options."""
        given = self.options or {}
        return {key: str(value) for key, value in given.items() if is_secret_name(key)}

    def _ended(
        self, context: Context, ports: "TableContext", result: dict[str, Any]
    ) -> dict[str, Any]:
        """Log a result in one line, and emit its commit."""
        self.log.info("%s", self.sentence(result))
        if result["event"] is not None:
            counts = {name: result[name] for name in CHANGED if result.get(name) is not None}
            event, before = [result["event"]], result[self.before]
            made, found = ((), event) if before else (event, ())
            kind = self.kind_in(ports)
            self.emit(context, ports, kind, made=made, found=found, counts=counts)
        return result

    def _landed(
        self, ports: "TableContext", commit_id: str | None, *, before: bool
    ) -> dict[str, Any] | None:
        """Return the result as logged; None if it has not landed."""
        n = ports.log.load().commits.get(commit_id) if commit_id else None
        result = None if n is None else self.logged(ports, n)
        return result and {**result, self.before: before}

    def _outcome(
        self, ports: "TableContext", commit_id: str | None, report: Report
    ) -> dict[str, Any]:
        """Return the result of an application.

        Raises:
            AirflowFailException: its arguments are invalid, so no retry can succeed.
            AirflowException: it failed, and did not land.
        """
        facts = report.facts
        why = redacted(str(facts.get("error") or report.error or "its application left no result"))
        if facts.get("code") == Exit.USAGE:
            raise AirflowFailException(f"{self.title} cannot be done as asked: {why}")
        result = None if report.error else self.reported(ports, facts)
        if result is not None:
            return {**result, self.before: False}
        landed = self._landed(ports, commit_id, before=False)
        if landed is None:
            ended = "has not landed yet" if report.running else f"failed, and {self.nothing}"
            raise AirflowException(f"{self.title} {ended}; a retry commits at most once: {why}")
        return landed


def commit_id_of(context: Context) -> str | None:
    """Return the name of a task instance, equal in all its tries; None outside a run."""
    ti = context.get("ti")
    if ti is None:
        return None
    mapped = f"[{ti.map_index}]" if getattr(ti, "map_index", -1) >= 0 else ""
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}{mapped}"

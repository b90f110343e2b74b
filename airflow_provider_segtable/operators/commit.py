"""Base of the operators that commit one event: an append, an overwrite, a change of rows.

1. The event has a commit id, by default the name of the task instance: DAG, run, task. If the log
   contains it, an earlier try landed, and nothing is done. So a retried task commits once.
2. The work is done in the task itself where the operator can (``here``), else by a Spark
   application. The triggerer may wait for a driver on a cluster
   (``operators.base.spark_operator``).
3. Judge by the application's report; without one (cluster mode, or it died after its commit), by
   the log. An error that a retry cannot mend (wrong SQL, an unknown column) fails the task at once;
   any other error is retried.
4. The commit is emitted as an asset event of the table (``operators.base.asset_events``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    Context,
)

from airflow_provider_segtable.core.arguments import option, seconds
from airflow_provider_segtable.core.secret import is_secret_name, redacted
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.base.author import author_of
from airflow_provider_segtable.operators.base.rendered import refused_at_once
from airflow_provider_segtable.operators.base.spark_operator import Report, SegtableSparkOperator
from airflow_provider_segtable.table.context import TableContext

CHANGED = ("matched", "deleted", "inserted")
"""Counts of a result that its asset event has, too."""
WRONG_ARGUMENTS = 2
"""Exit code of an application whose arguments are invalid."""


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
    """What a failed try has done to the table, in words."""
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

    # ---- what each operator says ------------------------------------------------------------

    @property
    def what(self) -> str:
        """Return the work in words, for messages: ``delete in trips``."""
        raise NotImplementedError

    def asked(self, commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments; those of either engine are checked here.

        Raises:
            InvalidInput: the operator's arguments are empty or contradictory.
        """
        raise NotImplementedError

    def here(self, ports: TableContext, commit_id: str | None) -> dict[str, Any] | None:  # noqa: ARG002
        """Do the work in this process, and return its result; None if Spark has to do it."""
        return None

    def logged(self, ports: TableContext, n: int) -> dict[str, Any] | None:
        """Return the result of event ``n``; None if the event is of another kind."""
        raise NotImplementedError

    def reported(self, ports: TableContext, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result that a successful application reports; None if it reports none."""
        raise NotImplementedError

    def sentence(self, told: Mapping[str, Any]) -> str:
        """Return a result in one line."""
        raise NotImplementedError

    # ---- the way of every commit ------------------------------------------------------------

    def execute(self, context: Context) -> dict[str, Any]:
        """Commit the event, unless an earlier try did."""
        with refused_at_once(self.what):
            commit_id = self.commit_id or self.name_of(context)
            waits = option("wait-s", f"{seconds('wait_s', self.wait_s):g}")
            asked = (*self.asked(commit_id), waits)
            place = SegtableHook(self.segtable_conn_id).place
            with place.table_ports(self.table, author=author_of(context)) as ports:
                told = self._landed(ports, commit_id, before=True) or self.here(ports, commit_id)
        if told is None:
            report = self.launch(
                place,
                asked,
                commit_id=commit_id,
                reader_options=self.secret_options(),
                carried={"commit_id": commit_id},
            )
            told = self._settled(place, commit_id, report)
        return self._ended(context, place, told)

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        *,
        result: str,
        commit_id: str | None,
    ) -> dict[str, Any]:
        """Go on after the trigger's event."""
        place = SegtableHook(self.segtable_conn_id).place
        told = self._settled(place, commit_id, self.report_of(place, event, result))
        return self._ended(context, place, told)

    def kind_in(self, ports: TableContext) -> str:  # noqa: ARG002  # for kinds of table
        """Return the work in one word, for asset events."""
        return self.kind

    def name_of(self, context: Context) -> str | None:
        """Return the default commit id: the name of the task instance; None outside a run."""
        return commit_id_of(context)

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields whose values may be credentials, by name."""
        return (self.spark_conf, self.options)

    def secret_options(self) -> dict[str, str]:
        """Return the credentials among the reader's options."""
        given = self.options or {}
        return {key: str(value) for key, value in given.items() if is_secret_name(key)}

    def _ended(self, context: Context, place: Place, told: dict[str, Any]) -> dict[str, Any]:
        """Log a result in one line, and emit its commit."""
        self.log.info("%s", self.sentence(told))
        if told["event"] is not None:
            counts = {name: told[name] for name in CHANGED if told.get(name) is not None}
            event, before = [told["event"]], told[self.before]
            made, found = ((), event) if before else (event, ())
            with place.table_ports(self.table) as ports:
                kind = self.kind_in(ports)
                self.emit(context, ports, kind, made=made, found=found, counts=counts)
        return told

    def _landed(
        self, ports: TableContext, commit_id: str | None, *, before: bool
    ) -> dict[str, Any] | None:
        """Return the result as logged; None if it has not landed."""
        n = ports.log.load().commits.get(commit_id) if commit_id else None
        told = None if n is None else self.logged(ports, n)
        return told and {**told, self.before: before}

    def _settled(self, place: Place, commit_id: str | None, report: Report) -> dict[str, Any]:
        """Return the result of an application.

        Raises:
            AirflowFailException: its arguments are invalid, so no retry can succeed.
            AirflowException: it failed, and did not land.
        """
        facts = report.facts
        why = redacted(str(facts.get("error") or report.error or "its application left no result"))
        if facts.get("code") == WRONG_ARGUMENTS:
            raise AirflowFailException(f"{self.what} cannot be done as asked: {why}")
        with place.table_ports(self.table) as ports:
            told = None if report.error else self.reported(ports, facts)
            if told is not None:
                return {**told, self.before: False}
            landed = self._landed(ports, commit_id, before=False)
        if landed is None:
            ended = "has not landed yet" if report.running else f"failed, and {self.nothing}"
            raise AirflowException(f"{self.what} {ended}; a retry commits at most once: {why}")
        return landed


def commit_id_of(context: Context) -> str | None:
    """Return the name of a task instance, equal in all its tries; None outside a run."""
    ti = context.get("ti")
    if ti is None:
        return None
    mapped = f"[{ti.map_index}]" if getattr(ti, "map_index", -1) >= 0 else ""
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}{mapped}"

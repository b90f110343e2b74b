"""Delete, update and merge rows as tasks: each commits one event, or nothing.

1. The change has a commit id, by default the name of the task instance: DAG, run, task. If the
   log contains it, an earlier try landed and nothing is launched. So a retried task changes
   rows once, and a task that is cleared and run again in the same DAG run changes nothing.
2. Launch the application ``change``. Compactions and appends go on meanwhile, and need not wait.
3. The triggerer may wait for a driver on a cluster (``operators.application``).
4. Judge by the application's report; without one (cluster mode, or it died after its commit),
   by the log. An error that a retry cannot mend (wrong SQL, an unknown column) fails the task
   at once; any other error is retried.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    Context,
)

from airflow_provider_segtable.core.arguments import option, plain, seconds
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import RowsChanged
from airflow_provider_segtable.core.requests.change_arguments import arguments_of, columns_in
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    FileRows,
    Matched,
    Merge,
    Sql,
    Unmatched,
    Update,
    action,
    selected,
)
from airflow_provider_segtable.core.secret import is_secret_name, redacted
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.application import Report, SegtableSparkOperator
from airflow_provider_segtable.operators.author import author_of
from airflow_provider_segtable.operators.rendered import refused_at_once

WRONG_ARGUMENTS = 2
"""Exit code of an application whose arguments are invalid."""
_RESULT = ("kind", "event", "matched", "deleted", "inserted", "seconds")


class SegtableChangeOperator(SegtableSparkOperator):
    """Change rows of one table on Spark; a base of the three operators.

    Returns ``{"kind", "event", "matched", "deleted", "inserted", "seconds", "changed_before"}``;
    ``event`` is None if no row matched, ``deleted`` is None for a rollup table.

    Args:
        commit_id: changes with equal ids are applied once; by default ``dag/run/task``.
        wait_s: how long to wait for the coordinator, in seconds.
        kwargs: see ``SegtableSparkOperator``.
    """

    app = "change"
    kind: ClassVar[str]
    template_fields: Sequence[str] = ("commit_id", *SegtableSparkOperator.template_fields)
    ui_color = "#f5dfe8"

    def __init__(
        self, *, commit_id: str | None = None, wait_s: float = 60.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.commit_id = commit_id
        self.wait_s = wait_s

    def request(self, commit_id: str | None) -> ChangeRequest:
        """Return the change request.

        Raises:
            InvalidInput: the operator's arguments are empty or contradictory.
        """
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        """Change the rows, unless an earlier try committed the change."""
        commit_id = self.commit_id or commit_id_of(context)
        with refused_at_once(f"{self.kind} in {self.table}"):
            waits = option("wait-s", f"{seconds('wait_s', self.wait_s):g}")
            asked = (*arguments_of(self.request(commit_id)), waits)
            place = SegtableHook(self.segtable_conn_id).place
            place.uri(self.table)
            told = self._landed(place, commit_id, author_of(context))
        if told is None:
            report = self.launch(
                place,
                asked,
                commit_id=commit_id,
                reader_options=self.secret_options(),
                carried={"commit_id": commit_id},
            )
            told = self._settled(place, commit_id, report)
        self.log.info("%s", sentence(told))
        return told

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002  # Airflow's signature
        event: Mapping[str, Any] | None = None,
        *,
        result: str,
        commit_id: str | None,
    ) -> dict[str, Any]:
        """Go on after the trigger's event."""
        place = SegtableHook(self.segtable_conn_id).place
        told = self._settled(place, commit_id, self.report_of(place, event, result))
        self.log.info("%s", sentence(told))
        return told

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields whose values may be credentials, by name."""
        return (self.spark_conf, getattr(self, "options", None))

    def secret_options(self) -> dict[str, str]:
        """Return the credentials among the reader's options."""
        given: Mapping[str, str] = getattr(self, "options", None) or {}
        return {key: str(value) for key, value in given.items() if is_secret_name(key)}

    def _landed(
        self, place: Place, commit_id: str | None, author: str | None = None
    ) -> dict[str, Any] | None:
        """Return the change's result as logged; None if it has not landed."""
        if not commit_id:
            return None
        with place.table_ports(self.table, author=author) as ports:
            log = ports.log
            n = log.load().commits.get(commit_id)
            event = None if n is None else log.event(n)
        if event is None or not isinstance(event.action, RowsChanged):
            return None
        action = event.action
        return {
            "kind": action.kind,
            "event": n,
            "matched": action.matched,
            "deleted": None if action.predicate else action.deleted,
            "inserted": sum(segment.rows for segment in action.segments),
            "seconds": None,
            "changed_before": True,
        }

    def _settled(self, place: Place, commit_id: str | None, report: Report) -> dict[str, Any]:
        """Return the change's result.

        Raises:
            AirflowFailException: its arguments are invalid, so no retry can succeed.
            AirflowException: it failed, and did not land.
        """
        facts = report.facts
        if report.error is None and "matched" in facts:
            return {**{key: facts.get(key) for key in _RESULT}, "changed_before": False}
        if facts.get("code") == WRONG_ARGUMENTS:
            raise AirflowFailException(
                f"{self.kind} in {self.table} cannot be done as asked: "
                f"{redacted(str(facts.get('error')))}"
            )
        told = self._landed(place, commit_id)
        if told is not None:
            return {**told, "changed_before": False}
        ended = "has not landed yet" if report.running else "failed, and changed nothing"
        why = redacted(
            str(facts.get("error") or report.error or "its application reported nothing")
        )
        raise AirflowException(
            f"{self.kind} in {self.table} {ended}; a retry commits at most once: {why}"
        )


class SegtableRowsOperator(SegtableChangeOperator):
    """Change the rows selected by a predicate or a file of matches, or all rows; a base class.

    Args:
        where: a Spark SQL expression. If it renders to an empty text, the task fails: an empty
            predicate never selects all rows.
        matches: a file, folder or pattern that Spark can read; selects the rows equal to one of
            its rows. If ``where`` is given too, both must hold.
        on: the columns to compare with ``matches``; by default all columns of the file.
        format: format of ``matches``; by default taken from the suffix.
        options: options of Spark's reader of ``matches``.
        all_rows: select every row.
        kwargs: see ``SegtableChangeOperator``.
    """

    template_fields: Sequence[str] = (
        *("where", "matches", "on", "format", "options"),
        *SegtableChangeOperator.template_fields,
    )

    def __init__(
        self,
        *,
        where: str | None = None,
        matches: str | None = None,
        on: Sequence[str] | str | None = None,
        format: str | None = None,  # noqa: A002  # Spark's own word
        options: Mapping[str, str] | None = None,
        all_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.matches = matches
        self.on = on
        self.format = format
        self.options = options
        self.all_rows = all_rows

    def selection(self) -> dict[str, Any]:
        """Return the fields of the request that select rows."""
        rows = file_rows("matches", self.matches, self.format, self.options)
        where = None if self.where is None else plain("where", self.where, sql=True)
        return {
            "where": selected(where, rows, every_row=self.all_rows),
            "rows": rows,
            "on": columns("on", self.on),
        }


class SegtableDeleteOperator(SegtableRowsOperator):
    """Delete the rows that ``SegtableRowsOperator`` selects."""

    kind = "delete"

    def request(self, commit_id: str | None) -> Delete:
        """Return the change request."""
        return Delete(**self.selection(), commit_id=commit_id)


class SegtableUpdateOperator(SegtableRowsOperator):
    """Set columns of rows to expressions over their old values.

    Args:
        set: a Spark SQL expression for each column to set.
        kwargs: see ``SegtableRowsOperator``.
    """

    kind = "update"
    template_fields: Sequence[str] = ("set", *SegtableRowsOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SegtableRowsOperator.template_fields_renderers,
        "set": "json",
    }

    def __init__(self, *, set: Mapping[str, str], **kwargs: Any) -> None:  # noqa: A002  # SQL's word
        super().__init__(**kwargs)
        self.set = set

    def request(self, commit_id: str | None) -> Update:
        """Return the change request."""
        return Update(set=assigning(self.set), **self.selection(), commit_id=commit_id)


class SegtableMergeOperator(SegtableChangeOperator):
    """Merge rows of a source into the table, by key.

    Args:
        source: a file, folder or pattern that Spark can read.
        on: the key columns; a table row and a source row match if these are equal.
        matched: action on matched table rows: update, delete or ignore.
        unmatched: action on unmatched source rows: insert or ignore.
        set: new values of updated rows: by column, a Spark SQL expression over ``target.*`` and
            ``source.*``; by default the source's columns.
        format: format of ``source``; by default taken from the suffix.
        options: options of Spark's reader of ``source``.
        kwargs: see ``SegtableChangeOperator``.
    """

    kind = "merge"
    template_fields: Sequence[str] = (
        *("source", "on", "matched", "unmatched", "set", "format", "options"),
        *SegtableChangeOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SegtableChangeOperator.template_fields_renderers,
        "set": "json",
    }

    def __init__(
        self,
        *,
        source: str,
        on: Sequence[str] | str,
        matched: str = "update",
        unmatched: str = "insert",
        set: Mapping[str, str] | None = None,  # noqa: A002  # SQL's word
        format: str | None = None,  # noqa: A002  # Spark's own word
        options: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.on = on
        self.matched = matched
        self.unmatched = unmatched
        self.set = set
        self.format = format
        self.options = options

    def request(self, commit_id: str | None) -> Merge:
        """Return the change request."""
        source = file_rows("source", self.source, self.format, self.options)
        if source is None:
            raise InvalidInput(f"source = {self.source!r} is not a file: give a path")
        return Merge(
            source=source,
            on=columns("on", self.on),
            matched=action(Matched, self.matched),
            unmatched=action(Unmatched, self.unmatched),
            set=assigning(self.set) or None,
            commit_id=commit_id,
        )


def commit_id_of(context: Context) -> str | None:
    """Return the name of a task instance, equal in all its tries; None outside a run."""
    ti = context.get("ti")
    if ti is None:
        return None
    mapped = f"[{ti.map_index}]" if getattr(ti, "map_index", -1) >= 0 else ""
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}{mapped}"


def file_rows(
    what: str, path: str | None, kind: str | None, options: Mapping[str, str] | None
) -> FileRows | None:
    """Return the rows of a file; None without a path."""
    if not path:
        return None
    return FileRows(path=plain(what, path), format=kind, options=options or {})


def assigning(to: Mapping[str, str] | None) -> dict[str, Sql]:
    """Return new values as SQL."""
    return {name: Sql(text) for name, text in (to or {}).items()}


def columns(what: str, on: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the names of columns, given as a list or as ``a,b``."""
    return columns_in(plain(what, on)) if isinstance(on, str) else tuple(on or ())


def sentence(told: Mapping[str, Any]) -> str:
    """Return a result in words."""
    if told["event"] is None:
        return f"{told['kind']}: no row matched, nothing was written"
    gone = "these are" if told["deleted"] is None else f"{told['deleted']:,}"
    again = ", in an earlier try" if told["changed_before"] else ""
    return (
        f"{told['kind']}: {told['matched']:,} rows matched, {gone} deleted, "
        f"{told['inserted']:,} inserted: event {told['event']}{again}"
    )

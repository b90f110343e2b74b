"""Delete, update and merge rows as tasks: each commits one event, or none (``spark_operator``).

1. Compactions and appends go on meanwhile, and need not wait. A task that is cleared and run again
   in the same DAG run changes nothing.
2. Choose the engine (``planning.engine``) by the size of the table and of the files. The task
   itself evaluates simple SQL (``data.sql``) and reads files at paths and in object stores, with
   the connection's storage options; the application ``change`` does the rest on Spark.
"""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_segtable.core.arguments import plain
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.operators.spark_operator import SegtableCommitOperator

if TYPE_CHECKING:
    from airflow_provider_segtable.core.requests.change_request import (
        ChangeRequest,
        Delete,
        FileRows,
        Merge,
        Sql,
        Update,
    )
    from airflow_provider_segtable.planning.engine import Choice
    from airflow_provider_segtable.table.context import TableContext
    from airflow_provider_segtable.table.snapshot import Snapshot

_RESULT = ("kind", "event", "matched", "deleted", "inserted", "seconds")


class SegtableChangeOperator(SegtableCommitOperator):
    """Change rows of one table, in the task itself or on Spark; a base class.

    Returns ``{"kind", "event", "matched", "deleted", "inserted", "seconds", "dry_run",
    "changed_before"}``; ``event`` is None if no row matched, and of a dry run; ``deleted`` is None
    for a rollup table.

    Args:
        dry_run: only count the rows that would change; nothing is written.
        kwargs: see ``SegtableCommitOperator``.
    """

    app = "change"
    before = "changed_before"
    nothing = "changed nothing"
    ui_color = "#f5dfe8"

    def __init__(self, *, dry_run: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.only_look = dry_run  # operators have a method ``dry_run``

    def request(self, commit_id: str | None) -> "ChangeRequest":
        """Return the change request.

        Raises:
            InvalidInput: the operator's arguments are empty or contradictory.
        """
        raise NotImplementedError

    @property
    def title(self) -> str:
        """Return the work in words."""
        return f"{self.kind} in {self.table}"

    def asked(self, commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments."""
        from airflow_provider_segtable.core.requests.change_request import arguments_of
        from airflow_provider_segtable.planning.engine import Engine

        Engine.of(self.engine)
        return arguments_of(self.request(commit_id))

    def here(self, ports: "TableContext", commit_id: str | None) -> dict[str, Any] | None:
        """Change rows in this process, unless Spark has to."""
        from airflow_provider_segtable.table.snapshot import Snapshot
        from airflow_provider_segtable.table.table import Table

        start, request = monotonic(), self.request(commit_id)
        snapshot = Snapshot(ports=ports, state=ports.log.load())
        choice = self._choice(request, snapshot)
        self.log.info("%s %s", self.title, choice)
        if not choice.local:
            return None
        self.refuse_reader_options()
        done = Table(ports).change(request, wait_s=self.wait_s)
        return {
            "kind": self.kind,
            **done.facts(),
            "seconds": round(monotonic() - start, 3),
            "dry_run": self.only_look,
            self.before: False,
        }

    def _choice(self, request: "ChangeRequest", snapshot: "Snapshot") -> "Choice":
        from airflow_provider_segtable.planning.engine import Engine
        from airflow_provider_segtable.table.changes.arrow_engine import size_of, why_spark

        auto = Engine.of(self.engine) is Engine.AUTO
        why = why_spark(request, snapshot) if auto else ""
        visible = snapshot.state.timeline.visible_summaries().values() if auto else ()
        files = size_of(request, snapshot.ports) if auto and not why else 0
        return self.chosen_engine(size=sum(each.size for each in visible) + files, only_spark=why)

    def named(self, commit_id: str | None) -> dict[str, Any]:
        """Return the fields that all requests have."""
        return {"commit_id": commit_id, "dry_run": self.only_look}

    def logged(self, ports: "TableContext", n: int) -> dict[str, Any] | None:
        """Return the change of event ``n``."""
        from airflow_provider_segtable.core.log.families.append_events import Appended
        from airflow_provider_segtable.core.log.families.change_events import RowsChanged

        event = ports.log.event(n)
        action = event.action if event else None
        if isinstance(action, Appended) and ports.log.load().table.kind.rules is not None:
            return self._of_keys(n, sum(segment.rows for segment in action.segments))
        if not isinstance(action, RowsChanged):
            return None
        return {
            "kind": action.kind,
            "event": n,
            "matched": action.matched,
            "deleted": None if action.predicate else action.deleted,
            "inserted": sum(segment.rows for segment in action.segments),
            "seconds": None,
            "dry_run": False,
        }

    def _of_keys(self, n: int, rows: int) -> dict[str, Any]:
        """Return a change of a primary-key table, whose event has one record for each row."""
        inserted = 0 if self.kind == "delete" else rows
        deleted = None if self.kind == "merge" else rows
        counts = {"matched": rows, "deleted": deleted, "inserted": inserted}
        return {"kind": self.kind, "event": n, **counts, "seconds": None, "dry_run": False}

    def reported(
        self,
        ports: "TableContext",  # noqa: ARG002  # the application's counts are complete
        facts: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        """Return the change that an application reports."""
        if "matched" not in facts:
            return None
        return {**{key: facts.get(key) for key in _RESULT}, "dry_run": self.only_look}

    def sentence(self, told: Mapping[str, Any]) -> str:
        """Return a change in one line."""
        counts = _counts(told)
        if told["dry_run"]:
            return f"{told['kind']}: {counts}: a dry run, nothing was written"
        if told["event"] is None:
            return f"{told['kind']}: no row matched, nothing was written"
        again = ", in an earlier try" if told["changed_before"] else ""
        return f"{told['kind']}: {counts}: event {told['event']}{again}"


class SegtableRowsOperator(SegtableChangeOperator):
    """Change the rows selected by a predicate or a file of matches, or all rows; a base class.

    Args:
        where: a Spark SQL expression. If it renders to an empty text, the task fails: an empty
            predicate never selects all rows.
        matches: path, URI or pattern of files, or anything that Spark can read; selects the rows
            equal to one of its rows. If ``where`` is given too, both must hold.
        on: the columns to compare with ``matches``; by default all columns of the file.
        format: format of ``matches``; by default taken from the suffix.
        all_rows: select every row.
        kwargs: see ``SegtableChangeOperator``; ``options`` are those of the reader of ``matches``.
    """

    template_fields: Sequence[str] = (
        *("where", "matches", "on", "format"),
        *SegtableChangeOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SegtableChangeOperator.template_fields_renderers,
        "where": "sql",
    }

    def __init__(
        self,
        *,
        where: str | None = None,
        matches: str | None = None,
        on: Sequence[str] | str | None = None,
        format: str | None = None,  # noqa: A002  # Spark's own word
        all_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.matches = matches
        self.on = on
        self.format = format
        self.all_rows = all_rows

    def selection(self) -> dict[str, Any]:
        """Return the fields of the request that select rows."""
        from airflow_provider_segtable.core.requests.change_request import selected

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

    def request(self, commit_id: str | None) -> "Delete":
        """Return the change request."""
        from airflow_provider_segtable.core.requests.change_request import Delete

        return Delete(**self.selection(), **self.named(commit_id))


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

    def request(self, commit_id: str | None) -> "Update":
        """Return the change request."""
        from airflow_provider_segtable.core.requests.change_request import Update

        return Update(set=assigning(self.set), **self.selection(), **self.named(commit_id))


class SegtableMergeOperator(SegtableChangeOperator):
    """Merge rows of a source into the table, by key.

    Args:
        source: path, URI or pattern of files, or anything that Spark can read.
        on: the key columns; a table row and a source row match if these are equal.
        matched: action on matched table rows: update, delete or ignore.
        unmatched: action on unmatched source rows: insert or ignore.
        set: new values of updated rows: by column, a Spark SQL expression over ``target.*`` and
            ``source.*``; by default the source's columns.
        format: format of ``source``; by default taken from the suffix.
        kwargs: see ``SegtableChangeOperator``; ``options`` are those of the reader of ``source``.
    """

    kind = "merge"
    template_fields: Sequence[str] = (
        *("source", "on", "matched", "unmatched", "set", "format"),
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.on = on
        self.matched = matched
        self.unmatched = unmatched
        self.set = set
        self.format = format

    def read_from(self, ports: "TableContext") -> tuple[str, ...]:
        """Return the table and the source."""
        return (*super().read_from(ports), self.source)

    def request(self, commit_id: str | None) -> "Merge":
        """Return the change request."""
        from airflow_provider_segtable.core.requests.change_request import (
            Matched,
            Merge,
            Unmatched,
            action,
        )

        source = file_rows("source", self.source, self.format, self.options)
        if source is None:
            raise InvalidInput(f"source = {self.source!r} is not a file: give a path")
        return Merge(
            source=source,
            on=columns("on", self.on),
            matched=action(Matched, self.matched),
            unmatched=action(Unmatched, self.unmatched),
            set=assigning(self.set) or None,
            **self.named(commit_id),
        )


def file_rows(
    name: str, path: str | None, kind: str | None, options: Mapping[str, str] | None
) -> "FileRows | None":
    """Return the rows of a file; None without a path."""
    from airflow_provider_segtable.core.requests.change_request import FileRows

    if not path:
        return None
    return FileRows(path=plain(name, path), format=kind, options=options or {})


def assigning(to: Mapping[str, str] | None) -> "dict[str, Sql]":
    """Return new values as SQL."""
    from airflow_provider_segtable.core.requests.change_request import Sql

    return {name: Sql(text) for name, text in (to or {}).items()}


def columns(name: str, on: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the names of columns, given as a list or as ``a,b``."""
    from airflow_provider_segtable.core.requests.change_request import columns_in

    return columns_in(plain(name, on)) if isinstance(on, str) else tuple(on or ())


def _counts(told: Mapping[str, Any]) -> str:
    gone = "these are" if told["deleted"] is None else f"{told['deleted']:,}"
    return (
        f"{counted(told['matched'], 'row')} matched, {gone} deleted, {told['inserted']:,} inserted"
    )

"""Append files to a table as a task: all rows of all files in one event, or nothing.

1. The append has a commit id, by default the name of the task instance: DAG, run, task. If the log
   contains it, an earlier try landed and no file is read. So a retried task appends once, whichever
   engine its tries use. A new run of the DAG appends again.
2. Choose the engine (``planning.engine``) by the size of the files. The task itself reads Parquet,
   CSV and JSON lines that it can see under the given paths; Spark reads everything else: URIs of
   object stores, folders, other formats, reader options.
3. A pattern without a file is an error that is retried: the file may come later. A file that does
   not fit the table fails the task at once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    Context,
)

from airflow_provider_segtable.core.arguments import option, plain, seconds, shown
from airflow_provider_segtable.core.errors import InvalidInput, NotFound
from airflow_provider_segtable.core.log.events import Appended, RowsChanged
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.secret import is_secret_name, redacted
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.application import Report, SegtableSparkOperator
from airflow_provider_segtable.operators.author import author_of
from airflow_provider_segtable.operators.change import WRONG_ARGUMENTS, commit_id_of
from airflow_provider_segtable.operators.rendered import refused_at_once
from airflow_provider_segtable.planning.engine import (
    LOCAL_BYTES,
    Choice,
    Engine,
    chosen_engine,
    only_spark,
)
from airflow_provider_segtable.planning.reasons import describe_size
from airflow_provider_segtable.table.context import TableContext


class SegtableIngestOperator(SegtableSparkOperator):
    """Append files to one table, in the task itself or on Spark.

    Returns ``{"event", "segments", "rows", "bytes", "appended_before"}``.

    Args:
        files: path, pattern or URI, or a list of them, or the JSON text of such a list.
        format: ``parquet``, ``csv``, ``json``, or another one that Spark reads; by default taken
            from each file's suffix.
        options: options of Spark's reader, e.g. ``{"nullValue": "NA"}``; they need Spark.
        commit_id: appends with equal ids are applied once; by default ``dag/run/task``.
        engine: ``local``: in the task itself, where all rows must fit in memory. ``spark``: by a
            Spark application. ``auto``: local up to ``local_bytes``, else Spark.
        local_bytes: most bytes of files that ``auto`` reads in the task itself.
        wait_s: how long to wait for the coordinator, in seconds.
        kwargs: see ``SegtableSparkOperator``.
    """

    app = "ingest"
    done: ClassVar[str] = "appended"
    template_fields: Sequence[str] = (
        *("files", "format", "options", "commit_id", "engine"),
        *SegtableSparkOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SegtableSparkOperator.template_fields_renderers,
        "options": "json",
    }
    ui_color = "#e4dff5"

    def __init__(
        self,
        *,
        files: str | Sequence[str],
        format: str | None = None,  # noqa: A002  # Spark's own word
        options: Mapping[str, str] | None = None,
        commit_id: str | None = None,
        engine: str = Engine.AUTO,
        local_bytes: int = LOCAL_BYTES,
        wait_s: float = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.files = files
        self.format = format
        self.options = options
        self.commit_id = commit_id
        self.engine = str(engine)
        self.local_bytes = local_bytes
        self.wait_s = wait_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Append the files, unless an earlier try committed them."""
        with refused_at_once(f"ingest into {self.table}"):
            files, wish = given_files(self.files), Engine.of(self.engine)
            commit_id = self.commit_id or self._name_of(context)
            place = SegtableHook(self.segtable_conn_id).place
            told = self._appended(place, files, wish, commit_id, author_of(context))
        self.log.info("%s", sentence(told, self.done))
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
        self.log.info("%s", sentence(told, self.done))
        return told

    def _name_of(self, context: Context) -> str | None:
        """Return the commit id of a task instance."""
        return commit_id_of(context)

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields whose values may be credentials, by name."""
        return (self.spark_conf, self.options)

    def _appended(
        self, place: Place, files: Sequence[str], wish: Engine, commit_id: str | None, author: str
    ) -> dict[str, Any]:
        asked = self._asked(files, commit_id)  # checked for either engine
        with place.table_ports(self.table, author=author) as ports:
            state = ports.log.load()
            landed = logged(ports, state, commit_id)
            if landed is not None:
                return {**landed, "appended_before": True}
            choice = self._choice(state, files, wish, place)
            self.log.info("%d paths %s", len(files), choice)
            if choice.local:
                return self._here(ports, state, files, commit_id)
        secrets = {k: str(v) for k, v in (self.options or {}).items() if is_secret_name(k)}
        carried = {"commit_id": commit_id}
        report = self.launch(
            place, asked, commit_id=commit_id, reader_options=secrets, carried=carried
        )
        return self._settled(place, commit_id, report)

    def _choice(self, state: State, files: Sequence[str], wish: Engine, place: Place) -> Choice:
        if wish is not Engine.AUTO:
            return chosen_engine(wish, size=0)
        named = [name for file in files for name in expanded(file)]
        why = only_spark(state) or spark_reads(named, self.format, self.options)
        size = 0 if why else sum(path.stat().st_size for path in found_files(files))
        return chosen_engine(
            wish,
            size=size,
            only_spark=why,
            spark_here=lambda: self.can_launch(place),
            local_bytes=self.local_bytes,
        )

    def _here(
        self, ports: TableContext, state: State, files: Sequence[str], commit_id: str | None
    ) -> dict[str, Any]:
        """Append the files in this process."""
        import pyarrow as pa

        from airflow_provider_segtable.table.table import Table

        if self.options:
            raise InvalidInput(
                f"options {', '.join(self.options)} are for Spark's reader: leave them out, or "
                "set engine to auto or spark"
            )
        rows = []
        for path in found_files(files):
            rows.append(rows_of(path, self.format, state))
            self.log.info("%s: %d rows", path, rows[-1].num_rows)
        n = self._written(Table(ports), pa.concat_tables(rows), commit_id)
        return {**facts_of(ports, n), "appended_before": False}

    def _written(self, table: Any, rows: Any, commit_id: str | None) -> int | None:
        """Write rows in this process, and return the event."""
        n: int = table.append(rows, commit_id=commit_id).n
        return n

    def _asked(self, files: Sequence[str], commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments."""
        sources = (
            option("source", name)
            for file in files
            for name in ([file] if readable(file, self.format) else expanded(file))
        )
        named = (option("commit-id", commit_id),) if commit_id else ()
        given = self.options or {}
        read = (option("option", f"{k}={v}") for k, v in given.items() if not is_secret_name(k))
        kind = (option("format", self.format),) if self.format else ()
        return (*sources, *kind, *read, *named, option("wait-s", f"{self._patience():g}"))

    def _patience(self) -> float:
        return seconds("wait_s", self.wait_s)

    def _settled(self, place: Place, commit_id: str | None, report: Report) -> dict[str, Any]:
        """Return the append's result.

        Raises:
            AirflowFailException: its arguments are invalid, so no retry can succeed.
            AirflowException: it failed, and did not land.
        """
        facts = report.facts
        why = redacted(str(facts.get("error") or report.error or "the application left no result"))
        if facts.get("code") == WRONG_ARGUMENTS:
            raise AirflowFailException(f"ingest into {self.table} is refused: {why}")
        with place.table_ports(self.table) as ports:
            told = logged(ports, ports.log.load(), commit_id)
            if told is None and report.error is None and "event" in facts:
                told = facts_of(ports, facts["event"])
        if told is None:
            ended = "has not landed yet" if report.running else "failed, and appended nothing"
            raise AirflowException(
                f"ingest into {self.table} {ended}; a retry appends at most once: {why}"
            )
        return {**told, "appended_before": False}


def given_files(files: str | Sequence[str]) -> list[str]:
    """Return the paths of a rendered field.

    Raises:
        InvalidInput: there is none, or it has another form.
    """
    found: Any = files
    if isinstance(files, str):
        try:
            found = json.loads(files) if files.startswith("[") else [files]
        except ValueError:
            found = [files]  # a pattern such as [ab].csv
    if not isinstance(found, list | tuple) or not found or not all(found):
        raise InvalidInput(
            f"files = {shown(files)} names no file: give a path, a pattern or a list of them"
        )
    return [plain("files", file) for file in found]


def expanded(file: str) -> list[str]:
    """Return the files of a local pattern, sorted; any other text, or one without files, itself."""
    found = sorted(glob(file, recursive=True)) if has_magic(file) else []  # noqa: PTH207
    return found or [file]


def found_files(files: Sequence[str]) -> Iterator[Path]:
    """Yield the files of paths and patterns, sorted within each pattern.

    Raises:
        NotFound: a path or pattern has no file.
    """
    for file in files:
        there = [Path(name) for name in expanded(file) if Path(name).exists()]
        if not there:
            raise NotFound(f"no file at {file!r}: check the path, and that this worker sees it")
        yield from there


def rows_of(path: Path, kind: str | None, state: State) -> Any:
    """Return a file's rows in the table's columns and types.

    Raises:
        InvalidInput: it cannot be read, or its rows do not fit; the message names the file.
    """
    from airflow_provider_segtable.data.files.input_files import InputFile, read_rows
    from airflow_provider_segtable.data.jobs.segment_writer import check_rows
    from airflow_provider_segtable.table.definition import given_schema

    schema = given_schema(state.table)
    rows = read_rows(InputFile(str(path), kind), schema)
    try:
        return check_rows(rows, schema, state.table.time_column)
    except InvalidInput as error:
        raise type(error)(f"{path}: {error}") from error


def spark_reads(files: Sequence[str], kind: str | None, options: Mapping[str, str] | None) -> str:
    """Return why only Spark can read files; empty if this process can."""
    from airflow_provider_segtable.data.files.input_files import FORMATS

    if options:
        return f"option {next(iter(options))} is one of Spark's reader"
    for file in files:
        if "://" in file:
            return f"{file} is not a local path"
        if Path(file).is_dir():
            return f"{file} is a folder"
        if not readable(file, kind):
            return f"{file} is not one of {', '.join(FORMATS)}"
    return ""


def readable(file: str, kind: str | None) -> bool:
    """Return whether a name, or the given format, tells a format that this process reads."""
    from airflow_provider_segtable.data.files.input_files import InputFile

    try:
        return bool(InputFile(file, kind).format)
    except InvalidInput:
        return False


def logged(ports: TableContext, state: State, commit_id: str | None) -> dict[str, Any] | None:
    """Return the append with a commit id as logged; None if it has not landed."""
    n = state.commits.get(commit_id) if commit_id else None
    return None if n is None else facts_of(ports, n)


def facts_of(ports: TableContext, n: int | None) -> dict[str, Any]:
    """Return the append or overwrite of event ``n`` as plain values; None: nothing was to do."""
    event = None if n is None else ports.log.event(n)
    action = event.action if event else None
    segments = action.segments if isinstance(action, Appended | RowsChanged) else ()
    return {
        "event": n,
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "bytes": sum(segment.size for segment in segments),
    }


def sentence(told: Mapping[str, Any], done: str) -> str:
    """Return a result in one line; ``done`` says what became of the rows."""
    if told["event"] is None:
        return "there was no row to delete and none to write: no event"
    again = " in an earlier try" if told["appended_before"] else ""
    size = describe_size(told["bytes"])
    return (
        f"{done}{again}: event {told['event']}, {told['rows']:,} rows, {size}, "
        f"{told['segments']} segments"
    )

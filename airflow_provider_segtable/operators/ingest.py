"""Append files to a table as a task: all rows of all files in one event, or nothing.

1. One event, once (``operators.spark_operator``), whichever engine its tries use. A new run of the
   DAG appends again.
2. Choose the engine (``planning.engine``) by the size of the files. The task itself reads Parquet,
   CSV and JSON lines, at paths and in object stores, with the connection's storage options; Spark
   reads the rest: folders, other formats, reader options, stores that this worker cannot reach.
3. A pattern without a file is an error that is retried: the file may come later. A file that does
   not fit the table fails the task at once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_segtable.core.arguments import option, plain, shown
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput, NotFound
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.core.secret import is_secret_name
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.operators.rendered import refused_at_once
from airflow_provider_segtable.operators.spark_operator import Report, SegtableCommitOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.data.files.text_values import BadRows
    from airflow_provider_segtable.planning.engine import Choice
    from airflow_provider_segtable.table.context import TableContext


NOTHING: Mapping[str, Any] = {"event": None, "segments": 0, "rows": 0, "bytes": 0}
"""The result of an append without rows."""


class SegtableFilesOperator(SegtableCommitOperator):
    """Commit the rows of files in one event, in the task itself or on Spark; a base class.

    Args:
        files: path, URI or pattern of either, or a list of them, or the JSON text of such a list.
        format: ``parquet``, ``csv``, ``json``, or another one that Spark reads; by default taken
            from each file's suffix.
        delimiter: of CSV: the separator of fields, one character or ``tab``; a comma by default.
        encoding: of CSV: the encoding of the text.
        header: of CSV: whether the first line names the columns; if not, they are the table's.
        bad_rows: a file on the worker that takes rows without a valid event time, a key or another
            needed value, and CSV rows with a field that does not fit, as JSON lines; the result has
            their number, ``set_aside``. By default such a row refuses its file. On Spark the driver
            writes it, so a driver on a cluster is refused.
        null_text: of CSV: texts that stand for null, e.g. ``["NA"]``, besides an empty field
            without quotes.
        kwargs: see ``SegtableCommitOperator``; ``options``, e.g. ``{"multiLine": "false"}``, need
            Spark.
    """

    app = "ingest"
    before = "appended_before"
    nothing = "appended nothing"
    done: ClassVar[str]
    template_fields: Sequence[str] = (
        *("files", "format", "delimiter", "encoding", "null_text", "bad_rows"),
        *SegtableCommitOperator.template_fields,
    )

    def __init__(
        self,
        *,
        files: str | Sequence[str],
        format: str | None = None,  # noqa: A002  # Spark's own word
        delimiter: str | None = None,
        encoding: str = "utf-8",
        header: bool = True,
        null_text: str | Sequence[str] = (),
        bad_rows: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.files = files
        self.format = format
        self.delimiter = delimiter
        self.encoding = encoding
        self.header = header
        self.null_text = null_text
        self.bad_rows = bad_rows

    @property
    def title(self) -> str:
        """Return the work in words."""
        return f"ingest into {self.table}"

    def asked(self, commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments."""
        from airflow_provider_segtable.planning.engine import Engine

        Engine.of(self.engine)
        aside = self._aside()
        sources = (option("source", name) for name in self._for_spark())
        named = (option("commit-id", commit_id),) if commit_id else ()
        given = self.options or {}
        read = (option("option", f"{k}={v}") for k, v in given.items() if not is_secret_name(k))
        kind = (option("format", self.format),) if self.format else ()
        bad = (option("bad-rows", str(Path(aside.path).absolute())),) if aside else ()
        return (*sources, *kind, *self._form_options(), *read, *bad, *named)

    def form(self) -> CsvFormat:
        """Return how CSV files are written.

        Raises:
            InvalidInput: the delimiter or the encoding is not one.
        """
        nulls = [self.null_text] if isinstance(self.null_text, str) else self.null_text
        return CsvFormat(
            delimiter=self.delimiter or None,
            encoding=self.encoding,
            header=self.header,
            nulls=tuple(nulls),
        )

    def _form_options(self) -> Iterator[str]:
        form = self.form()
        if form.delimiter:
            yield option("delimiter", "tab" if form.delimiter == "\t" else form.delimiter)
        if form.encoding != CsvFormat().encoding:
            yield option("encoding", form.encoding)
        if not form.header:
            yield "--no-header"
        yield from (option("null-text", text) for text in form.nulls)

    def _for_spark(self) -> Iterator[str]:
        """Yield the names for Spark, which finds no format in a local pattern like ``day.*``."""
        from airflow_provider_segtable.data.files.input_files import expanded, readable

        for file in given_files(self.files):
            as_it_is = "://" in file or readable(file, self.format)
            yield from [file] if as_it_is else expanded(file, {})

    def here(self, ports: "TableContext", commit_id: str | None) -> dict[str, Any] | None:
        """Write the files' rows in this process, unless Spark has to."""
        import pyarrow as pa

        state, files = ports.log.load(), given_files(self.files)
        choice = self._choice(state, files, ports.storage_options)
        self.log.info("%s %s", counted(len(files), "path"), choice)
        if not choice.local:
            return None
        self.refuse_reader_options()
        bad, rows = self._aside(), []
        for file in self._there(files, ports.storage_options):
            rows.append(self.rows_of(file, state, bad))
            self.log.info("%s: %s", file.place, counted(rows[-1].num_rows, "row"))
        told = self.written(ports, pa.concat_tables(rows), commit_id)
        facts = {} if bad is None else {"set_aside": bad.count}
        return {**self.with_aside(told, facts), self.before: False}

    def launch(self, place: Place, asked: Sequence[str], **given: Any) -> Report:
        """Run the application; refuse a driver that would write bad rows on another machine."""
        self.launcher = self.launcher or self._chosen_launcher(place)
        with refused_at_once(self.title):
            if self.bad_rows and not self.launcher.attached:
                raise InvalidInput(
                    f"bad_rows = {self.bad_rows!r} is a file on the worker, and the driver would "
                    "run on the cluster: set engine to local, or submit in client mode"
                )
        return super().launch(place, asked, **given)

    def with_aside(self, told: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result with the number of rows set aside, if ``facts`` have it, and log it."""
        if "set_aside" not in facts:
            return dict(told)
        if facts["set_aside"]:
            self.log.warning(
                "%s set aside in %s", counted(facts["set_aside"], "row"), self.bad_rows
            )
        return {**told, "set_aside": facts["set_aside"]}

    def _aside(self) -> "BadRows | None":
        """Return the file for rows that do not fit; None without one.

        Raises:
            InvalidInput: the path names no file of this machine.
        """
        from airflow_provider_segtable.data.files.text_values import BadRows

        return BadRows(plain("bad_rows", self.bad_rows)) if self.bad_rows else None

    def read_from(self, ports: "TableContext") -> tuple[str, ...]:  # noqa: ARG002
        """Return the files."""
        return tuple(given_files(self.files))

    def written(
        self, ports: "TableContext", rows: "pa.Table", commit_id: str | None
    ) -> dict[str, Any]:
        """Write rows in this process, and return the result."""
        raise NotImplementedError

    def rows_of(self, file: "InputFile", state: "State", bad: "BadRows | None") -> "pa.Table":
        """Return a file's rows, checked; those that do not fit go to ``bad``."""
        return rows_of(file, state, bad=bad)

    def only_spark(self, state: "State", files: Sequence[str], stored: Mapping[str, str]) -> str:
        """Return why only Spark can do it; empty if this process can.

        Args:
            state: the table's newest state.
            files: paths, URIs and patterns.
            stored: storage options of the files.
        """
        from airflow_provider_segtable.data.files.input_files import only_spark_reads
        from airflow_provider_segtable.planning.engine import only_spark

        if self.options:
            return f"option {next(iter(self.options))} is one of Spark's reader"
        return only_spark(state) or only_spark_reads(files, self.format, stored)

    def logged(self, ports: "TableContext", n: int) -> dict[str, Any]:
        """Return the append or overwrite of event ``n``."""
        from airflow_provider_segtable.core.log.families.append_events import Appended
        from airflow_provider_segtable.core.log.families.change_events import RowsChanged

        event = ports.log.event(n)
        action = event.action if event else None
        segments = action.segments if isinstance(action, Appended | RowsChanged) else ()
        return {
            "event": n,
            "segments": len(segments),
            "rows": sum(segment.rows for segment in segments),
            "bytes": sum(segment.size for segment in segments),
        }

    def reported(self, ports: "TableContext", facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the event that an application reports."""
        n = facts.get("event")
        if n is None:
            return self.with_aside(NOTHING, facts) if facts.get("rows") == 0 else None
        return self.with_aside(self.logged(ports, n), facts)

    def sentence(self, told: Mapping[str, Any]) -> str:
        """Return a result in one line."""
        if told["event"] is None:
            return "the files have no rows: nothing was appended"
        again = " in an earlier try" if told["appended_before"] else ""
        return (
            f"{self.done}{again}: event {told['event']}, {counted(told['rows'], 'row')}, "
            f"{describe_size(told['bytes'])}, {counted(told['segments'], 'segment')}"
        )

    def _there(self, files: Sequence[str], stored: Mapping[str, str]) -> "Iterator[InputFile]":
        """Yield the files that are there, sorted within each pattern.

        Raises:
            NotFound: a path or pattern has no file.
        """
        from airflow_provider_segtable.data.files.input_files import found_files

        for name in files:
            found = found_files(name, self.format, stored, self.form())
            if not found:
                raise NotFound(f"no file at {name!r}: check the path, and that this worker sees it")
            yield from found

    def _choice(self, state: "State", files: Sequence[str], stored: Mapping[str, str]) -> "Choice":
        from airflow_provider_segtable.planning.engine import Engine

        auto = Engine.of(self.engine) is Engine.AUTO
        why = self.only_spark(state, files, stored) if auto else ""
        found = self._there(files, stored) if auto and not why else ()
        return self.chosen_engine(size=sum(file.size() for file in found), only_spark=why)


class SegtableIngestOperator(SegtableFilesOperator):
    """Append files to one table, in the task itself or on Spark.

    If the table has a primary key, the rows are upserted by it.

    Returns ``{"event", "segments", "rows", "bytes", "appended_before"}``. If the files have no
    rows, nothing is committed: ``event`` is None, and no asset event is emitted.

    Args:
        deleted: of a primary-key table: a boolean column of the files, not of the table; where it
            is true, the row deletes its key.
        kwargs: see ``SegtableFilesOperator``.
    """

    kind = "append"
    done = "appended"
    ui_color = "#e4dff5"
    template_fields: Sequence[str] = ("deleted", *SegtableFilesOperator.template_fields)

    def __init__(self, *, deleted: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deleted = deleted

    def asked(self, commit_id: str | None) -> Sequence[str]:
        """Return the application's arguments."""
        gone = (option("deleted", self.deleted),) if self.deleted else ()
        return (*super().asked(commit_id), *gone)

    def rows_of(self, file: "InputFile", state: "State", bad: "BadRows | None") -> "pa.Table":
        """Return a file's rows, checked, with the column that says which are deleted."""
        return rows_of(file, state, self.deleted or None, bad)

    def kind_in(self, ports: "TableContext") -> str:
        """Return the work in one word."""
        return self.kind if ports.log.known().table.kind.rules is None else "upsert"

    def written(
        self, ports: "TableContext", rows: "pa.Table", commit_id: str | None
    ) -> dict[str, Any]:
        """Append or upsert rows in this process, and return the result."""
        from airflow_provider_segtable.table.load import append_rows

        done = append_rows(ports, rows, commit_id=commit_id, deleted=self.deleted or None)
        if done.segments == 0:
            return dict(NOTHING)
        return self.logged(ports, done.n)


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


def rows_of(
    file: "InputFile",
    state: "State",
    deleted: str | None = None,
    bad: "BadRows | None" = None,
) -> "pa.Table":
    """Return a file's rows in the table's columns and types, and the column ``deleted``.

    Raises:
        InvalidInput: it cannot be read, or its rows do not fit; the message names the file.
    """
    from airflow_provider_segtable.data.files.input_files import read_fitting, read_rows
    from airflow_provider_segtable.data.row_checks import check_rows
    from airflow_provider_segtable.table.definition import given_schema, needed_values
    from airflow_provider_segtable.table.load import flagged_rows

    schema = given_schema(state.table)
    if bad is None:
        rows = read_rows(file, schema)
    else:
        found, numbers = read_fitting(file, schema, bad)
        rows = bad.complete(found, numbers, needed_values(state.table), file.place)
    try:
        return flagged_rows(rows, state, deleted, check_rows)
    except InvalidInput as error:
        raise type(error)(f"{file.place}: {error}") from error

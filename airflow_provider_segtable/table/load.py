"""Load rows and files: each file is appended or upserted, as a whole or in parts.

Rows as a user gives them are appended, or upserted if the table has a primary key:

1. Rows to upsert may lack columns if records fill each other (``partial_update``) or delete their
   key. Otherwise the check decides, because a missing column would be set to null.

Files, under a commit id or without one:

2. Without a commit id each part is an append of its own. With one the log knows the load of each
   file (``core.log.state``). A part begins where the log says that the last one ended, whatever
   the size of earlier parts. So each row is appended once, also after a failure and beside another
   process that carries out the same load.
3. Committed rows must be the first rows of the file, and those of a complete load all of its rows.
   Otherwise it is another load: it is refused, and nothing is appended.
4. A load of an earlier segtable, or of Spark, is one append of the whole file.

The columns of a file (``segtable ingest --columns``, ``--deleted``, ``--cast``):

5. Without ``--columns`` the table's kind decides: an append table takes all columns, so that none
   is left out silently; a rollup table takes its time, dimensions and sources of metrics.
6. ``--columns`` names the columns to take; ``NEW=OLD`` takes the file's OLD as the table's NEW.
7. ``--deleted`` names a further column of the file, of booleans: the rows that delete their key in
   a primary-key table. It is always taken, and is no column of the table.
8. Without ``--cast`` only types that hold the same values fit. With it texts become numbers and
   times, and numbers other numbers, as long as no value is lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, NotFound, SchemaMismatch
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.events import line
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.state import LastPart, LoadPart, State
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.core.schema import split_outside, unquoted
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.files.input_files import InputFile, found_files
from airflow_provider_segtable.data.row_checks import check_rows
from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.data.rows import Rows, arrow_table
from airflow_provider_segtable.data.table_kinds import arrow_kind_of
from airflow_provider_segtable.table.append import (
    AppendResult,
    Check,
    append,
    check_filled,
    incoming,
    made_at,
    made_before,
    nothing_appended,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.upsert import records_of, upsert_rows

if TYPE_CHECKING:
    from airflow_provider_segtable.data.files.text_values import BadRows


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The columns of a file to take, their names in the table, and whether to cast them.

    ``deleted`` is the column that flags rows that delete their key; ``bad`` takes rows that do not
    fit.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    cast: bool = False
    deleted: str | None = None
    bad: "BadRows | None" = None

    @staticmethod
    def parse(
        columns: str | None,
        *,
        cast: bool,
        deleted: str | None = None,
        bad: "BadRows | None" = None,
    ) -> "FileColumns":
        """Parse ``A,NEW=OLD,...``.

        Raises:
            InvalidInput: a name is empty or given twice; the message names it.
        """
        names: dict[str, str] = {}
        for part in split_outside(columns, ",") if columns is not None else ():
            new, *olds = map(unquoted, split_outside(part, "="))
            old = "=".join(olds)
            if not new or new in names:
                fault = f"{new!r} twice" if new else "an empty name"
                raise InvalidInput(f"--columns {columns!r} has {fault}: write e.g. id,price=amount")
            names[new] = old or new
        if names and deleted is not None:
            names.setdefault(deleted, deleted)
        return FileColumns(names=names, cast=cast, deleted=deleted, bad=bad)

    def sources(self, found: Sequence[str], table: TableDefinition) -> Mapping[str, str]:
        """Return the file's column for each column to append.

        Args:
            found: the file's columns.
            table: the table's definition.

        Raises:
            SchemaMismatch: the file lacks a column; the message names the existing ones.
        """
        there = {*found}
        for old in self.names.values():
            if old not in there:
                raise SchemaMismatch(
                    f"--columns names {old!r}, which the file does not have: it has "
                    f"{', '.join(found)}"
                )
        needed = table.kind.needed(found, table.time_column)
        return self.names or {name: name for name in needed}

    def in_file(self, schema: "pa.Schema") -> "pa.Schema":
        """Return the table's columns under the file's names, to read a text file by."""
        import pyarrow as pa

        fields = {field.name: field for field in schema}
        names = self.names or {name: name for name in fields}
        some = {old: fields[new] for new, old in names.items() if new in fields}
        return pa.schema([each.with_name(old) for old, each in some.items()])

    def read(self, file: "InputFile", table: TableDefinition) -> "pa.Table":
        """Return the rows of a file to append; ``bad`` rows are set aside.

        Raises:
            InvalidInput, SchemaMismatch: the file cannot be read, or its columns do not fit.
        """
        from airflow_provider_segtable.data.files.input_files import read_fitting, read_rows
        from airflow_provider_segtable.table.definition import given_schema, needed_values

        schema = self.with_flag(given_schema(table))
        if self.bad is None:
            return self.taken(read_rows(file, self.in_file(schema)), schema, table)
        found, numbers = read_fitting(file, self.in_file(schema), self.bad)
        rows = self.taken(found, schema, table)
        return self.bad.complete(rows, numbers, needed_values(table), file.place)

    def with_flag(self, schema: "pa.Schema") -> "pa.Schema":
        """Return the columns to read: the table's, and ``deleted``."""
        import pyarrow as pa

        if self.deleted is None or self.deleted in schema.names:
            return schema
        return schema.append(pa.field(self.deleted, pa.bool_()))

    def taken(self, rows: "pa.Table", schema: "pa.Schema", table: TableDefinition) -> "pa.Table":
        """Return rows with the columns to take, cast if wanted.

        Raises:
            SchemaMismatch: a column is missing, or a value cannot be cast without loss.
        """
        sources = self.sources(rows.column_names, table)
        taken = rows.select(list(sources.values())).rename_columns(list(sources))
        return _cast(taken, schema) if self.cast else taken


def _cast(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    wanted, columns = {field.name: field for field in schema}, []
    for found, column in zip(rows.schema, rows.columns, strict=True):
        known = wanted.get(found.name, found)
        columns.append(column if found.type == known.type else _cast_column(column, known))
    return pa.table(columns, names=rows.column_names)


def _cast_column(column: "pa.ChunkedArray", wanted: "pa.Field") -> "pa.ChunkedArray":
    import pyarrow as pa

    from airflow_provider_segtable.data.files.text_values import parsed_times

    try:
        if pa.types.is_timestamp(wanted.type) and pa.types.is_string(column.type):
            column = parsed_times(column, wanted.type.unit)
        return column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"column {wanted.name!r} cannot be cast from {column.type} to {wanted.type}: {error}: "
            "correct the values, or leave the column out by --columns"
        ) from None


def append_rows(
    ports: TableContext,
    rows: Rows,
    *,
    commit_id: str | None = None,
    check: Check = check_rows,
    deleted: str | None = None,
    load: LoadPart | None = None,
) -> AppendResult:
    """Append or upsert rows as a user gives them; see ``Table.append`` and ``Table.upsert``.

    Args:
        ports: the table's ports; a table with a primary key needs no coordinator.
        rows: the rows.
        commit_id: equal ids append once.
        check: compares the rows with the columns.
        deleted: the column that flags rows that delete their key.
        load: the part of a load, if the rows are one.

    Raises:
        InvalidInput: ``deleted`` is given, and the table has no primary key.
    """
    state = ports.log.for_writing()
    if commit_id and commit_id in state.commits:  # the columns may have changed since
        return made_before(ports.log, state, commit_id)
    rules = state.table.kind.rules
    if rules is not None:
        fitting = check_for(state, deleted, check)
        return upsert_rows(
            *(ports, rows),
            deleted=deleted,
            commit_id=commit_id,
            check=fitting,
            load=load,
            state=state,
        )
    if deleted is not None:
        raise InvalidInput(
            f"column {deleted!r} is to delete keys, but {ports.uri} has no primary key: delete the "
            "rows by a condition, or by a file of rows that are equal"
        )
    schema, time_column = given_schema(state.table), state.table.time_column
    checked = check(arrow_table(rows), schema, time_column)
    if not checked.num_rows:
        return nothing_appended(state)
    stored = arrow_kind_of(state.table.kind).prepared(checked, time_column)
    name = commit_id or ports.randomness.token()
    return append(ports, incoming(ports, stored, state), commit_id=name, state=state, load=load)


def check_for(state: State, deleted: str | None, check: Check) -> Check:
    """Return the check of rows: ``check_filled`` where columns may be missing, else ``check``."""
    rules = state.table.kind.rules
    some = rules is not None and (rules.partial or deleted is not None)
    return check_filled if some else check


def flagged_rows(rows: Rows, state: State, deleted: str | None, check: Check) -> pa.Table:
    """Return checked rows to upsert, with all columns and ``deleted``."""
    records = records_of(rows, state, deleted, check=check_for(state, deleted, check))
    if deleted is None:
        return records.rows
    return records.rows.append_column(deleted, pa.array(records.deleted))


WHOLE = 2**62
"""More rows than any file has: the end of a load without a row count in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A part of a file that is in the table; ``before`` means that an earlier load appended it."""

    file: str
    result: AppendResult
    before: bool = False

    def facts(self, log: EventLog) -> Facts:
        """Return the part as plain JSON values; ``version`` is null without rows to append."""
        done = self.result
        facts = {
            "file": self.file,
            "version": done.n if done.segments != 0 else None,
            "appended_before": self.before,
            "segments": done.segments,
            "rows": done.rows,
        }
        if done.segments == 0:
            return {**facts, "bytes": 0, "summary": "no rows: nothing to append"}
        event = log.event(done.n)
        if event is None or not isinstance(event.action, Appended):
            return {**facts, "bytes": None, "summary": "appended before: its event was cleaned"}
        summary = line(event.action)
        return {
            **facts,
            "bytes": sum(segment.size for segment in event.action.segments),
            "summary": f"appended before: {summary}" if self.before else summary,
        }


def load_name(commit_id: str | None, file: InputFile) -> str:
    """Return the name of a file's load; empty without a commit id."""
    return f"{commit_id}/{file.name}" if commit_id else ""


def load_rows(
    ports: TableContext,
    file: InputFile,
    rows: pa.Table,
    *,
    commit_id: str | None = None,
    rows_per_append: int | None = None,
    deleted: str | None = None,
) -> Iterator[Loaded]:
    """Append the rows of a file, and yield each part when it is committed.

    Args:
        ports: the table's ports.
        file: the file.
        rows: its rows.
        commit_id: equal ids load a file of this name once.
        rows_per_append: the most rows of an append; by default the file is one append.
        deleted: the column that flags rows that delete their key.

    Raises:
        InvalidInput: other rows are committed under this id.
        SchemaMismatch, TimeOutOfRange: the rows of a part do not fit; parts before it stay.
        CommitConflict, CommitUnknown, LockLost: as ``append``.
    """
    size = rows_per_append or max(rows.num_rows, 1)
    if commit_id is None:
        for start in range(0, max(rows.num_rows, 1), size):
            done = append_rows(ports, rows.slice(start, size), deleted=deleted)
            yield Loaded(file=file.place, result=done)
        return
    name, state, given = load_name(commit_id, file), ports.log.load(), _FileRows(rows)
    known = loaded_before(state, name)
    if known is not None:
        given.check(known, file)
        yield Loaded(file=file.place, result=made_at(ports.log, state, known.n), before=True)
    while known is None or known.part.end < rows.num_rows:
        part = given.part(name, known.part.end if known else 0, size)
        done = append_rows(
            ports,
            rows.slice(part.start, size),
            commit_id=f"{name}/{part.start}",
            deleted=deleted,
            load=part,
        )
        yield Loaded(file=file.place, result=done)
        known = loaded_before(done.state, name)
        if known is None:
            return  # an empty file
        given.check(known, file)  # another process may have been first


def load_files(
    ports: TableContext,
    places: Sequence[str],
    columns: FileColumns,
    *,
    csv: CsvFormat | None = None,
    commit_id: str | None = None,
    rows_per_append: int | None = None,
) -> list[Loaded]:
    """Load files by their paths, URIs and patterns; arguments and errors as ``load_rows``.

    Raises:
        NotFound: a path or pattern has no file.
        InvalidInput: under a commit id two files have one name.
    """
    files: list[InputFile] = []
    for place in places:
        found = found_files(place, None, ports.storage_options, csv)
        if not found:
            raise NotFound(f"there is no file {place!r}: check the path or the pattern")
        files += found
    names = [file.name for file in files]
    if commit_id and len(set(names)) < len(names):
        raise InvalidInput(
            "two files have one name, and a commit id knows a file by its name: load them "
            "under different ids"
        )
    table = ports.log.load().table
    return [
        done
        for file in files
        for done in load_rows(
            *(ports, file, columns.read(file, table)),
            commit_id=commit_id,
            rows_per_append=rows_per_append,
            deleted=columns.deleted,
        )
    ]


def loaded_before(state: State, name: str) -> LastPart | None:
    """Return the last part of a load, if there is one.

    Raises:
        InvalidInput: an earlier segtable loaded parts of it without recording their rows.
    """
    whole = state.commits.get(f"{name}/0")
    if name in state.loads or whole is None:
        return state.loads.get(name)
    parts = [each for each in state.commits if each.startswith(f"{name}/")]
    if len(parts) > 1:
        raise InvalidInput(
            f"an earlier segtable loaded {name} in {len(parts)} parts without their rows: read "
            "what is missing, and load it under another commit id"
        )
    return LastPart(whole, LoadPart(load=name, start=0, end=WHOLE, total=WHOLE, checksum=""))


class _FileRows:
    """The rows of a file, with a running checksum of its first rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._end = 0
        self._sum = Checksum()

    def part(self, name: str, start: int, size: int) -> LoadPart:
        """Return the part that begins at a row."""
        total = self._rows.num_rows
        end = min(start + size, total)
        return LoadPart(load=name, start=start, end=end, total=total, checksum=self.checksum(end))

    def checksum(self, end: int) -> str:
        """Return the checksum of the first rows."""
        if end < self._end:
            self._end, self._sum = 0, Checksum()
        self._sum += checksum_of(self._rows.slice(self._end, end - self._end).to_batches())
        self._end = end
        return self._sum.hex

    def check(self, known: LastPart, file: InputFile) -> None:
        """Refuse a file that does not begin with the committed rows of its load."""
        part, rows = known.part, self._rows.num_rows
        if not part.checksum:  # one append of the whole file, without its rows
            return
        other = part.complete and rows != part.end
        if not other and rows >= part.end and self.checksum(part.end) == part.checksum:
            return
        amount = counted(part.end, "row")
        what = (
            f"is complete with {amount}, and the file has {rows:,}"
            if other
            else f"has appended {amount}, which are not the first {amount} of the file"
        )
        raise InvalidInput(
            f"{file.place}: the load with commit id {part.load.removesuffix('/' + file.name)!r} "
            f"{what} (event {known.n}): load other rows under another id, or replace rows by "
            "--overwrite"
        )

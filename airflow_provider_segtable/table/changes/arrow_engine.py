"""Evaluate changes and overwrites with Arrow in this process: the Arrow row engine.

1. It reads simple SQL (``data.sql``) and Arrow expressions, as conditions and as new values. New
   values may be plain values, too.
2. Rows to match and sources are Arrow tables in memory; so are the changed rows, in full. The
   table itself is read batch by batch. In a primary-key table the matching rows, the source of a
   merge and the records are in memory.
3. The new rows of an overwrite are one Arrow table (``NewArrowRows``).
4. Rows of ``delete``, ``update`` and ``merge`` may be in files: paths, URIs of object stores, or
   patterns (``data.files.input_files``). All rows of a pattern's files are one request's rows. They
   are read in the table's types, with the columns that the files have. Object stores are opened
   with the table's storage options.
5. ``check_sql`` refuses requests that only Spark can evaluate. ``why_spark`` returns the reason
   before anything is read or started, so that a caller may choose the engine first.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, NotFound, SchemaMismatch
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    FileRows,
    GivenRows,
    Matched,
    Merge,
    RowsToMatch,
    Unmatched,
    Update,
    Where,
    held,
    with_rows,
)
from airflow_provider_segtable.core.requests.overwrite import Overwrite, Touched
from airflow_provider_segtable.core.tables.keyed_kind import lost_null, unset
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import Interval, Layout, iso
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.files.input_files import (
    InputFile,
    found_files,
    only_spark_reads,
    read_rows,
    schema_of,
)
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.row_checks import check_rows
from airflow_provider_segtable.data.rows import (
    Keys,
    Rows,
    arrow_table,
    instants,
    split_by_chunk,
    with_columns,
)
from airflow_provider_segtable.data.table_kinds import arrow_kind_of
from airflow_provider_segtable.data.where import condition
from airflow_provider_segtable.table.append import AppendResult, Prepare, check_filled, incoming
from airflow_provider_segtable.table.changes.matching import (
    assigned,
    check_set,
    found,
    given_addresses,
    given_columns,
    in_full,
    merged,
    new_values,
    present,
    refuse_doubles,
    source_columns,
    updated,
    when,
)
from airflow_provider_segtable.table.changes.row_change import Recorded, Selected
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.upsert import merge_rules, upsert


def changed_records(
    snapshot: Snapshot, request: Delete | Update, wanted: Condition
) -> Recorded[Records]:
    """Return the records of a delete or an update.

    Args:
        snapshot: the version.
        request: the change.
        wanted: the condition that its rows satisfy.

    Raises:
        InvalidInput: a value is null in a column whose nulls set nothing.
        NeedsSpark: only Spark computes a value.
    """
    rows = _matching(snapshot, wanted)
    count = rows.num_rows
    if isinstance(request, Delete):
        new = _records(snapshot, deleted=rows)
        return Recorded(matched=count, deleted=count, inserted=0, new=new)
    fresh = assigned(rows, new_values(request.set, rows.schema))
    rules = _rules(snapshot)
    _refuse_lost_nulls(rows, fresh, request.set, rules)
    new = _records(snapshot, _records_setting(fresh, request.set, rules))
    return Recorded(matched=count, deleted=count, inserted=count, new=new)


def merged_records(snapshot: Snapshot, request: Merge, source: pa.Table) -> Recorded[Records]:
    """Return the records of a merge by key.

    Args:
        snapshot: the version.
        request: the merge.
        source: its source (``matching.source_columns``).

    Raises:
        InvalidInput: several source rows would update one row, or would move it to another time
            chunk; a key to insert is null.
    """
    keys = Keys.of(source, request.keys, nulls=False)
    rows, met = _rows_with_keys(snapshot, keys, source)
    count, numbers = rows.num_rows, keys.find(source)
    upserts = []
    if request.matched is Matched.UPDATE and count:
        refuse_doubles(source, numbers, met, request.keys)
        upserts.append(_updated(snapshot, request, rows, source, keys))
    if request.unmatched is Unmatched.INSERT:
        new = source.filter(pa.array(~np.append(met, False)[numbers]))  # null keys: the last
        known = {*snapshot.schema.names}
        upserts.append(new.select([name for name in source.column_names if name in known]))
    gone = rows if request.matched is Matched.DELETE else rows.slice(0, 0)
    return Recorded(
        matched=count,
        deleted=0 if request.matched is Matched.IGNORE else count,
        inserted=sum(some.num_rows for some in upserts),
        new=_records(snapshot, *upserts, deleted=gone),
    )


def _rules(snapshot: Snapshot) -> MergeRules:
    return merge_rules(snapshot.state, snapshot.ports.uri)


def _matching(snapshot: Snapshot, wanted: Condition) -> pa.Table:
    """Return the rows that satisfy a condition, with all columns."""
    return snapshot.scan(where=wanted).to_arrow()


def _rows_with_keys(
    snapshot: Snapshot, keys: Keys, source: pa.Table
) -> tuple[pa.Table, "np.ndarray[tuple[int], np.dtype[np.bool_]]"]:
    """Return the rows with a source key, and a mask of the keys found.

    The mask is made from the rows. The condition would not do: a read may also apply it to records,
    among them tombstones and replaced records.
    """
    span = when(source.select(list(keys.columns)), snapshot.state.table.time_column)
    wanted = Condition(columns=keys.columns, keep=keys.among, when=span)
    rows = _matching(snapshot, wanted) if keys.count else snapshot.schema.empty_table()
    met = np.zeros(keys.count, np.bool_)
    met[keys.find(rows)] = True
    return rows, met


def _updated(
    snapshot: Snapshot, request: Merge, rows: pa.Table, source: pa.Table, keys: Keys
) -> pa.Table:
    """Return the records of matched rows with their new values."""
    rules, time = _rules(snapshot), snapshot.state.table.time_column
    fresh = updated(rows, source, keys, keys.find(source), request.set)
    if request.set is not None:
        _refuse_lost_nulls(rows, fresh, request.set, rules)
    _refuse_moves(rows, fresh, time, request.keys, snapshot.state.layout)
    given = source.column_names if request.set is None else request.set
    return _records_setting(fresh, [*given], rules)


def _records_setting(rows: pa.Table, given: Collection[str], rules: MergeRules) -> pa.Table:
    """Return rows as records that set only the columns ``given``."""
    left = unset(rules, rows.column_names, given)
    nulls = {name: pa.nulls(rows.num_rows, rows.schema.field(name).type) for name in left}
    return with_columns(rows, nulls)


def _refuse_lost_nulls(
    rows: pa.Table, fresh: pa.Table, given: Collection[str], rules: MergeRules
) -> None:
    singles = {*rules.singles(rows.column_names)}
    for name in (name for name in given if name in singles):
        lost = pc.and_(rows.column(name).is_valid(), fresh.column(name).is_null())
        count = pc.sum(lost).as_py() or 0
        if count:
            raise InvalidInput(lost_null(name, counted(count, "row")))


def _refuse_moves(
    rows: pa.Table, fresh: pa.Table, time: str, on: Sequence[str], layout: Layout
) -> None:
    """Refuse new event times that move a row to another time chunk."""
    old, new = (np.asarray(instants(some.column(time))) for some in (rows, fresh))
    for row in np.flatnonzero(old != new).tolist():
        if layout.chunk(int(old[row])) != layout.chunk(int(new[row])):
            key = rows.select(list(on)).slice(row, 1).to_pylist()[0]
            shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
            raise InvalidInput(
                f"the source row of {shown} has the event time {iso(int(new[row]))}, and the row "
                f"has {iso(int(old[row]))}, in another time chunk: the event time decides where a "
                "row is kept; leave it out of set, or delete the row and upsert it anew"
            )


def _records(
    snapshot: Snapshot, *upserts: pa.Table, deleted: pa.Table | None = None
) -> Records | None:
    """Return rows to upsert and to delete as records; None if there are none."""
    parts = [*_filled(snapshot, [*upserts, *([] if deleted is None else [deleted])])]
    gone = 0 if deleted is None else deleted.num_rows
    rows = pa.concat_tables(parts)
    flags = np.arange(rows.num_rows) >= rows.num_rows - gone
    return Records(rows=rows, deleted=flags) if rows.num_rows else None


def _filled(snapshot: Snapshot, parts: Sequence[pa.Table]) -> Iterator[pa.Table]:
    table = snapshot.state.table
    for part in parts:
        yield check_filled(part, given_schema(table), table.time_column)


def arrow_rows(given: Any) -> GivenRows:
    """Return Arrow data as rows of a request.

    Raises:
        InvalidInput: it cannot be read as Arrow.
    """
    rows = arrow_table(given)
    return GivenRows(rows=rows, columns=tuple(rows.column_names), count=rows.num_rows)


class ArrowEngine:
    """Evaluates changes with Arrow; it keeps no state."""

    def select(
        self, snapshot: Snapshot, request: Delete | Update, *, addressed: bool
    ) -> Selected[pa.Table]:
        """Return the rows that a delete or update selects, and their new values."""
        check_together(request)
        if isinstance(request, Delete) and request.addresses is not None:
            named = present(snapshot, given_addresses(request.addresses.rows))
            return Selected(rows=named, matched=sum(map(len, named.values())))
        wanted = condition_of(request, snapshot)
        if not addressed:
            return Selected(matched=_counted(snapshot, wanted))
        rows = found(snapshot, wanted)
        matched = sum(map(len, rows.values()))
        if isinstance(request, Delete):
            return Selected(rows=rows, matched=matched)
        values = new_values(request.set, snapshot.schema)
        if not matched:
            assigned(snapshot.schema.empty_table(), values)  # check the values, too
            return Selected(matched=0)
        new = assigned(in_full(snapshot, rows), values)
        return _selected(snapshot, rows, matched, new)

    def condition(self, snapshot: Snapshot, where: Where) -> Condition:
        """Return the condition."""
        return condition(where, snapshot.schema, snapshot.state.table.time_column)

    def join(self, snapshot: Snapshot, request: Merge) -> Selected[pa.Table]:
        """Return the rows that a merge deletes and appends."""
        check_together(request)
        source = source_columns(held(request.source).rows, snapshot.schema, request)
        rows, matched, new = merged(snapshot, request, source)
        return _selected(snapshot, rows, matched, new)

    def write(self, snapshot: Snapshot, new: pa.Table) -> Prepare:
        """Return the step of an append that splits rows by time chunk and writes them."""
        return incoming(snapshot.ports, new, snapshot.state)

    def records(self, snapshot: Snapshot, request: ChangeRequest) -> Recorded[Records]:
        """Return the records of a change of a primary-key table."""
        check_together(request)
        if isinstance(request, Merge):
            source = source_columns(held(request.source).rows, snapshot.schema, request)
            return merged_records(snapshot, request, source)
        if isinstance(request, Delete) and request.addresses is not None:
            snapshot.state.table.kind.check_addresses(snapshot.ports.uri)
        return changed_records(snapshot, request, condition_of(request, snapshot))

    def upsert(self, snapshot: Snapshot, records: Records, commit_id: str) -> AppendResult:
        """Commit records in one event."""
        return upsert(snapshot.ports, records, commit_id=commit_id, state=snapshot.state)


def check_together(request: ChangeRequest) -> None:
    """Refuse combinations that only Spark can evaluate.

    Raises:
        InvalidInput: the request has rows beside a condition or new values, or merges by a
            condition: these join two tables.
    """
    if isinstance(request, Merge):
        if not request.keys:
            raise NeedsSpark("a source beside a condition as --on joins two tables: use Spark")
    elif request.rows is not None and (isinstance(request, Update) or request.where is not None):
        beside = "--set" if isinstance(request, Update) else "--where"
        raise NeedsSpark(
            f"2 of where, rows and set are given: rows beside {beside} join two tables: use Spark "
            "for this, or give one of them"
        )


def check_sql(request: ChangeRequest, schema: pa.Schema, source: pa.Schema | None = None) -> None:
    """Refuse a request that only Spark can evaluate; its rows need not be read yet.

    Args:
        request: the change.
        schema: the table's columns.
        source: the columns of a merge's source.

    Raises:
        SchemaMismatch: the table has no such column.
        NeedsSpark: only Spark can evaluate it.
        InvalidInput: no engine can evaluate it.
    """
    check_together(request)
    if isinstance(request, Merge):
        check_set(request, schema, source)
        return
    if request.where is not None:
        condition(request.where, schema, "")
    if isinstance(request, Update):
        assigned(schema.empty_table(), new_values(request.set, schema))


def condition_of(request: Delete | Update, snapshot: Snapshot) -> Condition:
    """Return the condition by which a request selects rows."""
    schema, time_column = snapshot.schema, snapshot.state.table.time_column
    if request.rows is None:
        return condition(request.where, schema, time_column)
    return equal_to(request.rows, request.on, schema, time_column)


def equal_to(
    given: RowsToMatch, on: tuple[str, ...], schema: pa.Schema, time_column: str
) -> Condition:
    """Return the condition that a row equals a given row in the columns ``on``, or in all.

    Raises:
        SchemaMismatch: the rows do not fit the table's columns.
    """
    rows: pa.Table = held(given).rows
    rows = given_columns(rows.select(list(on)) if on else rows, schema)
    keys = Keys.of(rows, rows.column_names, nulls=True)

    return Condition(columns=keys.columns, keep=keys.among, when=when(rows, time_column))


def _counted(snapshot: Snapshot, wanted: Condition) -> int:
    return snapshot.scan(where=wanted).count()


def _selected(
    snapshot: Snapshot, rows: Mapping[Any, Any], matched: int, new: pa.Table
) -> Selected[pa.Table]:
    checked = check_rows(new, snapshot.schema, snapshot.state.table.time_column)
    some = checked.num_rows
    return Selected(rows=rows, matched=matched, new=checked if some else None, count=lambda: some)


def file_of(request: ChangeRequest) -> FileRows | None:
    """Return the file that a request names, if its rows are not read yet."""
    rows = request.source if isinstance(request, Merge) else request.rows
    return rows if isinstance(rows, FileRows) else None


def why_spark(request: ChangeRequest, snapshot: Snapshot) -> str:
    """Return the reason if only Spark can carry out a change, else empty.

    Raises:
        SchemaMismatch: the table has no such column, or the column cannot have the value.
        InvalidInput: a file is broken, or no engine can evaluate the request.
        NotFound: there is no file.
    """
    if snapshot.state.table.kind.deletion is DeletionForm.PREDICATE:
        return ""
    snapshot.state.table.kind.check_change(request, snapshot.ports.uri)
    rows, options = file_of(request), snapshot.ports.storage_options
    if rows is not None and rows.options:
        return f"--option {next(iter(rows.options))} is one of Spark's reader of files"
    if rows is not None and (why := only_spark_reads([rows.path], rows.format, options)):
        return why
    columns = None if rows is None else schema_of(_files(rows, options)[0])
    try:
        check_sql(request, snapshot.schema, columns)
    except NeedsSpark as error:
        return str(error)
    return ""


def size_of(request: ChangeRequest, ports: TableContext) -> int:
    """Return the size in bytes of the files of a request."""
    rows = file_of(request)
    found = _files(rows, ports.storage_options) if rows is not None else ()
    return sum(file.size() for file in found)


def with_files(ports: TableContext, request: ChangeRequest) -> ChangeRequest:
    """Return a request with the rows of its files, in the table's columns and types.

    Raises:
        InvalidInput, SchemaMismatch: a file cannot be read, or its columns do not fit.
        NotFound: there is no file.
    """
    if file_of(request) is None:
        return request
    schema = Snapshot(ports=ports, state=ports.log.load()).schema

    def read(rows: FileRows) -> GivenRows:
        files = _files(rows, ports.storage_options)
        return arrow_rows(_files_joined(rows, [_read(each, schema) for each in files]))

    return with_rows(request, read)


def _files(rows: FileRows, options: Mapping[str, str]) -> list[InputFile]:
    found = found_files(rows.path, rows.format, options)
    if not found:
        raise NotFound(f"there is no file {rows.path}: check the path, or give a URI")
    return found


def _read(file: InputFile, schema: pa.Schema) -> pa.Table:
    """Read the columns that a file has, in the table's types."""
    names = schema_of(file).names
    return read_rows(file, pa.schema([each for each in schema if each.name in names]))


def _files_joined(rows: FileRows, tables: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"the files of {rows.path} have different columns: {error}: name them one by one"
        ) from error


def new_arrow_rows(seen: State, rows: Rows) -> "NewArrowRows":
    """Return rows in the stored form of a table.

    Raises:
        SchemaMismatch, TimeOutOfRange: the rows do not fit.
    """
    definition, time_column = seen.table, seen.table.time_column
    checked = check_rows(arrow_table(rows), given_schema(definition), time_column)
    if checked.num_rows:
        checked = arrow_kind_of(definition.kind).prepared(checked, time_column)
    return NewArrowRows(rows=checked, seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArrowRows:
    """Rows that were checked with a version; implements ``NewRows``."""

    rows: pa.Table
    seen: State

    @property
    def time_column(self) -> str:
        """Return the event time."""
        return self.seen.table.time_column

    @property
    def count(self) -> int:
        """Return their number."""
        return int(self.rows.num_rows)

    def outside(self, snapshot: Snapshot, request: Overwrite) -> int:
        """Return the number of new rows outside of the overwritten ones."""
        if isinstance(request.extent, Touched):
            return 0
        if request.extent is None:
            wanted = condition(request.where, snapshot.schema, self.time_column)
            kept = sum(wanted.keep(batch).num_rows for batch in self.rows.to_batches())
            return self.count - int(kept)
        at = instants(self.rows.column(self.time_column))
        early, late = pc.less(at, request.extent.start), pc.greater_equal(at, request.extent.end)
        return int(pc.sum(pc.or_(early, late)).as_py() or 0)

    def chunks(self, layout: Layout) -> Collection[Interval]:
        """Return the time chunks of the rows."""
        return split_by_chunk(self.rows, self.time_column, layout) if self.count else ()

    def prepare(self, snapshot: Snapshot) -> Prepare:
        """Return the step of an append that splits the rows by time chunk and writes them."""
        return incoming(snapshot.ports, self.rows, self.seen)

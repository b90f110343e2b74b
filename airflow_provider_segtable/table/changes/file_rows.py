"""Rows of files for changes in this process: ``delete`` and ``update`` by matches, ``merge``.

1. Files are paths, URIs of object stores, or patterns (``data.files.input_paths``). All rows of a
   pattern's files are one request's rows. They are read in the table's types, and have the columns
   that the files have. Object stores are opened with the table's storage options.
2. ``why_spark`` says before anything is read or started what only Spark can do.
"""

from collections.abc import Mapping

import pyarrow as pa

from airflow_provider_segtable.core.errors import NeedsSpark, NotFound, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    FileRows,
    GivenRows,
    Merge,
    with_rows,
)
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.data.files.input_files import InputFile, read_rows, schema_of
from airflow_provider_segtable.data.files.input_paths import found_files, only_spark_reads
from airflow_provider_segtable.table.changes.arrow_engine import arrow_rows, check_sql
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.reads.snapshot import Snapshot


def file_of(request: ChangeRequest) -> FileRows | None:
    """Return the file that a request names, if its rows are not read yet."""
    rows = request.source if isinstance(request, Merge) else request.rows
    return rows if isinstance(rows, FileRows) else None


def why_spark(request: ChangeRequest, snapshot: Snapshot) -> str:
    """Return why only Spark can carry out a change; empty if this process can.

    Raises:
        SchemaMismatch: there is no such column, or no such value in it, for Spark neither.
        InvalidInput: a file is broken, or Spark cannot evaluate the request either.
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
    """Return the bytes of the files that a request names."""
    rows = file_of(request)
    found = _files(rows, ports.storage_options) if rows is not None else ()
    return sum(file.size() for file in found)


def with_files(ports: TableContext, request: ChangeRequest) -> ChangeRequest:
    """Return a request with the rows of the files that it names, in the table's columns and types.

    Raises:
        InvalidInput, SchemaMismatch: a file cannot be read, or its columns do not fit.
        NotFound: there is no file.
    """
    if file_of(request) is None:
        return request
    schema = Snapshot(ports=ports, state=ports.log.load()).schema

    def read(rows: FileRows) -> GivenRows:
        files = _files(rows, ports.storage_options)
        return arrow_rows(_joined(rows, [_read(each, schema) for each in files]))

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


def _joined(rows: FileRows, tables: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(
            f"the files of {rows.path} have different columns: {error}: name them one by one"
        ) from error

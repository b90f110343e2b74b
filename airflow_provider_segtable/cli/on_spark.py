"""Run commands on Spark through the library's functions of a session."""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.cli.display.output import print_warning
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import LastPart
from airflow_provider_segtable.core.requests.change_request import ChangeRequest, FileRows
from airflow_provider_segtable.core.requests.overwrite import Overwrite
from airflow_provider_segtable.data.files.input_files import InputFile
from airflow_provider_segtable.spark.driver import session as sessions
from airflow_provider_segtable.spark.driver.file_locations import local_root_warning
from airflow_provider_segtable.spark.reads.input_source import (
    ADDRESS,
    complete,
    numbered,
    read_source,
    without_infinity,
)
from airflow_provider_segtable.spark.spark_columns import readable, spark_schema
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.spark_engine import change, overwrite
from airflow_provider_segtable.table.append import made_at
from airflow_provider_segtable.table.changes.row_change import ChangeResult
from airflow_provider_segtable.table.definition import given_schema, needed_values
from airflow_provider_segtable.table.load import FileColumns, Loaded, load_name, loaded_before
from airflow_provider_segtable.table.table import Table


@contextmanager
def session(master: str | None, work: str, table: Table) -> Iterator[SparkSession]:
    """Yield a session for one command over a table, and stop it at the end."""
    spark = sessions.session(f"segtable {work} {table.state().table.name}", master)
    try:
        warning = local_root_warning(table.ports.uri, spark.sparkContext.master)
        if warning:
            print_warning(warning)
        yield spark
    finally:
        spark.stop()


def ingest_files(
    table: Table,
    files: Sequence[InputFile],
    columns: FileColumns,
    commit_id: str | None,
    master: str | None,
) -> Generator[Loaded]:
    """Append each file as a whole, and yield it.

    Raises:
        InvalidInput: a load of a file was begun in parts.
    """
    with session(master, "ingest", table) as spark:
        for file in files:
            name, state = load_name(commit_id, file), table.state()
            known = loaded_before(state, name) if name else None
            if known is not None:
                _check_whole(known, file)
                done = made_at(table.ports.log, state, known.n)
                yield Loaded(file=file.place, result=done, before=True)
                continue
            rows = _read(spark, table, file, columns)
            whole = f"{name}/0" if name else None
            done = ingest(table.ports, rows, commit_id=whole, deleted=columns.deleted)
            known = done.state.loads.get(name)
            if known is not None:  # another process was first
                _check_whole(known, file)
            yield Loaded(file=file.place, result=done)


def _check_whole(known: LastPart, file: InputFile) -> None:
    """Refuse a load of which only parts are committed: Spark knows no first rows of a file."""
    if not known.part.complete:
        raise InvalidInput(
            f"{file.place}: {known.part} are appended (event {known.n}), and Spark appends whole "
            "files: go on with --engine local"
        )


def overwrite_by_files(
    table: Table,
    files: Sequence[InputFile],
    columns: FileColumns,
    request: Overwrite,
    master: str | None,
) -> ChangeResult:
    """Replace rows by those of all files."""
    with session(master, "ingest", table) as spark:
        frames = (_read(spark, table, file, columns) for file in files)
        rows = reduce(DataFrame.unionByName, frames)
        return overwrite(
            table.ports,
            rows,
            interval=request.extent,
            where=None if request.where is None else str(request.where),
            commit_id=request.commit_id,
            dry_run=request.dry_run,
        )


def _read(spark: SparkSession, table: Table, file: InputFile, columns: FileColumns) -> DataFrame:
    """Return a file's rows; texts are read in the table's types, like by the local engine."""
    definition = table.state().table
    schema = columns.with_flag(given_schema(definition))
    kind, place = file.format, file.place
    if not file.remote:
        place = "file:" + re.sub(r"([*?\[\]{}\\,])", r"\\\1", str(Path(place).absolute()))
    given = columns.in_file(schema)
    # Spark leaves out the keys of JSON that a given schema does not have
    rows = (
        without_infinity(_json(spark, place, given))
        if kind == "json"
        else read_source(
            *(spark, place, kind),
            schema=given,
            csv=file.form,
            bad=columns.bad,
            place=file.place,
        )
    )
    if kind == "json" and columns.bad is not None:
        rows = numbered(rows)
    sources = dict(columns.sources([n for n in rows.columns if n not in ADDRESS], definition))
    if columns.bad is not None:
        sources |= dict(zip(ADDRESS, ADDRESS, strict=True))
    types = {each.name: each.dataType for each in spark_schema(readable(schema)).fields}
    taken = rows.select(
        [
            (rows[old].cast(types[new]) if columns.cast and new in types else rows[old]).alias(new)
            for new, old in sources.items()
        ]
    )
    if columns.bad is None:
        return taken
    return complete(taken, needed_values(definition), file.place, columns.bad)


def _json(spark: SparkSession, place: str, given: pa.Schema) -> DataFrame:
    """Return all columns of a JSON file; JSON has no time type, so times are texts."""
    rows = spark.read.json(place)
    times = {field.name for field in given if pa.types.is_timestamp(field.type)}
    for name, found in rows.dtypes:
        if name in times and found == "string":
            rows = rows.withColumn(name, rows[name].cast("timestamp"))
    return rows


def change_rows(table: Table, request: ChangeRequest, master: str | None) -> ChangeResult:
    """Carry out a delete, update or merge."""
    schema = given_schema(table.state().table)
    with session(master, request.kind.value, table) as spark:

        def read(file: FileRows) -> DataFrame:
            return read_source(spark, file.path, file.format, file.options, schema=schema)

        return change(spark, table.ports, request, read)

"""Run commands on Spark through the library's functions of a session.

Carry out ``segtable delete``, ``update`` and ``merge``, and print their results.

1. This process does simple changes itself, which saves Spark's start: simple SQL (``data.sql``) as
   conditions and new values, files (here or in an object store) that fit in memory. Spark does the
   others. ``--engine`` overrides the choice.
2. Errors for both engines (unknown column, missing file) are reported before Spark starts.
3. A dry run counts the rows of the newest version that would change, and commits nothing.

The engine of a command that carries out plans: this process, or a Spark session of its own.

1. The engine is chosen by the size of the plans (``planning.engine``), each time plans are made.
2. Spark starts when it is first chosen, once a command, and stops with it.

Carry out ``segtable ingest --overwrite``: the rows of all files replace others, in one event.
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.text import Text

from airflow_provider_segtable.cli.display.facts import change_facts
from airflow_provider_segtable.cli.display.output import (
    Facts,
    note,
    print_json,
    print_warning,
    progress,
    show,
)
from airflow_provider_segtable.cli.input.options import check_spark
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, NotFound
from airflow_provider_segtable.core.log.state import LastPart
from airflow_provider_segtable.core.requests.change_request import ChangeRequest, FileRows
from airflow_provider_segtable.core.requests.overwrite import Overwrite
from airflow_provider_segtable.data.files.input_files import InputFile
from airflow_provider_segtable.planning.engine import (
    Choice,
    Engine,
    chosen_engine,
    input_size,
    only_spark,
)
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

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.services.attempt import Execute


@contextmanager
def session(master: str | None, what: str, table: Table) -> Iterator[SparkSession]:
    """Yield a session for one command over a table, and stop it at the end."""
    spark = sessions.session(f"segtable {what} {table.state().table.name}", master)
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


_DOING = {"delete": "deleting", "update": "updating", "merge": "merging"}
_DONE = {"delete": "deleted", "update": "updated", "merge": "merged", "overwrite": "overwritten"}


def changed(
    uri: str, table: Any, request: ChangeRequest, engine: Engine, master: str | None
) -> Facts:
    """Carry out a change, and return its result."""
    start = monotonic()
    if request.appends and table.state().table.kind.rules is None:
        _ = table.ports.coordinator  # fails first if there is no ZooKeeper
    before = request.commit_id is not None and request.commit_id in table.state().commits
    used = _engine(table, request, engine)
    with progress() as bar:
        bar.add_task(_DOING[request.kind], total=None)
        if used is Engine.LOCAL:
            result = table.change(request)
        else:
            check_spark()

            result = change_rows(table, request, master)
    return change_facts(
        uri, result, kind=request.kind.value, engine=used, before=before, start=start
    )


def tell(facts: Facts, *, as_json: bool) -> None:
    """Print the result of a change."""
    if as_json:
        print_json(facts)
        return
    matched = f"{counted(facts['matched'], 'row')} matched"
    moved = f", {facts['deleted'] or 0:,} deleted, {facts['inserted']:,} inserted"
    # deletes by predicate are not counted
    counts = f"{matched}{'' if facts['deleted'] is None else moved}"
    if facts["dry_run"]:
        show(Text(counts))
        note("[dim]a dry run: nothing was written[/]")
    elif facts["event"] is None:
        show(Text(f"{matched}: nothing to {facts['kind']}, nothing was written"))
    else:
        line = f": {counts}: event {facts['event']}"
        again = " before, under this name" if facts["changed_before"] else ""
        show(Text.assemble((f"{_DONE[facts['kind']]}{again}", "green"), line))


def _engine(table: Any, request: ChangeRequest, wanted: Engine) -> Engine:
    """Return the engine for a change.

    Raises:
        NeedsSpark: only Spark can do the change, but the local engine is requested.
        InvalidInput: there is no file of this name.
    """
    from airflow_provider_segtable.table.changes.arrow_engine import why_spark

    if wanted is Engine.SPARK:
        return wanted
    try:
        why = why_spark(request, table.snapshot())
    except NotFound as error:
        raise InvalidInput(str(error)) from error
    if not why:
        return Engine.LOCAL
    if wanted is Engine.LOCAL:
        raise NeedsSpark(f"--engine local cannot do this: {why}")
    note("[dim]with Spark, as this process alone cannot do it (--engine local says why)[/]")
    return Engine.SPARK


LOCAL_PARALLELISM = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """How to run the jobs of plans, and about how many at once."""

    execute: "Execute"
    parallelism: int = LOCAL_PARALLELISM


EngineFor = Callable[["State", Sequence[str]], ChosenEngine]
"""Returns the engine for plans of a state, by their ids."""


@contextmanager
def engines(table: Any, wish: Engine, master: str | None, what: str) -> Iterator[EngineFor]:
    """Yield the choice of an engine for plans of a table."""
    from airflow_provider_segtable.services.attempt import in_process

    with ExitStack() as held:

        @cache
        def spark() -> "SparkSession":
            check_spark()

            return held.enter_context(session(master, what, table))

        def engine_for(state: "State", plans: Sequence[str]) -> ChosenEngine:
            if _chosen(state, plans, wish).local:
                return ChosenEngine(execute=in_process())
            cores = spark().sparkContext.defaultParallelism
            from airflow_provider_segtable.spark.writes.distribution import spark_execute

            return ChosenEngine(execute=spark_execute(spark()), parallelism=cores)

        yield engine_for


def _chosen(state: "State", plans: Sequence[str], wish: Engine) -> Choice:
    from airflow_provider_segtable.spark.driver.install_check import spark_here

    size, why = input_size(state, plans), only_spark(state)
    chosen = chosen_engine(wish, size=size, only_spark=why, spark_here=spark_here)
    if wish is Engine.AUTO and not chosen.local:
        note(f"[dim]{chosen}[/]")
    return chosen


def overwritten(
    uri: str,
    table: Any,
    files: "Sequence[InputFile]",
    columns: FileColumns,
    request: Overwrite,
    *,
    local: bool,
    master: str | None,
) -> Facts:
    """Overwrite, and return the result as those of other changes."""
    start = monotonic()
    before = request.commit_id is not None and request.commit_id in table.state().commits
    with progress() as bar:
        bar.add_task("overwriting", total=None)
        if local:
            result = table.overwrite(
                _rows(table, files, columns),
                interval=request.extent,
                where=request.where,
                commit_id=request.commit_id,
                dry_run=request.dry_run,
            )
        else:
            check_spark()

            result = overwrite_by_files(table, files, columns, request, master)
    return change_facts(
        uri,
        result,
        kind="overwrite",
        engine=Engine.LOCAL if local else Engine.SPARK,
        before=before,
        start=start,
    )


def spark_reason(table: Any, request: Overwrite) -> str:
    """Return why only Spark can find the rows to overwrite; empty if this process can."""
    from airflow_provider_segtable.data.sql.sql_conditions import why_not_here

    return why_not_here(request.where, table.snapshot().schema)


def _rows(table: Any, files: "Sequence[InputFile]", columns: FileColumns) -> Any:
    import pyarrow as pa

    definition = table.state().table
    return pa.concat_tables([columns.read(file, definition) for file in files])

"""``segtable ingest``: append files to a table, upsert them by key, or overwrite rows by them."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli.advice import advise_filled
from airflow_provider_segtable.cli.commands.table_commands import writable_table
from airflow_provider_segtable.cli.display.facts import append_facts
from airflow_provider_segtable.cli.display.output import (
    Facts,
    note,
    print_json,
    print_warning,
    progress,
)
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    CommitId,
    CsvOptions,
    EngineOption,
    MasterOption,
    StorageOptions,
    TableUri,
    ZooKeeper,
    check_spark,
    option_groups,
    store_options,
)
from airflow_provider_segtable.cli.running import overwritten, spark_reason, tell
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.overwrite import Overwrite, extent_of
from airflow_provider_segtable.planning.engine import Engine, chosen_engine

if TYPE_CHECKING:
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.data.files.text_values import BadRows
    from airflow_provider_segtable.table.load import FileColumns, Loaded


@option_groups
def ingest(  # noqa: PLR0913 - each is an option
    table: TableUri,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Parquet, CSV or JSON lines: paths, or URIs like s3://bucket/key or "
            "'s3://bucket/day/*.csv'.",
            show_default=False,
        ),
    ],
    *,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="parquet, csv or json; by the file's suffix if left out."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Only these columns of the files; NEW=OLD takes a column under another name. A "
            "rollup table takes by default what it needs, other tables all columns.",
            metavar="A,NEW=OLD,...",
            show_default=False,
        ),
    ] = None,
    cast: Annotated[
        bool,
        typer.Option("--cast", help="Cast to the table's types where no value is lost by it."),
    ] = False,
    rows_per_append: Annotated[
        int | None,
        typer.Option(min=1, help="Split each file into appends of N rows (local engine)."),
    ] = None,
    deleted: Annotated[
        str | None,
        typer.Option(
            help="Primary-key tables: a boolean column of the files; where it is true, the key is "
            "deleted.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    commit_id: CommitId = None,
    overwrite: Annotated[
        str | None,
        typer.Option(
            help="Replace the rows of this time by those of the files, in one event; 'chunks': of "
            "the time chunks that the rows touch.",
            metavar="START/END",
        ),
    ] = None,
    overwrite_where: Annotated[
        str | None,
        typer.Option(
            help="Instead, replace the rows that match a Spark SQL expression; every new row must "
            "match it, too.",
            metavar="SQL",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Report how many rows an overwrite would replace; write nothing."
        ),
    ] = False,
    bad_rows: Annotated[
        str | None,
        typer.Option(
            help="Set rows without a valid event time, a key or another needed value, and CSV rows "
            "with a field that does not fit, aside in this file (JSON lines) instead of refusing "
            "theirs.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    csv: CsvOptions,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""Append files to a table; each file is one append, visible as a whole or not at all.

    If the table has a primary key, rows replace those with their keys (upsert).
    Any number of writers may do so at once, without ZooKeeper or conflicts.

    [green]segtable ingest ./flights january.parquet february.parquet[/]
    [green]segtable ingest ./flights night.csv --commit-id night-2026-01-31[/]
    [green]segtable ingest ./flights s3://landing/2026/02/01.parquet[/]
    [green]segtable ingest ./flights night.csv --overwrite 2026-01-31/2026-02-01[/]
        load a day again: its rows go, those of all files come, at once
    [green]segtable ingest ./flights ua.csv --overwrite-where "carrier = 'UA'" --dry-run[/]
    [green]segtable ingest ./orders changes.jsonl --deleted gone[/]
        upsert by the primary key; rows in which "gone" is true delete theirs
    [green]segtable ingest s3://lake/trips *.parquet --engine spark \
        --master spark://host:7077[/]
    [green]segtable ingest ./flights raw.parquet --columns carrier,delay=dep_delay --cast[/]
    [green]segtable ingest ./flights night.csv --delimiter ';' \
        --encoding latin-1 --null-text NA[/]

    Columns and types must match the table's, and every row needs an event time.
    An invalid file appends nothing; the files before it stay appended.
    """
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.table.load import FileColumns

    bad = _bad_rows(bad_rows)
    taken = FileColumns.parse(columns, cast=cast, deleted=deleted, bad=bad)
    options = store_options(storage_options)
    named = [each for place in files for each in _objects(place, options, engine)]
    sources = [InputFile(place, format_, options, csv.form()) for place in named]
    request = _overwrite(overwrite, overwrite_where, commit_id, dry_run=dry_run)
    _check_parts(rows_per_append, engine, whole=request is not None)
    _check_deleted(deleted, whole=request is not None)
    if request is not None:
        with writable_table(table, storage_options, zookeeper) as opened:
            local = _local_does(sources, engine, None, spark_reason(opened, request))
            told = overwritten(
                *(table, opened, sources, taken, request), local=local, master=master
            )
        tell({**told, **_aside(bad)}, as_json=as_json)
        return
    _check_names(sources, commit_id)
    with writable_table(table, storage_options, zookeeper) as opened:
        before = opened.state()
        keyed = before.table.kind.rules is not None
        if not keyed:
            _ = opened.ports.coordinator  # fails first if there is no ZooKeeper
        fresh = not len(before.timeline)
        if _local_does(sources, engine, rows_per_append):
            appends = _local(opened, sources, taken, rows_per_append, commit_id)
        else:
            appends = _on_spark(opened, sources, taken, commit_id, master)
        with closing(appends):  # ends the session now, not at garbage collection
            done = [append_facts(opened, each) for each in _watched(appends, len(sources))]
        after = opened.state()
    if fresh:
        advise_filled(table, after)
    if as_json:
        print_json({"table": table, "version": after.n, "appends": done, **_aside(bad)})
        return
    _aside(bad)
    _tell(done, "upserted" if keyed else "appended")


def _tell(appends: list[Facts], what: str) -> None:
    for append in appends:
        n = f"event {append['version']}, " if append["version"] is not None else ""
        note(f"[green]{what}[/] {append['file']}: {n}{append['summary']}")


def _bad_rows(path: str | None) -> "BadRows | None":
    """Return what takes bad rows, in a file of this machine."""
    if path is None:
        return None
    from airflow_provider_segtable.data.files.text_values import BadRows

    return BadRows(path)


def _aside(bad: "BadRows | None") -> Facts:
    """Return the number of rows that were set aside, and say it."""
    if bad is None:
        return {}
    if bad.count:
        rows = f"{counted(bad.count, 'row')} set aside in {bad.path}"
        print_warning(f"{rows}, each with its number (from 0), the reason and its values")
    return {"set_aside": bad.count}


def _objects(place: str, options: Mapping[str, str], engine: Engine) -> list[str]:
    """Return the objects of a URI's pattern; the shell expands paths, and Spark its own URIs."""
    from airflow_provider_segtable.data.files.input_files import expanded

    return expanded(place, options) if "://" in place and engine is not Engine.SPARK else [place]


def _overwrite(
    interval: str | None, where: str | None, commit_id: str | None, *, dry_run: bool
) -> Overwrite | None:
    """Return the overwrite that is asked for; None for an append."""
    if interval is None and where is None:
        if dry_run:
            raise InvalidInput(
                "--dry-run counts the rows that an overwrite would replace: add --overwrite or "
                "--overwrite-where"
            )
        return None
    return Overwrite(extent=extent_of(interval), where=where, commit_id=commit_id, dry_run=dry_run)


def _check_parts(rows_per_append: int | None, engine: Engine, *, whole: bool) -> None:
    """Refuse to split files where another engine or one event does the work."""
    if rows_per_append and engine is Engine.SPARK:
        raise InvalidInput(
            "--rows-per-append works only with --engine local: leave out one of them"
        )
    if rows_per_append and whole:
        raise InvalidInput(
            "--rows-per-append makes several appends, and an overwrite is one event: leave out one "
            "of them"
        )


def _check_deleted(deleted: str | None, *, whole: bool) -> None:
    """Refuse a column of deletes beside an overwrite, which needs no deletes."""
    if deleted is not None and whole:
        raise InvalidInput(
            f"--deleted {deleted} deletes single keys, an overwrite all that it names: leave out "
            "one of them"
        )


def _check_names(files: "list[InputFile]", commit_id: str | None) -> None:
    """Refuse two files of one name: under a commit id the second would count as appended before."""
    names = [file.name for file in files]
    for name in names if commit_id else ():
        if names.count(name) > 1:
            raise InvalidInput(
                f"{names.count(name)} files are called {name}, and --commit-id knows a file by its "
                "name: ingest them by commands with different ids"
            )


def _local_does(
    files: "list[InputFile]", wish: Engine, rows_per_append: int | None, only_spark: str = ""
) -> bool:
    from airflow_provider_segtable.spark.driver.install_check import spark_here

    wish = Engine.LOCAL if rows_per_append else wish
    size = sum(file.size() for file in files) if wish is Engine.AUTO else 0
    return chosen_engine(wish, size=size, only_spark=only_spark, spark_here=spark_here).local


def _on_spark(
    table: Any,
    files: "list[InputFile]",
    columns: "FileColumns",
    commit_id: str | None,
    master: str | None,
) -> "Generator[Loaded]":
    check_spark()
    from airflow_provider_segtable.cli.on_spark import ingest_files

    return ingest_files(table, files, columns, commit_id, master)


def _local(
    table: Any,
    files: "list[InputFile]",
    columns: "FileColumns",
    rows_per_append: int | None,
    commit_id: str | None,
) -> "Generator[Loaded]":
    from airflow_provider_segtable.table.load import load_rows

    definition = table.state().table
    for file in files:
        yield from load_rows(
            *(table.ports, file, columns.read(file, definition)),
            commit_id=commit_id,
            rows_per_append=rows_per_append,
            deleted=columns.deleted,
        )


def _watched(appends: "Iterator[Loaded]", files: int) -> "Iterator[Loaded]":
    with progress() as bar:
        task = bar.add_task("appending", total=None if files == 1 else files)
        seen: set[str] = set()
        for append in appends:
            if append.file not in seen:
                bar.advance(task)
            seen.add(append.file)
            yield append

"""``segtable ingest``: append files to a table, upsert them by key, or overwrite rows by them."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_segtable.cli.advice import advise_filled
from airflow_provider_segtable.cli.display.output import print_json, print_warning, progress
from airflow_provider_segtable.cli.input.options import (
    CommitId,
    CsvOptions,
    EngineOption,
    MasterOption,
    ZooKeeperOptions,
    check_spark,
    option_groups,
    store_options,
)
from airflow_provider_segtable.cli.running import overwritten, show_change, spark_reason
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.requests.overwrite import Overwrite, extent_of
from airflow_provider_segtable.planning.engine import Engine, chosen_engine

if TYPE_CHECKING:
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.data.files.text_values import BadRows
    from airflow_provider_segtable.table.load import FileColumns, Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How files are read, and under which name their rows are committed."""

    format_: Annotated[
        str | None,
        typer.Option("--format", help="parquet, csv or json; by the file's suffix if left out."),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            help="Only these columns of the files; NEW=OLD takes a column under another name. A "
            "rollup table takes by default the columns it needs, other tables all columns.",
            metavar="A,NEW=OLD,...",
            show_default=False,
        ),
    ] = None
    cast: Annotated[
        bool,
        typer.Option("--cast", help="Cast to the table's types where no value is lost by it."),
    ] = False
    rows_per_append: Annotated[
        int | None,
        typer.Option(min=1, help="Split each file into appends of N rows (local engine)."),
    ] = None
    deleted: Annotated[
        str | None,
        typer.Option(
            help="Primary-key tables: a boolean column of the files; where it is true, the key is "
            "deleted.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None
    commit_id: CommitId = None

    def taken(self, bad: "BadRows | None") -> "FileColumns":
        """Return the columns to take from the files."""
        from airflow_provider_segtable.table.load import FileColumns

        return FileColumns.parse(self.columns, cast=self.cast, deleted=self.deleted, bad=bad)

    def check(self, engine: Engine, *, overwrites: bool) -> None:
        """Refuse parts that another engine or an overwrite cannot make, and deletes beside one."""
        if self.rows_per_append and engine is Engine.SPARK:
            raise InvalidInput(
                "--rows-per-append works only with --engine local: leave out one of them"
            )
        if self.rows_per_append and overwrites:
            raise InvalidInput(
                "--rows-per-append makes several appends, and an overwrite is one event: leave out "
                "one of them"
            )
        if self.deleted is not None and overwrites:
            raise InvalidInput(
                f"--deleted {self.deleted} deletes single keys, an overwrite all that it names: "
                "leave out one of them"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverwriteOptions:
    """The rows that the files replace."""

    overwrite: Annotated[
        str | None,
        typer.Option(
            help="Replace the rows of this time by those of the files, in one event; 'chunks': of "
            "the time chunks that the rows touch.",
            metavar="START/END",
        ),
    ] = None
    overwrite_where: Annotated[
        str | None,
        typer.Option(
            help="Instead, replace the rows that match a Spark SQL expression; every new row must "
            "match it, too.",
            metavar="SQL",
            show_default=False,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Report how many rows an overwrite would replace; write nothing."
        ),
    ] = False

    def request(self, commit_id: str | None) -> Overwrite | None:
        """Return the request; None for an append."""
        if self.overwrite is not None or self.overwrite_where is not None:
            return Overwrite(
                extent=extent_of(self.overwrite),
                where=self.overwrite_where,
                commit_id=commit_id,
                dry_run=self.dry_run,
            )
        if self.dry_run:
            raise InvalidInput(
                "--dry-run counts the rows that an overwrite would replace: add --overwrite or "
                "--overwrite-where"
            )
        return None


@option_groups
def ingest(
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
    load: LoadOptions,
    overwrite: OverwriteOptions,
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
    common: ZooKeeperOptions,
) -> None:
    r"""Append files to a table; each file is one append, visible as a whole or not at all.

    If the table has a primary key, rows replace those with their keys (upsert).
    Any number of writers may do so at once, without ZooKeeper or conflicts.

    [green]segtable ingest ./flights january.parquet february.parquet[/]
    [green]segtable ingest ./flights night.csv --commit-id night-2026-01-31[/]
    [green]segtable ingest ./flights s3://landing/2026/02/01.parquet[/]
    [green]segtable ingest ./flights night.csv --overwrite 2026-01-31/2026-02-01[/]
        load a day again: the rows of all files replace its rows, at once
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

    bad = _bad_rows(bad_rows)
    taken = load.taken(bad)
    options = store_options(common.storage_options)
    named = [each for place in files for each in _objects(place, options, engine)]
    sources = [InputFile(place, load.format_, options, csv.form()) for place in named]
    request = overwrite.request(load.commit_id)
    load.check(engine, overwrites=request is not None)
    if request is not None:
        with common.open() as opened:
            local = _local_does(sources, engine, None, spark_reason(opened, request))
            done = overwritten(opened, sources, taken, request, local=local, master=master)
        show_change({**done, **_aside(bad)}, common)
        return
    _check_names(sources, load.commit_id)
    with common.open() as opened:
        before = opened.state()
        keyed = before.table.kind.rules is not None
        if not keyed:
            _ = opened.ports.coordinator  # fails first if there is no ZooKeeper
        if _local_does(sources, engine, load.rows_per_append):
            parts = _local(opened, sources, taken, load)
        else:
            parts = _on_spark(opened, sources, taken, load.commit_id, master)
        with closing(parts):  # ends the session now, not at garbage collection
            appends = [part.facts(opened.ports.log) for part in _watched(parts, len(sources))]
        after = opened.state()
    if not len(before.timeline):
        advise_filled(common.table, after)
    answer = {"table": common.table, "version": after.n, "appends": appends, **_aside(bad)}
    if common.as_json:
        print_json(answer)
    for append in appends:
        n = f"event {append['version']}, " if append["version"] is not None else ""
        verb = "upserted" if keyed else "appended"
        common.note(f"[green]{verb}[/] {append['file']}: {n}{append['summary']}")


def _bad_rows(path: str | None) -> "BadRows | None":
    """Return a collector of bad rows, in a file of this machine."""
    if path is None:
        return None
    from airflow_provider_segtable.data.files.text_values import BadRows

    return BadRows(path)


def _aside(bad: "BadRows | None") -> Facts:
    """Return the number of rows that were set aside, and warn of them."""
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
    load: LoadOptions,
) -> "Generator[Loaded]":
    from airflow_provider_segtable.table.load import load_rows

    definition = table.state().table
    for file in files:
        yield from load_rows(
            *(table.ports, file, columns.read(file, definition)),
            commit_id=load.commit_id,
            rows_per_append=load.rows_per_append,
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

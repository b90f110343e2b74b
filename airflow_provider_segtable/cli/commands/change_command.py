"""``segtable delete``, ``update`` and ``merge``: change rows, one event per command."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from airflow_provider_segtable.cli.input.options import (
    CommitId,
    MasterOption,
    ZooKeeperOptions,
    option_groups,
    pairs,
)
from airflow_provider_segtable.cli.running import changed, show_change
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    FileRows,
    Matched,
    Merge,
    Sql,
    Unmatched,
    Update,
    columns_in,
    selected,
)
from airflow_provider_segtable.planning.engine import Engine

FileFormat = Annotated[
    str | None,
    typer.Option(
        "--format", help="Format of the file; by its suffix if left out.", show_default=False
    ),
]
ReaderOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Option of Spark's reader of the file, e.g. sep=;. Repeatable.",
        metavar="KEY=VALUE",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The options of every change."""

    format_: FileFormat = None
    options: ReaderOptions = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Report how many rows it would change; write nothing."),
    ] = False
    commit_id: CommitId = None
    engine: Annotated[
        Engine,
        typer.Option(
            help="local: in this process; simple SQL, files that fit in memory. spark: anything, "
            "spread over Spark tasks. auto: local if it can, else spark.",
        ),
    ] = Engine.AUTO
    master: MasterOption = None

    def file(self, path: str) -> FileRows:
        """Return the rows of a file, with the options of its reader."""
        options = pairs(self.options, "--option")
        return FileRows(path=path, format=self.format_, options=options)

    def named(self) -> Mapping[str, Any]:
        """Return the fields that all requests have."""
        return {"commit_id": self.commit_id, "dry_run": self.dry_run}

    def run(self, request: ChangeRequest, common: ZooKeeperOptions) -> None:
        """Carry out a request, and print its result."""
        with common.open() as table:
            facts = changed(table, request, self.engine, self.master)
        show_change(facts, common)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """The options that select rows."""

    where: Annotated[
        str | None,
        typer.Option(
            help="Select rows by a Spark SQL expression.", metavar="SQL", show_default=False
        ),
    ] = None
    matches: Annotated[
        str | None,
        typer.Option(
            help="Select rows equal to a row of this file (path, URI or pattern), in its columns.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    all_: Annotated[bool, typer.Option("--all", help="Select every row of the table.")] = False
    on: Annotated[
        str | None,
        typer.Option(
            help="Compare only these columns of the file.", metavar="COLUMN,...", show_default=False
        ),
    ] = None

    def selection(self, change: ChangeOptions) -> Mapping[str, Any]:
        """Return the fields of a request that select rows."""
        rows = change.file(self.matches) if self.matches else None
        where = selected(self.where, rows, every_row=self.all_)
        return {"where": where, "rows": rows, "on": columns_in(self.on)}


@option_groups
def delete(
    *,
    rows: RowOptions,
    change: ChangeOptions,
    common: ZooKeeperOptions,
) -> None:
    """Delete rows, in one event; compactions and appends go on meanwhile.

    [green]segtable delete ./flights --where "carrier = 'AA'" --dry-run[/]
    [green]segtable delete ./flights --where "carrier = 'AA' and dep_delay > 60"[/]
    [green]segtable delete ./flights --matches forget.csv --commit-id forget-2026-01[/]
        rows that equal a row of the file, in the columns that it has
    [green]segtable delete ./flights --where "origin = 'EWR'" --matches forget.csv[/]
        both must hold
    [green]segtable delete ./flights --all[/]

    Needs no ZooKeeper. A row for which SQL knows neither true nor false stays.
    Earlier versions still have the rows, until compaction has rewritten them
    and [green]segtable clean[/] has removed the old files. Of a rollup table
    only dimensions and the event time can be asked for.
    """
    change.run(Delete(**rows.selection(change), **change.named()), common)


@option_groups
def update(
    *,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="A column and its new value, a Spark SQL expression over the old row. Repeatable.",
            metavar="COLUMN=SQL",
            show_default=False,
        ),
    ],
    rows: RowOptions,
    change: ChangeOptions,
    common: ZooKeeperOptions,
) -> None:
    r"""Set columns of rows, in one event; compactions and appends go on meanwhile.

    [green]segtable update ./flights --set "carrier='US'" --where "carrier = 'HP'"[/]
    [green]segtable update ./flights --set "dep_delay=0" \
        --set "arr_delay=arr_delay - dep_delay" --where "dep_delay < 0"[/]
    [green]segtable update ./flights --set "tailnum=null" --matches forget.csv --dry-run[/]
    [green]segtable update ./flights --set "distance=distance * 1.609" --all[/]

    Arithmetic, case, coalesce and simple functions of text are computed in this
    process, all other expressions by Spark.

    All expressions see the old row. Two updates of the same row conflict: the
    later one looks again, a few times, and then ends with 4: run it again.
    """
    request = Update(set=_assigned(sets), **rows.selection(change), **change.named())
    change.run(request, common)


@option_groups
def merge(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="The rows to merge in: path, URI or pattern.", show_default=False
        ),
    ],
    *,
    on: Annotated[
        str,
        typer.Option(
            help="Key columns: rows that are equal in them match.",
            metavar="COLUMN,...",
            show_default=False,
        ),
    ],
    matched: Annotated[
        Matched,
        typer.Option(
            help="Action for matching rows of the table: update, delete, ignore.", metavar="ACTION"
        ),
    ] = Matched.UPDATE,
    unmatched: Annotated[
        Unmatched,
        typer.Option(
            help="Action for rows of the file without a match: insert, ignore.",
            metavar="ACTION",
        ),
    ] = Unmatched.INSERT,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A column of updated rows and its new value, a Spark SQL expression over target.* "
            "and source.*; they get the file's columns if left out. Repeatable.",
            metavar="COLUMN=SQL",
            show_default=False,
        ),
    ] = None,
    change: ChangeOptions,
    common: ZooKeeperOptions,
) -> None:
    r"""Merge a file into a table by key, in one event; compactions and appends go on meanwhile.

    [green]segtable merge ./orders corrections.csv --on order_id[/]
        update present rows, insert new ones
    [green]segtable merge ./orders late.parquet --on order_id --matched ignore[/]
        insert only new rows
    [green]segtable merge ./orders gone.csv --on order_id --matched delete \
        --unmatched ignore[/]
    [green]segtable merge ./stock sold.csv --on item --set "n=target.n - source.n" \
        --unmatched ignore[/]
        subtract the file's numbers: both sides can be computed with

    Columns that the file lacks stay as they are; inserted rows have their defaults, or null.
    A key must not be twice in the file if a row of the table has it.
    """
    request = Merge(
        source=change.file(source),
        on=columns_in(on),
        matched=matched,
        unmatched=unmatched,
        set=_assigned(sets) or None,
        **change.named(),
    )
    change.run(request, common)


def _assigned(sets: list[str] | None) -> Mapping[str, Sql]:
    found = pairs(sets, "--set")
    if len(found) < len(sets or ()):
        raise InvalidInput(f"--set names a column twice: {', '.join(sets or ())}; leave one")
    return {name: Sql(text) for name, text in found.items()}

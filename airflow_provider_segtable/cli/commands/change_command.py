"""``segtable delete``, ``update`` and ``merge``: change rows, one event per command."""

from collections.abc import Mapping
from typing import Annotated

import typer

from airflow_provider_segtable.cli.changing import Asked, Matched, Unmatched, changed, tell
from airflow_provider_segtable.cli.commands.ingest_command import MasterOption
from airflow_provider_segtable.cli.commands.table_commands import writable_table
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    TableUri,
    ZooKeeper,
    pairs,
)
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.engine import Engine

Where = Annotated[
    str | None,
    typer.Option(help="Which rows, as a Spark SQL expression.", metavar="SQL", show_default=False),
]
Matches = Annotated[
    str | None,
    typer.Option(
        help="Which rows: those equal to a row of this file, in the columns that it has.",
        metavar="FILE",
        show_default=False,
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every row of the table.")]
On = Annotated[
    str | None,
    typer.Option(
        help="Compare only these columns of the file.", metavar="COLUMN,...", show_default=False
    ),
]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", help="Of the file; by its name if left out.", show_default=False),
]
ReaderOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Of Spark's reader of the file, e.g. sep=;. Repeatable.",
        metavar="KEY=VALUE",
        show_default=False,
    ),
]
CommitId = Annotated[
    str | None,
    typer.Option(
        help="A name for this change. Run again under the same name, it changes nothing more.",
        metavar="NAME",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say how many rows it would touch, and write nothing.")
]
ChangeEngine = Annotated[
    Engine,
    typer.Option(
        help="local: in this process; simple SQL, files that fit in memory. spark: anything, "
        "spread over Spark tasks. auto: local if it can, else spark.",
    ),
]


def delete(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    where: Where = None,
    matches: Matches = None,
    all_: All = False,
    on: On = None,
    format_: FileFormat = None,
    options: ReaderOptions = None,
    dry_run: DryRun = False,
    commit_id: CommitId = None,
    engine: ChangeEngine = Engine.AUTO,
    master: MasterOption = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Delete rows, in one event; compactions and appends go on meanwhile.

    [green]segtable delete ./flights --where "carrier = 'AA' and dep_delay > 60" --dry-run[/]
    [green]segtable delete ./flights --where "carrier = 'AA' and dep_delay > 60"[/]
    [green]segtable delete ./flights --matches forget.csv --commit-id forget-2026-01[/]
        rows that equal a row of the file, in the columns that it has
    [green]segtable delete ./flights --where "origin in ('EWR', 'JFK')" --matches forget.csv[/]
        both must hold
    [green]segtable delete ./flights --all[/]

    Needs no ZooKeeper. A row for which SQL knows neither true nor false stays.
    Earlier versions still have the rows, until compaction has rewritten them
    and [green]segtable clean[/] has removed the old files. Of a rollup table
    only dimensions and the event time can be asked for.
    """
    asked = Asked(
        kind="delete",
        where=_chosen("delete", where, matches, all_=all_),
        file=matches,
        format=format_,
        options=pairs(options, "--option"),
        on=_columns(on),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    with writable_table(table, storage_options, zookeeper) as opened:
        tell(changed(table, opened, asked, engine, master), as_json=as_json)


def update(  # noqa: PLR0913 - each is an option
    table: TableUri,
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
    where: Where = None,
    matches: Matches = None,
    all_: All = False,
    on: On = None,
    format_: FileFormat = None,
    options: ReaderOptions = None,
    dry_run: DryRun = False,
    commit_id: CommitId = None,
    engine: ChangeEngine = Engine.AUTO,
    master: MasterOption = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Set columns of rows, in one event; compactions and appends go on meanwhile.

    [green]segtable update ./flights --set "carrier='US'" --where "carrier = 'HP'"[/]
    [green]segtable update ./flights --set "dep_delay=0" --set "arr_delay=arr_delay - dep_delay" \
--where "dep_delay < 0"[/]
    [green]segtable update ./flights --set "tailnum=null" --matches forget.csv --dry-run[/]
    [green]segtable update ./flights --set "distance=distance * 1.609" --all[/]

    All expressions see the old row. Two updates of the same row conflict: the
    later one looks again, a few times, and then ends with 4: run it again.
    """
    asked = Asked(
        kind="update",
        where=_chosen("update", where, matches, all_=all_),
        sets=_assigned(sets),
        file=matches,
        format=format_,
        options=pairs(options, "--option"),
        on=_columns(on),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    with writable_table(table, storage_options, zookeeper) as opened:
        tell(changed(table, opened, asked, engine, master), as_json=as_json)


def merge(  # noqa: PLR0913 - each is an option
    table: TableUri,
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The rows to merge in.", show_default=False),
    ],
    *,
    on: Annotated[
        str,
        typer.Option(
            help="The key: rows that are equal in these columns match.",
            metavar="COLUMN,...",
            show_default=False,
        ),
    ],
    matched: Annotated[
        Matched, typer.Option(help="What becomes of the table's rows that match.")
    ] = Matched.UPDATE,
    unmatched: Annotated[
        Unmatched, typer.Option(help="What becomes of the file's rows that match none.")
    ] = Unmatched.INSERT,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="What a column of updated rows becomes, a Spark SQL expression over target.* and "
            "source.*; they get the file's columns if left out. Repeatable.",
            metavar="COLUMN=SQL",
            show_default=False,
        ),
    ] = None,
    format_: FileFormat = None,
    options: ReaderOptions = None,
    dry_run: DryRun = False,
    commit_id: CommitId = None,
    engine: ChangeEngine = Engine.AUTO,
    master: MasterOption = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Merge a file into a table by key, in one event; compactions and appends go on meanwhile.

    [green]segtable merge ./orders corrections.csv --on order_id[/]
        update what is there, insert what is not
    [green]segtable merge ./orders late.parquet --on order_id --matched ignore[/]
        insert only what is not there yet
    [green]segtable merge ./orders gone.csv --on order_id --matched delete --unmatched ignore[/]
    [green]segtable merge ./stock sold.csv --on item --set "n=target.n - source.n" \
--unmatched ignore[/]
        take away what the file names; or compute with both sides

    Columns that the file lacks stay as they are, or are null in rows that come.
    A key must not be twice in the file if a row of the table has it.
    """
    asked = Asked(
        kind="merge",
        sets=_assigned(sets),
        file=source,
        format=format_,
        options=pairs(options, "--option"),
        on=_columns(on),
        matched=matched.value,
        unmatched=unmatched.value,
        commit_id=commit_id,
        dry_run=dry_run,
    )
    with writable_table(table, storage_options, zookeeper) as opened:
        tell(changed(table, opened, asked, engine, master), as_json=as_json)


def _chosen(kind: str, where: str | None, matches: str | None, *, all_: bool) -> str | None:
    """Return the condition; all rows need ``--all``, without another selection."""
    some = bool((where or "").strip() or matches)
    if some and all_:
        raise InvalidInput(f"{kind} --all means every row: leave out --where and --matches")
    if not (some or all_):
        raise InvalidInput(
            f"{kind} which rows? give --where SQL or --matches FILE; --all means every row"
        )
    return "true" if all_ else where


def _columns(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _assigned(sets: list[str] | None) -> Mapping[str, str]:
    found = pairs(sets, "--set")
    if len(found) < len(sets or ()):
        raise InvalidInput(f"--set names a column twice: {', '.join(sets or ())}; leave one")
    return found

"""``segtable table``: create and inspect tables.

``segtable table drop``: delete a table.

``segtable table restore``: an earlier version's rows come back.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from airflow_provider_segtable.cli.advice import advise_like, advise_nullable, advise_nulls
from airflow_provider_segtable.cli.commands.scan_command import scan
from airflow_provider_segtable.cli.display import drawing, facts
from airflow_provider_segtable.cli.display.drawing import property_list, status_facts
from airflow_provider_segtable.cli.display.output import (
    Exit,
    Facts,
    in_shell,
    note,
    print_json,
    show,
)
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    CommitId,
    CsvOptions,
    Properties,
    PublishFormats,
    StorageOptions,
    TableUri,
    ZooKeeper,
    option_groups,
    pairs,
    publish_properties,
    store_options,
)
from airflow_provider_segtable.cli.input.table_options import (
    KeyOptions,
    RollupOptions,
    chosen_kind,
    needed,
)
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import Interval

if TYPE_CHECKING:
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.table.dropping import DropResult
    from airflow_provider_segtable.table.restoration import RestoreResult


tables = typer.Typer(
    no_args_is_help=True, help="Create, read, inspect, change, restore and drop tables."
)

IntervalOption = Annotated[
    str | None,
    typer.Option(help="Only this event time, ISO 8601 start/end.", metavar="START/END"),
]


def open_table(uri: str, storage_options: list[str] | None, zookeeper: str | None = None) -> Any:
    """Open a table; imports ``Table`` only now."""
    from airflow_provider_segtable.table.table import Table

    options = store_options(storage_options)
    return Table.open(uri, zookeeper=zookeeper, storage_options=options)


@contextmanager
def writable_table(
    uri: str, storage_options: list[str] | None, zookeeper: str | None
) -> Iterator[Any]:
    """Open a table with a coordinator, if available, and end its session afterwards."""
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper

    table = open_table(uri, storage_options, find_zookeeper(zookeeper))
    try:
        yield table
    finally:
        if table.ports.optional_coordinator is not None:
            table.ports.optional_coordinator.close()


@tables.command()
@option_groups
def create(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    time: Annotated[
        str, typer.Option(help="The event time: a timestamp or date column.", metavar="COLUMN")
    ],
    schema: Annotated[
        str | None,
        typer.Option(help=r'Columns: "NAME TYPE \[not null], ..."', show_default=False),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="Take the columns of this Parquet, CSV or JSON-lines file, a path or a URI.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    granularity: Annotated[
        str, typer.Option(help="Length of time chunks: hour, day, week, month, year, all.")
    ] = "day",
    name: Annotated[
        str | None, typer.Option(help="Name for display; the last part of TABLE by default.")
    ] = None,
    publish: PublishFormats = None,
    properties: Properties = None,
    rollup: RollupOptions,
    key: KeyOptions,
    csv: CsvOptions,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""Create an empty table.

    [green]segtable table create ./trips --like trips.parquet --time pickup[/]
    [green]segtable table create s3://lake/orders --time at --granularity month \
        --schema "user string, amount double, at timestamp\[us, tz=UTC]"[/]
    [green]segtable table create ./daily --like trips.parquet --time pickup \
        --dimension zone --metric trips=count --metric "total=sum(fare)" \
        --query-granularity day[/]
    [green]segtable table create ./orders --like orders.parquet --time placed \
        --granularity month --primary-key order_id --ordering changed[/]
    [green]segtable table create ./trips --like trips.parquet --time pickup \
        --publish delta[/]

    Types are Arrow's: int64, string, double, date32\[day], list<item: string>,
    timestamp\[us, tz=UTC]; int, text, float64, date, timestamp will do, too.
    With dimensions or metrics the table is a rollup table: it keeps one row
    for each cut event time and combination of dimensions. --like then takes
    only the columns that it needs. With a primary key it keeps one row for each
    key: files are upserted, by many writers at once, without locks or conflicts.
    The event time of a key must not change, unless --granularity is all.
    """
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.table.table import Table

    settings = {**publish_properties(publish), **pairs(properties, "--property")}
    kind = chosen_kind(rollup, key)
    file = (
        None if like is None else InputFile(like, None, store_options(storage_options), csv.form())
    )
    columns = _schema(schema, file)
    made = Table.create(
        table,
        schema=needed(columns, time, kind) if file else columns,
        time_column=time,
        granularity=granularity,
        name=name,
        properties=settings,
        kind=kind,
        storage_options=store_options(storage_options),
    )
    advise_nullable(columns, made.state())
    if file is not None:
        advise_like(file, time, granularity)
        advise_nulls(file, columns)
    answer = facts.definition_facts(table, made.state())
    if as_json:
        print_json(answer)
        return
    show(drawing.definition(answer))
    note(f"[green]created.[/] Next: [green]segtable ingest {in_shell(table)} FILE...[/]")


@tables.command("set", epilog=property_list())
def set_properties(
    table: TableUri,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Properties to set.", show_default=False),
    ] = None,
    *,
    unset: Annotated[
        list[str] | None,
        typer.Option(help="Give this property its default again; repeat.", metavar="KEY"),
    ] = None,
    commit_id: CommitId = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""Set and remove properties of a table: how it is compacted, cleaned and indexed.

    [green]segtable table set ./flights compaction.min_segments=4 retention.hours=72[/]
    [green]segtable table set ./flights compaction.clustering=carrier,origin[/]
    [green]segtable table set ./flights "index.tails=bloom_filter(tailnum; rate=0.001)"[/]
    [green]segtable table set ./flights --unset compaction.clustering[/]

    Values are checked against the table. The next plan goes by them; earlier
    versions keep theirs. [green]segtable table describe TABLE --properties[/] lists
    all properties, with their values and where these come from.
    """
    if not given and not unset:
        raise InvalidInput("there is nothing to change: give KEY=VALUE or --unset KEY")
    opened = open_table(table, storage_options)
    version = opened.alter(set=pairs(given, "KEY=VALUE"), unset=unset or (), commit_id=commit_id)
    answer = {**facts.definition_facts(table, opened.state()), "version": version}
    if as_json:
        print_json(answer)
        return
    show(drawing.settings(answer))
    note(f"[green]version {version} has these properties.[/]")


@tables.command()
def alter(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    add: Annotated[
        list[str] | None,
        typer.Option(
            help='Add a column: "NAME TYPE", "NAME TYPE default VALUE" or "NAME TYPE group '
            'COLUMN"; repeat.',
            metavar="COLUMN",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Drop a column; repeat.", metavar="NAME")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(help="Rename a column; repeat.", metavar="OLD=NEW")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Widen a column's type; repeat.", metavar="NAME=TYPE"),
    ] = None,
    nullable: Annotated[
        list[str] | None, typer.Option(help="Allow nulls in a column; repeat.", metavar="NAME")
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="Put these columns first.", metavar="NAME,NAME...")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set a property with it; repeat.", metavar="KEY=VALUE"),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(help="Give a property its default with it; repeat.", metavar="KEY"),
    ] = None,
    commit_id: CommitId = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""Change the columns of a table, in one event; no file is rewritten.

    [green]segtable table alter ./flights --add "gate string" --add "stops int default 0"[/]
    [green]segtable table alter ./flights --rename dest=destination --type delay=double[/]
    [green]segtable table alter ./flights --drop carrier --unset compaction.clustering[/]
    [green]segtable table alter ./flights --order time_hour,carrier[/]

    Old rows have the default in an added column, or null. Types become
    wider only: int32 to int64, float to double, decimals with more digits.
    Drops come first, then renames, types, additions and the order. Earlier
    versions keep their columns (segtable table scan TABLE --version N).

    In a table with a primary key a new column may join a column group, which
    is named by its ordering column: --add "device string group seen".
    The event time, a primary key and ordering columns stay as they are, and so
    do all columns of a rollup table; the error says why.
    """
    from airflow_provider_segtable.cli.input.column_changes import parse_changes

    columns = parse_changes(
        add=add, drop=drop, rename=rename, types=types, nullable=nullable, order=order
    )
    if not (columns or properties or unset):
        raise InvalidInput("there is nothing to change: give --add, --drop, --rename or --type")
    opened = open_table(table, storage_options)
    version = opened.alter(
        columns=columns,
        set=pairs(properties, "--set"),
        unset=unset or (),
        commit_id=commit_id,
    )
    answer = {**facts.definition_facts(table, opened.state()), "version": version}
    if as_json:
        print_json(answer)
        return
    show(drawing.definition(answer))
    note(f"[green]version {version} has these columns.[/]")


def _schema(text: str | None, like: "InputFile | None") -> Any:
    if text is not None and like is None:
        from airflow_provider_segtable.data.arrow_schema import parse_schema

        return parse_schema(text)
    if text is not None or like is None:
        raise InvalidInput("give the columns by either --schema or --like FILE")
    from airflow_provider_segtable.data.files.input_files import schema_of

    return schema_of(like)


@tables.command()
def describe(
    table: TableUri,
    *,
    every: Annotated[
        bool, typer.Option("--properties", help="Also properties that have their defaults.")
    ] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show a table's definition, contents, fragmentation, pending plans and properties.

    [green]segtable table describe ./flights[/]
    [green]segtable table describe ./flights --properties[/]
    [green]segtable table describe ./flights --json | jq .health.small_segments[/]

    Read rows by "table scan", Python or Spark. Readers of Delta Lake and
    Apache Iceberg open the addresses of what is published (segtable publish);
    other readers of the table's folder also see deleted and replaced rows.
    """
    opened = open_table(table, storage_options)
    published = [status_facts(each) for each in opened.published().values()]
    answer = facts.describe_facts(table, opened.state(), published)
    print_json(answer) if as_json else show(drawing.describe(answer, every_property=every))


tables.command()(scan)


@tables.command()
def segments(
    table: TableUri,
    *,
    interval: IntervalOption = None,
    hidden: Annotated[
        bool,
        typer.Option("--all", help="Also overshadowed segments and incomplete groups."),
    ] = False,
    version: Annotated[
        int | None, typer.Option(help="As of this event number.", metavar="N")
    ] = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    r"""List the visible segments: what a scan reads.

    [green]segtable table segments ./flights --interval 2013-01-01/2013-02-01[/]
    [green]segtable table segments ./flights --all[/]

    "root" is the range \[start, end) of appended partitions that a segment
    stands for; "minor" counts its generations of minor compaction. The files
    also hold deleted rows: read them by "table scan". A primary-key table has
    in each bucket "log" files, and at most one "base" that merges all before it.
    """
    wanted = Interval.parse(interval) if interval else None
    state = open_table(table, storage_options).snapshot(version=version).state
    answer = facts.segments_facts(table, state, wanted, hidden=hidden)
    print_json(answer) if as_json else show(drawing.segments(answer))


@tables.command()
def timeline(
    table: TableUri,
    *,
    limit: Annotated[int, typer.Option(help="Number of newest events; 0 for all.", min=0)] = 30,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of the log, oldest first.

    [green]segtable table timeline ./flights[/]
    [green]segtable table timeline ./flights --limit 0 --json[/]

    The number of an event is a version: [green]segtable table scan ./flights --version 3[/]
    """
    from airflow_provider_segtable.table.log.event_log import EventLog

    opened = open_table(table, storage_options)
    log, last = EventLog(opened.ports.storage), opened.state().n
    first = max(log.first(), last + 1 - limit if limit else 0)
    events = log.events(first)
    answer = {
        "table": table,
        "earlier": first,
        "events": [facts.event_facts(event) for event in events],
    }
    print_json(answer) if as_json else show(drawing.timeline(answer))


def drop(
    table: TableUri,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Drop it without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Drop it although others hold locks: their work fails."),
    ] = False,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Delete a table for good: its rows, all its versions, its records in ZooKeeper.

    [green]segtable table drop ./flights --dry-run[/]     shows what would be deleted
    [green]segtable table drop ./flights[/]               shows it, and asks
    [green]segtable table drop s3://lake/flights --yes[/]

    The table is gone at once, for everyone. If the command is interrupted, run
    it again. Files that segtable did not make stay, and are named. One small
    file stays, too: it stops a writer that was paused meanwhile. A new table
    may be created in the same place.
    """
    from airflow_provider_segtable.library.table import Table

    reach = {"zookeeper": zookeeper, "storage_options": store_options(storage_options)}
    found = Table.drop(table, force=force, dry_run=True, **reach)  # type: ignore[arg-type]
    if not dry_run:
        if found.n is None and not yes:
            _ask_to_drop(table, found, quiet=as_json)
        found = Table.drop(table, force=force, **reach)  # type: ignore[arg-type]
    answer = _drop_facts(table, found, dry_run=dry_run)
    print_json(answer) if as_json else _show_drop(answer)


def at_terminal() -> bool:
    """Return whether somebody can answer a question."""
    return sys.stdin.isatty()


def _ask_to_drop(uri: str, found: "DropResult", *, quiet: bool) -> None:
    if quiet or not at_terminal():
        raise InvalidInput(
            f"{uri} is not dropped without a question, and there is no terminal to ask at: "
            "add --yes or --dry-run"
        )
    note(f"{uri}: {_amount(_drop_facts(uri, found, dry_run=True))} will be deleted for good.")
    if not typer.confirm("Drop the table?", err=True):
        note("nothing was deleted")
        raise typer.Exit(Exit.FAILED)


def _drop_facts(uri: str, found: "DropResult", *, dry_run: bool) -> Facts:
    return {
        "table": uri,
        "name": found.name,
        "event": found.n,
        "dry_run": dry_run,
        "rows": found.rows,
        "segments": found.segments,
        "files": found.files,
        "bytes": found.bytes,
        "kept": list(found.kept),
    }


def _amount(facts: Facts) -> str:
    files = f"{counted(facts['files'], 'file')}, {describe_size(facts['bytes'])}"
    if facts["rows"] is None:
        return f"the rest of table {facts['name']} ({files})"
    parts = f"{counted(facts['rows'], 'row')} in {counted(facts['segments'], 'segment')}"
    return f"table {facts['name']} with {parts}, all its versions ({files})"


def _show_drop(answer: Facts) -> None:
    if answer["dry_run"]:
        show(Text(f"would delete {_amount(answer)}"))
        note("[dim]a dry run: nothing was deleted[/]")
    else:
        show(Text.assemble(("dropped ", "green"), _amount(answer)))
    for path in answer["kept"]:
        note(f"kept, segtable did not make it: {path}")


def restore(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    version: Annotated[
        int | None, typer.Option(help="The table after this event.", metavar="N")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="The table at this time, ISO 8601.", metavar="TIME")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The table at this tag.", metavar="NAME")] = None,
    columns: Annotated[
        bool,
        typer.Option(
            "--columns", help="Also give the table the columns again that it had in the version."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Restore without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    commit_id: CommitId = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show the rows of an earlier version again; nothing is lost or rewritten.

    [green]segtable table timeline ./flights[/]                 lists versions
    [green]segtable table restore ./flights --version 42[/]
        shows what would change, and asks
    [green]segtable table restore ./flights --as-of 2026-01-31T12:00 --yes[/]
    [green]segtable table restore ./flights --tag before-migration --columns[/]

    One event undoes everything before it: appends, deletes, compactions. The
    version before stays readable, and can be restored, until it is cleaned.
    Properties and tags stay, and columns unless you add --columns: then dropped
    ones come back, and later ones go. Needs no ZooKeeper.
    """
    opened = open_table(table, storage_options)
    named = {"version": version, "as_of": as_of, "tag": tag}
    asked = {**named, "commit_id": commit_id, "columns": columns}
    found = opened.restore(**asked, dry_run=True)
    changes = found.regions or (columns and found.columns)
    if found.n is None and changes and not (yes or dry_run):
        _ask_to_restore(found, opened.state().n, columns=columns, quiet=as_json)
    if not dry_run:
        found = opened.restore(**asked)
    answer = _restore_facts(table, opened, found, dry_run=dry_run, columns=columns)
    print_json(answer) if as_json else _show_restore(answer)


def _ask_to_restore(found: "RestoreResult", newest: int, *, columns: bool, quiet: bool) -> None:
    if quiet:
        raise InvalidInput("--json cannot ask for confirmation: add --yes or --dry-run")
    if columns and found.columns:
        note(str(found.columns))
    note(f"{found}\nVersion {newest}, the newest one, stays readable until it is cleaned.")
    if not typer.confirm("Restore it?", err=True):
        note("nothing was restored")
        raise typer.Exit(Exit.FAILED)


def _restore_facts(
    uri: str, table: Any, found: "RestoreResult", *, dry_run: bool, columns: bool
) -> Facts:
    differ = found.columns
    return {
        "table": uri,
        "version": table.state().n,
        "restored": found.version,
        "event": found.n,
        "dry_run": dry_run,
        "intervals": [str(interval) for interval in found.regions],
        "segments": found.segments,
        "rows": found.rows,
        "columns_restored": columns,
        "columns_event": found.columns_n,
        "columns": {
            "back": list(differ.back),
            "gone": list(differ.gone),
            "renamed": dict(differ.renamed),
            "moved": differ.moved,
        },
        "columns_summary": str(differ) if differ else "",
    }


def _show_restore(answer: Facts) -> None:
    changed = counted(len(answer["intervals"]), "interval")
    what = f"version {answer['restored']}: changes in {changed}"
    rows = f"{counted(answer['rows'], 'row')}, deleted ones included"
    back = f", {counted(answer['segments'], 'segment')} back with {rows}"
    if answer["dry_run"]:
        show(Text(f"{what}{back}"))
        note("[dim]a dry run: nothing was written[/]")
    elif answer["event"] is None:
        show(Text(f"{what}: it shows the same rows as the newest one, nothing was written"))
    else:
        show(Text.assemble(("restored ", "green"), f"{what}{back}: event {answer['event']}"))
    _tell_columns(answer)


def _tell_columns(answer: Facts) -> None:
    told = answer["columns_summary"]
    if answer["columns_event"] is not None:
        show(Text.assemble(("restored ", "green"), f"{told}: event {answer['columns_event']}"))
    elif told and not answer["columns_restored"]:
        note(f"[dim]columns stay as they are; --columns would change them: {told}[/]")
    elif told:
        show(Text(told))

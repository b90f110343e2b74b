"""``segtable table``: create, inspect, change, drop and restore tables."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from airflow_provider_segtable.cli.advice import advise_like, advise_nullable, advise_nulls
from airflow_provider_segtable.cli.commands.get_command import get
from airflow_provider_segtable.cli.commands.scan_command import scan
from airflow_provider_segtable.cli.display import drawing
from airflow_provider_segtable.cli.display.drawing import property_list
from airflow_provider_segtable.cli.display.output import Exit, in_shell, note
from airflow_provider_segtable.cli.input.column_changes import ColumnOptions
from airflow_provider_segtable.cli.input.options import (
    CommitId,
    CommonOptions,
    CsvOptions,
    IntervalOption,
    Properties,
    PublishFormats,
    ZooKeeperOptions,
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
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.library import table_facts

if TYPE_CHECKING:
    from airflow_provider_segtable.data.files.input_files import InputFile
    from airflow_provider_segtable.table.dropping import DropResult
    from airflow_provider_segtable.table.restoration import RestoreResult


tables = typer.Typer(
    no_args_is_help=True, help="Create, read, inspect, change, restore and drop tables."
)


@tables.command()
@option_groups
def create(  # noqa: PLR0913 - each is an option
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
    common: CommonOptions,
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
    options = store_options(common.storage_options)
    file = None if like is None else InputFile(like, None, options, csv.form())
    columns = _schema(schema, file)
    made = Table.create(
        common.table,
        schema=needed(columns, time, kind) if file else columns,
        time_column=time,
        granularity=granularity,
        name=name,
        properties=settings,
        kind=kind,
        storage_options=options,
    )
    advise_nullable(columns, made.state())
    if file is not None:
        advise_like(file, time, granularity)
        advise_nulls(file, columns)
    common.answer(table_facts.definition_facts(common.table, made.state()), drawing.definition)
    common.note(
        f"[green]created.[/] Next: [green]segtable ingest {in_shell(common.table)} FILE...[/]"
    )


@tables.command("set", epilog=property_list())
@option_groups
def set_properties(
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
    common: CommonOptions,
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
    opened = common.open()
    version = opened.alter(set=pairs(given, "KEY=VALUE"), unset=unset or (), commit_id=commit_id)
    answer = {**table_facts.definition_facts(common.table, opened.state()), "version": version}
    common.answer(answer, drawing.settings)
    common.note(f"[green]version {version} has these properties.[/]")


@tables.command()
@option_groups
def alter(
    *,
    columns: ColumnOptions,
    properties: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set a property with it; repeat.", metavar="KEY=VALUE"),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(help="Give a property its default with it; repeat.", metavar="KEY"),
    ] = None,
    commit_id: CommitId = None,
    common: CommonOptions,
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
    changes = columns.changes()
    if not (changes or properties or unset):
        raise InvalidInput("there is nothing to change: give --add, --drop, --rename or --type")
    opened = common.open()
    version = opened.alter(
        columns=changes,
        set=pairs(properties, "--set"),
        unset=unset or (),
        commit_id=commit_id,
    )
    answer = {**table_facts.definition_facts(common.table, opened.state()), "version": version}
    common.answer(answer, drawing.definition)
    common.note(f"[green]version {version} has these columns.[/]")


def _schema(text: str | None, like: "InputFile | None") -> Any:
    if text is not None and like is None:
        from airflow_provider_segtable.data.arrow_schema import parse_schema

        return parse_schema(text)
    if text is not None or like is None:
        raise InvalidInput("give the columns by either --schema or --like FILE")
    from airflow_provider_segtable.data.files.input_files import schema_of

    return schema_of(like)


@tables.command()
@option_groups
def describe(
    *,
    every: Annotated[
        bool, typer.Option("--properties", help="Also properties that have their defaults.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a report into this file instead.", metavar="FILE"),
    ] = None,
    common: CommonOptions,
) -> None:
    """Show a table's definition, contents, fragmentation, pending plans and properties.

    [green]segtable table describe ./flights[/]
    [green]segtable table describe ./flights --properties[/]
    [green]segtable table describe ./flights --json | jq .health.small_segments[/]
    [green]segtable table describe ./flights --html flights.html[/]

    The report is one file for a ticket or an e-mail, without script: findings,
    numbers, the segment map, growth, plans and reasons, and the last events.

    Read rows by "table scan", Python or Spark. Readers of Delta Lake and
    Apache Iceberg open the published addresses (segtable publish);
    other readers of the table's folder also see deleted and replaced rows.
    """
    opened = common.open()
    if html is not None:
        _write_report(opened, html, common)
        return
    published = [each.facts() for each in opened.published().values()]
    answer = table_facts.describe_facts(common.table, opened.state(), published)
    common.answer(answer, partial(drawing.describe, every_property=every))


def _write_report(opened: Any, file: Path, common: CommonOptions) -> None:
    from airflow_provider_segtable.cli.display.report_page import report_page
    from airflow_provider_segtable.library.table_report import table_report

    report = table_report(opened.ports, common.table)
    try:
        file.write_text(report_page(report), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--html: {error}: name a file in a folder that exists") from None
    worst = report.findings[0].severity.value if report.findings else None
    answer = {
        "table": report.facts["table"],
        "version": report.facts["version"],
        "file": str(file),
        "bytes": file.stat().st_size,
        "findings": len(report.findings),
        "worst": worst,
        "troubles": list(report.troubles),
    }
    common.answer(answer, drawing.written_report)


@tables.command("map")
@option_groups
def map_(
    *,
    interval: IntervalOption = None,
    version: Annotated[
        int | None, typer.Option(help="As of this event number.", metavar="N")
    ] = None,
    common: CommonOptions,
) -> None:
    r"""Draw the segment map: time across, versions and generations up.

    [green]segtable table map ./flights[/]
    [green]segtable table map ./flights --interval 2013-01-01/2013-01-08[/]
    [green]segtable table map ./flights --version 12[/]

    What lies on top is what readers see. Hidden segments are dim, those that
    wait for others are red. A column of blocks is a stretch of time; with an
    interval it goes down to single segments.
    """
    from airflow_provider_segtable.cli.display.terminal_map import drawn_map, map_facts
    from airflow_provider_segtable.library.segment_map.shapes import shapes_of

    wanted = Interval.parse(interval) if interval else None
    state = common.open().snapshot(version=version).state
    shapes = shapes_of(state, wanted)
    common.answer(map_facts(common.table, state.n, shapes), lambda _: drawn_map(shapes))


tables.command()(scan)
tables.command()(get)


@tables.command()
@option_groups
def segments(
    *,
    interval: IntervalOption = None,
    hidden: Annotated[
        bool,
        typer.Option("--all", help="Also overshadowed segments and incomplete groups."),
    ] = False,
    version: Annotated[
        int | None, typer.Option(help="As of this event number.", metavar="N")
    ] = None,
    common: CommonOptions,
) -> None:
    r"""List the visible segments, which a scan reads.

    [green]segtable table segments ./flights --interval 2013-01-01/2013-02-01[/]
    [green]segtable table segments ./flights --all[/]

    "root" is the range \[start, end) of appended partitions that a segment
    stands for; "minor" counts its generations of minor compaction. The files
    also hold deleted rows: read them by "table scan". A primary-key table has
    in each bucket "log" files, and at most one "base" that merges all before it.
    """
    wanted = Interval.parse(interval) if interval else None
    state = common.open().snapshot(version=version).state
    answer = table_facts.segments_facts(common.table, state, wanted, hidden=hidden)
    common.answer(answer, drawing.segments)


@tables.command()
@option_groups
def timeline(
    *,
    limit: Annotated[int, typer.Option(help="Number of newest events; 0 for all.", min=0)] = 30,
    common: CommonOptions,
) -> None:
    """Show the events of the log, oldest first.

    [green]segtable table timeline ./flights[/]
    [green]segtable table timeline ./flights --limit 0 --json[/]

    The number of an event is a version: [green]segtable table scan ./flights --version 3[/]
    """
    from airflow_provider_segtable.table.log.event_log import EventLog

    opened = common.open()
    log, last = EventLog(opened.ports.storage), opened.state().n
    first = max(log.first(), last + 1 - limit if limit else 0)
    events = [table_facts.event_facts(event) for event in log.events(first)]
    common.answer({"earlier": first, "events": events}, drawing.timeline)


@tables.command()
@option_groups
def restore(
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
    common: CommonOptions,
) -> None:
    """Show the rows of an earlier version again; nothing is lost or rewritten.

    [green]segtable table timeline ./flights[/]                 lists versions
    [green]segtable table restore ./flights --version 42[/]
        shows the changes, and asks for confirmation
    [green]segtable table restore ./flights --as-of 2026-01-31T12:00 --yes[/]
    [green]segtable table restore ./flights --tag before-migration --columns[/]

    One event undoes everything before it: appends, deletes, compactions. The
    version before stays readable, and can be restored, until it is cleaned.
    Properties and tags stay, and columns unless you add --columns: then dropped
    ones come back, and later ones go. Needs no ZooKeeper.
    """
    opened = common.open()
    asked = {
        "version": version,
        "as_of": as_of,
        "tag": tag,
        "commit_id": commit_id,
        "columns": columns,
    }
    found = opened.restore(**asked, dry_run=True)
    changes = found.regions or (columns and found.columns)
    if found.n is None and changes and not (yes or dry_run):
        _ask_to_restore(found, opened.state().n, columns=columns, quiet=common.as_json)
    if not dry_run:
        found = opened.restore(**asked)
    newest = opened.state().n
    common.report(found, _draw_restore, version=newest, dry_run=dry_run, columns_restored=columns)
    if dry_run:
        common.note("[dim]a dry run: nothing was written[/]")
    if found.columns and not columns:
        common.note(
            f"[dim]columns stay as they are; --columns would change them: {found.columns}[/]"
        )


def _ask_to_restore(found: "RestoreResult", newest: int, *, columns: bool, quiet: bool) -> None:
    if quiet:
        raise InvalidInput("--json cannot ask for confirmation: add --yes or --dry-run")
    if columns and found.columns:
        note(str(found.columns))
    note(f"{found}\nVersion {newest}, the newest one, stays readable until it is cleaned.")
    if not typer.confirm("Restore it?", err=True):
        note("nothing was restored")
        raise typer.Exit(Exit.FAILED)


def _draw_restore(answer: Facts) -> Group:
    changed = counted(len(answer["intervals"]), "interval")
    head = f"version {answer['restored']}: changes in {changed}"
    rows = f"{counted(answer['rows'], 'row')}, deleted ones included"
    back = f", {counted(answer['segments'], 'segment')} back with {rows}"
    if answer["dry_run"]:
        lines = [Text(f"{head}{back}")]
    elif answer["event"] is None:
        lines = [Text(f"{head}: it shows the same rows as the newest one, nothing was written")]
    else:
        lines = [Text.assemble(("restored ", "green"), f"{head}{back}: event {answer['event']}")]
    columns = answer["columns_summary"]
    if answer["columns_event"] is not None:
        event = f"{columns}: event {answer['columns_event']}"
        lines.append(Text.assemble(("restored ", "green"), event))
    elif columns and answer["columns_restored"]:
        lines.append(Text(columns))
    return Group(*lines)


@tables.command()
@option_groups
def drop(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Drop it without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Drop it although others hold locks: their work fails."),
    ] = False,
    common: ZooKeeperOptions,
) -> None:
    """Delete a table for good: its rows, all its versions, its records in ZooKeeper.

    [green]segtable table drop ./flights --dry-run[/]     shows its rows, files and size
    [green]segtable table drop ./flights[/]               shows them, and asks
    [green]segtable table drop s3://lake/flights --yes[/]

    The table is gone at once, for all readers and writers. If the command is interrupted, run
    it again. Files that segtable did not make stay, and are named. One small
    file stays, too: it stops a writer that was paused meanwhile. A new table
    may be created in the same place.
    """
    from airflow_provider_segtable.library.table import Table

    options = store_options(common.storage_options)
    take = partial(
        Table.drop, common.table, force=force, zookeeper=common.zookeeper, storage_options=options
    )
    found = take(dry_run=True)
    if not dry_run:
        if found.n is None and not yes:
            _ask_to_drop(found, common)
        found = take()
    common.report(found, _draw_drop, dry_run=dry_run)
    if dry_run:
        common.note("[dim]a dry run: nothing was deleted[/]")
    for path in found.kept:
        common.note(f"kept, segtable did not make it: {path}")


def at_terminal() -> bool:
    """Return whether a person can answer a question."""
    return sys.stdin.isatty()


def _ask_to_drop(found: "DropResult", common: ZooKeeperOptions) -> None:
    if common.as_json or not at_terminal():
        raise InvalidInput(
            f"{common.table} is not dropped without a question, and there is no terminal to ask "
            "at: add --yes or --dry-run"
        )
    note(f"{common.table}: {_amount(found.facts())} will be deleted for good.")
    if not typer.confirm("Drop the table?", err=True):
        note("nothing was deleted")
        raise typer.Exit(Exit.FAILED)


def _amount(facts: Facts) -> str:
    files = f"{counted(facts['files'], 'file')}, {describe_size(facts['bytes'])}"
    if facts["rows"] is None:
        return f"the rest of table {facts['name']} ({files})"
    parts = f"{counted(facts['rows'], 'row')} in {counted(facts['segments'], 'segment')}"
    return f"table {facts['name']} with {parts}, all its versions ({files})"


def _draw_drop(answer: Facts) -> Text:
    if answer["dry_run"]:
        return Text(f"would delete {_amount(answer)}")
    return Text.assemble(("dropped ", "green"), _amount(answer))

"""``segtable table restore``: an earlier version's rows come back."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from airflow_provider_segtable.cli.commands.tables.table_commands import open_table
from airflow_provider_segtable.cli.display.output import Facts, note, print_json, show
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    CommitId,
    StorageOptions,
    TableUri,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput

if TYPE_CHECKING:
    from airflow_provider_segtable.table.restoration import RestoreResult


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
        _ask(found, opened.state().n, columns=columns, quiet=as_json)
    if not dry_run:
        found = opened.restore(**asked)
    answer = _facts(table, opened, found, dry_run=dry_run, columns=columns)
    print_json(answer) if as_json else _tell(answer)


def _ask(found: "RestoreResult", newest: int, *, columns: bool, quiet: bool) -> None:
    if quiet:
        raise InvalidInput("--json cannot ask for confirmation: add --yes or --dry-run")
    if columns and found.columns:
        note(str(found.columns))
    note(f"{found}\nVersion {newest}, the newest one, stays readable until it is cleaned.")
    if not typer.confirm("Restore it?", err=True):
        note("nothing was restored")
        raise typer.Exit(Exit.FAILED)


def _facts(uri: str, table: Any, found: "RestoreResult", *, dry_run: bool, columns: bool) -> Facts:
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


def _tell(answer: Facts) -> None:
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

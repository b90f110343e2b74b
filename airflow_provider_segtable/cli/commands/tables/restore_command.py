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
    from airflow_provider_segtable.table.versions.restoration import RestoreResult


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
    [green]segtable table restore ./flights --version 42[/]     shows what would change, and asks
    [green]segtable table restore ./flights --as-of 2026-01-31T12:00 --yes[/]
    [green]segtable table restore ./flights --tag before-migration[/]

    One event undoes everything before it: appends, deletes, compactions. The
    version before stays readable, and can be restored, until it is cleaned.
    Columns, properties and tags stay. Needs no ZooKeeper.
    """
    opened = open_table(table, storage_options)
    named = {"version": version, "as_of": as_of, "tag": tag}
    found = opened.restore(**named, dry_run=True, commit_id=commit_id)
    asks = found.n is None and found.regions and not (yes or dry_run)
    if asks:
        _ask(found, opened.state().n, quiet=as_json)
    if not dry_run:
        found = opened.restore(**named, commit_id=commit_id)
    answer = _facts(table, opened, found, dry_run=dry_run)
    print_json(answer) if as_json else _tell(answer)


def _ask(found: "RestoreResult", newest: int, *, quiet: bool) -> None:
    if quiet:
        raise InvalidInput("--json cannot ask for confirmation: add --yes or --dry-run")
    note(f"{found}\nVersion {newest}, the newest one, stays readable until it is cleaned.")
    if not typer.confirm("Restore it?", err=True):
        note("nothing was restored")
        raise typer.Exit(Exit.FAILED)


def _facts(uri: str, table: Any, found: "RestoreResult", *, dry_run: bool) -> Facts:
    return {
        "table": uri,
        "version": table.state().n,
        "restored": found.version,
        "event": found.n,
        "dry_run": dry_run,
        "intervals": [str(interval) for interval in found.regions],
        "segments": found.segments,
        "rows": found.rows,
    }


def _tell(answer: Facts) -> None:
    changed = counted(len(answer["intervals"]), "interval")
    what = f"version {answer['restored']}: changes in {changed}"
    back = f", {counted(answer['rows'], 'row')} in {counted(answer['segments'], 'segment')} back"
    if answer["dry_run"]:
        show(Text(f"{what}{back}"))
        note("[dim]a dry run: nothing was written[/]")
    elif answer["event"] is None:
        show(Text(f"{what}: it shows the same rows as the newest one, nothing was written"))
    else:
        show(Text.assemble(("restored ", "green"), f"{what}{back}: event {answer['event']}"))

"""``segtable table drop``: delete a table."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from airflow_provider_segtable.cli.display.output import Facts, note, print_json, show
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    TableUri,
    ZooKeeper,
    store_options,
)
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput

if TYPE_CHECKING:
    from airflow_provider_segtable.table.dropping import DropResult


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
            _ask(table, found, quiet=as_json)
        found = Table.drop(table, force=force, **reach)  # type: ignore[arg-type]
    answer = _facts(table, found, dry_run=dry_run)
    print_json(answer) if as_json else _tell(answer)


def at_terminal() -> bool:
    """Return whether somebody can answer a question."""
    return sys.stdin.isatty()


def _ask(uri: str, found: "DropResult", *, quiet: bool) -> None:
    if quiet or not at_terminal():
        raise InvalidInput(
            f"{uri} is not dropped without a question, and there is no terminal to ask at: "
            "add --yes or --dry-run"
        )
    note(f"{uri}: {_amount(_facts(uri, found, dry_run=True))} will be deleted for good.")
    if not typer.confirm("Drop the table?", err=True):
        note("nothing was deleted")
        raise typer.Exit(Exit.FAILED)


def _facts(uri: str, found: "DropResult", *, dry_run: bool) -> Facts:
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


def _tell(answer: Facts) -> None:
    if answer["dry_run"]:
        show(Text(f"would delete {_amount(answer)}"))
        note("[dim]a dry run: nothing was deleted[/]")
    else:
        show(Text.assemble(("dropped ", "green"), _amount(answer)))
    for path in answer["kept"]:
        note(f"kept, segtable did not make it: {path}")

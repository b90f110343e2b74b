"""``segtable settle``: find out which rows of a primary-key table readers show."""

from typing import Annotated

import typer
from rich.text import Text

from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.cli.input.options import CommonOptions, option_groups
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.facts import Facts


@option_groups
def settle(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many file groups are due; write nothing.")
    ] = False,
    common: CommonOptions,
) -> None:
    """Record which rows of a primary-key table are shown: reads then merge little.

    [green]segtable settle ./trips[/]

    Compares the keys of log files with those of the other files, and records
    the rows that lost. Readers skip these without comparing keys, so a scan
    is as fast as that of a plain table, and a count reads no row. Nothing
    that readers see is changed. No writer waits, and compactions go on: what
    replaces a file meanwhile wins. Run it again after more upserts; it goes on
    where it was. Needs no ZooKeeper, and may run beside anything.
    """
    from airflow_provider_segtable.services import settling

    run = settling.settle(common.open().ports, dry_run=dry_run)
    common.report(run, _draw)
    if dry_run:
        note("[dim]dry run: nothing was written[/]")


def _draw(facts: Facts) -> Text:
    groups, done = counted(facts["groups"], "file group"), facts["settled_before"]
    if facts["dry_run"]:
        return Text(f"{groups} with {facts['rows']:,} rows to settle, {done:,} settled already")
    lines = [f"{groups} settled as of version {facts['version']}, {done:,} settled before"]
    if facts["groups"]:
        lines.append(f"{facts['hidden']:,} of {facts['rows']:,} rows are not shown")
    if facts["open"]:
        lines.append(f"{facts['open']:,} rows are merged at read: several records make their rows")
    if facts["lost"]:
        lines.append(f"{counted(facts['lost'], 'file group')} replaced meanwhile: run it again")
    return Text("\n".join(lines))

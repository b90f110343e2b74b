"""``segtable doctor``: check a table's operation: plans, workers, locks, clocks, left-overs."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from airflow_provider_segtable.cli.commands.health.verify_command import (
    by_severity,
    draw_findings,
    finding_facts,
)
from airflow_provider_segtable.cli.commands.tables.table_commands import writable_table
from airflow_provider_segtable.cli.display.output import Facts, print_json, show
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.options import AsJson, StorageOptions, TableUri, ZooKeeper
from airflow_provider_segtable.core.recovery.diagnosis import Severity, worst
from airflow_provider_segtable.planning.findings.health_findings import Bounds

if TYPE_CHECKING:
    from airflow_provider_segtable.health.doctor import Examination

EXITS = {
    None: Exit.DONE,
    Severity.INFO: Exit.DONE,
    Severity.WARNING: Exit.WARNED,
    Severity.UNCHECKED: Exit.UNCHECKED,
    Severity.CRITICAL: Exit.WRONG,
}


def doctor(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    watch: Annotated[
        float,
        typer.Option(
            help="Compare two progress reports of each worker, N seconds apart.",
            metavar="N",
            min=0,
            max=600,
        ),
    ] = 0.0,
    pending_minutes: Annotated[
        float, typer.Option(help="Minutes that a plan may wait for a worker.", metavar="N", min=0)
    ] = Bounds().pending_minutes,
    lock_minutes: Annotated[
        float, typer.Option(help="Minutes that a lock may be held.", metavar="N", min=0)
    ] = Bounds().lock_minutes,
    checkpoint_events: Annotated[
        int, typer.Option(help="Events that may follow the newest checkpoint.", metavar="N", min=1)
    ] = Bounds().checkpoint_events,
    clock_skew_s: Annotated[
        float,
        typer.Option("--clock-skew-s", help="Seconds that clocks may differ.", metavar="N", min=0),
    ] = Bounds().clock_skew_s,
    idle_minutes: Annotated[
        float,
        typer.Option(help="Minutes that a worthwhile compaction may wait.", metavar="N", min=0),
    ] = Bounds().idle_minutes,
    orphan_hours: Annotated[
        float,
        typer.Option(help="Hours before an unreferenced file is reported.", metavar="N", min=0),
    ] = Bounds().orphan_hours,
    index_minutes: Annotated[
        float, typer.Option(help="Minutes that an index may lack entries.", metavar="N", min=0)
    ] = Bounds().index_minutes,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Report operational problems of a table, their effects and their remedies.

    [green]segtable doctor ./flights[/]
    [green]segtable doctor ./flights --watch 30[/]        which workers make no progress?
    [green]segtable doctor ./flights --lock-minutes 15[/]
    [green]segtable doctor ./flights --json | jq -r '.findings[].do'[/]

    It looks at plans without workers, old locks, attempts that died, ids that
    dead writers left, chunks that cannot be compacted, checkpoints, clocks,
    indexes, files that nothing names, and at ZooKeeper. It writes nothing. Whether the
    data itself is sound: [green]segtable verify ./flights[/]

    Ends by the worst severity: 0 nothing (or info), 7 warning, 6 something
    could not be looked at, 5 critical. Each finding says why it matters and
    what to do about it.
    """
    from airflow_provider_segtable.health.doctor import examine

    bounds = Bounds(
        pending_minutes=pending_minutes,
        lock_minutes=lock_minutes,
        checkpoint_events=checkpoint_events,
        clock_skew_s=clock_skew_s,
        idle_minutes=idle_minutes,
        orphan_hours=orphan_hours,
        index_minutes=index_minutes,
    )
    with writable_table(table, storage_options, zookeeper) as opened:
        found = examine(opened.ports, bounds, watch_s=watch)
    answer = _facts(table, found)
    if as_json:
        print_json(answer)
    elif found.findings:
        show(draw_findings(found.findings))
    else:
        show(Group(Text(f"healthy as of version {found.version}", style="green")))
    raise typer.Exit(EXITS[worst(found.findings)])


def _facts(uri: str, found: "Examination") -> Facts:
    most = worst(found.findings)
    return {
        "table": uri,
        "version": found.version,
        "coordinator": found.coordinator,
        "worst": most.value if most else None,
        "findings": [finding_facts(finding) for finding in by_severity(found.findings)],
    }

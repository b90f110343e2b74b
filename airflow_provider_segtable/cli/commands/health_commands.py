"""``segtable verify``: check a table against its log; and the drawing of findings.

Findings are shown worst first, here and in ``segtable doctor``; their ``code`` is for scripts.

``segtable doctor``: check a table's operation: plans, workers, locks, clocks, left-overs.

``segtable repair``: rebuild a log from files, replace lost outputs by inputs; never guess.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.commands.table_commands import writable_table
from airflow_provider_segtable.cli.display.output import (
    Exit,
    Facts,
    error_facts,
    note,
    print_error,
    print_json,
    progress,
    show,
)
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    TableUri,
    ZooKeeper,
    store_options,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity, worst
from airflow_provider_segtable.planning.findings.health_findings import Bounds

if TYPE_CHECKING:
    from airflow_provider_segtable.core.tables.definition import TableDefinition
    from airflow_provider_segtable.health.delete_recovery import Verdict
    from airflow_provider_segtable.health.doctor import Examination
    from airflow_provider_segtable.health.repair import RepairPlan
    from airflow_provider_segtable.health.verify import Verification
    from airflow_provider_segtable.table.context import TableContext


STYLES = {
    Severity.INFO: "dim",
    Severity.WARNING: "yellow",
    Severity.UNCHECKED: "magenta",
    Severity.CRITICAL: "bold red",
}


def verify(
    table: TableUri,
    *,
    all_versions: Annotated[
        bool,
        typer.Option(
            "--all-versions",
            help="Check every retained version, and the files of hidden segments.",
        ),
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also decode every row, at the cost of a full scan.")
    ] = False,
    threads: Annotated[
        int, typer.Option(help="Number of files read in parallel.", metavar="N", min=1, max=64)
    ] = 4,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Check a table's log, its files, and that both agree.

    [green]segtable verify ./flights[/]                 log, state, every footer
    [green]segtable verify ./flights --deep[/]          and every row
    [green]segtable verify ./flights --all-versions[/]  and every version still kept
    [green]segtable verify ./flights --json | jq .findings[/]

    Reads only, needs no ZooKeeper, and may run beside writers: it looks at the
    version that is newest when it starts.

    Ends with 0 if all is well, 5 if something is wrong, and 6 if something
    could not be looked at (and nothing else is wrong). Each finding says what to
    do about it. First stop the compactions of the table and keep a copy of its
    folder _segtable; then [green]segtable repair[/], which shows what it would do.
    """
    try:
        found = _run(table, storage_options, threads, deep=deep, all_versions=all_versions)
    except InvalidInput:
        raise
    except SegtableError as error:
        print_error(error)
        if as_json:
            print_json(error_facts(error))
        raise typer.Exit(Exit.UNCHECKED) from None
    answer = _verify_facts(table, found, deep=deep, all_versions=all_versions)
    print_json(answer) if as_json else show(_draw(answer, found))
    raise typer.Exit(exit_of(found.findings))


def _run(
    table: str,
    storage_options: list[str] | None,
    threads: int,
    *,
    deep: bool,
    all_versions: bool,
) -> "Verification":
    from airflow_provider_segtable.health import verify as service
    from airflow_provider_segtable.table.context import open_context

    ports = open_context(table, storage_options=store_options(storage_options))
    with progress() as bar:
        tasks = {stage: bar.add_task(stage, total=None) for stage in ("log", "files")}

        def report(stage: str, done: int, total: int) -> None:
            bar.update(tasks[stage], completed=done, total=total)

        return service.verify(
            ports, all_versions=all_versions, deep=deep, threads=threads, report=report
        )


def exit_of(findings: Sequence[Finding]) -> Exit:
    """Return the exit code of findings."""
    severities = {finding.severity for finding in findings}
    if severities & {Severity.WARNING, Severity.CRITICAL}:
        return Exit.WRONG
    return Exit.UNCHECKED if Severity.UNCHECKED in severities else Exit.DONE


def _verify_facts(uri: str, found: "Verification", *, deep: bool, all_versions: bool) -> Facts:
    return {
        "table": uri,
        "version": found.version,
        "first_event": found.first,
        "all_versions": all_versions,
        "deep": deep,
        "checked": {
            "versions": found.versions,
            "checkpoints": found.checkpoints,
            "files": found.files,
            "rows": 0 if found.keyed else found.rows,
            "records": found.rows if found.keyed else 0,
        },
        "findings": [finding_facts(finding) for finding in by_severity(found.findings)],
    }


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings worst first; equal severities keep their order."""
    return sorted(findings, key=lambda finding: -finding.severity.rank)


def finding_facts(finding: Finding) -> Facts:
    """Return a finding as plain values."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "where": finding.where,
        "what": finding.what,
        "why": finding.why,
        "do": finding.do,
    }


def draw_findings(findings: Sequence[Finding]) -> RenderableType:
    """Draw findings, worst first."""
    lines: list[RenderableType] = []
    for finding in by_severity(findings):
        head = Text(f"{finding.severity.value} ", style=STYLES[finding.severity])
        head.append(f"{finding.code}  {finding.where}", style="bold")
        lines.append(head)
        for label, said in (("", finding.what), ("why: ", finding.why), ("do:  ", finding.do)):
            lines.append(Text(f"    {label}{said}"))
    return Group(*lines)


def _draw(facts: Facts, found: "Verification") -> RenderableType:
    checked = facts["checked"]
    unit = "record" if found.keyed else "row"
    rows = f", {counted(checked[f'{unit}s'], unit)}" if facts["deep"] else ""
    checkpoints = counted(checked["checkpoints"], "checkpoint")
    files = counted(checked["files"], "file")
    span = f"events {facts['first_event']} to {facts['version']}"
    summary = f"{span}, {checkpoints}, {files}{rows}"
    if worst(found.findings) in (None, Severity.INFO):
        said = Text(f"sound: {summary}", style="green")
    else:
        said = Text(f"{counted(len(found.findings), 'finding')} in {summary}", style="bold")
    return Group(draw_findings(found.findings), said)


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
    answer = _doctor_facts(table, found)
    if as_json:
        print_json(answer)
    elif found.findings:
        show(draw_findings(found.findings))
    else:
        show(Group(Text(f"healthy as of version {found.version}", style="green")))
    raise typer.Exit(EXITS[worst(found.findings)])


def _doctor_facts(uri: str, found: "Examination") -> Facts:
    most = worst(found.findings)
    return {
        "table": uri,
        "version": found.version,
        "coordinator": found.coordinator,
        "worst": most.value if most else None,
        "findings": [finding_facts(finding) for finding in by_severity(found.findings)],
    }


def repair(  # noqa: PLR0913 - each is an option
    table: TableUri,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan; write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Carry out the plan.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="FILE", help="Exclude this file from the table."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="FILE", help="Include this file although another file has its id."
        ),
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Continue without rows that no file contains.")
    ] = False,
    deletes: Annotated[
        str | None,
        typer.Option(
            metavar="apply|ignore",
            help="Whether unconfirmed deletion vectors are applied.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="The event time column, if no file has the table's definition."),
    ] = None,
    granularity: Annotated[
        str, typer.Option(help="The table's time granularity, if no file has its definition.")
    ] = "day",
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild a lost or torn log from the files, and replace lost files by their inputs.

    Stop all writers first. The plan is shown before it is carried out, with all doubts.

    [green]segtable repair ./flights[/]                     show what would be done
    [green]segtable repair ./flights --yes[/]               do it
    [green]segtable repair ./flights --without FILE --yes[/] leave a doubtful file out
    [green]segtable repair ./flights --deletes apply --yes[/] delete again what was deleted
    """
    from airflow_provider_segtable.health import repair as service
    from airflow_provider_segtable.table.context import open_context

    ports = open_context(table, storage_options=store_options(storage_options))
    decisions = service.Decisions(
        without=frozenset(without or ()),
        also=frozenset(also or ()),
        accept_loss=accept_loss,
        definition=_definition(ports, time, granularity) if time else None,
        deletes=_verdict(deletes),
    )
    plan = service.plan_repair(ports, decisions)
    wanted = yes and not dry_run and plan.needed and not plan.blocking
    done = service.repair(ports, plan) if wanted else None
    facts = {**plan_facts(plan), "done": done is not None, "aside": done.aside if done else ""}
    if as_json:
        print_json(facts)
    else:
        show(draw_plan(plan, done=done is not None))
    if plan.needed and not done and not dry_run:
        if not as_json:
            note(
                "Resolve the doubts above first."
                if plan.blocking
                else "Add --yes to carry out the plan."
            )
        raise typer.Exit(Exit.FAILED)


def plan_facts(plan: "RepairPlan") -> Facts:
    """Return a plan as facts."""
    event = plan.event
    return {
        "table": plan.table.name,
        "needed": plan.needed,
        "new_log": plan.fresh,
        "last_event": plan.log.state.n if plan.log.state else None,
        "put_aside": [entry.path for entry in plan.log.torn],
        "lost_files": [segment.path for segment in plan.lost],
        "adopted": [segment.path for segment in event.segments if segment.path] if event else [],
        "left_out": [str(segment_id) for segment_id in event.lost] if event else [],
        "foreign": list(plan.files.foreign),
        "unreadable": dict(plan.files.unreadable),
        "leftovers": list(plan.files.leftovers),
        "deletes": [
            {
                "path": path,
                "rows": sum(len(each) for each in rows.values()),
                "rows_there": plan.delete_recovery.there.get(path, 0),
                "proven": path in plan.deletes.proven,
            }
            for path, rows in sorted(plan.deletes.files.items())
        ],
        "unreadable_deletes": dict(plan.deletes.unreadable),
        "deleted_again": sum(len(rows) for rows in plan.delete_recovery.rows.values()),
        "rows": sum(segment.rows for segment in plan.shown),
        "doubts": [
            {
                "reason": doubt.reason.value,
                "interval": str(doubt.interval),
                "note": doubt.note,
                "rows": doubt.rows,
                "paths": list(doubt.paths),
                "blocking": doubt in plan.blocking,
            }
            for doubt in plan.doubts
        ],
    }


def draw_plan(plan: "RepairPlan", *, done: bool) -> Group:
    """Draw a plan."""
    if not plan.needed:
        return Group(Text(f"{plan.table.name} needs no repair", style="green"))
    facts = plan_facts(plan)
    what = "a new log" if plan.fresh else f"one event after {facts['last_event']}"
    head = f"{plan.table.name}: {'wrote' if done else 'would write'} {what}"
    lines = [
        Text(head, style="bold"),
        Text(f"  shows {counted(len(plan.shown), 'segment')}, {counted(facts['rows'], 'row')}"),
    ]
    for name in ("put_aside", "lost_files", "adopted", "left_out", "foreign", "leftovers"):
        if facts[name]:
            lines.append(Text(f"  {name.replace('_', ' ')}: {len(facts[name])}"))
    unreadable = {**plan.files.unreadable, **plan.deletes.unreadable}
    lines += [Text(f"  unreadable: {path}: {why}") for path, why in unreadable.items()]
    for each in facts["deletes"]:
        what = f"{counted(each['rows'], 'row')}, {each['rows_there']} of them still present"
        lines.append(Text(f"  deletes: {each['path']}: {what}"))
    if facts["deleted_again"]:
        lines.append(Text(f"  deleted again: {counted(facts['deleted_again'], 'row')}"))
    for doubt in plan.doubts:
        style = "bold red" if doubt in plan.blocking else "yellow"
        amount = f", {counted(doubt.rows, 'row')}" if doubt.rows else ""
        lines.append(Text(f"  {doubt.reason.value}: {doubt.interval}: {doubt.note}{amount}", style))
        lines += [Text(f"    {path}", style="dim") for path in doubt.paths]
    return Group(*lines)


def _verdict(deletes: str | None) -> "Verdict | None":
    from airflow_provider_segtable.core.errors import InvalidInput
    from airflow_provider_segtable.health.delete_recovery import Verdict

    if deletes is not None and deletes not in list(Verdict):
        raise InvalidInput(f"--deletes {deletes!r} is unknown: choose one of {', '.join(Verdict)}")
    return None if deletes is None else Verdict(deletes)


def _definition(ports: "TableContext", time: str, granularity: str) -> "TableDefinition":
    """Return a definition with the columns of the first readable data file."""
    import uuid

    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_provider_segtable.core.errors import InvalidInput
    from airflow_provider_segtable.core.tables.definition import TableDefinition
    from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
    from airflow_provider_segtable.core.time import Granularity
    from airflow_provider_segtable.data.arrow_schema import from_arrow
    from airflow_provider_segtable.data.parquet.descriptor import KEY
    from airflow_provider_segtable.data.parquet.segment_scan import SourceFile

    if granularity not in list(Granularity):
        raise InvalidInput(
            f"granularity {granularity!r} is unknown: choose one of {', '.join(Granularity)}"
        )
    for entry in ports.storage.list("data"):
        try:
            with ports.files.open(entry.path) as source:
                schema = pq.read_schema(SourceFile(source))
        except (pa.ArrowException, OSError):
            continue
        if KEY not in (schema.metadata or {}):
            continue
        if EVENTS in schema.names:
            raise InvalidInput(f"{entry.path} has rolled-up rows and no definition: restore one")
        if time not in schema.names:
            raise InvalidInput(
                f"{entry.path} has no column {time!r}, only {', '.join(schema.names)}"
            )
        return TableDefinition(
            table_id=str(uuid.uuid4()),
            name=PurePosixPath(ports.uri).name,
            schema=from_arrow(schema.remove_metadata()),
            time_column=time,
            granularity=Granularity(granularity),
        )
    raise InvalidInput(f"{ports.uri} has no readable data file to take columns from: restore one")

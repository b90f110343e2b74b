"""``segtable verify``, ``doctor`` and ``repair``: check and mend a table.

1. ``verify`` compares a table's log with its files. ``doctor`` looks at the table's operation:
   plans, workers, locks, clocks, left-overs. Both only read.
2. Their findings are shown worst first, and decide the exit code; a ``code`` is for scripts.
3. ``repair`` rebuilds a log from the files, and replaces lost outputs by their inputs. It shows its
   plan first, and asks about every doubt: it never guesses.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.display.output import (
    Exit,
    error_facts,
    print_error,
    print_json,
    progress,
)
from airflow_provider_segtable.cli.input.options import (
    CommonOptions,
    ZooKeeperOptions,
    option_groups,
    store_options,
)
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity, worst, worst_first
from airflow_provider_segtable.planning.findings.health_findings import Bounds

if TYPE_CHECKING:
    from airflow_provider_segtable.core.tables.definition import TableDefinition
    from airflow_provider_segtable.health.delete_recovery import Verdict
    from airflow_provider_segtable.health.doctor import Examination
    from airflow_provider_segtable.health.repair import Decisions, RepairPlan
    from airflow_provider_segtable.health.verify import Verification
    from airflow_provider_segtable.table.context import TableContext


STYLES = {
    Severity.INFO: "dim",
    Severity.WARNING: "yellow",
    Severity.UNCHECKED: "magenta",
    Severity.CRITICAL: "bold red",
}


@option_groups
def verify(
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
    common: CommonOptions,
) -> None:
    """Check a table's log, its files, and that both agree.

    [green]segtable verify ./flights[/]                 log, state, every footer
    [green]segtable verify ./flights --deep[/]          and every row
    [green]segtable verify ./flights --all-versions[/]  and every version still kept
    [green]segtable verify ./flights --json | jq .findings[/]

    Reads only, needs no ZooKeeper, and may run beside writers: it looks at the
    version that is newest when it starts.

    Ends with 0 if all is well, 5 if something is wrong, and 6 if something could
    not be checked and the rest is sound. Each finding has the way out. First stop
    the compactions of the table and keep a copy of its folder _segtable; then
    [green]segtable repair[/], which shows its plan.
    """
    try:
        found = _run(common, threads, deep=deep, all_versions=all_versions)
    except InvalidInput:
        raise
    except SegtableError as error:
        print_error(error)
        if common.as_json:
            print_json(error_facts(error))
        raise typer.Exit(Exit.UNCHECKED) from None
    common.report(found, partial(_draw, found), all_versions=all_versions, deep=deep)
    raise typer.Exit(exit_of(found.findings))


def _run(common: CommonOptions, threads: int, *, deep: bool, all_versions: bool) -> "Verification":
    from airflow_provider_segtable.health import verify as service

    ports = _context(common)
    with progress() as bar:
        tasks = {stage: bar.add_task(stage, total=None) for stage in ("log", "files")}

        def report(stage: str, done: int, total: int) -> None:
            bar.update(tasks[stage], completed=done, total=total)

        return service.verify(
            ports, all_versions=all_versions, deep=deep, threads=threads, report=report
        )


def _context(common: CommonOptions) -> "TableContext":
    from airflow_provider_segtable.table.context import open_context

    return open_context(common.table, storage_options=store_options(common.storage_options))


def exit_of(findings: Sequence[Finding]) -> Exit:
    """Return the exit code of findings."""
    severities = {finding.severity for finding in findings}
    if severities & {Severity.WARNING, Severity.CRITICAL}:
        return Exit.WRONG
    return Exit.UNCHECKED if Severity.UNCHECKED in severities else Exit.DONE


def draw_findings(findings: Sequence[Finding]) -> RenderableType:
    """Draw findings, worst first."""
    lines: list[RenderableType] = []
    for finding in worst_first(findings):
        head = Text(f"{finding.severity.value} ", style=STYLES[finding.severity])
        head.append(f"{finding.code}  {finding.where}", style="bold")
        lines.append(head)
        for label, text in (("", finding.what), ("why: ", finding.why), ("do:  ", finding.do)):
            lines.append(Text(f"    {label}{text}"))
    return Group(*lines)


def _draw(found: "Verification", facts: Facts) -> RenderableType:
    checked = facts["checked"]
    unit = "record" if found.keyed else "row"
    rows = f", {counted(checked[f'{unit}s'], unit)}" if facts["deep"] else ""
    checkpoints = counted(checked["checkpoints"], "checkpoint")
    files = counted(checked["files"], "file")
    span = f"events {facts['first_event']} to {facts['version']}"
    summary = f"{span}, {checkpoints}, {files}{rows}"
    if worst(found.findings) in (None, Severity.INFO):
        verdict = Text(f"sound: {summary}", style="green")
    else:
        verdict = Text(f"{counted(len(found.findings), 'finding')} in {summary}", style="bold")
    return Group(draw_findings(found.findings), verdict)


EXITS = {
    None: Exit.DONE,
    Severity.INFO: Exit.DONE,
    Severity.WARNING: Exit.WARNED,
    Severity.UNCHECKED: Exit.UNCHECKED,
    Severity.CRITICAL: Exit.WRONG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOptions:
    """The bounds of ``doctor``, as options; named as in ``Bounds``."""

    pending_minutes: Annotated[
        float, typer.Option(help="Minutes that a plan may wait for a worker.", metavar="N", min=0)
    ] = Bounds().pending_minutes
    lock_minutes: Annotated[
        float, typer.Option(help="Minutes that a lock may be held.", metavar="N", min=0)
    ] = Bounds().lock_minutes
    checkpoint_events: Annotated[
        int, typer.Option(help="Events that may follow the newest checkpoint.", metavar="N", min=1)
    ] = Bounds().checkpoint_events
    clock_skew_s: Annotated[
        float,
        typer.Option("--clock-skew-s", help="Seconds that clocks may differ.", metavar="N", min=0),
    ] = Bounds().clock_skew_s
    idle_minutes: Annotated[
        float,
        typer.Option(help="Minutes that a worthwhile compaction may wait.", metavar="N", min=0),
    ] = Bounds().idle_minutes
    orphan_hours: Annotated[
        float,
        typer.Option(help="Hours before an unreferenced file is reported.", metavar="N", min=0),
    ] = Bounds().orphan_hours
    index_minutes: Annotated[
        float, typer.Option(help="Minutes that an index may lack entries.", metavar="N", min=0)
    ] = Bounds().index_minutes


@option_groups
def doctor(
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
    bounds: BoundOptions,
    common: ZooKeeperOptions,
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
    could not be checked, 5 critical. Each finding has its effect and the way out.
    """
    from airflow_provider_segtable.health.doctor import examine

    with common.open() as opened:
        found = examine(opened.ports, Bounds(**asdict(bounds)), watch_s=watch)
    common.report(found, partial(_draw_examination, found))
    raise typer.Exit(EXITS[worst(found.findings)])


def _draw_examination(found: "Examination", _: Facts) -> RenderableType:
    if found.findings:
        return draw_findings(found.findings)
    return Text(f"healthy as of version {found.version}", style="green")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOptions:
    """Decisions on the doubts of a repair, as options."""

    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="FILE", help="Exclude this file from the table."),
    ] = None
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="FILE", help="Include this file although another file has its id."
        ),
    ] = None
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Continue without rows that no file contains.")
    ] = False
    deletes: Annotated[
        str | None,
        typer.Option(
            metavar="apply|ignore",
            help="Whether unconfirmed deletion vectors are applied.",
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(help="The event time column, if no file has the table's definition."),
    ] = None
    granularity: Annotated[
        str, typer.Option(help="The table's time granularity, if no file has its definition.")
    ] = "day"

    def decisions(self, ports: "TableContext") -> "Decisions":
        """Return the decisions.

        Raises:
            InvalidInput: a value is unknown, or does not fit the files.
        """
        from airflow_provider_segtable.health.repair import Decisions

        return Decisions(
            without=frozenset(self.without or ()),
            also=frozenset(self.also or ()),
            accept_loss=self.accept_loss,
            definition=_definition(ports, self.time, self.granularity) if self.time else None,
            deletes=_verdict(self.deletes),
        )


@option_groups
def repair(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan; write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Carry out the plan.")] = False,
    chosen: DecisionOptions,
    common: CommonOptions,
) -> None:
    """Rebuild a lost or torn log from the files, and replace lost files by their inputs.

    Stop all writers first. The plan is shown before it is carried out, with all doubts.

    [green]segtable repair ./flights[/]                     show the plan
    [green]segtable repair ./flights --yes[/]               carry it out
    [green]segtable repair ./flights --without FILE --yes[/] leave a doubtful file out
    [green]segtable repair ./flights --deletes apply --yes[/] delete the deleted rows again
    """
    from airflow_provider_segtable.health import repair as service

    ports = _context(common)
    plan = service.plan_repair(ports, chosen.decisions(ports))
    wanted = yes and not dry_run and plan.needed and not plan.blocking
    done = service.repair(ports, plan) if wanted else None
    aside = done.aside if done else ""
    common.report(plan, partial(_draw_plan, plan), done=done is not None, aside=aside)
    if plan.needed and not done and not dry_run:
        common.note(
            "Resolve the doubts above first."
            if plan.blocking
            else "Add --yes to carry out the plan."
        )
        raise typer.Exit(Exit.FAILED)


def _draw_plan(plan: "RepairPlan", facts: Facts) -> Group:
    if not plan.needed:
        return Group(Text(f"{plan.table.name} needs no repair", style="green"))
    written = "a new log" if plan.fresh else f"one event after {facts['last_event']}"
    head = f"{plan.table.name}: {'wrote' if facts['done'] else 'would write'} {written}"
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
        rows = f"{counted(each['rows'], 'row')}, {each['rows_there']} of them still present"
        lines.append(Text(f"  deletes: {each['path']}: {rows}"))
    if facts["deleted_again"]:
        lines.append(Text(f"  deleted again: {counted(facts['deleted_again'], 'row')}"))
    for doubt in plan.doubts:
        style = "bold red" if doubt in plan.blocking else "yellow"
        amount = f", {counted(doubt.rows, 'row')}" if doubt.rows else ""
        lines.append(Text(f"  {doubt.reason.value}: {doubt.interval}: {doubt.note}{amount}", style))
        lines += [Text(f"    {path}", style="dim") for path in doubt.paths]
    return Group(*lines)


def _verdict(deletes: str | None) -> "Verdict | None":
    from airflow_provider_segtable.health.delete_recovery import Verdict

    if deletes is not None and deletes not in list(Verdict):
        raise InvalidInput(f"--deletes {deletes!r} is unknown: choose one of {', '.join(Verdict)}")
    return None if deletes is None else Verdict(deletes)


def _definition(ports: "TableContext", time: str, granularity: str) -> "TableDefinition":
    """Return a definition with the columns of the first readable data file."""
    import uuid

    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_provider_segtable.core.tables.definition import TableDefinition
    from airflow_provider_segtable.core.tables.rollup_kind import EVENTS
    from airflow_provider_segtable.core.time import Granularity
    from airflow_provider_segtable.data.arrow_schema import from_arrow
    from airflow_provider_segtable.data.parquet.descriptor import KEY
    from airflow_provider_segtable.data.parquet.source_file import SourceFile

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

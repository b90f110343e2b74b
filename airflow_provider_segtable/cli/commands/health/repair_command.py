"""``segtable repair``: rebuild a log from files, replace lost outputs by inputs; never guess."""

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from airflow_provider_segtable.cli.display.output import Facts, note, print_json, show
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    TableUri,
    store_options,
)
from airflow_provider_segtable.core.counted import counted

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.events import TableCreated
    from airflow_provider_segtable.health.delete_recovery import Verdict
    from airflow_provider_segtable.health.repair import RepairPlan
    from airflow_provider_segtable.table.context import TableContext


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


def _definition(ports: "TableContext", time: str, granularity: str) -> "TableCreated":
    """Return a definition with the columns of the first readable data file."""
    import uuid

    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_provider_segtable.core.errors import InvalidInput
    from airflow_provider_segtable.core.log.events import TableCreated
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
        return TableCreated(
            table_id=str(uuid.uuid4()),
            name=PurePosixPath(ports.uri).name,
            schema=from_arrow(schema.remove_metadata()),
            time_column=time,
            granularity=Granularity(granularity),
        )
    raise InvalidInput(f"{ports.uri} has no readable data file to take columns from: restore one")

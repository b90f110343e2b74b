"""``segtable index run`` and ``schedule``: build what indexes lack, now or by a DAG run."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from airflow_provider_segtable.cli.commands.tables.table_commands import open_table, writable_table
from airflow_provider_segtable.cli.display.index_drawing import drawn_requests, drawn_runs
from airflow_provider_segtable.cli.display.output import (
    Facts,
    in_shell,
    note,
    print_json,
    progress,
    show,
)
from airflow_provider_segtable.cli.engine_session import EngineFor, engines
from airflow_provider_segtable.cli.exits import Exit
from airflow_provider_segtable.cli.input.durations import seconds_of
from airflow_provider_segtable.cli.input.engines import EngineOption, MasterOption
from airflow_provider_segtable.cli.input.index_options import IndexNames
from airflow_provider_segtable.cli.input.options import AsJson, StorageOptions, TableUri, ZooKeeper
from airflow_provider_segtable.planning.engine import Engine

if TYPE_CHECKING:
    from airflow_provider_segtable.ports.job import Done, Job
    from airflow_provider_segtable.services.attempt import Execute
    from airflow_provider_segtable.services.compact_table import IndexRun

Timeout = Annotated[
    str | None,
    typer.Option(
        help="Pause after this time, e.g. 90s, 15m, 2h: what is built stays, and the next run goes "
        "on. The table's index.timeout_minutes by default.",
        metavar="DURATION",
        show_default=False,
    ),
]


def run(
    table: TableUri,
    names: IndexNames = None,
    *,
    timeout: Timeout = None,
    engine: EngineOption = Engine.AUTO,
    master: MasterOption = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Build what indexes lack, while writers and readers go on.

    [green]segtable index run ./flights[/]
    [green]segtable index run ./flights delays --timeout 15m[/]
    [green]segtable index run ./flights delays --engine spark[/]

    An index is built piece by piece, and each piece counts at once. A run that
    was paused or killed goes on where it stopped, and a run of an index that
    lacks nothing ends at once. If another process builds the index, the run
    leaves it to that one. Ends with 1 if a run failed.
    """
    timeout_s = None if timeout is None else seconds_of(timeout, "--timeout")
    with writable_table(table, storage_options, zookeeper) as opened:
        runs = build(opened, names, engine=engine, master=master, timeout_s=timeout_s)
        answer = {"table": table, "version": opened.state().n, "runs": runs}
    print_json(answer) if as_json else show(drawn_runs(answer))
    refuse_failed(runs)


def refuse_failed(runs: Sequence[Facts]) -> None:
    """End with 1 if a run failed, and say which and why."""
    failed = [each for each in runs if each["ended"] == "failed"]
    for each in failed:
        note(f"[red]index {escape(each['index'])}: {escape(each['message'])}[/]")
    if failed:
        raise typer.Exit(Exit.FAILED)


def schedule(
    table: TableUri,
    names: IndexNames = None,
    *,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Request plans for what indexes lack, for an index DAG run or for `index run`.

    [green]segtable index schedule ./flights[/]
    [green]segtable index schedule ./flights delays --json | jq -r '.plans[].plan'[/]

    The planner's DAG starts a DAG run for each plan, and requests plans itself
    if commits did not feed an index: this only saves waiting for it. Nothing is
    built yet; an index has one pending plan at a time.
    """
    from airflow_provider_segtable.services.indexing import requested_plan

    opened = open_table(table, storage_options)
    found = {name: requested_plan(opened.ports, name) for name in wanted(opened, names)}
    plans = [
        {
            "index": name,
            "plan": None if known is None else known.plan.id,
            "status": None if known is None else known.status.value,
            "reason": "it lacks nothing" if known is None else known.plan.reason,
        }
        for name, known in found.items()
    ]
    answer = {"table": table, "version": opened.state().n, "plans": plans}
    print_json(answer) if as_json else show(drawn_requests(answer))
    if not as_json and any(each["plan"] for each in plans):
        note(
            f"requested. Next: the planner's DAG, or [green]segtable index run {in_shell(table)}[/]"
        )


def wanted(table: Any, names: Sequence[str] | None) -> list[str]:
    """Return the names of indexes that a user gives; all of the table if there are none.

    Raises:
        InvalidInput: the table has no index of such a name.
    """
    return [table.index(name).definition.name for name in names or table.indexes()]


def build(
    table: Any,
    names: Sequence[str] | None,
    *,
    engine: Engine,
    master: str | None = None,
    timeout_s: float | None,
) -> list[Facts]:
    """Build indexes one after the other, with a progress bar; return their runs as facts."""
    some = wanted(table, names)
    _ = table.ports.coordinator  # fails first if there is no ZooKeeper
    with engines(table, engine, master, "index") as engine_for:
        return [_built(table, name, engine_for, timeout_s) for name in some]


def _built(table: Any, name: str, engine_for: EngineFor, timeout_s: float | None) -> Facts:
    from airflow_provider_segtable.services.compact_table import run_index
    from airflow_provider_segtable.services.indexing import requested_plan

    known = requested_plan(table.ports, name)
    execute = engine_for(table.state(), [known.plan.id] if known else ()).execute
    with progress() as bar:
        task = bar.add_task(f"files of index {name}", total=None)

        def counted(files: int) -> None:
            bar.advance(task, files)

        done = run_index(table.ports, name, _counting(execute, counted), timeout_s=timeout_s)
    return run_facts(name, done)


def _counting(execute: "Execute", counted: Any) -> "Execute":
    """Return an execution that counts the files of each job that is done."""

    def counting(jobs: Sequence["Job"]) -> Iterator["Done"]:
        for done in execute(jobs):
            counted(len(jobs[done.index].segments))  # type: ignore[attr-defined]
            yield done

    return counting


def run_facts(name: str, done: "IndexRun") -> Facts:
    """Return the run of an index as facts."""
    return {
        "index": name,
        "ended": done.ended.value,
        "message": done.message,
        "pieces": done.pieces,
        "files": done.files,
        "left": done.left,
        "settled": done.settled,
        "plans": list(done.plans),
    }

"""``segtable index``: create, build, inspect, rebuild and drop indexes.

1. An index is built by plans. ``schedule`` requests them, ``run`` also carries them out.
2. ``status`` and ``show`` read the entries of an index, ``explain`` its savings for a read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from airflow_provider_segtable.cli.commands.scan_command import ReadOptions
from airflow_provider_segtable.cli.display.drawing import (
    drawn_indexes,
    drawn_requests,
    drawn_runs,
    drawn_savings,
    drawn_values,
)
from airflow_provider_segtable.cli.display.output import (
    Exit,
    in_shell,
    note,
    progress,
)
from airflow_provider_segtable.cli.input.options import (
    CommitId,
    CommonOptions,
    EngineOption,
    IndexName,
    IndexNames,
    KindOptions,
    MasterOption,
    ZooKeeperOptions,
    option_groups,
    seconds_of,
)
from airflow_provider_segtable.cli.running import EngineFor, engines
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.library.table_facts import index_facts
from airflow_provider_segtable.planning.engine import Engine
from airflow_provider_segtable.planning.properties import OFF, Policy

if TYPE_CHECKING:
    from airflow_provider_segtable.ports.job import Done, Job
    from airflow_provider_segtable.services.attempt import Execute


@option_groups
def explain(
    *,
    read: ReadOptions,
    common: CommonOptions,
) -> None:
    """Show the savings of indexes for a read: its plan without them, with each, and with all.

    [green]segtable index explain ./flights --where "tailnum = 'N328AA'"[/]
    [green]segtable index explain ./flights --where "dep_delay > 800" --json[/]

    Reads no rows. [green]segtable table scan TABLE --where SQL --explain[/] shows every step
    of the plan with all indexes.
    """
    from airflow_provider_segtable.library.explaining import savings

    if read.where is None:
        raise InvalidInput("an index only helps a read with a condition: give --where SQL")
    scan = common.open().read(read.request())
    answer = {
        "version": scan.version,
        "where": read.where,
        "plans": savings(scan),
    }
    common.answer(answer, drawn_savings)


Timeout = Annotated[
    str | None,
    typer.Option(
        help="Pause after this time, e.g. 90s, 15m, 2h: built entries stay, and the next run goes "
        "on. The table's index.timeout_minutes by default.",
        metavar="DURATION",
        show_default=False,
    ),
]


@option_groups
def run(
    names: IndexNames = None,
    *,
    timeout: Timeout = None,
    engine: EngineOption = Engine.AUTO,
    master: MasterOption = None,
    common: ZooKeeperOptions,
) -> None:
    """Build missing entries of indexes, while writers and readers go on.

    [green]segtable index run ./flights[/]
    [green]segtable index run ./flights delays --timeout 15m[/]
    [green]segtable index run ./flights delays --engine spark[/]

    An index is built piece by piece, and each piece counts at once. A run that
    was paused or killed goes on where it stopped, and a run of an index that
    lacks nothing ends at once. If another process builds the index, the run
    leaves it to that one. Ends with 1 if a run failed.
    """
    timeout_s = None if timeout is None else seconds_of(timeout, "--timeout")
    with common.open() as opened:
        runs = build(opened, names, engine=engine, master=master, timeout_s=timeout_s)
        answer = {"version": opened.state().n, "runs": runs}
    common.answer(answer, drawn_runs)
    refuse_failed(runs)


def refuse_failed(runs: Sequence[Facts]) -> None:
    """End with 1 if a run failed, and say which and why."""
    failed = [each for each in runs if each["ended"] == "failed"]
    for each in failed:
        note(f"[red]index {escape(each['index'])}: {escape(each['message'])}[/]")
    if failed:
        raise typer.Exit(Exit.FAILED)


@option_groups
def schedule(names: IndexNames = None, *, common: CommonOptions) -> None:
    """Request plans for missing entries of indexes, for an index DAG run or for `index run`.

    [green]segtable index schedule ./flights[/]
    [green]segtable index schedule ./flights delays --json | jq -r '.plans[].plan'[/]

    The planner's DAG starts a DAG run for each plan, and requests plans itself
    if commits did not feed an index: this only saves waiting for it. Nothing is
    built yet; an index has one pending plan at a time.
    """
    from airflow_provider_segtable.services.indexing import requested_plan

    opened = common.open()
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
    common.answer({"version": opened.state().n, "plans": plans}, drawn_requests)
    if any(each["plan"] for each in plans):
        common.note(
            "requested. Next: the planner's DAG, or "
            f"[green]segtable index run {in_shell(common.table)}[/]"
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
    from airflow_provider_segtable.services.index_run import run_index
    from airflow_provider_segtable.services.indexing import requested_plan

    known = requested_plan(table.ports, name)
    execute = engine_for(table.ports, [known.plan.id] if known else ()).execute
    with progress() as bar:
        task = bar.add_task(f"files of index {name}", total=None)

        def counted(files: int) -> None:
            bar.advance(task, files)

        done = run_index(table.ports, name, _counting(execute, counted), timeout_s=timeout_s)
    return {"index": name, **done.facts()}


def _counting(execute: "Execute", counted: Any) -> "Execute":
    """Return an execution that counts the files of each job that is done."""

    def counting(jobs: Sequence["Job"]) -> Iterator["Done"]:
        for done in execute(jobs):
            counted(len(jobs[done.index].segments))  # type: ignore[attr-defined]
            yield done

    return counting


indexes = typer.Typer(
    no_args_is_help=True,
    help="Create, build, inspect, rebuild and drop indexes: entries about files that let reads "
    "open fewer of them.",
)


@indexes.command()
@option_groups
def create(
    name: IndexName,
    *,
    chosen: KindOptions,
    now: Annotated[
        bool, typer.Option("--run", help="Build it at once, as `index run` does; needs ZooKeeper.")
    ] = False,
    commit_id: CommitId = None,
    common: ZooKeeperOptions,
) -> None:
    """Create an index; writers feed it from now on.

    [green]segtable index create ./flights delays --columns dep_delay,arr_delay[/]
    [green]segtable index create ./flights tails --kind bloom_filter --columns tailnum[/]
    [green]segtable index create ./flights all --kind files --run[/]
    [green]segtable index create ./devices keys --kind record_index --run[/]

    What is in the table already is built by the planner's DAG, by [green]segtable index
    run TABLE NAME[/], or at once with --run, while writers and readers go on. Until
    then reads open the files that the index does not know.
    """
    with common.open() as opened:
        _ = opened.ports.coordinator if now else None  # fails first if there is no ZooKeeper
        version = opened.create_index(
            name, chosen.kind, chosen.names, commit_id=commit_id, **chosen.settings
        )
        runs = build(opened, [name], engine=Engine.AUTO, timeout_s=None) if now else ()
        _show_indexes(opened, [name], common)
    common.note(f"[green]version {version} has index {name}.[/]")
    refuse_failed(runs)


indexes.command()(schedule)
indexes.command()(run)
indexes.command()(explain)


@indexes.command()
@option_groups
def status(names: IndexNames = None, *, common: CommonOptions) -> None:
    """Show the columns, progress and size of indexes.

    [green]segtable index status ./flights[/]
    [green]segtable index status ./flights delays --json | jq '.indexes[0].lag_s'[/]

    An index is "building" until it knows all files, and "available" from then
    on. "files" counts those with entries, of those that reads see. It is behind if a
    commit could not feed it: reads open those files until the next run.
    """
    _show_indexes(common.open(), names, common)


@indexes.command("show")
@option_groups
def show_values(name: IndexName, *, common: CommonOptions) -> None:
    """Show the values of the columns of a column_stats index, over all files it knows.

    [green]segtable index show ./flights delays[/]
    [green]segtable index show ./flights delays --json | jq '.columns[0].distinct'[/]

    Opens no data file. Deleted rows that are still in files count; the number of
    distinct values is an estimate, 6.5 % off in the mean.
    """
    opened = common.open()
    found = opened.index_summary(name)
    state = opened.state()
    files = sum(1 for each in state.timeline.each_visible() if each.path)
    answer = {
        "version": state.n,
        "index": name,
        "files": files,
        "columns": [asdict(each) for each in found],
    }
    common.answer(answer, drawn_values)


@indexes.command()
@option_groups
def rebuild(name: IndexName, *, common: CommonOptions) -> None:
    """Begin an index anew, with the same settings.

    [green]segtable index rebuild ./flights delays[/]

    The new index takes the place of the old one at once, and is empty until
    [green]segtable index run TABLE NAME[/] has built it. Only a damaged index needs this:
    compactions, deletes and cleaning keep an index right.
    """
    opened = common.open()
    version = opened.rebuild_index(name)
    _show_indexes(opened, [name], common)
    common.note(f"[green]version {version} has a new index {name}.[/]")


@indexes.command()
@option_groups
def drop(name: IndexName, *, common: CommonOptions) -> None:
    """Drop an index and delete its files; reads go on without it.

    [green]segtable index drop ./flights delays[/]
    """
    opened = common.open()
    version = opened.drop_index(name)
    _show_indexes(opened, None, common)
    common.note(f"[green]version {version} is without index {name}.[/]")


def _show_indexes(
    table: Any, names: list[str] | None, common: CommonOptions | ZooKeeperOptions
) -> None:
    some = [table.index(name) for name in names] if names else [*table.indexes().values()]
    state, now = table.state(), table.ports.clock.now()
    answer = {
        "version": state.n,
        "planner_builds": Policy.read(state.table.properties).indexes != OFF,
        "indexes": [
            {**index_facts(each, state, now), **_coverage(table, each, state)} for each in some
        ],
    }
    common.answer(answer, drawn_indexes)


def _coverage(table: Any, index: IndexState, state: State) -> Facts:
    """Return the coverage of the index, or null values and the problem if it cannot be read."""
    from airflow_provider_segtable.table.index_lifecycle import Coverage, coverage

    try:
        return {**asdict(coverage(table.ports, index, state)), "problem": None}
    except SegtableError as error:
        return {**dict.fromkeys(each.name for each in fields(Coverage)), "problem": str(error)}

"""``segtable index``: facts about files that let reads open fewer of them."""

from dataclasses import asdict, fields
from typing import Annotated, Any

import typer

from airflow_provider_segtable.cli.commands.indexes.index_explain_command import explain
from airflow_provider_segtable.cli.commands.indexes.index_run_command import (
    build,
    refuse_failed,
    run,
    schedule,
)
from airflow_provider_segtable.cli.commands.tables.table_commands import open_table, writable_table
from airflow_provider_segtable.cli.display.index_drawing import drawn_indexes, drawn_values
from airflow_provider_segtable.cli.display.index_facts import index_facts
from airflow_provider_segtable.cli.display.output import Facts, note, print_json, show
from airflow_provider_segtable.cli.input.index_options import IndexName, IndexNames, KindOptions
from airflow_provider_segtable.cli.input.option_groups import option_groups
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    CommitId,
    StorageOptions,
    TableUri,
    ZooKeeper,
)
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.planning.engine import Engine
from airflow_provider_segtable.planning.properties import OFF, Policy

indexes = typer.Typer(
    no_args_is_help=True,
    help="Create, build, inspect, rebuild and drop indexes: facts about files that let reads open "
    "fewer of them.",
)


@indexes.command()
@option_groups
def create(
    table: TableUri,
    name: IndexName,
    *,
    chosen: KindOptions,
    now: Annotated[
        bool, typer.Option("--run", help="Build it at once, as `index run` does; needs ZooKeeper.")
    ] = False,
    commit_id: CommitId = None,
    zookeeper: ZooKeeper = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Create an index; writers feed it from now on.

    [green]segtable index create ./flights delays --columns dep_delay,arr_delay[/]
    [green]segtable index create ./flights tails --kind bloom_filter --columns tailnum[/]
    [green]segtable index create ./flights all --kind files --run[/]
    [green]segtable index create ./devices keys --kind record_index --run[/]

    column_stats keeps bounds and nulls of columns in each row group: for ranges,
    and for values that lie together. bloom_filter keeps which values a file
    certainly does not have: for single values that are spread over all files.
    files keeps sizes and numbers of rows. record_index keeps one row for each
    key of a primary-key table, whichever time chunks its records are in.

    What is in the table already is built by the planner's DAG, by [green]segtable index
    run TABLE NAME[/], or at once with --run, while writers and readers go on. Until
    then reads open the files that the index does not know.
    """
    with writable_table(table, storage_options, zookeeper) as opened:
        _ = opened.ports.coordinator if now else None  # fails first if there is no ZooKeeper
        version = opened.create_index(
            name, chosen.kind, chosen.names, rate=chosen.rate, commit_id=commit_id
        )
        runs = build(opened, [name], engine=Engine.AUTO, timeout_s=None) if now else ()
        _tell(table, opened, [name], as_json=as_json)
    if not as_json:
        note(f"[green]version {version} has index {name}.[/]")
    refuse_failed(runs)


indexes.command()(schedule)
indexes.command()(run)
indexes.command()(explain)


@indexes.command()
def status(
    table: TableUri,
    names: IndexNames = None,
    *,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show what indexes keep, how far they are, and what they take.

    [green]segtable index status ./flights[/]
    [green]segtable index status ./flights delays --json | jq '.indexes[0].lag_s'[/]

    An index is "building" until it knows all files, and "available" from then
    on. "files" are those it knows, of those that reads see. It is behind if a
    commit could not feed it: reads open those files until the next run.
    """
    opened = open_table(table, storage_options)
    _tell(table, opened, names, as_json=as_json)


@indexes.command("show")
def show_values(
    table: TableUri,
    name: IndexName,
    *,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show the values of the columns of a column_stats index, over all files it knows.

    [green]segtable index show ./flights delays[/]
    [green]segtable index show ./flights delays --json | jq '.columns[0].distinct'[/]

    Opens no data file. Deleted rows that are still in files count; the number of
    distinct values is an estimate, 6.5 % off in the mean.
    """
    opened = open_table(table, storage_options)
    found = opened.index_summary(name)
    state = opened.state()
    files = sum(1 for each in state.timeline.each_visible() if each.path)
    answer = {
        "table": table,
        "version": state.n,
        "index": name,
        "files": files,
        "columns": [asdict(each) for each in found],
    }
    print_json(answer) if as_json else show(drawn_values(answer))


@indexes.command()
def rebuild(
    table: TableUri,
    name: IndexName,
    *,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Begin an index anew, with the same settings.

    [green]segtable index rebuild ./flights delays[/]

    The new index takes the place of the old one at once, and is empty until
    [green]segtable index run TABLE NAME[/] has built it. Only a damaged index needs this:
    compactions, deletes and cleaning keep an index right.
    """
    opened = open_table(table, storage_options)
    version = opened.rebuild_index(name)
    _tell(table, opened, [name], as_json=as_json)
    if not as_json:
        note(f"[green]version {version} has a new index {name}.[/]")


@indexes.command()
def drop(
    table: TableUri,
    name: IndexName,
    *,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Drop an index and delete its files; reads go on without it.

    [green]segtable index drop ./flights delays[/]
    """
    opened = open_table(table, storage_options)
    version = opened.drop_index(name)
    _tell(table, opened, None, as_json=as_json)
    if not as_json:
        note(f"[green]version {version} is without index {name}.[/]")


def _tell(uri: str, table: Any, names: list[str] | None, *, as_json: bool) -> None:
    wanted = [table.index(name) for name in names] if names else [*table.indexes().values()]
    state, now = table.state(), table.ports.clock.now()
    answer = {
        "table": uri,
        "version": state.n,
        "planner_builds": Policy.read(state.table.properties).indexes != OFF,
        "indexes": [
            {**index_facts(each, state, now), **_coverage(table, each, state)} for each in wanted
        ],
    }
    print_json(answer) if as_json else show(drawn_indexes(answer))


def _coverage(table: Any, index: IndexState, state: State) -> Facts:
    """Return what the index knows, or null values and the problem if it cannot be read."""
    from airflow_provider_segtable.table.indexes.lifecycle import Coverage, coverage

    try:
        return {**asdict(coverage(table.ports, index, state)), "problem": None}
    except SegtableError as error:
        return {**dict.fromkeys(each.name for each in fields(Coverage)), "problem": str(error)}

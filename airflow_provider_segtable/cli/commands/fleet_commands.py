"""``segtable fleet``: check a fleet file, show what it says, how its tables are and what is due."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import PurePosixPath
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import age, grid, short_interval, short_time
from airflow_provider_segtable.cli.display.output import Exit, err, out, print_json, progress, show
from airflow_provider_segtable.cli.guard import GuardedGroup
from airflow_provider_segtable.cli.input.options import (
    AsJson,
    StorageOptions,
    ZooKeeper,
    open_table,
    option_groups,
    store_options,
)
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.planning.fleet.fleet import Fleet, Sourced, effective
from airflow_provider_segtable.planning.fleet.fleet_file import InvalidFleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory
from airflow_provider_segtable.planning.properties import DEFAULT, settings, unset_settings

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.fleet.measured_cost import Costs
    from airflow_provider_segtable.services.fleet_run import FleetRun

fleets = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    help="Many tables that one planner serves, described by one file.",
)

FleetFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="The fleet file: a path or a URI of TOML.", show_default=False
    ),
]
Root = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Where names of tables begin. By default what the file says ([fleet] root), else the "
        "folder of the file.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """A fleet file, where its tables are, and the form of the answer."""

    file: FleetFile
    root: Root = None
    storage_options: StorageOptions = None
    as_json: AsJson = False

    def load(self) -> Fleet:
        """Read the file."""
        from airflow_provider_segtable.services.fleet_tables import load_fleet

        return load_fleet(self.file, dict(store_options(self.storage_options)))

    def uri(self, fleet: Fleet, table: str = "") -> str:
        """Return the URI of a table, or of the root."""
        if "://" in table or table.startswith("/"):
            return table
        root = self.root or fleet.root or str(PurePosixPath(self.file).parent)
        return f"{root.rstrip('/')}/{table}" if table else root


@fleets.command()
@option_groups
def check(
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Check the file alone, and look for no table.")
    ] = False,
    fleet: FleetOptions,
) -> None:
    """Check a fleet file, and list the tables that it finds.

    [green]segtable fleet check fleet.toml[/]
    [green]segtable fleet check fleet.toml --root s3://lake/tables[/]
    [green]segtable fleet check fleet.toml --offline[/]         in CI, without the lake

    Every fault is named with its line. Ends with 0 if there is none, and with 2
    otherwise. A group without a table, and a table that was named and is not
    there, are warnings.
    """
    try:
        loaded = fleet.load()
    except InvalidFleet as error:
        _say_faults(error, fleet)
        raise typer.Exit(Exit.USAGE) from None
    answer = _checked(loaded, fleet, offline=offline)
    print_json(answer) if fleet.as_json else show(_draw_check(answer))


def _say_faults(error: InvalidFleet, fleet: FleetOptions) -> None:
    for fault in error.faults:
        line = Text.assemble((f"{fault.source}:{fault.line}: ", "bold red"), fault.reason)
        err.print(line, soft_wrap=True)
    err.print(f"[red]{counted(len(error.faults), 'fault')}[/]")
    if fleet.as_json:
        faults = [{"line": fault.line, "reason": fault.reason} for fault in error.faults]
        print_json({"file": fleet.file, "faults": faults})


def _checked(loaded: Fleet, fleet: FleetOptions, *, offline: bool) -> Facts:
    from airflow_provider_segtable.services.fleet_tables import find_tables
    from airflow_provider_segtable.storage import open_storage

    answer: dict[str, Any] = {
        "file": fleet.file,
        "name": loaded.name,
        "faults": [],
    }
    if offline:
        groups = [{"group": group.name, "globs": list(group.tables)} for group in loaded.groups]
        return {**answer, "root": None, "groups": groups, "single": sorted(loaded.tables)}
    options = store_options(fleet.storage_options)
    found = find_tables(loaded, lambda uri: open_storage(uri or fleet.uri(loaded), options))
    by_group: dict[str, list[str]] = {group.name: [] for group in loaded.groups}
    single: list[str] = []
    for name in found.names:
        group = loaded.group_of(name)
        (single if group is None else by_group[group.name]).append(name)
    return {
        **answer,
        "root": fleet.uri(loaded),
        "groups": [
            {"group": group.name, "globs": list(group.tables), "tables": by_group[group.name]}
            for group in loaded.groups
        ],
        "single": single,
        "missing": sorted(set(loaded.tables).difference(found.names, found.unread)),
        "unread": dict(found.unread),
        "complete": found.complete,
        "listings": found.listings,
    }


MOST_NAMES = 5
"""Names of tables that are drawn of one group; ``--json`` has all."""


def _draw_check(facts: Facts) -> RenderableType:
    table = grid(
        f"Fleet {facts['name']}", "group", "tables", "globs", "among them", right=("tables",)
    )
    for group in facts["groups"]:
        names = group.get("tables")
        count = "" if names is None else f"{len(names):,}"
        table.add_row(*map(Text, (group["group"], count, ", ".join(group["globs"]), _some(names))))
    if facts["single"]:
        count = f"{len(facts['single']):,}"
        table.add_row(*map(Text, ("(named alone)", count, "", _some(facts["single"]))))
    return Group(table, *_warnings(facts), Text("no fault", style="green"))


def _some(names: list[str] | None) -> str:
    shown = ", ".join((names or [])[:MOST_NAMES])
    return f"{shown} ..." if len(names or []) > MOST_NAMES else shown


def _warnings(facts: Facts) -> list[Text]:
    empty = [each["group"] for each in facts["groups"] if each.get("tables") == []]
    told = [f"group {name} has no table below {facts['root']}" for name in empty]
    told += [f"table {name} is not there" for name in facts.get("missing", ())]
    told += [f"{at} cannot be listed: {why}" for at, why in facts.get("unread", {}).items()]
    if not facts.get("complete", True):
        listings = counted(facts["listings"], "listing")
        told.append(f"the search ended after {listings}: name folders more closely in the globs")
    return [Text.assemble(("warning: ", "bold yellow"), each) for each in told]


@fleets.command("show")
@option_groups
def show_table(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="Its name below the root, or its URI.", show_default=False
        ),
    ],
    *,
    every: Annotated[
        bool,
        typer.Option("--effective", help="Show all settings, also those with their default."),
    ] = False,
    fleet: FleetOptions,
) -> None:
    """Show the settings by which a table is served, and where each comes from.

    [green]segtable fleet show fleet.toml events/orders[/]
    [green]segtable fleet show fleet.toml events/orders --effective[/]

    From the weakest to the strongest: defaults, the file, the group, the table in
    the file, the table's own properties, and scopes of the file that say enforce.
    A table that is not there yet is shown without properties of its own.
    """
    loaded = fleet.load()
    own, note = _own(fleet.uri(loaded, table), fleet)
    default = {each.key: (each.value, DEFAULT) for each in unset_settings()}
    found = effective(loaded, table, own, default)
    group = loaded.group_of(table)
    shown = [each.facts() for each in found if every or each.source != DEFAULT]
    answer = {
        "table": table,
        "uri": fleet.uri(loaded, table),
        "in_fleet": loaded.holds(table),
        "group": group.name if group else None,
        "note": note,
        "settings": shown,
    }
    print_json(answer) if fleet.as_json else show(_draw_table(answer))


def _own(uri: str, fleet: FleetOptions) -> tuple[Sourced, str]:
    """Return a table's own properties with their sources; a note if it cannot be read."""
    try:
        definition = open_table(uri, fleet.storage_options).state().table
    except SegtableError as error:
        return {}, str(error)
    given = (each for each in settings(definition) if each.source != DEFAULT)
    return {each.key: (each.value, f"the table, {each.source}") for each in given}, ""


def _draw_table(facts: Facts) -> RenderableType:
    table = grid(_title(facts), "setting", "value", "from", "instead of")
    for each in facts["settings"]:
        over = "; ".join(f"{one['value']} ({one['source']})" for one in each["over"])
        table.add_row(*map(Text, (each["key"], each["value"], each["source"], over)))
    notes = [Text(facts["note"], style="yellow")] if facts["note"] else []
    if not facts["in_fleet"]:
        notes.append(Text("no group of the file matches it: it is not served", style="yellow"))
    return Group(table, *notes)


def _title(facts: Facts) -> str:
    group = f", group {facts['group']}" if facts["group"] else ""
    return f"{facts['table']}{group}"


@fleets.command("plan")
@option_groups
def plan_tables(*, fleet: FleetOptions) -> None:
    """Show which plans of all tables would begin now, and why each other one would not.

    [green]segtable fleet plan fleet.toml[/]
    [green]segtable fleet plan fleet.toml --json | jq .left[/]

    First are the tables that miss their objective, with the time at which they are
    expected to meet it. The best plans come first: gain per cost, times the table's
    priority, more if the table misses its objective, and more the longer it waits.
    Writes nothing, and needs no ZooKeeper.
    """
    found = _run(fleet)
    answer = {"file": fleet.file, **found.facts()}
    print_json(answer) if fleet.as_json else show(_draw_plan(answer, found.costs))


@fleets.command()
@option_groups
def status(
    *,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch", metavar="SECONDS", min=0.5, help="Show it anew so often, until Ctrl-C."
        ),
    ] = None,
    zookeeper: ZooKeeper = None,
    fleet: FleetOptions,
) -> None:
    """Show all tables, one line each, the worst first.

    [green]segtable fleet status fleet.toml[/]
    [green]segtable fleet status fleet.toml --watch 10[/]

    First are tables that cannot be read, then those that miss their objective, by
    how much, then those with the most to do. Ends with 0 if every table was read,
    and with 6 otherwise. Writes nothing. ZooKeeper is asked for log stores alone:
    without it, how far tables are behind theirs is unknown.
    """
    if watch is not None and fleet.as_json:
        raise InvalidInput("--watch draws on a screen, and --json prints once: give one of them")
    if watch is not None:
        _watch(fleet, watch, zookeeper)
    found = _asked(_run(fleet), fleet, zookeeper)
    facts = found.facts()
    answer = {"file": fleet.file, "tables": facts["tables"], "costs": facts["costs"]}
    print_json(answer) if fleet.as_json else show(_draw_status(answer))
    raise typer.Exit(Exit.UNCHECKED if any(each.error for each in found.tables) else Exit.DONE)


def _asked(run: "FleetRun", fleet: FleetOptions, zookeeper: str | None) -> "FleetRun":
    """Return the run with the lag of log stores, as far as ZooKeeper tells where they are."""
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper
    from airflow_provider_segtable.library.fleet_lags import with_log_store_lags
    from airflow_provider_segtable.table.context import open_context

    address = find_zookeeper(zookeeper)
    if address is None or not any(each.log_store for each in run.tables):
        return run
    loaded, options = fleet.load(), store_options(fleet.storage_options)
    first = open_context(fleet.uri(loaded), zookeeper=address, storage_options=options)
    try:
        return with_log_store_lags(run, lambda name: nullcontext(first.at(fleet.uri(loaded, name))))
    finally:
        first.coordinator.close()


def _watch(fleet: FleetOptions, seconds: float, zookeeper: str | None) -> NoReturn:
    """Draw the status in place, again and again, until the user interrupts."""
    memory: FleetMemory | None = None
    with Live(console=out, auto_refresh=False, screen=out.is_terminal) as live:
        while True:
            found = _run(fleet, memory, bar=False)
            memory = found.memory
            answer = _asked(found, fleet, zookeeper).facts()
            live.update(_draw_status(answer), refresh=True)
            sleep(seconds)


def _run(fleet: FleetOptions, memory: FleetMemory | None = None, *, bar: bool = True) -> "FleetRun":
    """Look at the tables of a fleet, without writing; a screen has one live display at most.

    Unchanged tables that the memory has are asked for their next event alone.
    """
    from airflow_provider_segtable.services.fleet_run import run_fleet
    from airflow_provider_segtable.services.fleet_tables import tables_again
    from airflow_provider_segtable.storage import open_storage
    from airflow_provider_segtable.storage.local import SystemClock
    from airflow_provider_segtable.table.context import open_context

    loaded, options = fleet.load(), store_options(fleet.storage_options)
    now, before = SystemClock().now(), memory or FleetMemory()
    found = tables_again(
        loaded, lambda uri: open_storage(uri or fleet.uri(loaded), options), before.found, now
    )
    names = {*found.names, *found.unread, *loaded.tables}
    with progress() if bar else nullcontext() as shown:
        task = shown.add_task("looking at tables", total=len(names)) if shown else None

        def report(_: str, done: int, total: int) -> None:
            if shown and task is not None:
                shown.update(task, completed=done, total=total)

        run = run_fleet(
            loaded,
            sorted(names),
            lambda name: nullcontext(
                open_context(fleet.uri(loaded, name), storage_options=options)
            ),
            now,
            memory=before,
            dry_run=True,
            report=report,
        )
    return replace(run, memory=replace(run.memory, found=found))


def _draw_plan(facts: Facts, costs: "Costs") -> RenderableType:
    parts: list[RenderableType] = []
    columns = ("table", "kind", "segments", "size", "minutes", "interval", "reason")
    right = ("segments", "size", "minutes")
    begins = grid("Begins now", *columns, right=right)
    for each in facts["chosen"]:
        begins.add_row(*_offer(each), Text(each["reason"]))
    waits = grid("Left", *columns, "code", right=right)
    for each in facts["left"]:
        until = f"; until {short_time(each['until'])}" if each["until"] else ""
        waits.add_row(*_offer(each), Text(f"{each['left']}{until}"), Text(each["code"]))
    parts += [begins] if facts["chosen"] else [Text("Nothing begins now.")]
    parts += [waits] if facts["left"] else []
    parts += [Text(f"{kind} plans take {cost}", style="dim") for kind, cost in costs.items()]
    return Group(*_unread(facts), *_missing(facts), *parts)


def _offer(facts: Facts) -> tuple[Text, ...]:
    cells = (
        *(facts["table"], facts["kind"], f"{facts['segments']:,}"),
        *(describe_size(facts["bytes"]), f"{facts['minutes']:.2g}"),
        short_interval(facts["interval"]),
    )
    return tuple(map(Text, cells))


def _draw_status(facts: Facts) -> RenderableType:
    right = ("version", "files", "size", "due", "pending")
    table = grid("", "table", "group", *right, "oldest due", "behind", "state", right=right)
    for each in facts["tables"]:
        if each["error"]:
            continue
        state = Text("ok", style="green") if not each["missed"] else Text(_late(each), "bold red")
        waits = age(each["waiting_seconds"]) if each["offers"] else ""
        cells = (
            *(each["table"], each["group"] or "", str(each["version"]), f"{each['files']:,}"),
            *(describe_size(each["bytes"]), f"{each['offers']:,}", f"{each['pending']:,}", waits),
        )
        table.add_row(*map(Text, cells), Text(_behind(each)), state)
    return Group(*_unread(facts), table)


def _behind(facts: Facts) -> str:
    """Return what is behind the table, or the table behind, and for how long."""
    names = {"index": "index", "publication": "published", "log_store": "log store"}
    lags = ((names[of], seconds) for of, seconds in facts["lag_seconds"].items() if seconds)
    return ", ".join(f"{name} {age(seconds)}" for name, seconds in lags)


def _late(facts: Facts) -> str:
    """Return what a table misses, and when it is expected to meet it."""
    when = facts["expected"]["at"]
    until = f"met by {short_time(when)} at the earliest" if when else facts["expected"]["why"]
    return f"{'; '.join(map(_missed, facts['missed']))}: {until}"


def _missed(miss: Facts) -> str:
    unit = " s" if miss["objective"] in ("stale_index", "publish_lag") else ""
    return f"{miss['objective']} {miss['found']:.3g}{unit}, of {miss['aim']:.3g}{unit}"


def _missing(facts: Facts) -> list[Text]:
    return [
        Text.assemble((f"{each['table']}: ", "bold red"), _late(each))
        for each in facts["tables"]
        if each["missed"] and not each["error"]
    ]


def _unread(facts: Facts) -> list[Text]:
    return [
        Text.assemble((f"{each['table']}: ", "bold red"), each["error"])
        for each in facts["tables"]
        if each["error"]
    ]

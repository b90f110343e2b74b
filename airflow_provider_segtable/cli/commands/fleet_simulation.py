"""``segtable fleet simulate``: which plans a fleet file would have begun, and their effect."""

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from airflow_provider_segtable.cli.commands.fleet_commands import FleetOptions, fleets
from airflow_provider_segtable.cli.display.drawing import age, grid, short_interval, short_time
from airflow_provider_segtable.cli.display.output import Exit, print_json, progress, show
from airflow_provider_segtable.cli.input.options import option_groups, store_options
from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.quantities import parse_duration
from airflow_provider_segtable.core.time import DAY_US, HOUR_US

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.fleet.simulate import Span
    from airflow_provider_segtable.services.fleet_simulation import FleetSimulation


@fleets.command()
@option_groups
def simulate(
    *,
    other: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="Another fleet file for the same tables, to compare with.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        str, typer.Option("--last", metavar="TIME", help="How far back, e.g. 12h or 7d.")
    ] = "7d",
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="The time between planner runs.")
    ] = "1h",
    fleet: FleetOptions,
) -> None:
    """Show the plans that a fleet file would have begun of late, and their effect.

    [green]segtable fleet simulate fleet.toml[/]
    [green]segtable fleet simulate fleet.toml --with cheaper.toml --last 2d --every 15m[/]

    The logs of the tables are replayed: appends, changes and alterations as they
    were; plans as this file would have chosen them at each step, instead of those
    of the logs. A plan takes as long as plans of its kind took, and its outputs are
    estimated. Indexes, publications, cleaning and restores are left out. More steps
    give a closer answer, and take longer. Writes nothing.

    There is a line an hour, or a day for more than two days. Files are those of all
    tables, and those of the day of a table with the most, in the mean; hours missed
    are those of all tables in which an aim was missed. Ends with 0 if every table
    was read, and with 6 otherwise.
    """
    found = _simulated(fleet, other, _span(last, every))
    answer = found.facts()
    print_json(answer) if fleet.as_json else show(_draw(answer))
    raise typer.Exit(Exit.UNCHECKED if found.errors else Exit.DONE)


def _span(last: str, every: str) -> "Span":
    from airflow_provider_segtable.planning.fleet.simulate import Span
    from airflow_provider_segtable.storage.local import SystemClock

    length, step, now = parse_duration(last), parse_duration(every), SystemClock().now()
    if not 0 < step <= length:
        raise InvalidInput(f"--every {every} is not a part of --last {last}: give a shorter time")
    period = HOUR_US if length <= 2 * DAY_US else DAY_US
    return Span(start=now - length, end=now, step=step, period=period)


def _simulated(fleet: FleetOptions, other: str | None, span: "Span") -> "FleetSimulation":
    from airflow_provider_segtable.services.fleet_simulation import simulate_fleets
    from airflow_provider_segtable.services.fleet_tables import find_tables
    from airflow_provider_segtable.storage import open_storage
    from airflow_provider_segtable.table.context import open_context

    files = [fleet, *([] if other is None else [replace(fleet, file=other)])]
    loaded, options = [each.load() for each in files], store_options(fleet.storage_options)
    root = loaded[0]
    found = [
        find_tables(each, lambda uri: open_storage(uri or fleet.uri(root), options))
        for each in loaded
    ]
    with progress() as shown:
        task = shown.add_task("simulating", total=len(loaded) * len(span.steps))
        return simulate_fleets(
            loaded,
            sorted({name for each in found for name in each.names}),
            lambda name: nullcontext(open_context(fleet.uri(root, name), storage_options=options)),
            span,
            lambda done: shown.update(task, completed=done),
        )


def _draw(facts: Facts) -> RenderableType:
    files = facts["simulations"]
    measures = ("plans", "size", "files", "of a day", "hours missed")
    numbers = [""] if len(files) == 1 else [f" {n}" for n, _ in enumerate(files, start=1)]
    columns = [f"{name}{number}" for number in numbers for name in measures]
    table = grid("", "from", "logged", *columns, right=("logged", *columns))
    for periods in zip(*(each["periods"] for each in files), strict=True):
        cells = [cell for period in periods for cell in _cells(period)]
        start, logged = short_time(periods[0]["start"]), f"{periods[0]['logged_plans']:,}"
        table.add_row(*map(Text, (start, logged, *cells)))
    notes = [
        Text(f"{number or 'this file'}: {each['file']}{_longest(each)}")
        for number, each in zip(numbers, files, strict=True)
    ]
    errors = [
        Text.assemble((f"{name}: ", "bold red"), error) for name, error in facts["errors"].items()
    ]
    return Group(*errors, table, *notes)


def _cells(period: Facts) -> tuple[str, ...]:
    return (
        *(f"{period['plans']:,}", describe_size(period["bytes"])),
        *(f"{period['files']:,.0f}", f"{period['files_read']:,.1f}"),
        f"{period['missed_table_hours']:,.1f}",
    )


def _longest(facts: Facts) -> str:
    """Return the longest wait, and the number of events that were left out, in words."""
    told = [
        f"; {wait['table']} waited longest, {age(wait['waited_seconds'])} for a {wait['kind']} "
        f"compaction of {short_interval(wait['interval'])}"
        for wait in facts["waited_longest"][:1]
    ]
    left_out = facts["events_left_out"]
    told += [f"; events left out: {left_out:,}"] if left_out else []
    return "".join(told)

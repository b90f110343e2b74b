"""Simulate fleet files over a past time, from the logs of the tables.

1. Each table is read from the newest checkpoint before that time on, or from the oldest version
   that can be read. A table that is younger joins when it was created.
2. A table that cannot be read is reported with its error, and left out; from the event on that
   cannot be read, nothing happens to it any more.
3. The files are simulated one after another, from the same events. Nothing is written, and no
   coordinator is needed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.simulate import (
    PastTable,
    Simulation,
    Span,
    simulated,
)
from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSimulation:
    """The results, one for each fleet file, and by name why a table cannot be read."""

    span: Span
    tables: int
    results: tuple[Simulation, ...]
    errors: Mapping[str, str]

    def facts(self) -> Facts:
        """Return the results as plain JSON values."""
        return {
            "from": iso(self.span.start),
            "to": iso(self.span.end),
            "tables": self.tables,
            "errors": dict(self.errors),
            "simulations": [each.facts() for each in self.results],
        }


def simulate_fleets(
    fleets: Sequence[Fleet],
    names: Iterable[str],
    ports_of: Callable[[str], AbstractContextManager[TableContext]],
    span: Span,
    report: Callable[[int], None] = lambda _: None,
) -> FleetSimulation:
    """Simulate each fleet file over the same tables and time.

    Args:
        fleets: the files.
        names: the tables.
        ports_of: opens a table.
        span: the time.
        report: called with the number of steps that are done, of all files.
    """
    tables, steps = tuple(names), len(span.steps)
    errors: dict[str, str] = {}
    results: list[Simulation] = []
    for at, fleet in enumerate(fleets):
        with ExitStack() as stack:
            past = [
                found
                for name in tables
                if fleet.holds(name)
                for found in _opened(name, stack, ports_of, span, errors)
            ]
            results.append(simulated(fleet, past, span, partial(_shifted, report, at * steps)))
    return FleetSimulation(span=span, tables=len(tables), results=tuple(results), errors=errors)


def _shifted(report: Callable[[int], None], before: int, done: int) -> None:
    report(before + done)


def _opened(
    name: str,
    stack: ExitStack,
    ports_of: Callable[[str], AbstractContextManager[TableContext]],
    span: Span,
    errors: dict[str, str],
) -> Iterator[PastTable]:
    """Yield a table as it was, unless it cannot be read."""
    try:
        log = stack.enter_context(ports_of(name)).log
        _, state = next(log.history(span.start, log.load().n))
    except (SegtableError, OSError) as error:
        errors[name] = f"{type(error).__name__}: {error}"
        return
    events = _until_unreadable(name, log.events(state.n + 1), errors)
    yield PastTable(name=name, state=state, events=events)


def _until_unreadable(
    name: str, events: Iterator[Event], errors: dict[str, str]
) -> Iterator[Event]:
    try:
        yield from events
    except (SegtableError, OSError) as error:
        errors[name] = f"{type(error).__name__}: {error}"

"""One planner run over a fleet: look at every table, decide once, request what was chosen.

1. Tables are looked at in several threads. A table that cannot be read, or whose settings do not
   fit it, is reported and left out: it delays no other.
2. Each is planned by its own properties and the file's (``planning.fleet.fleet``), with thresholds
   that its objective lowers where it is missed (``planning.fleet.objectives``).
3. Only tables are looked at of which a look may find something new; of the others the memory has
   the last one (``planning.fleet.fleet_memory``). The announced versions of all tables are read
   together. Without a coordinator, or if it does not answer, each remembered table's log is asked
   for its next event: one request.
4. What was requested in the last hour is in the tables' own logs. So a budget holds whoever
   requested, however often the planner runs or dies, and nothing else is to be kept.
5. The tables of a table's indexes are planned with it, outside of the budget: they are small, and
   their own policy bounds them. Those of a frozen table are not.
6. A plan that was requested before, and that no worker has, is launched again, unless its table is
   frozen or no window of its kind is open: it would begin anew.
7. No state of a table outlives its look: what is kept of it (``TableLook``) does not grow with the
   table. So a table with chosen offers is looked at once more, and the plans are requested that are
   found there for them (``plans_of_offers``), with what was written in between.
8. A dry run writes nothing, and needs no coordinator: it asks one for announcements alone.
9. The facts about a table's reads are read when it is looked at, if it records them.
10. A look finds out whether a table has a log store: its log tells, or a service's claim; these are
    read together. What services hold is no part of the look: who wants to know asks them
    (``library.log_stores``), and adds it to the report.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CoordinationError, SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.planning.fleet.expected import Expected, expected
from airflow_provider_segtable.planning.fleet.fleet import (
    Fleet,
    Objective,
    objective_of,
    properties_of,
)
from airflow_provider_segtable.planning.fleet.fleet_memory import (
    FleetMemory,
    Remembered,
    Why,
    settings_of_looks,
    why_anyway,
    why_look,
)
from airflow_provider_segtable.planning.fleet.fleet_plan import (
    FleetPlan,
    Left,
    Offer,
    TableLook,
    closed,
    frozen,
    plan_fleet,
    plans_of_offers,
)
from airflow_provider_segtable.planning.fleet.measured_cost import Costs, fleet_costs
from airflow_provider_segtable.planning.fleet.objectives import (
    Measure,
    Miss,
    measured,
    missed,
    policy_for,
)
from airflow_provider_segtable.planning.fleet.table_look import look_of, with_heat, with_minutes
from airflow_provider_segtable.planning.gauges import Gauge
from airflow_provider_segtable.planning.properties import Policy, PublishSettings
from airflow_provider_segtable.planning.selection import BRIEFLY
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.services.log_directory import BUCKETS, addresses
from airflow_provider_segtable.services.planner import (
    Look,
    PlannerRun,
    carry_out,
    look_at,
    plan_inner_tables,
)
from airflow_provider_segtable.services.read_statistics import summary_for_planning
from airflow_provider_segtable.services.table_gauges import table_gauges
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.status import PublishedStatus, status_of_formats

AT_ONCE = 8
LAGS = ("index", "publication", "log_store")
"""What may lag behind a table, or a table behind."""
NOTHING = FleetMemory()
T = TypeVar("T")

PortsOf = Callable[[str], AbstractContextManager[TableContext]]
"""Opens the ports of a table by its name; leaving ends what it opened."""
Report = Callable[[str, int, int], None]
"""Called with the work in words, how much of it is done, and of how much."""
Observe = Callable[[str, TableContext, "Looked"], None]
"""Called with each table that is looked at, by name, while its state is there; in several threads.
It only reads, and its errors are the table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """A table of a fleet: what it has, what it misses, and what waits.

    Attributes:
        name: below the root, or a URI.
        group: of the fleet file; empty if it was named alone.
        error: why it could not be looked at; the rest is empty then.
        version: its newest event, and ``committed`` the time of it.
        files, bytes, rows: of all visible segments.
        measure: what its objective asks for.
        misses: aims that it misses, the worst first.
        offers: number of worthwhile plans, with ``offered`` their bytes.
        waiting: seconds that the oldest of them has waited.
        pending: plans that are pending or running.
        expected: when it meets its objective, if it misses it.
        gauges: its numbers for metrics, with the lag of its log store if that was asked.
        log_store: the table's id if it has a log store; else empty.
        runs: what was requested and launched, of the table and of those of its indexes, by name;
            without what was skipped.
    """

    name: str
    group: str = ""
    error: str = ""
    version: int | None = None
    committed: Instant | None = None
    files: int = 0
    bytes: int = 0
    rows: int = 0
    measure: Measure = field(default_factory=Measure)
    misses: tuple[Miss, ...] = ()
    offers: int = 0
    offered: int = 0
    waiting: float = 0.0
    pending: int = 0
    expected: Expected | None = None
    gauges: tuple[Gauge, ...] = ()
    log_store: str = ""
    runs: Mapping[str, PlannerRun] = field(default_factory=dict)

    def lag(self, of: str, now: Instant) -> float | None:
        """Return the longest lag in seconds of ``LAGS`` at a time; None if there is none such."""
        found = (each.at(now) for each in self.gauges if each.name == f"{of}.lag_seconds")
        return max(found, default=None)

    def facts(self, now: Instant) -> Facts:
        """Return the report as plain JSON values at a time."""
        return {
            "table": self.name,
            "group": self.group or None,
            "error": self.error or None,
            "version": self.version,
            "committed": None if self.committed is None else iso(self.committed),
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "missed": [miss.facts() for miss in self.misses],
            "offers": self.offers,
            "offered_bytes": self.offered,
            "waiting_seconds": round(self.waiting, 3),
            "pending": self.pending,
            "expected": None if self.expected is None else self.expected.facts(),
            "lag_seconds": {of: self.lag(of, now) for of in LAGS},
        }


def worst_first(reports: Iterable[TableReport]) -> tuple[TableReport, ...]:
    """Return reports with those first that could not be read, then by what they miss and offer."""
    return tuple(sorted(reports, key=_rank))


def _rank(report: TableReport) -> tuple[bool, float, int, str]:
    worst = max((miss.times for miss in report.misses), default=0.0)
    return not report.error, -worst, -report.offers, report.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """The result of a planner run over a fleet.

    ``at`` is its time. ``costs`` are those of the fleet by kind. ``looked`` says why each table was
    looked at that was; ``memory`` is for the next run.
    """

    at: Instant
    plan: FleetPlan
    tables: tuple[TableReport, ...]
    costs: Costs
    dry_run: bool
    looked: Mapping[str, Why] = field(default_factory=dict)
    memory: FleetMemory = field(default_factory=FleetMemory)

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        tables = [each.facts(self.at) for each in self.tables]
        costs = {kind: cost.facts() for kind, cost in self.costs.items()}
        return {"dry_run": self.dry_run, "tables": tables, "costs": costs, **self.plan.facts()}


def run_fleet(
    fleet: Fleet,
    names: Iterable[str],
    ports_of: PortsOf,
    now: Instant,
    *,
    memory: FleetMemory = NOTHING,
    dry_run: bool = False,
    report: Report = lambda *_: None,
    observe: Observe = lambda *_: None,
) -> FleetRun:
    """Plan the tables of a fleet.

    Args:
        fleet: the fleet file.
        names: the tables.
        ports_of: opens a table.
        now: the wall clock.
        memory: of the run before.
        dry_run: request nothing.
        report: called with the progress.
        observe: called with what is looked at.
    """
    tables = settings_of_looks(fleet, names, now, __version__)
    known = {name: memory.tables[name] for name in tables if name in memory.tables}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looked = _to_look_at(tables, known, ports_of, pool, now, dry_run=dry_run)
        seen = {name: _Seen(name=name, known=each) for name, each in known.items()}
        seeing = partial(_seen, fleet, ports_of, now, tables, dry_run=dry_run, observe=observe)
        for each in pool.map(seeing, looked, looked.values()):
            seen[each.name] = each
            report("looking", len(seen), len(tables))
        seen |= _with_log_stores([seen[name] for name in looked], ports_of)
        kept = {name: each.known for name, each in seen.items() if each.known}
        looks = with_minutes(each.look for each in kept.values())
        plan = plan_fleet(fleet, looks, now)
        if not dry_run:
            for each in pool.map(
                lambda one: _requested(fleet, seen[one[0]], one[1], ports_of, now),
                _by_table(plan).items(),
            ):
                seen[each.name] = each
                del kept[each.name]  # its log has new events
    when = _expected(looks, plan, now)
    reports = (_report(fleet, each, when.get(name), now) for name, each in seen.items())
    return FleetRun(
        at=now,
        plan=plan,
        tables=worst_first(reports),
        costs=fleet_costs(each.costs for each in looks),
        dry_run=dry_run,
        looked=looked,
        memory=FleetMemory(tables=kept, found=memory.found),
    )


def _to_look_at(
    tables: Mapping[str, str],
    known: Mapping[str, Remembered],
    ports_of: PortsOf,
    pool: ThreadPoolExecutor,
    now: Instant,
    *,
    dry_run: bool,
) -> dict[str, Why]:
    """Return the tables of which a look may find something new, each with the reason."""
    asked = {n: each for n, each in known.items() if not why_anyway(each, tables[n], now)}
    announced = _announced(asked, ports_of, pool, dry_run=dry_run)
    reasons = {
        name: why_look(known.get(name), settings, now, announced.get(name))
        for name, settings in tables.items()
    }
    return {name: why for name, why in reasons.items() if why}


def _announced(
    known: Mapping[str, Remembered], ports_of: PortsOf, pool: ThreadPoolExecutor, *, dry_run: bool
) -> Mapping[str, int]:
    """Return the newest versions of remembered tables, by announcements or their logs (rule 3).

    A dry run announces nothing, so it asks the logs of tables of which nothing is announced.
    """
    every = {each.look.table_id for each in known.values()}
    heads = _shared(known, ports_of, lambda coordinator: coordinator.heads(every))
    ids = {name: each.look.table_id for name, each in known.items()}
    found = {name: heads[of] for name, of in ids.items() if of in heads} if heads else {}
    if heads is not None and not dry_run:
        return found
    asked = {name: each.look.version for name, each in known.items() if name not in found}
    newest = pool.map(partial(_by_log, ports_of), asked, asked.values())
    return {**found, **dict(zip(asked, newest, strict=True))}


def _shared(names: Iterable[str], ports_of: PortsOf, ask: Callable[[Coordinator], T]) -> T | None:
    """Ask the coordinator that all tables share; None if there is none, or it does not answer."""
    for name in names:
        with suppress(SegtableError, OSError), ports_of(name) as ports:
            return _asked(ports, ask)
    return None


def _asked(ports: TableContext, ask: Callable[[Coordinator], T]) -> T | None:
    try:
        coordinator = ports.optional_coordinator
        return None if coordinator is None else ask(coordinator)
    except CoordinationError:  # it would not answer for the next table either
        return None


def _by_log(ports_of: PortsOf, name: str, version: int) -> int:
    """Return a higher version if a table's log goes on, or cannot be asked."""
    with suppress(SegtableError, OSError), ports_of(name) as ports:
        return version + ports.log.has(version + 1)
    return version + 1


def _by_table(plan: FleetPlan) -> dict[str, list[Offer]]:
    """Return the chosen offers of each table."""
    chosen: dict[str, list[Offer]] = {}
    for one in plan.chosen:
        chosen.setdefault(one.table, []).append(one.offer)
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A table with its look, of now or of before; without a look there is an error."""

    name: str
    known: Remembered | None = None
    error: str = ""
    runs: Mapping[str, PlannerRun] = field(default_factory=dict)


def _seen(
    fleet: Fleet,
    ports_of: PortsOf,
    now: Instant,
    settings: Mapping[str, str],
    name: str,
    why: Why,
    *,
    dry_run: bool,
    observe: Observe,
) -> _Seen:
    """Look at a table, and at those of its indexes; request none of its plans."""
    try:
        with ports_of(name) as opened:
            # Who holds locks changes no offer: a dry run waits for no coordinator.
            ports = replace(opened, optional_coordinator=None) if dry_run else opened
            state, objective = ports.log.load(), objective_of(fleet, name)
            looked = look_for(fleet, name, ports, state, objective, now, dry_run=dry_run)
            look = looked.look
            observe(name, ports, looked)
            kept = replace(looked.kept, log_store=bool(look.state.log_store))
            runs = {name: carry_out(ports, look, ())}
            if look.state.indexes and frozen(fleet, name, now) is None:
                for folder, run in plan_inner_tables(ports, dry_run=dry_run):
                    runs[f"{name}/{folder}"] = run
            if why is Why.UNANNOUNCED and not dry_run and ports.optional_coordinator:
                # ZooKeeper has lost it: from now on the next runs know again.
                ports.coordinator.announce(look.state.table.table_id, look.state.n)
    except (SegtableError, OSError) as error:
        return _Seen(name=name, error=f"{type(error).__name__}: {error}")
    known = Remembered(
        look=kept,
        at=now,
        settings=settings[name],
        due=_due(kept.measure, runs.values(), now),
        unsettled=_unsettled(look.state, runs.values()),
    )
    return _Seen(name=name, known=known, runs=_beginning(fleet, name, runs, now))


def _with_log_stores(seen: Iterable[_Seen], ports_of: PortsOf) -> dict[str, _Seen]:
    """Return those of the looks whose tables have a log store that no event tells of yet."""
    unknown = [(each, each.known) for each in seen if each.known and not each.known.look.log_store]
    ids = {known.look.table_id for _, known in unknown}

    def ask(coordinator: Coordinator) -> set[str]:
        some = coordinator.tables_with_claims(ids, BUCKETS)
        return {table for table in some if addresses(coordinator, table)}

    served = _shared([each.name for each, _ in unknown], ports_of, ask) or ()
    return {
        each.name: replace(each, known=replace(known, look=replace(known.look, log_store=True)))
        for each, known in unknown
        if known.look.table_id in served
    }


def has_log_store(ports: TableContext, state: State) -> bool:
    """Return whether a log store commits to a table, or a service has a bucket of it."""
    coordinator, table_id = ports.optional_coordinator, state.table.table_id
    return bool(state.log_store or (coordinator and addresses(coordinator, table_id)))


def _due(measure: Measure, runs: Iterable[PlannerRun], now: Instant) -> Instant | None:
    """Return when a look may find something else; at once if an age grows."""
    if measure.stale_index or measure.publish_lag:
        return now
    return min((run.due for run in runs if run.due is not None), default=None)


def _unsettled(state: State, runs: Iterable[PlannerRun]) -> bool:
    """Return whether plans are pending, of the table or its indexes', or ids wait for a writer."""
    pending = state.pending_plans() or any(run.launches or run.running for run in runs)
    return bool(pending) or any(True for _ in state.ids.holes(Generation.FIRST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A look at a table, and what is kept of it."""

    look: Look
    kept: TableLook


def look_for(
    fleet: Fleet,
    name: str,
    ports: TableContext,
    state: State,
    objective: Objective,
    now: Instant,
    *,
    dry_run: bool,
) -> Looked:
    """Measure a table, and find its plans by its own properties, the file's and an objective.

    Published metadata is read for the formats that are switched on.

    Raises:
        SegtableError: the settings do not fit the table; or as ``look_at``.
    """
    properties = properties_of(fleet, name, state.table.properties)
    formats = PublishSettings.read(properties).formats
    published = [*status_of_formats(ports, state, formats).values()] if formats else []
    measure = measured(state, objective, now, publish_lag(published, now))
    look = _planned(ports, state, properties, objective, measure, dry_run=dry_run)
    misses = missed(objective, measure)
    found = look_of(name, look.state, look.policy, look.planned, measure, misses, now)
    kept = with_heat(found, summary_for_planning(ports, look.state))
    numbers = tuple(table_gauges(look.state, look.policy, published, now))
    return Looked(look=look, kept=replace(kept, gauges=numbers))


def _planned(
    ports: TableContext,
    state: State,
    properties: Mapping[str, str],
    objective: Objective,
    measure: Measure,
    *,
    dry_run: bool,
) -> Look:
    """Find the plans of a table by its properties, its objective and what it measures."""
    policy = policy_for(Policy.read(properties), objective, measure)
    return look_at(ports, state, policy, properties, explain=BRIEFLY, dry_run=dry_run)


def publish_lag(published: Iterable[PublishedStatus], now: Instant) -> float | None:
    """Return the longest lag of a format that is switched on, in microseconds."""
    lags = (
        0 if each.late_since is None else max(0, now - each.late_since)
        for each in published
        if each.enabled and each.lag_seconds is not None
    )
    return max(lags, default=None)


def _requested(
    fleet: Fleet, seen: _Seen, chosen: Collection[Offer], ports_of: PortsOf, now: Instant
) -> _Seen:
    """Look at a table anew, and request the plans that were chosen (rule 7)."""
    try:
        with ports_of(seen.name) as ports:
            state, objective = ports.log.load(), objective_of(fleet, seen.name)
            properties = properties_of(fleet, seen.name, state.table.properties)
            # No plan follows from the lag of a publication, so its metadata is not read again.
            measure = measured(state, objective, now)
            look = _planned(ports, state, properties, objective, measure, dry_run=False)
            plans = plans_of_offers(look.planned.chosen, chosen)
            runs = {**seen.runs, seen.name: carry_out(ports, look, plans)}
        return replace(seen, runs=_beginning(fleet, seen.name, runs, now))
    except (SegtableError, OSError) as error:
        return replace(seen, error=f"{type(error).__name__}: {error}")


def _beginning(
    fleet: Fleet, table: str, runs: Mapping[str, PlannerRun], now: Instant
) -> dict[str, PlannerRun]:
    """Return planner runs with the launches that may begin (rule 6), without what they skipped."""
    return {
        name: replace(
            run,
            launches=tuple(
                each for each in run.launches if closed(fleet, table, each.kind, now) is None
            ),
            skipped=(),
        )
        for name, run in runs.items()
    }


def _expected(
    looks: Iterable[TableLook], plan: FleetPlan, now: Instant
) -> Mapping[str, Expected | None]:
    """Return when each table that misses its objective meets it."""
    late = {each.name: each for each in looks if each.misses}
    begins: dict[str, list[Offer]] = {name: [] for name in late}
    waits: dict[str, list[Left]] = {name: [] for name in late}
    for one in plan.chosen:
        if one.table in late:
            begins[one.table].append(one.offer)
    for left in plan.left:
        if left.table in late:
            waits[left.table].append(left)
    return {name: expected(look, begins[name], waits[name], now) for name, look in late.items()}


def _report(fleet: Fleet, seen: _Seen, when: Expected | None, now: Instant) -> TableReport:
    group = fleet.group_of(seen.name)
    of_group = group.name if group else ""
    if seen.known is None:
        return TableReport(name=seen.name, group=of_group, error=seen.error)
    look = seen.known.look
    oldest = min((each.since for each in look.offers), default=now)
    return TableReport(
        name=seen.name,
        group=of_group,
        error=seen.error,
        version=look.version,
        committed=look.committed,
        files=look.files,
        bytes=look.bytes,
        rows=look.rows,
        measure=look.measure,
        misses=look.misses,
        offers=len(look.offers),
        offered=sum(each.size for each in look.offers),
        waiting=max(0, now - oldest) / SECOND_US,
        pending=sum(each.pending for each in look.begun),
        expected=when,
        gauges=look.gauges,
        log_store=look.table_id if look.log_store else "",
        runs=seen.runs,
    )

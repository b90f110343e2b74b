"""One planner run over a fleet: look at every table, decide once, request what was chosen.

1. Tables are looked at in several threads. A table that cannot be read, or whose settings do not
   fit it, is reported and left out: it delays no other.
2. Each is planned by its own properties and the file's (``planning.fleet.fleet``), with thresholds
   that its objective lowers where it is missed (``planning.fleet.objectives``).
3. What was requested in the last hour is in the tables' own logs. So a budget holds whoever
   requested, however often the planner runs or dies, and nothing else is to be kept.
4. The tables of a table's indexes are planned with it, outside of the budget: they are small, and
   their own policy bounds them. Those of a frozen table are not.
5. A plan that was requested before, and that no worker has, is launched again, unless its table is
   frozen or no window of its kind is open: it would begin anew.
6. A dry run writes nothing, and needs no coordinator.
7. If a table records its reads, a plan over chunks whose readers open most files in vain gains up
   to ``MOST_HEAT`` times as much (``planning.read_summary``). Else no request is made for it.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.planning.fleet.fleet import (
    Fleet,
    Objective,
    objective_of,
    properties_of,
)
from airflow_provider_segtable.planning.fleet.fleet_plan import (
    Begun,
    FleetPlan,
    Offer,
    TableLook,
    closed,
    frozen,
    plan_fleet,
)
from airflow_provider_segtable.planning.fleet.objectives import (
    Measure,
    Miss,
    measured,
    missed,
    policy_for,
)
from airflow_provider_segtable.planning.properties import Policy, PublishSettings
from airflow_provider_segtable.planning.read_summary import ReadSummary
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.services.planner import (
    Look,
    PlannerRun,
    carry_out,
    look_at,
    plan_inner_tables,
)
from airflow_provider_segtable.services.read_statistics import summary_for_planning
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.publisher import published_status

AT_ONCE = 8

PortsOf = Callable[[str], AbstractContextManager[TableContext]]
"""Opens the ports of a table by its name; leaving ends what it opened."""
Report = Callable[[str, int, int], None]
"""Called with the work in words, how much of it is done, and of how much."""


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
        runs: what was requested and launched, of the table and of those of its indexes, by name.
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
    runs: Mapping[str, PlannerRun] = field(default_factory=dict)

    def facts(self) -> Facts:
        """Return the report as plain JSON values."""
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
        }


def worst_first(reports: Iterable[TableReport]) -> tuple[TableReport, ...]:
    """Return reports with those first that could not be read, then by what they miss and offer."""
    return tuple(sorted(reports, key=_rank))


def _rank(report: TableReport) -> tuple[bool, float, int, str]:
    worst = max((miss.times for miss in report.misses), default=0.0)
    return not report.error, -worst, -report.offers, report.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """The result of a planner run over a fleet."""

    plan: FleetPlan
    tables: tuple[TableReport, ...]
    dry_run: bool

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        tables = [each.facts() for each in self.tables]
        return {"dry_run": self.dry_run, "tables": tables, **self.plan.facts()}


def run_fleet(
    fleet: Fleet,
    names: Iterable[str],
    ports_of: PortsOf,
    now: Instant,
    *,
    dry_run: bool = False,
    report: Report = lambda *_: None,
) -> FleetRun:
    """Plan the tables of a fleet.

    Args:
        fleet: the fleet file.
        names: the tables.
        ports_of: opens a table.
        now: the wall clock.
        dry_run: request nothing.
        report: called with the progress.
    """
    tables = tuple(names)
    seen: list[_Seen | TableReport] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each in pool.map(
            lambda name: _seen(fleet, name, ports_of, now, dry_run=dry_run), tables
        ):
            seen.append(each)
            report("looking", len(seen), len(tables))
        read = {each.name: each for each in seen if isinstance(each, _Seen)}
        plan = plan_fleet(fleet, (each.known for each in read.values()), now)
        chosen: dict[str, list[Plan]] = {name: [] for name in read}
        for one in plan.chosen:
            chosen[one.table].append(one.offer.plan)
        done = pool.map(
            lambda s: _requested(fleet, s, chosen[s.name], ports_of, now), read.values()
        )
        reports = [*done, *(each for each in seen if isinstance(each, TableReport))]
    return FleetRun(plan=plan, tables=worst_first(reports), dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A table that was looked at."""

    name: str
    look: Look
    known: TableLook
    report: TableReport


def _seen(
    fleet: Fleet, name: str, ports_of: PortsOf, now: Instant, *, dry_run: bool
) -> _Seen | TableReport:
    group = fleet.group_of(name)
    of_group = group.name if group else ""
    objective = objective_of(fleet, name)
    try:
        with ports_of(name) as ports:
            state = ports.log.load()
            properties = properties_of(fleet, name, state.table.properties)
            lag = _publish_lag(ports, properties, objective)
            measure = measured(state, objective, now, lag)
            policy = policy_for(Policy.read(properties), objective, measure)
            look = look_at(ports, state, policy, properties, dry_run=dry_run)
            reads = summary_for_planning(ports, state)
    except (SegtableError, OSError) as error:
        return TableReport(name=name, group=of_group, error=f"{type(error).__name__}: {error}")
    return _judged(name, of_group, measure, missed(objective, measure), look, reads, now)


def _publish_lag(
    ports: TableContext, properties: Mapping[str, str], objective: Objective
) -> float | None:
    """Return the longest lag of a format that is switched on, in microseconds, if it matters.

    Published metadata is read for it.
    """
    wanted = PublishSettings.read(properties).formats if objective.publish_lag is not None else ()
    found = published_status(ports) if wanted else {}
    lags = (found[name].lag_seconds for name in wanted if name in found)
    return max((lag * SECOND_US for lag in lags if lag is not None), default=None)


def _judged(
    name: str,
    group: str,
    measure: Measure,
    misses: tuple[Miss, ...],
    look: Look,
    reads: ReadSummary,
    now: Instant,
) -> _Seen:
    state = look.state
    offers = _offers(state, look.planned, look.policy, reads)
    known = TableLook(name=name, offers=offers, begun=_begun(state), misses=misses)
    summaries = state.timeline.visible_summaries().values()
    oldest = min((each.since for each in offers), default=now)
    found = TableReport(
        name=name,
        group=group,
        version=state.n,
        committed=state.time,
        files=sum(each.files for each in summaries),
        bytes=sum(each.size for each in summaries),
        rows=sum(each.rows for each in summaries),
        measure=measure,
        misses=misses,
        offers=len(offers),
        offered=sum(each.plan.size for each in offers),
        waiting=max(0, now - oldest) / SECOND_US,
        pending=len(state.pending_plans()),
    )
    return _Seen(name=name, look=look, known=known, report=found)


def _offers(
    state: State, planned: Planned, policy: Policy, reads: ReadSummary
) -> tuple[Offer, ...]:
    return tuple(
        Offer(
            plan=plan,
            gain=_gain(plan, planned.gains, policy) * reads.factor(plan.interval),
            since=_since(state, plan),
        )
        for plan in planned.chosen
    )


def _gain(plan: Plan, gains: Mapping[str, float], policy: Policy) -> float:
    """Return a plan's gain; a plan over the whole table tidies each of its bytes once."""
    return gains.get(plan.id, 1.0 + plan.size / policy.target_size)


def _since(state: State, plan: Plan) -> Instant:
    """Return when the newest input was written, or else the newest event."""
    inputs = (state.timeline.get(each) for each in plan.inputs)
    return max((each.created for each in inputs if each), default=state.time)


def _begun(state: State) -> tuple[Begun, ...]:
    return tuple(
        Begun(at=known.requested_at, size=known.plan.size, pending=known.status.pending)
        for known in state.plans.values()
    )


def _requested(
    fleet: Fleet, seen: _Seen, chosen: list[Plan], ports_of: PortsOf, now: Instant
) -> TableReport:
    """Request a table's chosen plans, and return its report with all launches that may begin."""
    try:
        with ports_of(seen.name) as ports:
            runs = {seen.name: carry_out(ports, seen.look, chosen)}
            if frozen(fleet, seen.name, now) is None:
                for folder, run in plan_inner_tables(ports, dry_run=seen.look.dry_run):
                    runs[f"{seen.name}/{folder}"] = run
        may = {name: _beginning(fleet, seen.name, run, now) for name, run in runs.items()}
        return replace(seen.report, runs=may)
    except (SegtableError, OSError) as error:
        return replace(seen.report, error=f"{type(error).__name__}: {error}")


def _beginning(fleet: Fleet, table: str, run: PlannerRun, now: Instant) -> PlannerRun:
    """Return a planner run with the launches that may begin (rule 5)."""
    may = (each for each in run.launches if closed(fleet, table, each.kind, now) is None)
    return replace(run, launches=tuple(may))

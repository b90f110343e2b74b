"""Simulate a fleet over a past time: which plans a fleet file would have begun, and their effect.

1. The logs of the tables are replayed version by version (``planning.fleet.simulated_table``). At
   each step of a fixed length every table is planned, and ``plan_fleet`` decides, as the planner
   does. Plans of the logs themselves are only counted, to compare with.
2. A chosen plan begins at its step, and ends after its expected minutes, by costs measured from
   the plans that were completed before (``planning.fleet.measured_cost``).
3. A table is looked at again if it has changed, offers plans or misses an aim, or after
   ``LOOK_AGAIN_US``: its thresholds of age are not met to the step.
4. Aims for indexes and publications are left out: neither is simulated.
5. Each period (an hour or a day) has the plans and bytes that began, the files that readers opened
   on average, and the table hours in which an aim was missed. A table misses an aim from the event
   on that makes it so until the event or the end of a plan that mends it, whatever the steps are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    Instant,
    Interval,
    iso,
)
from airflow_provider_segtable.planning.fleet.fleet import (
    Fleet,
    Objective,
    objective_of,
    properties_of,
)
from airflow_provider_segtable.planning.fleet.fleet_plan import (
    FleetPlan,
    Offer,
    TableLook,
    plan_fleet,
)
from airflow_provider_segtable.planning.fleet.objectives import (
    Measure,
    Miss,
    measured,
    missed,
    policy_for,
)
from airflow_provider_segtable.planning.fleet.simulated_table import (
    begun,
    ended,
    opened,
    replayed,
    replays,
)
from airflow_provider_segtable.planning.fleet.table_look import look_of, with_minutes
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import BRIEFLY
from airflow_provider_segtable.planning.table_plan import plan_all

LOOK_AGAIN_US = 6 * HOUR_US
MOST_WAITS = 10
"""The number of waits that are reported, the longest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTable:
    """A table before the simulated time, and all later events of its log."""

    name: str
    state: State
    events: Iterator[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The simulated time, the length of its steps, and that of the periods of the report."""

    start: Instant
    end: Instant
    step: int
    period: int

    @property
    def steps(self) -> Sequence[Instant]:
        """Return the times of the planner's runs; the last one is the end or before."""
        return range(self.start, self.end + 1, self.step)


@dataclass(slots=True, kw_only=True)
class Period:
    """The sums of one period; ``steps`` is the number of the planner's runs in it.

    ``files`` are all visible ones, and ``files_read`` those of the day of a table with the most, in
    the mean over tables; both are sums over the steps. ``missed_us`` is the sum of all tables, from
    the first step of the period to the first one of the next.
    """

    start: Instant
    steps: int = 0
    plans: int = 0
    bytes: int = 0
    minutes: float = 0.0
    files: int = 0
    files_read: float = 0.0
    missed_us: int = 0
    logged_plans: int = 0
    logged_bytes: int = 0

    def facts(self) -> Facts:
        """Return the period as plain JSON values."""
        steps = max(self.steps, 1)
        return {
            "start": iso(self.start),
            "plans": self.plans,
            "bytes": self.bytes,
            "minutes": round(self.minutes, 3),
            "files": round(self.files / steps, 1),
            "files_read": round(self.files_read / steps, 2),
            "missed_table_hours": round(self.missed_us / HOUR_US, 3),
            "logged_plans": self.logged_plans,
            "logged_bytes": self.logged_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The longest wait of plans of one kind over one time of a table, until one of them began.

    ``offer`` is the plan at its end; ``code`` says why it was left even then, empty if it began.
    """

    table: str
    offer: Offer
    waited: int
    code: str = ""

    def facts(self) -> Facts:
        """Return the plan as plain JSON values."""
        return {
            "table": self.table,
            "kind": self.offer.kind,
            "interval": str(self.offer.interval),
            "bytes": self.offer.size,
            "waited_seconds": round(self.waited / SECOND_US, 3),
            "code": self.code or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result for one fleet file; ``left_out`` are events that a simulated table refused."""

    source: str
    periods: tuple[Period, ...]
    waits: tuple[Wait, ...]
    left_out: int

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "file": self.source,
            "periods": [each.facts() for each in self.periods],
            "waited_longest": [each.facts() for each in self.waits],
            "events_left_out": self.left_out,
        }


def simulated(
    fleet: Fleet,
    tables: Iterable[PastTable],
    span: Span,
    report: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Return how a fleet would have been served.

    Args:
        fleet: the fleet file.
        tables: the tables, as they were.
        span: the time.
        report: called with the number of steps that are done.
    """
    run = _Run(fleet, span, [_Table(fleet, past, span.start) for past in tables])
    for done, now in enumerate(span.steps, start=1):
        run.step(now)
        report(done)
    run.pass_time(span.end)
    return run.result()


_Place: TypeAlias = tuple[str, str, Interval]
"""A table, a kind of plan, and a time."""


class _Run:
    """A simulation under way."""

    def __init__(self, fleet: Fleet, span: Span, tables: list["_Table"]) -> None:
        self._fleet = fleet
        self._span = span
        self._tables = {each.name: each for each in tables}
        self._periods: dict[Instant, Period] = {}
        self._current: Period | None = None
        self._since: dict[_Place, Instant] = {}
        self._waits: dict[_Place, Wait] = {}

    def step(self, now: Instant) -> None:
        """Plan all tables once."""
        self.pass_time(now)
        period = self._current = self._period(now)
        there = [each for each in self._tables.values() if each.there]
        looks = with_minutes(each.look(now) for each in there)
        plan = plan_fleet(self._fleet, looks, now)
        for chosen in plan.chosen:
            self._tables[chosen.table].begin(chosen.offer, now)
            period.plans += 1
            period.bytes += chosen.offer.size
            period.minutes += chosen.offer.minutes
        self._note(plan, now)
        period.steps += 1
        period.files += sum(each.files for each in looks)
        read = [each.measure.files_read or 0 for each in looks]
        period.files_read += sum(read) / max(len(read), 1)

    def pass_time(self, now: Instant) -> None:
        """Bring all tables to a time, and count how long aims were missed since the last step."""
        for each in self._tables.values():
            before = each.missed_us
            each.advance(now, self._logged)
            if self._current is not None:
                self._current.missed_us += each.missed_us - before

    def result(self) -> Simulation:
        """Return the report."""
        waits = sorted(self._waits.values(), key=_waited, reverse=True)
        return Simulation(
            source=self._fleet.source,
            periods=tuple(self._periods[start] for start in sorted(self._periods)),
            waits=tuple(waits[:MOST_WAITS]),
            left_out=sum(each.left_out for each in self._tables.values()),
        )

    def _period(self, at: Instant) -> Period:
        start = at // self._span.period * self._span.period
        return self._periods.setdefault(start, Period(start=start))

    def _logged(self, plan: Plan, at: Instant) -> None:
        """Count a plan that the log has."""
        period = self._period(at)
        period.logged_plans += 1
        period.logged_bytes += plan.size

    def _note(self, plan: FleetPlan, now: Instant) -> None:
        """Remember since when each place has offered plans, and the longest of such waits."""
        every = [(each.table, each.offer, "") for each in plan.chosen]
        every += [(each.table, each.offer, each.code.value) for each in plan.left]
        since: dict[_Place, Instant] = {}
        for table, offer, code in every:
            place = table, offer.kind, offer.interval
            first = self._since.get(place, offer.since)
            if code:
                since[place] = min(since.get(place, first), first)
            found = Wait(table=table, offer=offer, waited=max(now - first, 0), code=code)
            self._waits[place] = max(found, self._waits.get(place, found), key=_waited)
        self._since = since


def _waited(wait: Wait) -> int:
    return wait.waited


class _Table:
    """A table under simulation."""

    def __init__(self, fleet: Fleet, past: PastTable, start: Instant) -> None:
        self.name = past.name
        self.left_out = 0
        self.missed_us = 0
        self._fleet = fleet
        self._start = start
        self._state = past.state
        self._events = past.events
        self._next = next(past.events, None)
        self._open = False
        self._running: dict[str, Instant] = {}
        self._plans: dict[str, Plan] = {}
        self._target = 1
        self._look: TableLook | None = None
        self._looked_at: Instant = 0
        self._looked_n = -1
        self._counted = start
        self._judged_n = -1
        self._misses = False

    @property
    def there(self) -> bool:
        """Return whether the table exists, so that it is planned."""
        return self._open and not self._state.dropped

    def advance(self, now: Instant, logged: Callable[[Plan, Instant], None]) -> None:
        """Replay events and end plans up to a time, in their order."""
        while (event := self._next) is not None and event.time <= now:
            self._end(event.time)
            self._count(event.time)
            if event.time <= self._start:
                self._state = apply(self._state, event)
            else:
                self._replay(event, logged)
            self._next = next(self._events, None)
        if not self._open and self._state.time <= now:
            self._enter()
        self._end(now)
        self._count(now)

    def look(self, now: Instant) -> TableLook:
        """Return the look at the table; an unchanged one is kept for a while (rule 3)."""
        held = self._look
        same = self._state.n == self._looked_n and now - self._looked_at < LOOK_AGAIN_US
        if held is None or not same or held.offers or held.misses:
            held = self._look = self._looked(now)
            self._looked_at, self._looked_n = now, self._state.n
        return held

    def begin(self, offer: Offer, now: Instant) -> None:
        """Begin a plan that was offered."""
        self._state = begun(self._state, self._plans[offer.plan_id], now)
        self._running[offer.plan_id] = now + max(round(offer.minutes * MINUTE_US), 1)

    def _enter(self) -> None:
        self._open, self._state = True, opened(self._state)

    def _replay(self, event: Event, logged: Callable[[Plan, Instant], None]) -> None:
        if not self._open:
            self._enter()
        if isinstance(event.action, PlanRequested):
            logged(event.action.plan, event.time)
        if replays(event) and self.there:
            found = replayed(self._state, event)
            self.left_out += found is None
            self._state = found or self._state

    def _end(self, now: Instant) -> None:
        """End the plans that are due."""
        due = sorted((at, name) for name, at in self._running.items() if at <= now)
        for at, name in due:
            del self._running[name]
            self._count(at)
            if self.there:
                self._state = ended(self._state, name, self._target, at)

    def _count(self, at: Instant) -> None:
        """Count the time that has passed, if the table as it was until now misses an aim."""
        if at <= self._counted:
            return
        if self.there:
            if self._judged_n != self._state.n:
                aims = self._aims()
                some = replace(aims, hot=None) != Objective()
                measure = measured(self._state, aims, at) if some else Measure()
                self._judge(missed(aims, measure))
            self.missed_us += self._misses * (at - self._counted)
        self._counted = at

    def _judge(self, misses: Sequence[Miss]) -> None:
        self._judged_n, self._misses = self._state.n, bool(misses)

    def _aims(self) -> Objective:
        """Return the aims that can be simulated (rule 4)."""
        return replace(objective_of(self._fleet, self.name), stale_index=None, publish_lag=None)

    def _looked(self, now: Instant) -> TableLook:
        state, aims = self._state, self._aims()
        aims = replace(aims, files_read=aims.files_read or inf)
        policy = Policy.read(properties_of(self._fleet, self.name, state.table.properties))
        measure = measured(state, aims, now)
        policy = policy_for(policy, aims, measure)
        planned = plan_all(state, policy, now, explain=BRIEFLY)
        self._target = policy.target_size
        self._plans = {plan.id: plan for plan in planned.chosen}
        misses = missed(aims, measure)
        self._judge(misses)
        return look_of(self.name, state, policy, planned, measure, misses, now)

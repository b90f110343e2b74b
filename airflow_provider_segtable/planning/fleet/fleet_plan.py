"""Plan a fleet: which plans of all tables begin now, and why each other one is left.

1. Each table *offers* the plans that its own policy finds worthwhile (``planning.table_plan``);
   these contest nothing among themselves.
2. Offers of all tables are ranked together: gain per cost, times the table's priority; times
   ``URGENT`` and how many times the aim it is, if the table misses its objective; and doubled with
   each ``AGEING_H`` hours of waiting. So an offer that waits outgrows every other in the end, and
   nothing starves.
3. In this order each offer is chosen unless a limit is in its way: a freeze, a closed window, a
   rest after little gain, the plans at once in the table, its group or the fleet, or the budget of
   an hour of the group or the fleet.
4. What was requested in the last hour counts against the budgets of the hour, whoever asked. A plan
   that is larger than a whole budget begins alone, once nothing was requested for an hour: so it
   waits, and is not left for ever.
5. While the best offer waits for the hour's bytes, smaller ones behind it do not take them, once it
   has waited ``PATIENCE_H`` hours. Otherwise a stream of small ones would keep a large one out.
6. Every offer is either chosen or left, with a code that stays, a sentence, and the number or time
   that would change it.

Source of the idea: OpenHouse's data layout strategies (gain per cost under a budget), with limits
by group and ageing.
"""

import math
from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from airflow_provider_segtable.core.counted import MIB, counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.quantities import describe_duration
from airflow_provider_segtable.core.time import HOUR_US, Instant, Interval, iso
from airflow_provider_segtable.planning.fleet.fleet import (
    Budget,
    Fleet,
    freeze_of,
    priority_of,
    windows_of,
)
from airflow_provider_segtable.planning.fleet.measured_cost import Costs
from airflow_provider_segtable.planning.fleet.objectives import Measure, Miss
from airflow_provider_segtable.planning.gauges import Gauge

URGENT = 4.0
AGEING_H = 1.0
PATIENCE_H = 1.0
_MOST_DOUBLINGS = 60.0
_MOST_TIMES = 16.0


class Code(StrEnum):
    """Why an offer is left; scripts may rely on these."""

    FROZEN = "frozen"
    WINDOW_CLOSED = "window-closed"
    RESTING = "resting"
    TABLE_PLANS = "table-plans"
    GROUP_PLANS = "group-plans"
    FLEET_PLANS = "fleet-plans"
    GROUP_BYTES = "group-bytes"
    FLEET_BYTES = "fleet-bytes"
    GROUP_MINUTES = "group-minutes"
    FLEET_MINUTES = "fleet-minutes"
    KEPT_FREE = "kept-free"


# What tables offer
@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A worthwhile plan of a table: what ranking, limits and reports need of it.

    It holds no input, so that the offers of a thousand tables are small.

    Attributes:
        plan_id: a function of the plan's inputs.
        kind: of the plan.
        interval: of the plan.
        inputs: number of segments.
        size: bytes of the inputs: the cost.
        outputs: expected number of segments.
        reason: why the plan is worthwhile.
        gain: in segments (``planning.selection``).
        since: when its newest input was written: it waits at least since then.
        minutes: expected minutes of a task (``planning.fleet.measured_cost``).
        rests_until: runs there gained little, so no plan begins before (``planning.fleet.rests``).
    """

    plan_id: str
    kind: str
    interval: Interval
    inputs: int
    size: int
    outputs: int
    reason: str
    gain: float
    since: Instant
    minutes: float = 0.0
    rests_until: Instant | None = None

    @staticmethod
    def of(
        plan: Plan, *, gain: float, since: Instant, rests_until: Instant | None = None
    ) -> "Offer":
        """Return the offer of a plan."""
        return Offer(
            plan_id=plan.id,
            kind=str(plan.kind),
            interval=plan.interval,
            inputs=len(plan.inputs),
            size=plan.size,
            outputs=plan.outputs,
            reason=plan.reason,
            gain=gain,
            since=since,
            rests_until=rests_until,
        )


def plans_of_offers(plans: Iterable[Plan], offers: Iterable[Offer]) -> list[Plan]:
    """Return which of a table's plans now carry out offers that an earlier look has found.

    A plan's id is a function of its inputs, so a write in between changes it: a table that is
    written all the time would never be served by ids alone. Such an offer is carried out by the
    plan of the same kind and interval.
    """
    given, waiting = {each.id: each for each in plans}, list[Offer]()
    found: list[Plan] = []
    for offer in offers:
        same = given.pop(offer.plan_id, None)
        if same is None:
            waiting.append(offer)
        else:
            found.append(same)
    for offer in waiting:
        like = (p for p in given.values() if (p.kind, p.interval) == (offer.kind, offer.interval))
        if (other := next(like, None)) is not None:
            found.append(given.pop(other.id))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A plan that was requested: when, its bytes and minutes, and whether it is still pending."""

    at: Instant
    size: int
    kind: str = ""
    minutes: float = 0.0
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """What the planner knows about one table at one version.

    Attributes:
        name: below the root, or a URI.
        offers: its worthwhile plans.
        begun: plans that are pending, or were requested of late.
        misses: aims that it misses, the worst first.
        measure: what its objective asks for.
        costs: how long its plans took, by kind.
        table_id: by which its versions are announced.
        version: its newest event, and ``committed`` the time of it.
        files, bytes, rows: of all visible segments.
        gauges: its numbers for metrics.
        log_store: it has a log store, whose lag its log does not tell.
    """

    name: str
    offers: tuple[Offer, ...] = ()
    begun: tuple[Begun, ...] = ()
    misses: tuple[Miss, ...] = ()
    measure: Measure = field(default_factory=Measure)
    costs: Costs = field(default_factory=dict)
    table_id: str = ""
    version: int = -1
    committed: Instant = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    gauges: tuple[Gauge, ...] = ()
    log_store: bool = False


# The decision
@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """An offer that begins now, with its rank."""

    table: str
    offer: Offer
    score: float

    def facts(self) -> Facts:
        """Return the choice as plain JSON values."""
        return {**_facts(self.table, self.offer), "score": self.score}


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An offer that does not begin: ``until`` is when that may change by itself, if it is known."""

    table: str
    offer: Offer
    code: Code
    reason: str
    until: Instant | None = None

    def facts(self) -> Facts:
        """Return the offer with the reason, as plain JSON values."""
        until = None if self.until is None else iso(self.until)
        told = {"code": self.code.value, "left": self.reason, "until": until}
        return {**_facts(self.table, self.offer), **told}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """All offers of a fleet: the chosen ones, best first, and those that are left.

    ``bytes`` were begun within the hour, with those of the chosen ones.
    """

    chosen: tuple[Chosen, ...] = ()
    left: tuple[Left, ...] = ()
    bytes: int = 0

    def facts(self) -> Facts:
        """Return the plan as plain JSON values."""
        return {
            "chosen": [each.facts() for each in self.chosen],
            "left": [each.facts() for each in self.left],
        }


def plan_fleet(fleet: Fleet, looks: Iterable[TableLook], now: Instant) -> FleetPlan:
    """Decide which offers of all tables begin now."""
    tables = tuple(looks)
    accounts = _Accounts(fleet, tables, now)
    ranked = sorted(
        (
            Chosen(table=look.name, offer=offer, score=_score(fleet, look, offer, now))
            for look in tables
            for offer in look.offers
        ),
        key=lambda each: (-each.score, each.table, each.offer.plan_id),
    )
    chosen: list[Chosen] = []
    left: list[Left] = []
    for each in ranked:
        obstacle = accounts.obstacle(each.table, each.offer)
        if obstacle is None:
            accounts.begin(each.table, each.offer)
            chosen.append(each)
        else:
            left.append(obstacle)
    return FleetPlan(chosen=tuple(chosen), left=tuple(left), bytes=accounts.bytes)


def _facts(table: str, offer: Offer) -> Facts:
    return {
        "table": table,
        "plan": offer.plan_id,
        "kind": offer.kind,
        "interval": str(offer.interval),
        "segments": offer.inputs,
        "bytes": offer.size,
        "gain": offer.gain,
        "minutes": round(offer.minutes, 3),
        "reason": offer.reason,
    }


def _score(fleet: Fleet, look: TableLook, offer: Offer, now: Instant) -> float:
    waited_h = max(now - offer.since, 0) / HOUR_US
    ageing = math.exp2(min(waited_h / AGEING_H, _MOST_DOUBLINGS))
    worst = max((miss.times for miss in look.misses), default=0.0)
    urgency = URGENT * min(worst, _MOST_TIMES) if look.misses else 1.0
    per_cost = offer.gain / (1 + offer.size / MIB)
    return per_cost * priority_of(fleet, look.name) * urgency * ageing


# Limits
Obstacle: TypeAlias = tuple[Code, str, Instant | None]
"""What is in a plan's way: its code, a sentence, and when that changes by itself, if known."""


def frozen(fleet: Fleet, table: str, now: Instant) -> Obstacle | None:
    """Return the freeze that keeps all work of a table from beginning, if there is one."""
    freeze = freeze_of(fleet, table)
    if freeze is None or not freeze.holds(now):
        return None
    return Code.FROZEN, f"{table} is {freeze}", freeze.end


def closed(fleet: Fleet, table: str, kind: str, now: Instant) -> Obstacle | None:
    """Return the freeze or the closed window that keeps a kind of work from beginning."""
    windows = windows_of(fleet, table, kind)
    if (freeze := frozen(fleet, table, now)) is not None or windows.open_at(now):
        return freeze
    texts = ", ".join(window.text for window in windows.windows)
    reason = f"{kind} compactions begin in {texts} ({windows.zone}) only"
    return Code.WINDOW_CLOSED, reason, windows.next_opening(now)


@dataclass(slots=True)
class _Account:
    """What one budget has left, of the fleet or of a group."""

    budget: Budget
    of: str
    begun: list[Begun] = field(default_factory=list)
    plans: int = 0
    bytes: int = 0
    minutes: float = 0.0
    kept_for: str = ""

    def add(self, begun: Begun, now: Instant) -> None:
        """Count a plan that was requested."""
        self.plans += begun.pending
        if now - begun.at < HOUR_US:
            self.begun.append(begun)
            self.bytes += begun.size
            self.minutes += begun.minutes


def _room_at(need: float, limit: float, begun: Iterable[tuple[Instant, float]]) -> Instant | None:
    """Return when an hour's sum has room, as what was begun leaves the hour."""
    by_age = sorted(begun)
    used = sum(amount for _, amount in by_age)
    for at, amount in by_age:
        used -= amount
        if used + need <= limit or not used:
            return at + HOUR_US
    return None


class _Accounts:
    """The budgets of a fleet under a decision."""

    def __init__(self, fleet: Fleet, looks: Iterable[TableLook], now: Instant) -> None:
        self._fleet = fleet
        self._now = now
        self._all = _Account(fleet.budget, "the fleet")
        self._groups = {g.name: _Account(g.quota, f"group {g.name}") for g in fleet.groups}
        self._pending: dict[str, int] = {}
        for look in looks:
            for begun in look.begun:
                self._count(look.name, begun)

    @property
    def bytes(self) -> int:
        """Return the bytes that the whole fleet has begun within the hour."""
        return self._all.bytes

    def begin(self, table: str, offer: Offer) -> None:
        """Count an offer that was chosen."""
        self._count(
            table,
            Begun(
                at=self._now,
                size=offer.size,
                kind=offer.kind,
                minutes=offer.minutes,
                pending=True,
            ),
        )

    def obstacle(self, table: str, offer: Offer) -> Left | None:
        """Return what is in an offer's way, if anything is."""
        found = self._closed(table, offer) or self._too_many(table) or self._too_much(table, offer)
        if found is None:
            return None
        code, reason, until = found
        return Left(table=table, offer=offer, code=code, reason=reason, until=until)

    def _count(self, table: str, begun: Begun) -> None:
        self._pending[table] = self._pending.get(table, 0) + begun.pending
        for account in self._of(table):
            account.add(begun, self._now)

    def _of(self, table: str) -> tuple[_Account, ...]:
        group = self._fleet.group_of(table)
        return (self._groups[group.name], self._all) if group else (self._all,)

    def _closed(self, table: str, offer: Offer) -> Obstacle | None:
        now, shut = self._now, closed(self._fleet, table, offer.kind, self._now)
        if shut is not None:
            return shut
        if offer.rests_until is not None and now < offer.rests_until:
            rests = describe_duration(offer.rests_until - now)
            return (
                Code.RESTING,
                f"the last run there gained little: rests {rests}",
                offer.rests_until,
            )
        return None

    def _too_many(self, table: str) -> Obstacle | None:
        group = self._fleet.group_of(table)
        quota = group.quota if group else Budget()
        most = quota.plans_per_table or self._fleet.budget.plans_per_table
        pending = self._pending.get(table, 0)
        if most is not None and pending >= most:
            name = "plans_per_table"
            return Code.TABLE_PLANS, f"{_at_once(pending, table)}, of {name} = {most}", None
        codes = (Code.GROUP_PLANS, Code.FLEET_PLANS) if group else (Code.FLEET_PLANS,)
        for account, code in zip(self._of(table), codes, strict=True):
            limit = account.budget.plans
            if limit is not None and account.plans >= limit:
                return code, f"{_at_once(account.plans, account.of)}, of plans = {limit}", None
        return None

    def _too_much(self, table: str, offer: Offer) -> Obstacle | None:
        accounts = self._of(table)
        grouped = len(accounts) == 2
        for account, in_group in zip(accounts, (grouped, False), strict=False):
            found = self._over(account, offer, in_group=in_group)
            if found is not None:
                self._keep_free(account, table, offer)
                return found
        kept = next((account for account in accounts if account.kept_for), None)
        if kept is None or not offer.size:
            return None
        reason = f"the hour's bytes of {kept.of} are kept for {kept.kept_for}"
        return Code.KEPT_FREE, reason, None

    def _over(self, account: _Account, offer: Offer, *, in_group: bool) -> Obstacle | None:
        size, limit = offer.size, account.budget.bytes_per_hour
        if limit is not None and account.bytes and account.bytes + size > limit:
            code = Code.GROUP_BYTES if in_group else Code.FLEET_BYTES
            used, of = describe_size(account.bytes), describe_size(limit)
            reason = f"needs {describe_size(size)}; {account.of} has begun {used} of {of} an hour"
            sums = [(begun.at, float(begun.size)) for begun in account.begun]
            return code, reason, _room_at(size, limit, sums)
        most = account.budget.task_minutes_per_hour
        if most is not None and account.minutes and account.minutes + offer.minutes > most:
            code = Code.GROUP_MINUTES if in_group else Code.FLEET_MINUTES
            reason = (
                f"needs {offer.minutes:.3g} task minutes; {account.of} has begun "
                f"{account.minutes:.3g} of {most:.3g} an hour"
            )
            spent = [(begun.at, begun.minutes) for begun in account.begun]
            return code, reason, _room_at(offer.minutes, most, spent)
        return None

    def _keep_free(self, account: _Account, table: str, offer: Offer) -> None:
        waited_h = (self._now - offer.since) / HOUR_US
        if waited_h >= PATIENCE_H and not account.kept_for:
            size, waits = describe_size(offer.size), describe_duration(self._now - offer.since)
            account.kept_for = f"plan {offer.plan_id} of {table}, {size}, which waits for {waits}"


def _at_once(plans: int, of: str) -> str:
    return f"{counted(plans, 'plan')} of {of} pending or running"

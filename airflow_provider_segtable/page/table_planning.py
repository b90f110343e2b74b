"""What a planner would do with a table now: its plans, and the reasons for everything else.

1. A table is planned by its own properties, those of the fleet's file, and its objective, as a
   planner of the fleet does (``services.fleet_run.look_for``), but with reasons for all places.
2. Freezes, windows, rests and the limits of the table itself apply. What other tables of the fleet
   use of a budget is not known here: the view of the fleet has it.
3. Plans depend on the time, too. So a planning is made again after ``FRESH_S``, or when it is due.
4. A planning that took long (a million segments take a second) is kept ``PATIENCE`` times as long,
   although there are newer versions: it says which one it is of.
"""

from collections.abc import Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.planning.finders.index import wanted_indexes
from airflow_provider_segtable.planning.fleet.fleet import Fleet, objective_of, properties_of
from airflow_provider_segtable.planning.fleet.fleet_plan import FleetPlan, Left, plan_fleet
from airflow_provider_segtable.planning.fleet.measured_cost import Costs, costs_of, seconds_of
from airflow_provider_segtable.planning.fleet.objectives import measured, missed, policy_for
from airflow_provider_segtable.planning.fleet.table_look import look_of, with_minutes
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned, Skipped
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.table.property_checks import check_properties
from airflow_provider_segtable.table.publishing.refusing import blocking_schemas

FRESH_S = 60.0
PATIENCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """A planning of a version at a time; it does not grow with the table.

    Attributes:
        n: the version.
        took_s: how long the planning took.
        costs: how long plans of the table took, by kind.
        policy: the policy in force.
        planned: the worthwhile plans, and all reasons.
        of_fleet: which of the plans begin, and which a limit holds back.
        now: the time.
    """

    n: int
    took_s: float = 0.0
    costs: Costs
    policy: Policy
    planned: Planned
    of_fleet: FleetPlan
    now: Instant

    @property
    def chosen(self) -> tuple[Plan, ...]:
        """Return the plans that would begin now, best first."""
        by_id = {plan.id: plan for plan in self.planned.chosen}
        return tuple(by_id[each.offer.plan_id] for each in self.of_fleet.chosen)

    @property
    def held_back(self) -> tuple[Left, ...]:
        """Return the worthwhile plans that a limit holds back."""
        return self.of_fleet.left

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Return everything that has no plan, with its reason."""
        return self.planned.skipped

    def gain(self, plan: Plan) -> float:
        """Return the gain of a chosen plan, in segments."""
        tidied = 1.0 + plan.size / self.policy.target_size
        return self.planned.gains.get(plan.id, tidied)

    def seconds(self, plan: Plan) -> float:
        """Return how long a plan is expected to take."""
        return seconds_of(plan.kind, plan.size, self.costs, {})


def planning_of(
    state: State, fleet: Fleet, name: str, now: Instant, publish_lag: float | None = None
) -> Planning:
    """Plan a version of a table; nothing is written.

    Args:
        state: the version.
        fleet: the settings of the file that the table belongs to.
        name: its name in the fleet.
        now: the wall clock.
        publish_lag: age of the oldest commit that a publication lacks, in microseconds.

    Raises:
        InvalidInput: a property is malformed.
    """
    properties = properties_of(fleet, name, state.table.properties)
    objective = objective_of(fleet, name)
    measure = measured(state, objective, now, publish_lag)
    policy = policy_for(Policy.read(properties), objective, measure)
    planned = plan_all(state, policy, now, blocking_schemas(state))
    skipped: list[Skipped] = []
    wanted_indexes(state, policy, properties, skipped)
    planned = replace(planned, skipped=(*planned.skipped, *skipped))
    misses = missed(objective, measure)
    looks = with_minutes([look_of(name, state, policy, planned, measure, misses, now)])
    return Planning(
        n=state.n,
        costs=costs_of(state.plans.values()),
        policy=policy,
        planned=planned,
        of_fleet=plan_fleet(fleet, looks, now),
        now=now,
    )


def with_properties(state: State, given: Mapping[str, str]) -> State:
    """Return a version as if its table had other properties; an empty text takes one away.

    Raises:
        InvalidInput: a property is unknown, malformed, or does not fit the table.
        SchemaMismatch: a clustering names a column that the table does not have.
    """
    merged = {**state.table.properties, **given}
    properties = {key: value for key, value in merged.items() if value != ""}
    table = replace(state.table, properties=properties)
    check_properties(table, [key for key, value in given.items() if value != ""])
    return replace(state, table=table)


class Plannings:
    """The plannings that were made of late; rules 3 and 4. All views of a lake share them."""

    def __init__(self, most: int = 64) -> None:
        """Keep those of so many tables."""
        self._recent: Recent[str, Planning] = Recent(most)

    def of(self, seen: Seen, *, exact: bool = False) -> Planning:
        """Return a planning that still holds; errors as ``planning_of``.

        Args:
            seen: the table.
            exact: whether it must be of the newest version.
        """
        key, clock = seen.state.table.table_id, seen.ports.clock
        now, found = clock.now(), self._recent.get(key)
        of_newest = found is not None and found.n == seen.state.n
        if found is not None and (of_newest or not exact) and holds(found, seen.state.n, now):
            return found
        begun_s = clock.monotonic()
        made = planning_of(seen.state, seen.fleet, seen.own_name, now)
        return self._recent.keep(key, replace(made, took_s=clock.monotonic() - begun_s))


_OF_LAKES: WeakKeyDictionary[Lake, Plannings] = WeakKeyDictionary()


def plannings_of(lake: Lake) -> Plannings:
    """Return the plannings of a lake's tables."""
    return _OF_LAKES.setdefault(lake, Plannings())


def holds(planning: Planning, n: int, now: Instant) -> bool:
    """Return whether a planning is shown for version ``n`` now; rules 3 and 4."""
    age_s = (now - planning.now) / SECOND_US
    due = planning.planned.due if planning.planned.whole else None
    if age_s < planning.took_s * PATIENCE:
        return True
    return planning.n == n and age_s < FRESH_S and (due is None or now < due)

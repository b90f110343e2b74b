"""Look at a table: what a fleet's planner keeps of one version of it.

1. A look holds nothing that grows with the table: its offers, what was begun, its measures.
2. Plans over the whole table have no gain of their own: each of their bytes is tidied once.
3. The costs of plans are measured for each table (``planning.fleet.measured_cost``). Expected
   minutes need those of the whole fleet, so ``with_minutes`` fills them in for all looks together.
4. A plan that is completed counts with the minutes that it took.
5. If a table records its reads, a plan over chunks whose readers open most files in vain gains up
   to ``MOST_HEAT`` times as much (``planning.read_summary``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import HOUR_US, MINUTE_US, Instant
from airflow_provider_segtable.planning.fleet.fleet_plan import Begun, Offer, TableLook
from airflow_provider_segtable.planning.fleet.measured_cost import (
    Costs,
    costs_of,
    fleet_costs,
    seconds_of,
)
from airflow_provider_segtable.planning.fleet.objectives import Measure, Miss
from airflow_provider_segtable.planning.fleet.rests import rests_until, runs_of
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.read_summary import ReadSummary
from airflow_provider_segtable.planning.selection import Planned


def look_of(
    name: str,
    state: State,
    policy: Policy,
    planned: Planned,
    measure: Measure,
    misses: tuple[Miss, ...],
    now: Instant,
) -> TableLook:
    """Return what is kept of a look.

    Args:
        name: the table's name in the fleet.
        state: the table.
        policy: by which it was planned.
        planned: its worthwhile plans.
        measure: what its objective asks for.
        misses: the aims that it misses.
        now: the wall clock.
    """
    summaries = state.timeline.visible_summaries().values()
    return TableLook(
        name=name,
        offers=_offers(state, planned, policy),
        begun=_begun(state, now),
        misses=misses,
        measure=measure,
        costs=costs_of(state.plans.values()),
        table_id=state.table.table_id,
        version=state.n,
        committed=state.time,
        files=sum(each.files for each in summaries),
        bytes=sum(each.size for each in summaries),
        rows=sum(each.rows for each in summaries),
    )


def with_heat(look: TableLook, reads: ReadSummary) -> TableLook:
    """Return a look whose offers gain more where readers open files in vain."""
    hot = (replace(each, gain=each.gain * reads.factor(each.interval)) for each in look.offers)
    return replace(look, offers=tuple(hot))


def with_minutes(looks: Iterable[TableLook]) -> tuple[TableLook, ...]:
    """Return the looks of a fleet with expected minutes of what they offer and what is pending."""
    every = tuple(looks)
    of_fleet = fleet_costs(each.costs for each in every)
    return tuple(_with_minutes(each, of_fleet) for each in every)


def _with_minutes(look: TableLook, of_fleet: Costs) -> TableLook:
    if not look.offers and not look.begun:
        return look

    def minutes(kind: str, size: int) -> float:
        return seconds_of(kind, size, look.costs, of_fleet) / 60

    return replace(
        look,
        offers=tuple(replace(each, minutes=minutes(each.kind, each.size)) for each in look.offers),
        begun=tuple(
            replace(each, minutes=minutes(each.kind, each.size)) if each.pending else each
            for each in look.begun
        ),
    )


def _offers(state: State, planned: Planned, policy: Policy) -> tuple[Offer, ...]:
    runs = runs_of(state.plans.values()) if planned.chosen else {}
    return tuple(
        Offer.of(
            plan,
            gain=_gain(plan, planned.gains, policy),
            since=_since(state, plan),
            rests_until=rests_until(state, policy, runs, plan),
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


def _begun(state: State, now: Instant) -> tuple[Begun, ...]:
    """Return the plans that count against a budget: pending ones, and those of the last hour."""
    return tuple(
        Begun(
            at=known.requested_at,
            size=known.plan.size,
            kind=str(known.plan.kind),
            minutes=known.worked / MINUTE_US,
            pending=known.status.pending,
        )
        for known in state.plans.values()
        if known.status.pending or now - known.requested_at < HOUR_US
    )

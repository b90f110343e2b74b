"""Simulations: the plans that other properties would make, beside those of its own ones.

1. The same version is planned twice, at the same time, by the same function; nothing is written.
2. Plans are the same if their ids are: a plan's id is a function of its inputs.
3. A place (time chunk, bucket and kind of plan) differs if another plan begins there, or its
   reasons are others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.page.answer import Answer, Shown
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.plan_bars import Place, place_of
from airflow_provider_segtable.page.plan_view import LeftAlone, PlanOffer, left_alone, offer_of
from airflow_provider_segtable.page.table_planning import (
    Planning,
    planning_of,
    plannings_of,
    with_properties,
)
from airflow_provider_segtable.planning.gauges import small_segments
from airflow_provider_segtable.planning.properties import settings

SHOWN = 200
"""Plans and places that are listed."""


class SimulationRequest(Shown):
    """The properties of a simulation; an empty text is the default."""

    properties: dict[str, str] = Field(max_length=100)


class Outcome(Shown):
    """The plans that one set of properties makes."""

    chosen: list[PlanOffer]
    chosen_total: int
    left: list[LeftAlone]
    plans_by_kind: dict[str, int]
    segments: int = Field(description="inputs of all chosen plans")
    bytes: int
    outputs: int
    seconds: float = Field(description="expected, one after the other")
    small_files: int
    due: str | None


class PropertyChange(Shown):
    """A property with its value before and after."""

    name: str
    before: str
    after: str


class ReasonChange(Shown):
    """A place whose treatment differs."""

    place: Place
    before: str = Field(description="plan or reason, one sentence; empty: none")
    after: str
    begins: bool = Field(description="whether a plan begins there after, and none before")
    ends: bool = Field(description="whether a plan began there before, and none after")


class Difference(Shown):
    """The difference between two outcomes."""

    properties: list[PropertyChange]
    begun: list[PlanOffer] = Field(description="plans of the second outcome alone")
    dropped: list[PlanOffer] = Field(description="plans of the first outcome alone")
    same: int
    places: list[ReasonChange]
    places_total: int
    sentence: str


class Simulation(Shown):
    """A simulation of other properties at one version."""

    before: Outcome
    after: Outcome
    difference: Difference


# Pure functions
def simulation_of(
    state: State, given: Mapping[str, str], plan: "PlanAgain", before: Planning
) -> Simulation:
    """Return the plans of a version by its own properties, and by others.

    Args:
        state: the version.
        given: the other properties; an empty text takes one away.
        plan: plans a version.
        before: the planning by its own properties.

    Raises:
        InvalidInput, SchemaMismatch: as ``with_properties``.
    """
    changed = with_properties(state, given)
    after = plan(changed)
    return Simulation(
        before=_outcome(state, before),
        after=_outcome(changed, after),
        difference=_difference(state, changed, before, after),
    )


class PlanAgain(Protocol):
    """Plans a version at one time, by the settings of its fleet."""

    def __call__(self, state: State) -> Planning:
        """Return the planning."""
        ...


def _outcome(state: State, planning: Planning) -> Outcome:
    chosen = planning.chosen
    due = planning.planned.due
    return Outcome(
        chosen=[offer_of(plan, planning) for plan in chosen[:SHOWN]],
        chosen_total=len(chosen),
        left=left_alone(planning)[:SHOWN],
        plans_by_kind=dict(Counter(plan.kind for plan in chosen)),
        segments=sum(len(plan.inputs) for plan in chosen),
        bytes=sum(plan.size for plan in chosen),
        outputs=sum(plan.outputs for plan in chosen),
        seconds=round(sum(planning.seconds(plan) for plan in chosen), 3),
        small_files=small_segments(state.timeline, planning.policy).total(),
        due=None if due is None else iso(due),
    )


def _difference(state: State, changed: State, before: Planning, after: Planning) -> Difference:
    old, new = ({plan.id: plan for plan in each.chosen} for each in (before, after))
    begun = [plan for name, plan in new.items() if name not in old]
    dropped = [plan for name, plan in old.items() if name not in new]
    places = _changed_places(before, after)
    return Difference(
        properties=_changed_properties(state, changed),
        begun=[offer_of(plan, after) for plan in begun[:SHOWN]],
        dropped=[offer_of(plan, before) for plan in dropped[:SHOWN]],
        same=len(old.keys() & new.keys()),
        places=places[:SHOWN],
        places_total=len(places),
        sentence=_in_words(begun, dropped),
    )


def _in_words(begun: Sequence[Plan], dropped: Sequence[Plan]) -> str:
    if not begun and not dropped:
        return "the same plans begin"
    said = [
        f"{counted(len(some), 'plan')} {verb} over {describe_size(sum(p.size for p in some))}"
        for some, verb in ((begun, "more"), (dropped, "fewer"))
        if some
    ]
    return ", ".join(said)


def _changed_properties(state: State, changed: State) -> list[PropertyChange]:
    old, new = ({s.key: s.value for s in settings(each.table)} for each in (state, changed))
    return [
        PropertyChange(name=name, before=old.get(name, ""), after=new.get(name, ""))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


class _At(NamedTuple):
    """A place as a simulation compares it."""

    interval: Interval
    bucket: int
    kind: str


class _Treated(NamedTuple):
    """How a place is treated: the plans that begin there, and the reasons, in words."""

    begins: bool
    words: str


def _changed_places(before: Planning, after: Planning) -> list[ReasonChange]:
    old, new = _treatments(before), _treatments(after)
    nothing = _Treated(begins=False, words="")
    found = []
    for at in sorted({*old, *new}):
        a, b = old.get(at, nothing), new.get(at, nothing)
        if a == b:
            continue
        found.append(
            ReasonChange(
                place=place_of(ChunkKey(at.interval, 0, at.bucket)),
                before=a.words,
                after=b.words,
                begins=b.begins and not a.begins,
                ends=a.begins and not b.begins,
            )
        )
    return sorted(found, key=lambda each: not (each.begins or each.ends))


def _treatments(planning: Planning) -> dict[_At, _Treated]:
    plans: dict[_At, list[str]] = {}
    for plan in planning.chosen:
        bucket = NO_BUCKET if plan.claim.segments is None else plan.chunk.bucket
        plans.setdefault(_At(plan.interval, bucket, plan.kind), []).append(
            f"{plan.kind}: {plan.reason}"
        )
    reasons: dict[_At, list[str]] = {}
    for each in planning.skipped:
        at = _At(each.chunk.interval, each.chunk.bucket, each.kind)
        reasons.setdefault(at, []).append(str(each.reason))
    return {
        at: _Treated(begins=at in plans, words=_some([*plans.get(at, ()), *reasons.get(at, ())]))
        for at in {*plans, *reasons}
    }


def _some(texts: Iterable[str]) -> str:
    every = [*dict.fromkeys(texts)]
    more = f"; and {len(every) - 3} more" if len(every) > 3 else ""
    return "; ".join(every[:3]) + more


# The lake's answers
def routes(lake: Lake) -> APIRouter:
    """Return the route of simulations."""
    router, plannings = APIRouter(), plannings_of(lake)

    def simulated(seen: Seen, *, given: tuple[tuple[str, str], ...]) -> Simulation:
        before = plannings.of(seen, exact=True)

        def again(state: State) -> Planning:
            return planning_of(state, seen.fleet, seen.own_name, before.now)

        return simulation_of(seen.state, dict(given), again, before)

    @router.post("/api/simulate")
    async def simulate(table: str, body: SimulationRequest) -> Answer[Simulation]:
        given = tuple(sorted(body.properties.items()))
        return await lake.answer(table, simulated, given=given)

    return router

"""Plan all kinds of a table's plans together.

1. If a plan of a larger kind is due, it replaces the smaller ones that it makes unnecessary; if it
   does not fit the budget, the smaller ones are considered (``planning.ranking.selection``).
2. If a plan of a larger kind is due but others are pending, no new plan is made there: the area
   drains, so that continuous appends do not starve the larger kind.
3. No plan is made in an interval that a pending plan claims, or over segments of a pending plan.
4. The remaining candidates of all kinds are ranked by gain per cost and chosen within the budget.
5. A large table is examined area by area, the highest bound first (``planning.ranking.areas``),
   up to the limit of one run (``planning.ranking.selection``).
6. Plans over the whole table come last, and outside of the budget (``Finder.in_table``).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.finders.finder import Finder, finders
from airflow_provider_segtable.planning.planner_context import (
    PlannerContext,
    looking_at,
    planner_context,
)
from airflow_provider_segtable.planning.properties.policy import Policy
from airflow_provider_segtable.planning.ranking.areas import areas
from airflow_provider_segtable.planning.ranking.selection import Area, Candidate, Draining, choose
from airflow_provider_segtable.planning.reasons import Planned, Skipped


def plan_all(
    state: State, policy: Policy, now: Instant, blocking: Mapping[int, str] = MappingProxyType({})
) -> Planned:
    """Return the plans of every kind for a table.

    Args:
        state: the table at one version.
        policy: the conditions for each kind of plan.
        now: the wall clock, for ages.
        blocking: schemas whose files keep the table from being published, each with the reason.

    Returns:
        The chosen plans, best first, and a reason for everything skipped.
    """
    found = replace(planner_context(state, policy, now), blocking=blocking)
    largest_first = finders()[::-1]
    skipped: list[Skipped] = []

    def look(area: Area) -> list[Candidate]:
        return candidates_in(looking_at(found, area.interval), largest_first, skipped)

    chosen = choose((), policy, skipped, areas(found), look)
    return _with_tables(found, chosen)


def _with_tables(found: PlannerContext, planned: Planned) -> Planned:
    """Add the plans over the whole table, which know the others of the run."""
    skipped: list[Skipped] = []
    added = (finder.in_table(found, planned.chosen, skipped) for finder in finders())
    more = tuple(plan for some in added for plan in some)
    return Planned(chosen=planned.chosen + more, skipped=planned.skipped + tuple(skipped))


def candidates_in(
    found: PlannerContext, largest_first: Sequence[Finder], skipped: list[Skipped]
) -> list[Candidate]:
    """Return the candidates of some kinds in the context's interval; add reasons for the rest."""
    due = [finder.in_interval(found, skipped) for finder in largest_first]
    draining = [one for some in due for one in some if isinstance(one, Draining)]
    ranked: list[Candidate] = []
    for chunk in found.open_chunks(skipped):
        drain = _holding(draining, chunk)
        if drain is None:
            ranked += _of_chunk(found, chunk, largest_first, skipped)
        else:
            skipped.append(_waiting(drain, chunk))
    for some in reversed(due):
        ranked = _ranked([one for one in some if isinstance(one, Candidate)], ranked)
    return ranked


def _of_chunk(
    found: PlannerContext,
    chunk: ChunkKey,
    largest_first: Sequence[Finder],
    skipped: list[Skipped],
) -> list[Candidate]:
    ranked: list[Candidate] = []
    for finder in largest_first:
        smaller: list[Candidate] = []
        for one in finder.in_chunk(found, chunk, skipped):
            if isinstance(one, Draining):
                skipped.append(_waiting(one, chunk))
                return ranked
            smaller.append(one)
        ranked = _placed(ranked, smaller)
    return ranked


def _placed(larger: Sequence[Candidate], smaller: Sequence[Candidate]) -> list[Candidate]:
    """Put each smaller candidate behind the larger one that contests its segments, if any."""
    if not larger:
        return list(smaller)
    claims = [one.plan.claim for one in larger]
    behind: list[list[Candidate]] = [[] for _ in larger]
    beside: list[Candidate] = []
    for one in smaller:
        own = one.plan.claim
        at = next((at for at, claim in enumerate(claims) if claim.excludes(own)), None)
        (beside if at is None else behind[at]).append(one)
    return [
        *(
            _before(one, _placed(one.instead, some))
            for one, some in zip(larger, behind, strict=True)
        ),
        *beside,
    ]


def _ranked(larger: Sequence[Candidate], smaller: Sequence[Candidate]) -> list[Candidate]:
    """Put each smaller candidate behind the one over an interval that overlaps it, if any."""
    behind: dict[str, list[Candidate]] = {one.plan.id: [] for one in larger}
    ranked: list[Candidate] = []
    by_start = sorted(larger, key=lambda one: one.plan.interval)
    for one in smaller:
        over = _covering(by_start, one)
        (behind[over.plan.id] if over else ranked).append(one)
    return [*(_before(one, behind[one.plan.id]) for one in larger), *ranked]


def _covering(larger: Sequence[Candidate], one: Candidate) -> Candidate | None:
    """Return the overlapping candidate; ``larger`` are sorted and disjoint in time."""
    interval = one.plan.interval
    at = bisect_right(larger, interval.start, key=lambda other: other.plan.interval.start) - 1
    near = larger[max(at, 0) : at + 2]
    return next((other for other in near if other.plan.interval.overlaps(interval)), None)


def _before(larger: Candidate, smaller: Sequence[Candidate]) -> Candidate:
    return replace(larger, instead=tuple(smaller))


def _waiting(one: Draining, chunk: ChunkKey) -> Skipped:
    return Skipped(chunk=chunk, partitions=(), reason=one.reason, kind=one.kind)


def _holding(draining: Sequence[Draining], chunk: ChunkKey) -> Draining | None:
    return next((one for one in draining if one.interval.overlaps(chunk.interval)), None)

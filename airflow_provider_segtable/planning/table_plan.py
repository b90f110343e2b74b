"""Plan all three kinds of compaction of a table together.

1. If a larger compaction is due, it replaces the smaller ones that it makes unnecessary; if it
   does not fit the budget, the smaller ones are considered (``planning.selection``).
2. If a larger compaction is due but other plans are pending, no new plan is made there: the area
   drains, so that continuous appends do not starve the larger compaction.
3. No plan is made in the region of a pending major compaction, or over segments of a pending
   plan.
4. The remaining candidates of all kinds are ranked by gain per cost and chosen within the budget.
5. A large table is examined area by area, the highest bound first (``planning.areas``), up to the
   limit of one run (``planning.selection``).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.planning.areas import Area, areas
from airflow_provider_segtable.planning.major import major_due
from airflow_provider_segtable.planning.minor import minor_candidates
from airflow_provider_segtable.planning.planner_context import (
    PlannerContext,
    looking_at,
    planner_context,
)
from airflow_provider_segtable.planning.policy import Policy
from airflow_provider_segtable.planning.reasons import Planned, Skipped
from airflow_provider_segtable.planning.selection import Candidate, Draining, Unlooked, choose
from airflow_provider_segtable.planning.semi_major import semi_major_due


def plan_all(state: State, policy: Policy, now: Instant) -> Planned:
    """Plan every compaction of a table.

    Args:
        state: the table at one version.
        policy: the conditions for each kind of compaction.
        now: the wall clock, for ages.

    Returns:
        The chosen plans, best first, and a reason for everything skipped.
    """
    found = planner_context(state, policy, now)
    skipped: list[Skipped] = []

    def unlooked_area(area: Area) -> Unlooked:
        return Unlooked(
            bound=area.bound,
            least=area.least,
            chunks=area.chunks,
            segments=area.segments,
            look=lambda: candidates_in(looking_at(found, area.interval), skipped),
            known=area.known,
        )

    return choose((), policy, skipped, map(unlooked_area, areas(found)))


def candidates_in(found: PlannerContext, skipped: list[Skipped]) -> list[Candidate]:
    """Return the candidates of the context's interval; add reasons for the rest."""
    due = major_due(found, skipped)
    draining = [one for one in due if isinstance(one, Draining)]
    smaller: list[Candidate] = []
    for chunk in found.open_chunks(skipped):
        drain = _holding(draining, chunk)
        if drain is None:
            smaller += _of_chunk(found, chunk, skipped)
        else:
            skipped.append(Skipped(chunk=chunk, partitions=(), reason=drain.reason))
    majors = (one for one in due if isinstance(one, Candidate))
    return _ranked(list(majors), smaller)


def _of_chunk(found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]) -> list[Candidate]:
    larger = semi_major_due(found, chunk, skipped)
    if isinstance(larger, Draining):
        skipped.append(Skipped(chunk=chunk, partitions=(), reason=larger.reason))
        return []
    minors = minor_candidates(found, chunk, skipped)
    if larger is None:
        return list(minors)
    inputs = set(larger.plan.inputs)
    beside = [minor for minor in minors if inputs.isdisjoint(minor.plan.inputs)]
    return [_before(larger, [minor for minor in minors if minor not in beside]), *beside]


def _ranked(majors: Sequence[Candidate], smaller: Sequence[Candidate]) -> list[Candidate]:
    """Put each smaller candidate behind the major candidate that overlaps it, if any."""
    behind: dict[str, list[Candidate]] = {major.plan.id: [] for major in majors}
    ranked: list[Candidate] = []
    by_start = sorted(majors, key=lambda major: major.plan.interval)
    for one in smaller:
        major = _covering(by_start, one)
        (behind[major.plan.id] if major else ranked).append(one)
    return [*(_before(major, behind[major.plan.id]) for major in majors), *ranked]


def _covering(majors: Sequence[Candidate], one: Candidate) -> Candidate | None:
    """Return the overlapping major candidate; ``majors`` are sorted and disjoint in time."""
    interval = one.plan.interval
    at = bisect_right(majors, interval.start, key=lambda major: major.plan.interval.start) - 1
    near = majors[max(at, 0) : at + 2]
    return next((major for major in near if major.plan.interval.overlaps(interval)), None)


def _before(larger: Candidate, smaller: Sequence[Candidate]) -> Candidate:
    return replace(larger, instead=tuple(smaller))


def _holding(draining: Sequence[Draining], chunk: ChunkKey) -> Draining | None:
    return next((one for one in draining if one.interval.overlaps(chunk.interval)), None)

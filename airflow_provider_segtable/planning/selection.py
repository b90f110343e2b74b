"""Choose candidates: highest gain per cost first, within the budget.

1. A candidate's score is its gain per cost: the segments that it removes or tidies, per MiB copied
   (plus a fixed cost of 1 MiB).
2. A larger compaction replaces the smaller ones that it makes unnecessary (``instead``), and
   inherits their urgency, so it is considered no later than they would be. If it does not fit the
   budget, the smaller ones are considered.
3. An unexamined area has a bound: no candidate in it is more urgent. The area is examined when its
   bound is the highest urgency left. To limit planning time, a run examines ``LOOKS`` segments;
   the rest is left for the next run. Areas without a candidate that fits the budget do not count,
   so they never block others. The result is the same as without bounds, unless that limit is met.
   A table with fewer segments is examined completely, for the sake of its reasons.
4. If a larger compaction is due but a smaller one is pending, no new plan is made there: the area
   *drains*, so that a steady stream of appends does not postpone the larger one forever.
5. At equal urgency the earlier time goes first, so that an area whose bound is met by a candidate
   of an earlier one need not be examined.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from airflow_provider_segtable.core.plans.plan import Plan
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.time.interval import Instant, Interval
from airflow_provider_segtable.planning.policy import MIB, Policy
from airflow_provider_segtable.planning.reasons import Planned, Skipped, describe_size

LOOKS = 10_000
"""Number of segments that a planner run examines; at least one area."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A worthwhile plan; ``gain`` in segments; ``instead`` are the candidates it replaces."""

    plan: Plan
    gain: float
    instead: tuple["Candidate", ...] = ()

    @property
    def score(self) -> float:
        """Return gain per cost."""
        return self.gain / (1 + self.plan.size / MIB)

    @property
    def urgency(self) -> float:
        """Return the highest score of this candidate and the ones it replaces."""
        return max((self.score, *(other.urgency for other in self.instead)))

    def skipped(self, reason: str) -> Skipped:
        """Return the skip record of this candidate."""
        return skipped_plan(self.plan, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlooked:
    """Unexamined chunks, at least one.

    Attributes:
        bound: upper bound of the candidates' urgency; 0 means no candidate.
        start: no candidate begins earlier.
        least: lower bound of a plan's size in bytes.
        chunks: the chunks.
        segments: number of segments to examine.
        look: returns the candidates, and adds reasons for the rest.
        known: description from the chunk summaries.
    """

    bound: float
    start: Instant
    least: int
    chunks: tuple[ChunkKey, ...]
    segments: int
    look: Callable[[], Sequence[Candidate]]
    known: str

    def skipped(self, why: str) -> Iterable[Skipped]:
        """Return the skip records of these unexamined chunks."""
        reason = f"{why}: {self.known}"
        return (Skipped(chunk=chunk, partitions=(), reason=reason) for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A compaction of ``kind`` is due in ``interval``, after plan ``waits_for`` is done."""

    kind: str
    interval: Interval
    waits_for: str

    @property
    def reason(self) -> str:
        """Return why no new plan is made in the interval."""
        return f"held back: {self.kind} compaction is due, once plan {self.waits_for} is done"


def choose(
    candidates: Iterable[Candidate],
    policy: Policy,
    skipped: list[Skipped],
    unlooked: Iterable[Unlooked] = (),
) -> Planned:
    """Choose plans within the budget; add a reason to ``skipped`` for all others."""
    areas = tuple(unlooked)
    explained = LOOKS if sum(area.segments for area in areas) <= LOOKS else 0
    heap = [*map(_entry, candidates), *map(_unlooked, areas)]
    heapify(heap)
    chosen: list[Plan] = []
    vain: list[Unlooked] = []
    left, looked = policy.max_plan_bytes, 0
    while heap:
        best = heappop(heap)[-1]
        if isinstance(best, Candidate):
            over = _over(best.plan, len(chosen), left, policy)
            if over is None:
                chosen.append(best.plan)
                left -= best.plan.size
                skipped.extend(_needless(best))
                continue
            skipped.append(best.skipped(over))
            found: Sequence[Candidate] = best.instead
        elif not best.bound or len(chosen) == policy.max_plans or left < best.least:
            vain.append(best)
            continue
        elif looked and looked + best.segments > LOOKS:
            skipped.extend(best.skipped("left for the next run"))
            continue
        else:
            found = best.look()
            looked += best.segments if any(one.plan.size <= left for one in found) else 0
        for other in found:
            heappush(heap, _entry(other))
    over = _used_up(len(chosen), policy)
    skipped.extend(_explained(vain, explained - looked, over))
    return Planned(chosen=tuple(chosen), skipped=tuple(skipped))


def _explained(vain: Iterable[Unlooked], most: int, over: str) -> Iterator[Skipped]:
    """Yield reasons for areas without a chosen plan; details for the first ``most`` segments."""
    for one in vain:
        most -= one.segments
        if most < 0:
            yield from one.skipped(over if one.bound else "nothing to gain")
            continue
        found = [*one.look()]
        while found:
            candidate = found.pop()
            yield candidate.skipped(over)
            found += candidate.instead


def skipped_plan(plan: Plan, reason: str) -> Skipped:
    """Return the skip record of a plan's segments, or of the whole interval that it claims."""
    if plan.claim.segments is None:
        region = ChunkKey(plan.interval, plan.chunk.version)
        return Skipped(chunk=region, partitions=(), reason=reason, kind=plan.kind)
    partitions = tuple(segment_id.partition for segment_id in plan.inputs)
    return Skipped(chunk=plan.chunk, partitions=partitions, reason=reason, kind=plan.kind)


_Entry = tuple[float, Instant, str, Candidate | Unlooked]
"""Negative urgency, start, id, item: at equal urgency and start, unexamined chunks come first."""


def _entry(candidate: Candidate) -> _Entry:
    return -candidate.urgency, candidate.plan.interval.start, candidate.plan.id, candidate


def _unlooked(one: Unlooked) -> _Entry:
    return -one.bound, one.start, "", one


def _over(plan: Plan, chosen: int, left: int, policy: Policy) -> str | None:
    if chosen == policy.max_plans or plan.size > left:
        return _used_up(chosen, policy)
    return None


def _used_up(chosen: int, policy: Policy) -> str:
    if chosen == policy.max_plans:
        return f"over the budget of {policy.max_plans} plans a run"
    return f"over the budget of {describe_size(policy.max_plan_bytes)} a run"


def _needless(candidate: Candidate) -> Iterable[Skipped]:
    for other in candidate.instead:
        yield other.skipped(f"plan {candidate.plan.id} does it")
        yield from _needless(other)

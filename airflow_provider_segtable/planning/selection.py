"""Which candidates are chosen: the most gain per cost first, within the budget.

1. A candidate's score is its gain per cost: what it removes or tidies, counted in segments, for
   each MiB to be copied (and a fixed cost of 1 MiB).
2. A larger compaction takes the place of smaller ones that it makes needless (``instead``), and
   inherits their urgency: it is looked at no later than they would be. If the budget has no room
   for it, they get their turn.
3. What was not looked into yet has a bound: no candidate in it is more urgent. It is looked into
   when that is the highest urgency left. A run looks into ``LOOKS`` segments for what it chooses or
   explains, so that planning a large table ends soon; the rest is left for the next run. Where
   nothing can be chosen does not count, so that it never keeps others from being looked into. A
   table of fewer segments is looked into as a whole, and chosen from as if nothing had bounds.
4. Where a larger compaction is due but a smaller one is pending already, nothing new is planned:
   the place *drains*, so that a steady stream of appends does not keep the larger one off.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.planning.policy import MIB, Policy
from airflow_provider_segtable.planning.reasons import Planned, Skipped, describe_size

LOOKS = 10_000
"""Segments that a planner run looks into, to choose plans or to give reasons; at least one area."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan that would pay; ``gain`` in segments, ``instead`` are those it makes needless."""

    plan: CompactionPlan
    gain: float
    instead: tuple["Candidate", ...] = ()

    @property
    def score(self) -> float:
        """Return gain per cost."""
        return self.gain / (1 + self.plan.size / MIB)

    @property
    def urgency(self) -> float:
        """Return the highest score of this and of those it makes needless."""
        return max((self.score, *(other.urgency for other in self.instead)))

    def skipped(self, reason: str) -> Skipped:
        """Return that this one is left alone."""
        return skipped_plan(self.plan, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlooked:
    """Chunks in which no candidate is more urgent than ``bound``; 0: there is none.

    Attributes:
        bound: see above.
        least: bytes below which no plan here can be.
        chunks: at least one.
        segments: how many there are to look at.
        look: returns the candidates, and notes why the rest is left alone.
        known: what is known of them, in words.
    """

    bound: float
    least: int
    chunks: tuple[ChunkKey, ...]
    segments: int
    look: Callable[[], Sequence[Candidate]]
    known: str

    def skipped(self, why: str) -> Iterable[Skipped]:
        """Return that nothing here was looked into."""
        reason = f"{why}: {self.known}"
        return (Skipped(chunk=chunk, partitions=(), reason=reason) for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A compaction of this kind is due here, but another plan has to be done first."""

    kind: PlanKind
    interval: Interval
    waits_for: str

    @property
    def reason(self) -> str:
        """Return why nothing new is planned here."""
        return f"held back: {self.kind} compaction is due, once plan {self.waits_for} is done"


def choose(
    candidates: Iterable[Candidate],
    policy: Policy,
    skipped: list[Skipped],
    planner_context: Iterable[Unlooked] = (),
) -> Planned:
    """Choose within the budget; whatever is not chosen gets a reason in ``skipped``."""
    heap = [*map(_entry, candidates), *map(_unlooked, planner_context)]
    heapify(heap)
    chosen: list[CompactionPlan] = []
    vain: list[Unlooked] = []
    left, looked = policy.max_plan_bytes, 0
    while heap:
        best = heappop(heap)[2]
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
    skipped.extend(_explained(vain, LOOKS - looked, over))
    return Planned(chosen=tuple(chosen), skipped=tuple(skipped))


def _explained(vain: Iterable[Unlooked], most: int, over: str) -> Iterator[Skipped]:
    """Say why nothing was chosen in some places, in detail for the first ``most`` segments."""
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


def skipped_plan(plan: CompactionPlan, reason: str) -> Skipped:
    """Return that the segments of a plan are left alone: of a major one, its whole region."""
    if plan.kind is PlanKind.MAJOR:
        region = ChunkKey(plan.interval, plan.chunk.version)
        return Skipped(chunk=region, partitions=(), reason=reason, kind=plan.kind)
    partitions = tuple(segment_id.partition for segment_id in plan.inputs)
    return Skipped(chunk=plan.chunk, partitions=partitions, reason=reason, kind=plan.kind)


_Entry = tuple[float, str, Candidate | Unlooked]
"""Urgency, name, item: of equal urgency what was not looked into comes first, earliest first."""


def _entry(candidate: Candidate) -> _Entry:
    return -candidate.urgency, candidate.plan.id, candidate


def _unlooked(one: Unlooked) -> _Entry:
    return -one.bound, f" {one.chunks[0]}", one


def _over(plan: CompactionPlan, chosen: int, left: int, policy: Policy) -> str | None:
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

"""Choose candidates: highest gain per cost first, within the budget, with a reason for every skip.

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
6. A planner's result is the chosen plans, and the reason for every skip (``Planned``).
7. All sensor modes share one verdict on whether an interval is compact enough
   (``judge_small_segments``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum, StrEnum, auto
from heapq import heapify, heappop, heappush
from typing import Self

from airflow_provider_segtable.core.chunk import ChunkSummary, least_size
from airflow_provider_segtable.core.counted import MIB, counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.plan_kinds import smallest
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.planning.properties import Policy


# A planner's result
class Obstacle(Enum):
    """A cause that keeps segments from being compacted until a person acts."""

    ABORTED = auto()
    """A plan over them was aborted, and they rest."""
    TOO_LARGE = auto()
    """The plan is larger than a run may be."""


class Code(StrEnum):
    """The kind of a reason; scripts may rely on these."""

    HOT = "hot"
    CLAIMED = "claimed"
    RESTING = "resting"
    DRAINING = "draining"
    COVERED = "covered"
    NEXT_RUN = "next-run"
    RUN_PLANS = "run-plans"
    RUN_BYTES = "run-bytes"
    NOTHING_TO_GAIN = "nothing-to-gain"
    LARGE_ENOUGH = "large-enough"
    TOO_LARGE = "too-large"
    TOO_FEW = "too-few"
    TOO_LITTLE = "too-little"
    ALONE = "alone"
    APART = "apart"
    NO_ROWS = "no-rows"
    SORTED = "sorted"
    SORTED_LATELY = "sorted-lately"
    NOT_COLD = "not-cold"
    INDEX = "index"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Threshold:
    """The number behind a reason: a property, its value, and the value found.

    Attributes:
        setting: the property, e.g. ``compaction.min_segments``.
        value: the value found.
        wanted: the value by the property, in the same unit.
        unit: ``bytes``, ``segments``, ``minutes``, ``share`` (0 to 1) or ``plans``.
    """

    setting: str
    value: float
    wanted: float
    unit: str

    def facts(self) -> Facts:
        """Return the number as plain JSON values."""
        return {
            "setting": self.setting,
            "value": self.value,
            "wanted": self.wanted,
            "unit": self.unit,
        }


class Reason(str):
    """The text of a reason with its code, and what would change it.

    ``until`` is when it ends by itself. Other reasons end with an event of the log, or with another
    ``threshold``.
    """

    __slots__ = ("code", "obstacle", "threshold", "until")
    code: Code
    obstacle: Obstacle | None
    until: Instant | None
    threshold: Threshold | None

    def __new__(
        cls,
        text: str,
        code: Code = Code.OTHER,
        obstacle: Obstacle | None = None,
        *,
        until: Instant | None = None,
        threshold: Threshold | None = None,
    ) -> Self:
        """Return the text with its code."""
        made = super().__new__(cls, text)
        made.code, made.obstacle, made.until, made.threshold = code, obstacle, until, threshold
        return made

    def after(self, text: str) -> Self:
        """Return the reason with more text before it."""
        return type(self)(
            f"{text}{self}", self.code, self.obstacle, until=self.until, threshold=self.threshold
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Skipped segments (by partition; empty means the whole chunk), with the reason.

    ``kind`` is the kind of plan that skipped them, the smallest if all kinds did. For a plan over
    an interval, ``chunk`` spans that interval.
    """

    chunk: ChunkKey
    partitions: tuple[int, ...]
    reason: str
    kind: str = field(default_factory=lambda: smallest().kind)

    def facts(self) -> Facts:
        """Return the skipped part of the table, with the reason, as plain JSON values."""
        return {
            "kind": self.kind,
            "interval": str(self.chunk.interval),
            "bucket": None if self.chunk.bucket == NO_BUCKET else self.chunk.bucket,
            "partitions": list(self.partitions),
            "reason": self.reason,
            "code": self.code.value,
            "threshold": None if self.threshold is None else self.threshold.facts(),
        }

    @property
    def code(self) -> Code:
        """Return the kind of the reason."""
        return self.reason.code if isinstance(self.reason, Reason) else Code.OTHER

    @property
    def threshold(self) -> Threshold | None:
        """Return the number that would change the reason, if there is one."""
        return self.reason.threshold if isinstance(self.reason, Reason) else None

    @property
    def obstacle(self) -> Obstacle | None:
        """Return the obstacle behind the reason, if it is one."""
        return self.reason.obstacle if isinstance(self.reason, Reason) else None

    @property
    def until(self) -> Instant | None:
        """Return when the reason ends by itself, if it does."""
        return self.reason.until if isinstance(self.reason, Reason) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Chosen plans, best first, and a reason for everything skipped.

    ``gains`` has the gain of each chosen plan in segments, by id, except for plans over the whole
    table. ``whole`` says that each area was examined in which a plan may be due. ``due`` is the
    earliest time at which the result may be another one without an event of the log; None: never.
    """

    chosen: tuple[Plan, ...]
    skipped: tuple[Skipped, ...]
    gains: Mapping[str, float] = field(default_factory=dict)
    whole: bool = True
    due: Instant | None = None


def joined(lines: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Join lines of neighbouring intervals (the first field) whose other fields are equal.

    Lines with equal other fields follow each other, in the order of time; these groups keep the
    order of their first lines.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for interval, *rest in lines:
        groups.setdefault(tuple(rest), []).append(interval)
    return [(each, *rest) for rest, found in groups.items() for each in _united(found)]


def _united(intervals: Iterable[str]) -> list[str]:
    """Return intervals in the order of time, neighbours as one."""
    found: list[tuple[str, str]] = []
    for start, _, end in sorted(each.partition("/") for each in intervals):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return [f"{start}/{end}" for start, end in found]


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: ``0-15, 17``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# The choice of candidates
LOOKS = 10_000
"""Number of segments that a planner run examines; at least one area."""
BRIEFLY = 0
"""Instead of ``LOOKS``: examine no area only for the sake of its reasons, and give none for it."""


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
class Area:
    """A time interval that is planned alone (``planning.table_plan``), before it is examined.

    Attributes:
        interval: the interval; no candidate begins earlier or ends later.
        known: its visible chunks, at least one, with their summaries.
        segments: number of segments to examine.
        bound: upper bound of the candidates' urgency; 0 means no candidate.
    """

    interval: Interval
    known: Sequence[tuple[ChunkKey, ChunkSummary]]
    segments: int
    bound: float

    @property
    def chunks(self) -> tuple[ChunkKey, ...]:
        """Return the visible chunks."""
        return tuple(chunk for chunk, _ in self.known)

    @property
    def least(self) -> int:
        """Return a lower bound of the size of the smallest segment, in bytes."""
        return least_size(min(min(summary.sizes, default=0) for _, summary in self.known))

    def skipped(self, why: Reason, kind: str) -> Iterator[Skipped]:
        """Yield the skip records of its unexamined chunks."""
        size = describe_size(sum([summary.size for _, summary in self.known]))
        about = f"{why}: {counted(self.segments, 'segment')} of {size} in all"
        reason = Reason(about, why.code, threshold=why.threshold)
        for chunk, _ in self.known:
            yield Skipped(chunk=chunk, partitions=(), reason=reason, kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A compaction of ``kind`` is due in ``interval``, after plan ``waits_for`` is done."""

    kind: str
    interval: Interval
    waits_for: str

    @property
    def reason(self) -> Reason:
        """Return why no new plan is made in the interval."""
        due = f"held back: {self.kind} compaction is due, once plan {self.waits_for} is done"
        return Reason(due, Code.DRAINING)


Look = Callable[[Area], Sequence[Candidate]]
"""Returns the candidates of an area, and adds reasons for the rest."""


def choose(
    candidates: Iterable[Candidate],
    policy: Policy,
    skipped: list[Skipped],
    areas: Iterable[Area] = (),
    look: Look = lambda _: (),
    explain: int | None = None,
) -> Planned:
    """Choose plans within the budget; add a reason to ``skipped`` for all others.

    A table of more than ``explain`` segments (``LOOKS``) is not examined further for the sake of
    its reasons.
    """
    explain = LOOKS if explain is None else explain
    run = _Run(policy=policy, look=look, skipped=skipped, left=policy.max_plan_bytes)
    unexamined = tuple(areas)
    run.heap += map(_entry, candidates)
    run.heap += (_unlooked(area) for area in unexamined if area.bound)
    heapify(run.heap)
    while run.heap and len(run.chosen) < policy.max_plans:
        run.take(heappop(run.heap)[-1])
    over = _used_up(len(run.chosen), policy)
    for *_, one in sorted(run.heap):
        if isinstance(one, Candidate):
            skipped.extend(_all_skipped((one,), over))
        else:
            run.vain.append(one)
    whole = not (run.vain or run.later)
    run.vain += (area for area in unexamined if not area.bound)
    if explain:
        explained = explain if sum([area.segments for area in unexamined]) <= explain else 0
        skipped.extend(_explained(run.vain, look, explained - run.looked, over))
    return Planned(chosen=tuple(run.chosen), skipped=tuple(skipped), gains=run.gains, whole=whole)


@dataclass(slots=True, kw_only=True)
class _Run:
    """A choice under way.

    ``left`` are the bytes of the budget that no plan uses yet, ``vain`` the areas without a plan
    that fits them, ``looked`` is the number of segments examined, ``later`` of areas left out.
    """

    policy: Policy
    look: Look
    skipped: list[Skipped]
    left: int
    heap: list["_Entry"] = field(default_factory=list)
    chosen: list[Plan] = field(default_factory=list)
    gains: dict[str, float] = field(default_factory=dict)
    vain: list[Area] = field(default_factory=list)
    looked: int = 0
    later: int = 0

    def take(self, best: Candidate | Area) -> None:
        """Choose, skip or examine the most urgent one."""
        if isinstance(best, Candidate):
            found = self._chosen(best)
        elif self.left < best.least:
            self.vain.append(best)
            return
        elif self.looked and self.looked + best.segments > LOOKS:
            self.later += 1
            self.skipped.extend(best.skipped(_LATER, smallest().kind))
            return
        else:
            found = self.look(best)
            fits = any(one.plan.size <= self.left for one in found)
            self.looked += best.segments if fits else 0
        for other in found:
            heappush(self.heap, _entry(other))

    def _chosen(self, best: Candidate) -> Sequence[Candidate]:
        """Choose a candidate, or return those to consider instead of it."""
        if best.plan.size > self.left:
            over = _used_up(len(self.chosen), self.policy)
            if best.plan.size > self.policy.max_plan_bytes:  # no later run has room, either
                over = Reason(
                    over,
                    Code.TOO_LARGE,
                    Obstacle.TOO_LARGE,
                    threshold=too_large(best.plan.size, self.policy),
                )
            self.skipped.append(best.skipped(over))
            return best.instead
        self.chosen.append(best.plan)
        self.gains[best.plan.id] = best.gain
        self.left -= best.plan.size
        covers = Reason(f"plan {best.plan.id} does it", Code.COVERED)
        self.skipped.extend(_all_skipped(best.instead, covers))
        return ()


_LATER = Reason("left for the next run", Code.NEXT_RUN)
_NO_GAIN = Reason("nothing to gain", Code.NOTHING_TO_GAIN)


def _explained(vain: Iterable[Area], look: Look, most: int, over: Reason) -> Iterator[Skipped]:
    """Yield reasons for areas without a chosen plan; details for the first ``most`` segments."""
    kind = smallest().kind
    for one in vain:
        most -= one.segments
        if most < 0:
            yield from one.skipped(over if one.bound else _NO_GAIN, kind)
        else:
            yield from _all_skipped(look(one), over)


def _all_skipped(candidates: Iterable[Candidate], over: str) -> Iterator[Skipped]:
    """Yield the skip records of candidates and of all that they replace."""
    for candidate in candidates:
        yield candidate.skipped(over)
        yield from _all_skipped(candidate.instead, over)


def skipped_plan(plan: Plan, reason: str) -> Skipped:
    """Return the skip record of a plan's segments, or of the whole interval that it claims."""
    if plan.claim.segments is None:
        region = ChunkKey(plan.interval, plan.chunk.version)
        return Skipped(chunk=region, partitions=(), reason=reason, kind=plan.kind)
    partitions = tuple(segment_id.partition for segment_id in plan.inputs)
    return Skipped(chunk=plan.chunk, partitions=partitions, reason=reason, kind=plan.kind)


_Entry = tuple[float, Instant, str, Candidate | Area]
"""Negative urgency, start, id, item: at equal urgency and start, unexamined chunks come first."""


def _entry(candidate: Candidate) -> _Entry:
    return -candidate.urgency, candidate.plan.interval.start, candidate.plan.id, candidate


def _unlooked(one: Area) -> _Entry:
    return -one.bound, one.interval.start, "", one


def _used_up(chosen: int, policy: Policy) -> Reason:
    if chosen == policy.max_plans:
        most = Threshold("compaction.max_plans", chosen, policy.max_plans, "plans")
        text = f"over the budget of {counted(policy.max_plans, 'plan')} a run"
        return Reason(text, Code.RUN_PLANS, threshold=most)
    text = f"over the budget of {describe_size(policy.max_plan_bytes)} a run"
    return Reason(text, Code.RUN_BYTES)


def too_large(size: int, policy: Policy) -> Threshold:
    """Return the size of a plan beside the largest that a run may have."""
    return Threshold("compaction.max_plan_bytes", size, policy.max_plan_bytes, "bytes")


# The verdict of sensors
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a wait is over, with a status message."""

    satisfied: bool
    message: str
    small_segments: int
    version: int


def judge_small_segments(
    state: State, policy: Policy, interval: Interval | None, at_most: int | None
) -> Verdict:
    """Judge whether ``interval`` has at most ``at_most`` visible small segments in each chunk.

    By default at most as many as the policy leaves uncompacted: one less than ``min_segments``.
    The policy defines small segments; tombstones do not count. Pending plans do not count as done.
    """
    wanted = policy.min_segments - 1 if at_most is None else at_most
    counts: dict[str, int] = {}
    for found in state.timeline.lookup(interval):
        small = sum(1 for s in found.segments if s.rows and s.size < policy.small_size)
        counts[str(found.chunk.interval)] = counts.get(str(found.chunk.interval), 0) + small
    worst = max(counts, key=lambda name: counts[name], default=None)
    found_most = counts[worst] if worst else 0
    where = f", most in {worst}" if worst else ""
    return Verdict(
        satisfied=found_most <= wanted,
        message=f"{counted(found_most, 'small segment')} a chunk (at most {wanted} wanted){where}",
        small_segments=found_most,
        version=state.n,
    )

"""What must hold of a fleet run, read from the tables' own logs; all functions are pure.

1. A plan is requested, and then completed or aborted. No id is requested again while it is pending.
2. In every window of an hour the bytes of the plans that were requested in it are within the
   budget. At every instant the plans that are pending are as many as allowed.
3. Commits that landed are those of a table's events; each acknowledged one is among them, once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanRequested,
)
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import HOUR_US, SECOND_US, Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLife:
    """A plan of a table from its request to its end, if it has one; ``fed`` is its newest input."""

    table: str
    plan: str
    kind: str
    size: int
    fed: Instant
    requested: Instant
    ended: Instant | None = None
    completed: bool = False


@dataclass(slots=True)
class TableStory:
    """The plans and commits of one table, from its events in order."""

    table: str
    lives: list[PlanLife] = field(default_factory=list)
    commits: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _open: dict[str, PlanLife] = field(default_factory=dict)
    _written: dict[SegmentId, Instant] = field(default_factory=dict)

    def read(self, events: Iterable[Event]) -> "TableStory":
        """Read the events."""
        for event in events:
            self._one(event)
        self.lives += self._open.values()
        return self

    def _one(self, event: Event) -> None:
        match event.action:
            case Appended(segments=segments) | RowsChanged(segments=segments):
                self.commits[event.commit] += 1
                self._written |= dict.fromkeys((each.id for each in segments), event.time)
            case PlanRequested(plan=plan):
                if plan.id in self._open:
                    self.problems.append(f"{self.table}: {plan.id} was requested while pending")
                fed = max((self._written.get(each, 0) for each in plan.inputs), default=0)
                self._open[plan.id] = PlanLife(
                    table=self.table,
                    plan=plan.id,
                    kind=plan.kind,
                    size=plan.size,
                    fed=fed or event.time,
                    requested=event.time,
                )
            case PlanCompleted(plan_id=plan_id, segments=segments):
                self._written |= dict.fromkeys((each.id for each in segments), event.time)
                self._end(plan_id, event.time, completed=True)
            case PlanAborted(plan_id=plan_id):
                self._end(plan_id, event.time, completed=False)
            case _:
                pass

    def _end(self, plan_id: str, at: Instant, *, completed: bool) -> None:
        life = self._open.pop(plan_id, None)
        if life is None:
            self.problems.append(f"{self.table}: {plan_id} ended, and was not pending")
        else:
            self.lives.append(replace(life, ended=at, completed=completed))


def over_bytes(of: str, lives: Iterable[PlanLife], limit: int) -> Iterator[str]:
    """Yield each window of an hour with more bytes than a budget; a single plan may be larger."""
    window: list[PlanLife] = []
    for life in sorted(lives, key=lambda each: each.requested):
        window = [each for each in window if life.requested - each.requested < HOUR_US]
        window.append(life)
        begun = sum(each.size for each in window)
        if begun > limit and len(window) > 1:
            yield f"{of}: {begun} bytes were begun within an hour, of {limit}: {life.plan}"


def most_at_once(lives: Iterable[PlanLife]) -> int:
    """Return how many plans were pending at one instant; one that ends makes room."""
    steps = sorted(
        step
        for life in lives
        for step in ((life.requested, 1), *(((life.ended, -1),) if life.ended is not None else ()))
    )
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of values; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def waits(lives: Iterable[PlanLife]) -> tuple[list[float], list[float]]:
    """Return the seconds from the newest input to the request, and from there to the completion."""
    known = [*lives]
    before = [(each.requested - each.fed) / SECOND_US for each in known]
    after = [
        (each.ended - each.requested) / SECOND_US
        for each in known
        if each.completed and each.ended is not None
    ]
    return before, after


def lost_or_twice(
    name: str, acknowledged: Iterable[int], commits: Counter[str], table: str
) -> Iterator[str]:
    """Yield what a table's events have too little or too much of the acknowledged commits."""
    lost = [turn for turn in acknowledged if f"{name}-{turn}" not in commits]
    twice = [commit for commit, times in commits.items() if times > 1]
    if lost:
        yield f"{table}: {len(lost)} acknowledged commits are lost: {lost[:5]}"
    if twice:
        yield f"{table}: {len(twice)} commits are in the log twice: {twice[:5]}"

"""Objectives: what readers of a table should meet, what they meet now, and what follows from it.

1. A measure is of the newest version, and of the *hot end* alone if the objective has one: the time
   before the newest event. It is computed from the log; no file is read.
2. *Files read* is the largest number of files of any day, as most readers ask for a day or less. A
   chunk that is longer than a day counts whole.
3. *Overlap* is the number of files that hold one instant, on average over the time that a chunk's
   files span; the largest of any chunk. 1 means that files follow each other.
4. An aim that is missed, or nearly (``NEAR`` of it), lowers the thresholds of the table's policy
   that would let the planner wait. An aim that is far away changes nothing.
"""

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_segtable.core.chunk import overlap_of
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.work import depth
from airflow_provider_segtable.core.quantities import describe_duration
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import DAY_US, MAX_INSTANT, SECOND_US, Instant, Interval
from airflow_provider_segtable.planning.fleet.fleet import Objective
from airflow_provider_segtable.planning.planner_context import deleted_in
from airflow_provider_segtable.planning.properties import Policy

NEAR = 0.8
"""From this share of an aim on, the planner acts."""
_DURATIONS = ("stale_index", "publish_lag")
_SENTENCES = {
    "files_read": "a day is read from {} files",
    "overlap": "{} files overlap at one instant",
    "deleted": "{} of all rows are deleted",
    "stale_index": "an index lacks what was committed {} ago",
    "publish_lag": "published versions lack what was committed {} ago",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What readers meet, by the names of ``Objective``; None: it was not asked for, or is unknown.

    Durations are in microseconds.
    """

    files_read: float | None = None
    overlap: float | None = None
    deleted: float | None = None
    stale_index: float | None = None
    publish_lag: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An aim beside its measure, mostly one that a table misses."""

    name: str
    found: float
    aim: float

    def __str__(self) -> str:
        """Return one sentence, with both numbers."""
        return f"{self.name} is {_shown(self.name, self.found)}, of {_shown(self.name, self.aim)}"

    @property
    def sentence(self) -> str:
        """Return the same for readers who do not know the names of aims."""
        found, aim = _in_words(self.name, self.found), _in_words(self.name, self.aim)
        return f"{_SENTENCES[self.name].format(found)}, of {aim} at most"

    @property
    def times(self) -> float:
        """Return how many times the aim the measure is."""
        return self.found / self.aim if self.aim else max(self.found, 1.0) + 1.0

    def facts(self) -> Facts:
        """Return the miss as plain JSON values; durations in seconds."""
        unit = SECOND_US if self.name in _DURATIONS else 1
        return {"objective": self.name, "found": self.found / unit, "aim": self.aim / unit}


def _in_words(name: str, value: float) -> str:
    return f"{value:.0%}" if name == "deleted" else _shown(name, value)


def _shown(name: str, value: float) -> str:
    return describe_duration(value) if name in _DURATIONS else f"{value:.3g}"


def measured(
    state: State, objective: Objective, now: Instant, publish_lag: float | None = None
) -> Measure:
    """Measure what an objective asks for.

    Args:
        state: the table.
        objective: the aims; what it lacks is not measured.
        now: the wall clock, for ages.
        publish_lag: age of the oldest commit that a publication lacks, in microseconds.
    """
    hot = _hot(state, objective)
    asked = objective
    return Measure(
        files_read=None if asked.files_read is None else _files_read(state, hot),
        overlap=None if asked.overlap is None else _overlap(state, hot, asked.overlap),
        deleted=None if asked.deleted is None else _deleted(state, hot),
        stale_index=None if asked.stale_index is None else _stale(state, now),
        publish_lag=None if asked.publish_lag is None else publish_lag,
    )


def missed(objective: Objective, measure: Measure) -> tuple[Miss, ...]:
    """Return the aims that are missed, the worst first."""
    found = (miss for miss in compared(objective, measure) if miss.found > miss.aim)
    return tuple(sorted(found, key=lambda miss: -miss.times))


def policy_for(policy: Policy, objective: Objective, measure: Measure) -> Policy:
    """Return the policy by which a table is planned, so that it meets its objective (rule 4)."""
    near = {m.name for m in compared(objective, measure) if m.found > NEAR * m.aim}
    if {"files_read", "overlap"} & near:
        policy = replace(policy, min_segments=2, max_age_minutes=0.0)
    if "overlap" in near:
        policy = replace(policy, semi_major_unclustered=0.0, semi_major_interval_minutes=0.0)
    if "deleted" in near and objective.deleted is not None:
        policy = replace(policy, deleted_share=min(policy.deleted_share, objective.deleted / 2))
    return policy


def compared(objective: Objective, measure: Measure) -> Iterator[Miss]:
    """Yield each aim that is measured, met or not, with both numbers."""
    for name in ("files_read", "overlap", "deleted", "stale_index", "publish_lag"):
        aim, found = getattr(objective, name), getattr(measure, name)
        if aim is not None and found is not None:
            yield Miss(name=name, found=found, aim=aim)


# Measures
def _hot(state: State, objective: Objective) -> Interval | None:
    """Return the hot end; None if it is the whole table."""
    if objective.hot is None:
        return None
    summaries = state.timeline.visible_summaries().values()
    newest = max((each.time_max for each in summaries if each.time_max is not None), default=None)
    return None if newest is None else Interval(newest - objective.hot, MAX_INSTANT)


def _files_read(state: State, hot: Interval | None) -> float:
    days: dict[Instant, int] = {}
    for chunk, summary in state.timeline.visible_summaries(hot).items():
        interval = chunk.interval
        short = interval.end - interval.start <= DAY_US
        day = interval.start // DAY_US * DAY_US if short else interval.start
        days[day] = days.get(day, 0) + summary.files
    return max(days.values(), default=0)


def _overlap(state: State, hot: Interval | None, aim: float) -> float:
    """Return the largest overlap; of a chunk with no more files than the aim, their number."""
    most = 0.0
    for chunk, summary in state.timeline.visible_summaries(hot).items():
        if summary.files > most:
            few = summary.files <= aim
            most = max(most, summary.files if few else _of_chunk(state, chunk))
    return most


def _of_chunk(state: State, chunk: ChunkKey) -> float:
    """Return the overlap in a chunk's time; only what an older segtable wrote is decoded."""
    some = state.timeline.visible_summaries(chunk.interval).values()
    found = overlap_of([each for each in some if each.rows])
    return depth(state.timeline.visible_segments(chunk.interval)) if found is None else found


def _deleted(state: State, hot: Interval | None) -> float:
    found = deleted_in(state, hot)
    if found.nothing:
        return 0.0
    rows = sum(each.rows for each in state.timeline.visible_summaries(hot).values())
    return sum(found.rows.values()) / max(rows, 1)


def _stale(state: State, now: Instant) -> float:
    since = (index.lacking_since for index in state.indexes.values())
    oldest = min((at for at in since if at is not None), default=None)
    return 0 if oldest is None else max(0, max(now, state.time) - oldest)

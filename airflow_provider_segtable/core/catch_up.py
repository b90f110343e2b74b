"""Judge whether an index has caught up, and choose the next piece to build.

1. An index has *caught up* with an event if it is available, and has the entries of all files that
   this event or an earlier one published. Entries in feeds count, because readers see them.
2. There is one verdict (``catch_up``) for every way of waiting. The goal is an event, a time, both,
   or by default the newest event of the state. Event 0 asks only that the index is available.
3. An index that is being built has caught up with nothing, however new its request is.
4. An index is *gone* if the table has none of its name, or was dropped. Waiting is of no use then.
   A rebuilt index keeps its name: the wait goes on.
5. The lag is measured over the gaps that block the goal: the number of commits without entries, and
   the time since the oldest one.
6. A build takes the earliest time that is lacking, chunk by chunk, until it has enough files
   (``next_piece``). A chunk is never divided, so a piece has at least one.

Source of the idea: Hudi RFC-45 (an index is used once it has caught up with the timeline).
"""

from collections.abc import Sequence
from enum import StrEnum

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.indexes.index_state import IndexGap, IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import SECOND_US, Instant, Interval, iso


class Progress(StrEnum):
    """How far an index is; the values are stable."""

    DONE = "done"
    WAITING = "waiting"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """The verdict at a version of the table, in words in ``message``.

    ``lag_commits`` and ``lag_s`` are 0 unless it is waiting for entries.
    """

    progress: Progress
    message: str
    version: int
    lag_commits: int = 0
    lag_s: float = 0.0

    @property
    def done(self) -> bool:
        """Return whether the index has caught up."""
        return self.progress is Progress.DONE


def catch_up(
    state: State,
    name: str,
    upto: int | None = None,
    *,
    by: Instant | None = None,
    now: Instant | None = None,
) -> CatchUp:
    """Judge whether an index has caught up.

    Args:
        state: the table.
        name: the name of the index.
        upto: the event to catch up with; the newest by default, unless ``by`` is given.
        by: the time whose events to catch up with.
        now: the present, from which the lag is counted; by default the time of the newest event.
    """
    index = state.indexes.get(name)
    if state.dropped or index is None:
        return CatchUp(progress=Progress.GONE, message=_gone(state, name), version=state.n)
    present = max(now or 0, state.time)
    goal = state.n if upto is None and by is None else upto
    if goal is not None and goal > state.n:
        return _early(index, state, f"event {goal} to be committed")
    if by is not None and by >= present:
        return _early(index, state, f"{iso(by)} to pass")
    lacks = blocking(index, goal, by)
    if not lacks:
        return CatchUp(progress=Progress.DONE, message=_done(index, goal, by), version=state.n)
    lag_s = (present - min(lack.time for lack in lacks)) / SECOND_US
    commits = {lack.n for lack in lacks if lack.n > index.requested_n}
    building = index.available_n is None
    doing = _building(index, lacks, state) if building else _lagging(index, lacks)
    return CatchUp(
        progress=Progress.WAITING,
        message=f"{doing}; lag: {counted(len(commits), 'commit')}, {lag_s:.0f} s",
        version=state.n,
        lag_commits=len(commits),
        lag_s=lag_s,
    )


def blocking(index: IndexState, upto: int | None, by: Instant | None) -> tuple[IndexGap, ...]:
    """Return the gaps that block catch-up with an event and a time."""
    if index.available_n is None:
        return index.lacks
    return tuple(
        lack
        for lack in index.lacks
        if (upto is not None and lack.since <= upto) or (by is not None and lack.time <= by)
    )


def _early(index: IndexState, state: State, awaited: str) -> CatchUp:
    message = f"{_named(index)} waits for {awaited}; the table is at event {state.n}"
    return CatchUp(progress=Progress.WAITING, message=message, version=state.n)


def _gone(state: State, name: str) -> str:
    table = state.table.name
    if state.dropped:
        return f"table {table} was dropped with its indexes, by event {state.n}"
    known = ", ".join(state.indexes) or "none"
    return (
        f"{table} has no index {name!r} (its indexes are {known}): it was dropped, or never "
        "requested; create it first"
    )


def _done(index: IndexState, upto: int | None, by: Instant | None) -> str:
    since = f"{_named(index)} is available since event {index.available_n}"
    goals = [f"event {upto}"] if upto else []
    goals += [iso(by)] if by is not None else []
    return f"{since}, with all files up to {' and '.join(goals)}" if goals else since


def _building(index: IndexState, lacks: Sequence[IndexGap], state: State) -> str:
    visible = {chunk.interval for chunk in state.timeline.visible_chunks()}
    left = sum(any(each.overlaps(lack.interval) for lack in lacks) for each in visible)
    asked = f"requested by event {index.requested_n}"
    work = f"{left:,} of {counted(len(visible), 'time chunk')} to do"
    return f"{_named(index)}, {asked}, is being built: {work}"


def _lagging(index: IndexState, lacks: Sequence[IndexGap]) -> str:
    oldest = min(lacks, key=lambda lack: lack.since)
    when = f"since event {oldest.since} of {iso(oldest.time)}"
    return f"{_named(index)} is available, but has no entries of some files {when}"


def _named(index: IndexState) -> str:
    definition = index.definition
    return f"index {definition.name} ({definition.kind.name})"


# Pieces: the next time to build
MOST_FILES = 256
"""Number of files from which on a piece takes no further chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A time to build, and the files in it that readers see."""

    interval: Interval
    segments: tuple[Segment, ...]


def next_piece(index: IndexState, state: State, most: int = MOST_FILES) -> Piece | None:
    """Return the next piece to build; None if the index lacks nothing."""
    if not index.lacks:
        return None
    lack = index.lacks[0].interval
    found: list[Segment] = []
    end = lack.start
    for chunk in sorted({each.interval for each in state.timeline.visible_chunks(lack)}):
        if len(found) >= most:
            return Piece(interval=Interval(lack.start, end), segments=tuple(dict.fromkeys(found)))
        found += files_in(state, chunk)
        end = max(end, min(chunk.end, lack.end))
    return Piece(interval=lack, segments=tuple(dict.fromkeys(found)))


def files_in(state: State, interval: Interval) -> tuple[Segment, ...]:
    """Return the files of a time that readers see."""
    return tuple(each for each in state.timeline.visible_segments(interval) if each.path)


def chunks_lacking(index: IndexState, state: State) -> int:
    """Return the number of time chunks in which an index lacks files."""
    times = (each.interval for each in index.lacks)
    return len({c.interval for time in times for c in state.timeline.visible_chunks(time)})

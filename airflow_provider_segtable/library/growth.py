"""How a table grew: its size at versions of the past, for a plot.

1. A checkpoint has the summaries of its chunks, so its size needs no segment. The newest events,
   since the last checkpoint that is used, are applied one by one, and each gives a point.
2. Of the checkpoints so many are read, evenly, that their bytes stay below ``MOST_BYTES``, and the
   points below ``most``. Their sidecars count, by the number of segments. A short log is applied
   whole.
3. Points before the log's first event are unknown: expired events leave none.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, number
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.gauges import small_segments
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.table.log.event_log import EventLog

T = TypeVar("T")
MOST_POINTS = 200
MOST_BYTES = 64 * 1024 * 1024
BYTES_A_SEGMENT = 12
"""About as many bytes has a segment in a checkpoint or a sidecar, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPoint:
    """The size of a table after an event: visible files, their bytes and rows, and small ones."""

    version: int
    at: Instant
    files: int
    bytes: int
    rows: int
    small: int


def growth(log: EventLog, newest: State, most: int = MOST_POINTS) -> tuple[GrowthPoint, ...]:
    """Return the size of a table over time, ascending, at most ``most`` points.

    Args:
        log: the table's.
        newest: the newest state, which is the last point.
        most: how many points, at least 2.

    Raises:
        CorruptTable, StorageError: the log cannot be read.
    """
    points: dict[int, GrowthPoint] = {}
    for state in _states(log, newest, most):
        points[state.n] = point_of(state)
    points[newest.n] = point_of(newest)
    found = [points[n] for n in sorted(points)]
    return tuple(_evenly(found, most))


def point_of(state: State) -> GrowthPoint:
    """Return the size of a state."""
    summaries = state.timeline.visible_summaries().values()
    policy = Policy.read(state.table.properties)
    return GrowthPoint(
        version=state.n,
        at=state.time,
        files=sum(each.files for each in summaries),
        bytes=sum(each.size for each in summaries),
        rows=sum(each.rows for each in summaries),
        small=small_segments(state.timeline, policy).total(),
    )


def _states(log: EventLog, newest: State, most: int) -> Iterator[State]:
    """Yield states of the past: of checkpoints, then after the newest events."""
    first, begin = log.first(), log.begin()
    state: State | None = None
    if newest.n - begin > most or first > begin:
        for n in _checkpoints(log, newest, most // 2):
            found = log.at_checkpoint(n)
            if found is not None:
                state = found
                yield state
    start = begin if state is None else state.n + 1
    step = 1 + (newest.n - start) // max(1, most // 2)
    for event in log.events(start):
        if event.n > newest.n:
            return
        state = apply(state, event)
        if (event.n - start) % step == 0:
            yield state


def _checkpoints(log: EventLog, newest: State, most: int) -> Sequence[int]:
    """Return the numbers of the checkpoints to read, ascending (rule 2)."""
    sizes = {
        n: entry.size
        for entry in log.storage.list(CHECKPOINTS)
        if (n := number(entry.path)) is not None and n <= newest.n
    }
    room = MOST_BYTES // max([1, BYTES_A_SEGMENT * len(newest.timeline), *sizes.values()])
    return _evenly(sorted(sizes), max(1, min(most, room)))


def _evenly(values: Sequence[T], most: int) -> Sequence[T]:
    """Return at most so many of the values, evenly, the last one among them."""
    if len(values) <= most:
        return values
    return [values[(at + 1) * len(values) // most - 1] for at in range(most)]

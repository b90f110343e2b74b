"""A time axis that leaves out empty time, so that a lonely chunk far away does not squeeze others.

1. Time with chunks is drawn to scale. If it is less than ``DENSE`` of the whole, each gap between
   is drawn as a short break of ``GAP`` of the width.
2. Labels stand where time begins: as many as there is room for, evenly.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Instant, Interval, joined, moment

DENSE = 0.4
GAP = 0.012
MOST_GAPS = 30
LONG_US = 366 * DAY_US


class Tick(NamedTuple):
    """A label at its place, 0 to 1."""

    at: float
    label: str


class TimeAxis:
    """The places of instants, 0 to 1."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        """Make an axis for the time of these intervals, at least one."""
        pieces = joined(intervals)
        whole = pieces[-1].end - pieces[0].start
        covered = sum(each.end - each.start for each in pieces)
        broken = covered < DENSE * whole and len(pieces) <= MOST_GAPS
        self._pieces = pieces if broken else (Interval(pieces[0].start, pieces[-1].end),)
        self._starts = [each.start for each in self._pieces]
        gaps = GAP * (len(self._pieces) - 1)
        self._scale = (1.0 - gaps) / sum(each.end - each.start for each in self._pieces)
        self._begins: list[float] = []
        at = 0.0
        for each in self._pieces:
            self._begins.append(at)
            at += (each.end - each.start) * self._scale + GAP

    @property
    def breaks(self) -> Sequence[float]:
        """Return the middle of each gap."""
        return [at - GAP / 2 for at in self._begins[1:]]

    def at(self, instant: Instant) -> float:
        """Return the place of an instant; of one in a gap, that of the gap."""
        piece = max(0, bisect_right(self._starts, instant) - 1)
        inside = min(instant, self._pieces[piece].end) - self._pieces[piece].start
        return min(1.0, max(0.0, self._begins[piece] + inside * self._scale))

    def ticks(self, intervals: Sequence[Interval], most: int) -> list[Tick]:
        """Return labels at the begins of intervals, which are sorted by start."""
        shortest = min(each.end - each.start for each in intervals)
        found: list[Tick] = []
        for each in intervals:
            place = self.at(each.start)
            if not found or place - found[-1].at >= 1.0 / most:
                found.append(Tick(place, _label(each.start, shortest)))
        return found


def _label(at: Instant, length: int) -> str:
    when = moment(at)
    if length > LONG_US:
        return f"{when.year}"
    if length >= 28 * DAY_US:
        return f"{when:%b} {when.year}"
    if length >= DAY_US:
        return f"{when.day} {when:%b} {when.year}"
    return f"{when.day} {when:%b} {when:%H:%M}" if length >= HOUR_US else f"{when:%H:%M:%S}"

"""An overview of a version's chunks as columns of numbers, from which maps of any range are summed.

1. It has a line for each chunk of each version and bucket: place, state, level, and the sums of its
   summary. Making it takes time by the number of chunks, and decodes no segment. A map of it takes
   time by the number of cells, in a table of a million segments, too.
2. Neighbouring lines whose chunks overlap in time are a *column* (``columns``); no map divides
   one.
3. Sums are about a chunk's visible groups; ``hidden`` counts its other segments. Of a chunk that
   other chunks hide, these are the groups that would be visible without them.
4. Deleted rows are those that the log names for the time and bucket, less those that every segment
   there has applied: an upper bound.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET
from airflow_provider_segtable.core.time import Interval, united
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.columns import Placed, columns_of
from airflow_provider_segtable.planning.properties import Policy

STATES = (GroupState.VISIBLE, GroupState.OVERSHADOWED, GroupState.STANDBY)
"""The states by their numbers in lines."""

LINE = np.dtype(
    [
        *((name, "i8") for name in ("start", "end", "version")),
        *((name, "i4") for name in ("bucket", "level", "state", "order")),
        *((name, "i8") for name in ("present", "segments", "hidden", "rows", "bytes")),
        *((name, "i8") for name in ("generation", "sorted", "deleted", "small")),
        *((name, "i8") for name in ("newest", "oldest")),
    ]
)
"""A line. ``order`` is the number of its clustering, or ``MIXED``; without a visible segment
``newest`` is 0 and ``oldest`` is ``NEVER``."""

NEVER = int(np.iinfo(np.int64).max)
MIXED = -1

Lines = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The chunks of a version.

    Attributes:
        n: the version.
        lines: of all columns, by time.
        first: the first line of each column, and the number of all lines.
        starts, ends: when each column begins and ends; they do not overlap.
        orders: the clusterings by their numbers.
    """

    n: int
    lines: Lines
    first: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    orders: tuple[str, ...]

    @staticmethod
    def of(state: State) -> "Overview":
        """Return the overview of a version."""
        measure = _Measure(state)
        found: list[tuple[int, ...]] = []
        first = [0]
        for column in columns_of(state.timeline):
            found += map(measure.line, column)
            first.append(len(found))
        lines = np.array(found, LINE)
        at = np.array(first)
        filled = len(found) > 0
        starts = np.minimum.reduceat(lines["start"], at[:-1]) if filled else lines["start"]
        ends = np.maximum.reduceat(lines["end"], at[:-1]) if filled else lines["end"]
        return Overview(
            n=state.n, lines=lines, first=at, starts=starts, ends=ends, orders=measure.orders
        )

    def within(self, window: Interval | None) -> tuple[Lines, npt.NDArray[np.int64]]:
        """Return the lines of chunks that overlap a window, each with the number of its column."""
        low, high = 0, len(self.starts)
        if window is not None:
            low = int(np.searchsorted(self.ends, window.start, "right"))
            high = max(low, int(np.searchsorted(self.starts, window.end, "left")))
        lines = self.lines[self.first[low] : self.first[high]]
        columns = np.repeat(np.arange(high - low), np.diff(self.first[low : high + 1]))
        if window is None:
            return lines, columns
        inside = (lines["start"] < window.end) & (window.start < lines["end"])
        return lines[inside], columns[inside]


class _Measure:
    """Makes lines of chunks of a state, as its policy sees them."""

    def __init__(self, state: State) -> None:
        policy = Policy.read(state.table.properties)
        self._wanted = policy.clustering
        self._small_size = policy.small_size
        self._small: dict[int, tuple[Mapping[int, int], int]] = {}
        self._orders: dict[str, int] = {"": 0}
        self._deleted = _Deleted(state)
        self._numbers = {state: at for at, state in enumerate(STATES)}

    @property
    def orders(self) -> tuple[str, ...]:
        """Return the clusterings of all chunks so far."""
        return tuple(self._orders)

    def line(self, placed: Placed) -> tuple[int, ...]:
        """Return a chunk's line."""
        key, summary = placed.chunk.key, placed.summary
        visible = summary.visible
        return (
            key.interval.start,
            key.interval.end,
            key.version,
            key.bucket,
            placed.level,
            self._numbers[placed.state],
            self._order(summary),
            summary.count,
            visible or summary.count,
            summary.count - visible if visible else 0,
            summary.rows,
            summary.size,
            summary.minor_version,
            self._sorted(summary),
            self._deleted.rows(placed) if self._deleted else 0,
            self._small_files(summary),
            summary.newest or 0,
            NEVER if summary.oldest is None else summary.oldest,
        )

    def _order(self, summary: ChunkSummary) -> int:
        if len(summary.clustered) > 1:
            return MIXED
        return self._orders.setdefault(next(iter(summary.clustered), ""), len(self._orders))

    def _sorted(self, summary: ChunkSummary) -> int:
        if self._wanted:
            return summary.clustered.get(self._wanted, 0)
        return summary.size - summary.clustered.get("", 0)

    def _small_files(self, summary: ChunkSummary) -> int:
        """Return the number of small files; chunks of a checkpoint share their sizes."""
        sizes = summary.sizes
        known = self._small.get(id(sizes))
        if known is None or known[0] is not sizes:
            few = summary.smaller_files(self._small_size)
            few = summary.smaller(self._small_size) if few is None else few
            known = self._small[id(sizes)] = (sizes, few)
        return known[1]


class _Deleted:
    """The rows that the log names as deleted, by time and bucket."""

    def __init__(self, state: State) -> None:
        self._times = united({root.interval for root in state.vectors})
        self._ends = [each.end for each in self._times]
        self._events: dict[tuple[int, Interval], list[tuple[int, int]]] = {}
        for root, some in state.vectors.items():
            known = self._events.setdefault((root.bucket, root.interval), [])
            known += ((each.n, each.rows) for each in some)
        self._inside: dict[Interval, list[Interval]] = {}
        for interval in {interval for _, interval in self._events}:
            at = bisect_right(self._ends, interval.start)
            self._inside.setdefault(self._times[at], []).append(interval)

    def __bool__(self) -> bool:
        return bool(self._events)

    def rows(self, placed: Placed) -> int:
        """Return the most rows of a chunk that are deleted."""
        key, summary = placed.chunk.key, placed.summary
        through = summary.least_purged
        if through is None or not summary.rows:
            return 0
        found = sum(
            rows
            for interval in self._near(key.interval)
            for bucket in {key.bucket, NO_BUCKET}
            for n, rows in self._events.get((bucket, interval), ())
            if n > through
        )
        return min(found, summary.rows)

    def _near(self, interval: Interval) -> Iterator[Interval]:
        at = bisect_right(self._ends, interval.start)
        while at < len(self._times) and self._times[at].start < interval.end:
            yield from (each for each in self._inside[self._times[at]] if each.overlaps(interval))
            at += 1

"""Areas: time intervals that are planned independently, with upper bounds of their gain.

1. An area splits no chunk, neither of the current nor of the policy's granularity. So no plan of
   any kind spans two areas, and each area can be planned alone.
2. An area's *bound* is at least the urgency (``selection``) of every plan in it. It is computed
   from chunk summaries only: a plan of k segments removes at most k - 1, copies at least the k
   smallest, and tidies each copied byte at most once for each cause: it is unsorted or replaced,
   or rows in it are deleted.
3. The bound is 0 if no plan can be due: the area is one chunk, no finder expects a plan
   (``Finder.may_be_due``), and no row is deleted.

The areas of a large table are examined in the order of their bounds, highest first, until the
budget is used up.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import is_

from airflow_provider_segtable.core.chunk import ChunkSummary, least_size
from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.claims import united
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.finders.finder import finders
from airflow_provider_segtable.planning.planner_context import PlannerContext
from airflow_provider_segtable.planning.properties.policy import Policy
from airflow_provider_segtable.planning.ranking.regions import regions
from airflow_provider_segtable.planning.ranking.selection import Area


def areas(found: PlannerContext) -> Iterator[Area]:
    """Yield the areas of a table, earliest first."""
    known = sorted(found.summaries(), key=_times)
    bound = _Bounds(found)
    at = 0
    for interval in _intervals(found, tuple([chunk for chunk, _ in known])):
        first = at
        while at < len(known) and known[at][0].interval.start < interval.end:
            at += 1
        inside = known[first:at]
        yield Area(
            interval=interval,
            known=inside,
            segments=sum([summary.visible for _, summary in inside]),
            bound=bound.of(interval, inside),
        )


_Known = Sequence[tuple[ChunkKey, ChunkSummary]]


def _times(known: tuple[ChunkKey, ChunkSummary]) -> tuple[int, int]:
    interval = known[0].interval
    return interval.start, interval.end


class _Bounds:
    """Computes the bounds of areas; equal sizes are computed once."""

    def __init__(self, found: PlannerContext) -> None:
        self._found = found
        self._deleted = _Deleted(found.state)
        self._finders = finders()
        self._most: dict[tuple[_Sizes, int], float] = {}

    def of(self, interval: Interval, inside: _Known) -> float:
        """Return the bound of an area."""
        dirty = self._deleted.may_hold(interval)
        if not (dirty or len(inside) > 1 or self._may_be_due(interval, inside)):
            return 0.0
        key = _sizes(inside), dirty + self._may_tidy(inside)
        if key not in self._most:
            sizes, causes = key
            self._most[key] = _most(sizes, self._found.policy, causes=causes)
        return self._most[key]

    def _may_be_due(self, interval: Interval, inside: _Known) -> bool:
        found, summaries = self._found, [summary for _, summary in inside]
        return any(finder.may_be_due(found, interval, summaries) for finder in self._finders)

    def _may_tidy(self, inside: _Known) -> bool:
        return any(finder.may_tidy(self._found, inside) for finder in self._finders)


def _intervals(found: PlannerContext, chunks: tuple[ChunkKey, ...]) -> Iterator[Interval]:
    """Yield disjoint closed intervals around all chunks.

    Most chunks match the layout and overlap no other chunk; they need no search.
    """
    cut, layout = found.policy.cut.granularity, found.state.layout
    intervals = [chunk.interval for chunk in chunks]
    wide = []
    for interval in intervals:
        edges = [layout.chunk(interval.start)]
        if edges[0] == interval and cut is None:
            wide.append(interval)
            continue
        if edges[0] != interval:
            edges.append(layout.chunk(interval.end - 1))
        if cut:
            edges += [cut.chunk(interval.start), cut.chunk(interval.end - 1)]
        start = min(interval.start, *(edge.start for edge in edges))
        end = max(interval.end, *(edge.end for edge in edges))
        wide.append(Interval(start, end))
    joined = united(wide)
    if len(joined) == len(chunks) and all(map(is_, joined, intervals)):
        yield from joined
        return
    simple = set(intervals)
    starts = [chunk.interval.start for chunk in chunks]
    every: list[Interval] = []
    for one in joined:
        if one in simple:
            every.append(one)
            continue
        inside = chunks[bisect_left(starts, one.start) : bisect_left(starts, one.end)]
        every += [one, *regions(found, inside, found.policy.cut)]
    yield from united(every)


_Sizes = tuple[tuple[int, int], ...]


def _sizes(inside: _Known) -> _Sizes:
    """Return the number of segments by the bit length of their size; without a file it is 0."""
    sizes: dict[int, int] = {}
    for _, summary in inside:
        without_file = summary.visible
        for bits, count in summary.sizes.items():
            sizes[bits] = sizes.get(bits, 0) + count
            without_file -= count
        if without_file:
            sizes[0] = sizes.get(0, 0) + without_file
    return tuple(sorted(sizes.items()))


def _most(sizes: _Sizes, policy: Policy, *, causes: int) -> float:
    """Return an upper bound of gain per cost over all sets of segments (rule 2).

    Among segments of equal size the quotient is monotone in k, so only both ends are computed. It
    falls with the size, unless tidying a MiB gains more than a segment. Tidying alone gains no
    more than the first value.
    """
    tidying = causes * MIB / policy.target_size
    together = tidying <= 1
    best, count, size = tidying, 0, 0
    for bits, n in sizes:
        for more in (1, n):
            taken, copied = count + more, size + more * least_size(bits)
            if taken > 1:
                tidied = causes * copied / policy.target_size if together else 0
                best = max(best, (taken - 1 + tidied) / (1 + copied / MIB))
        count, size = count + n, size + n * least_size(bits)
    return best if together else best + tidying


class _Deleted:
    """The times that may have deleted rows, from the log alone, without decoding segments."""

    def __init__(self, state: State) -> None:
        self._erased = bool(state.predicate_deletes)
        self._roots = united({root.interval for root in state.vectors})
        self._starts = [interval.start for interval in self._roots]

    def may_hold(self, interval: Interval) -> bool:
        """Return whether the interval may have deleted rows."""
        if self._erased or not self._roots:
            return self._erased
        at = bisect_left(self._starts, interval.end)
        return at > 0 and self._roots[at - 1].overlaps(interval)

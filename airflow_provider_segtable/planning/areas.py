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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.version_claims import united
from airflow_provider_segtable.core.segments.packed_chunk import ChunkSummary, least_size
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.planning.finder import finders
from airflow_provider_segtable.planning.planner_context import PlannerContext
from airflow_provider_segtable.planning.policy import MIB, Policy
from airflow_provider_segtable.planning.reasons import describe_size
from airflow_provider_segtable.planning.regions import regions


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A time interval, its visible chunks, and an upper bound of gain per cost.

    ``least`` is a lower bound of the size of its smallest segment, in bytes.
    """

    interval: Interval
    chunks: tuple[ChunkKey, ...]
    segments: int
    size: int
    bound: float
    least: int

    @property
    def known(self) -> str:
        """Describe the area by its chunk summaries."""
        return f"{self.segments} segments of {describe_size(self.size)} in all"


def areas(found: PlannerContext) -> Iterator[Area]:
    """Yield the areas of a table, earliest first."""
    known = found.summaries()
    chunks = sorted(known, key=lambda chunk: (chunk.interval.start, chunk.interval.end))
    deleted, searching = _Deleted(found.state), finders()
    at = 0
    for interval in _intervals(found, tuple(chunks)):
        first = at
        while at < len(chunks) and chunks[at].interval.start < interval.end:
            at += 1
        inside = {chunk: known[chunk] for chunk in chunks[first:at]}
        summaries = [*inside.values()]
        dirty = deleted.may_hold(interval)
        possible = (
            len(inside) > 1
            or dirty
            or any(finder.may_be_due(found, interval, summaries) for finder in searching)
        )
        bound = 0.0
        if possible:
            tidy = any(finder.may_tidy(found, inside) for finder in searching)
            bound = _most(_sizes(summaries), found.policy, causes=tidy + dirty)
        yield Area(
            interval=interval,
            chunks=tuple(inside),
            segments=sum(summary.visible for summary in summaries),
            size=sum(summary.size for summary in summaries),
            bound=bound,
            least=least_size(min((min(s.sizes, default=0) for s in summaries), default=0)),
        )


def _intervals(found: PlannerContext, chunks: tuple[ChunkKey, ...]) -> Iterator[Interval]:
    """Yield disjoint closed intervals around all chunks.

    Most chunks match the layout and overlap no other chunk; they need no search.
    """
    cut, layout = found.policy.cut, found.state.layout
    wide = []
    for chunk in chunks:
        interval = chunk.interval
        edges = [layout.chunk(interval.start)]
        if edges[0] == interval and not cut:
            wide.append(interval)
            continue
        if edges[0] != interval:
            edges.append(layout.chunk(interval.end - 1))
        if cut:
            edges += [cut.chunk(interval.start), cut.chunk(interval.end - 1)]
        start = min(interval.start, *(edge.start for edge in edges))
        end = max(interval.end, *(edge.end for edge in edges))
        wide.append(Interval(start, end))
    simple = {chunk.interval for chunk in chunks}
    joined = united(wide)
    if all(one in simple for one in joined):
        yield from joined
        return
    starts = [chunk.interval.start for chunk in chunks]
    every: list[Interval] = []
    for one in joined:
        if one in simple:
            every.append(one)
            continue
        inside = chunks[bisect_left(starts, one.start) : bisect_left(starts, one.end)]
        every += [one, *regions(found, inside, cut)]
    yield from united(every)


def _sizes(summaries: Iterable[ChunkSummary]) -> dict[int, int]:
    """Return the number of segments by the bit length of their size; without a file it is 0."""
    sizes: dict[int, int] = {}
    for summary in summaries:
        for bits, count in summary.sizes.items():
            sizes[bits] = sizes.get(bits, 0) + count
        without_file = summary.visible - sum(summary.sizes.values())
        if without_file:
            sizes[0] = sizes.get(0, 0) + without_file
    return sizes


def _most(sizes: Mapping[int, int], policy: Policy, *, causes: int) -> float:
    """Return an upper bound of gain per cost over all sets of segments (rule 2).

    Among segments of equal size the quotient is monotone in k, so only both ends are computed. It
    falls with the size, unless tidying a MiB gains more than a segment. Tidying alone gains no
    more than the first value.
    """
    tidying = causes * MIB / policy.target_size
    together = tidying <= 1
    best, count, size = tidying, 0, 0
    for bits, n in sorted(sizes.items()):
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
        if self._erased:
            return True
        at = bisect_left(self._starts, interval.end)
        return at > 0 and self._roots[at - 1].overlaps(interval)

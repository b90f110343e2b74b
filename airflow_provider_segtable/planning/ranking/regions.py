"""Regions: intervals that split no chunk, neither of the current nor of a wanted granularity.

A region is usually one chunk; more if granularity changes (24 hours become a day). Regions that
overlap are joined, for example weeks that become months. Where chunks cross (``core.time.layout``),
a region takes the granularity override there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from airflow_provider_segtable.core.log.replacement import closed_region
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.claims import united
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Cut, Interval
from airflow_provider_segtable.planning.planner_context import PlannerContext


def regions(found: PlannerContext, chunks: tuple[ChunkKey, ...], cut: Cut) -> tuple[Interval, ...]:
    """Return the smallest disjoint regions, sorted, that contain the chunks and split none."""
    return disjoint(found, closed_regions(found, chunks, cut), cut)


def closed_regions(
    found: PlannerContext, chunks: Iterable[ChunkKey], cut: Cut
) -> Iterator[Interval]:
    """Yield the closed region of each chunk, once for all chunks inside it."""
    region: Interval | None = None
    for chunk in sorted(chunks):
        if region is None or not region.encloses(chunk.interval):
            region = _closed(found.state, chunk.interval, cut)
            yield region


def disjoint(found: PlannerContext, some: Iterable[Interval], cut: Cut) -> tuple[Interval, ...]:
    """Return disjoint closed regions: overlapping ones are joined."""
    apart = united(some)
    before: list[Interval] = []
    while apart != before:
        before = apart
        apart = united(_closed(found.state, region, cut) for region in before)
    return tuple(apart)


def cut_after(state: State, region: Interval, cut: Cut) -> Cut:
    """Return a region's new division: the wanted one, or the granularity of crossing chunks.

    Neither granularity nor buckets if the region is divided so already.
    """
    if cut.granularity is None:
        cut = replace(cut, granularity=state.layout.crossing(region))
    return cut if changes_cut(state, region, cut) else Cut()


def changes_cut(state: State, region: Interval, cut: Cut) -> bool:
    """Return whether the region now has another granularity or number of buckets."""
    if not cut:
        return False
    return state.layout.recut(region, cut.granularity, cut.buckets) != state.layout


def _closed(state: State, region: Interval, cut: Cut) -> Interval:
    """Return the smallest enclosing region that splits no chunk, current or wanted.

    If a region already has the wanted granularity, that granularity does not extend it.
    """
    before: Interval | None = None
    while region != before:
        before = region
        region = closed_region(region, cut_after(state, region, cut).granularity, state)
    return region

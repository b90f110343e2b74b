"""Questions about a timeline that look at few of its blocks.

1. A stored block *lies alone* if it has a name, and no other block's range meets its own. Then what
   is visible among its chunks is a matter of the block alone, and holds wherever its name is.
2. Event times lie within their chunk. So blocks that end earlier have no later ones.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.spans import StoredBlock
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, united
from airflow_provider_segtable.core.timeline import AnyChunk, Timeline


def blocks_alone(timeline: Timeline) -> Iterator[StoredBlock[AnyChunk]]:
    """Yield the stored blocks that lie alone (rule 1)."""
    blocks, end = timeline.blocks(), ALL_TIME.start
    for at, block in enumerate(blocks):
        follows = at + 1 < len(blocks) and blocks[at + 1].start < block.end
        if isinstance(block, StoredBlock) and block.name and not follows and end <= block.start:
            yield block
        end = max(end, block.end)


def hidden_beside(timeline: Timeline, without: Container[str]) -> Iterator[Segment]:
    """Yield the present segments that are not visible, by id.

    Args:
        timeline: the timeline.
        without: names of blocks that have none; those that lie alone are not loaded.
    """
    alone = {each.name for each in blocks_alone(timeline) if each.name in without}
    if not alone:
        yield from timeline.hidden_segments()
        return
    others = (each for each in timeline.blocks() if each.name not in alone)
    for span in united(Interval(each.start, each.end) for each in others):
        yield from timeline.hidden_segments(span)


def blocks_without(timeline: Timeline, segments: Iterable[Segment]) -> frozenset[str]:
    """Return the names of the blocks that lie alone, and have none of some segments."""
    starts = sorted({segment.id.interval.start for segment in segments})
    names = set[str]()
    for block in blocks_alone(timeline):
        at = bisect_left(starts, block.start)
        if block.name and (at == len(starts) or starts[at] >= block.end):
            names.add(block.name)
    return frozenset(names)


def latest_time(timeline: Timeline) -> Instant | None:
    """Return the latest event time of a visible chunk; None if none has rows (rule 2)."""
    found: Instant | None = None
    for block in sorted(timeline.blocks(), key=lambda each: each.end, reverse=True):
        if found is not None and block.end <= found:
            break
        inside = timeline.visible_summaries(Interval(block.start, block.end)).values()
        times = [summary.time_max for summary in inside if summary.time_max is not None]
        found = max([*times, *(() if found is None else (found,))], default=None)
    return found

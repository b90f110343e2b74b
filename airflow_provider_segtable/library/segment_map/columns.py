"""The columns of a segment map: time chunks that overlap, and the level of each above the others.

1. A *column* has the chunks that overlap each other in time, in any number of versions and buckets.
   A map never divides one, so nothing that hides another part of it is left out.
2. The *level* of a chunk is one above the highest chunk of its bucket below it: a lower version, or
   of equal versions the one that begins earlier, or is longer, if both overlap.
3. Columns are made from summaries: no segment is decoded.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.segment import NO_BUCKET
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.core.timeline import AnyChunk, GroupState, Timeline


class Placed(NamedTuple):
    """A chunk with its summary, its state, its bucket if it has one, and its level; 0 is lowest."""

    chunk: AnyChunk
    summary: ChunkSummary
    interval: Interval
    state: GroupState
    bucket: int | None
    level: int


Column: TypeAlias = list[Placed]
"""Chunks that overlap in time, at least one."""


def columns_of(timeline: Timeline, window: Interval | None = None) -> Iterator[Column]:
    """Yield the columns with the chunks that overlap a window, by time; None: all."""
    for together in timeline.chunk_states(window):
        placed = [_at(*together[0], 0)] if len(together) == 1 else [*_placed(together)]
        if window is not None:
            placed = [each for each in placed if each.interval.overlaps(window)]
        if placed:
            yield placed


def _placed(together: list[tuple[AnyChunk, GroupState]]) -> Iterator[Placed]:
    floors: dict[int, _Floors] = {}
    for chunk, state in sorted(together, key=_from_below):
        mine = floors.setdefault(chunk.key.bucket, _Floors())
        yield _at(chunk, state, mine.put(chunk.start, chunk.end))


def _at(chunk: AnyChunk, state: GroupState, level: int) -> Placed:
    key = chunk.key
    bucket = None if key.bucket == NO_BUCKET else key.bucket
    return Placed(chunk, chunk.summary, key.interval, state, bucket, level)


def _from_below(found: tuple[AnyChunk, GroupState]) -> tuple[int, int, int]:
    key = found[0].key
    return key.version, key.interval.start, -key.interval.end


class _Floors:
    """The intervals on each level, in order; those of one level do not overlap."""

    def __init__(self) -> None:
        self._levels: list[list[tuple[Instant, Instant]]] = []

    def put(self, start: Instant, end: Instant) -> int:
        """Put an interval above all that it overlaps; return its level."""
        level = len(self._levels)
        while level and not _overlaps(self._levels[level - 1], start, end):
            level -= 1
        if level == len(self._levels):
            self._levels.append([])
        insort(self._levels[level], (start, end))
        return level


def _overlaps(level: list[tuple[Instant, Instant]], start: Instant, end: Instant) -> bool:
    at = bisect_left(level, (end,))
    return at > 0 and level[at - 1][1] > start

"""Sum up the facts about a table's reads, for advice and for the order of compactions.

1. Facts fade: their weight halves every ``HALF_LIFE_H`` hours. So a new way to read, or a new
   layout of the table, counts soon, and an old one not for long.
2. Averages of a shape (files opened by a read) are over the faded sums. The number of reads is not
   faded: it says what an advice rests on.
3. A chunk is *hot and badly sorted* if its readers open files without a matching row. ``heat`` of
   an interval is that waste of its worst chunk, as a share of the waste of the table's worst one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import field

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.reads.read_facts import (
    ChunkReads,
    ReadCounts,
    ReadFacts,
    ReadShape,
)
from airflow_provider_segtable.core.time import HOUR_US, Instant, Interval

HALF_LIFE_H = 48.0
MOST_HEAT = 4.0
"""Factor on the gain of a compaction of the chunk with the most wasted files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeReads:
    """The reads of one shape: their number, and faded sums."""

    reads: float
    faded: ReadCounts

    def per_read(self, sum_of: float) -> float:
        """Return the average of one of the faded sums."""
        return sum_of / self.faded.reads if self.faded.reads else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSummary:
    """The reads of a table; ``start`` and ``end`` are those of the facts, None without any."""

    shapes: Mapping[ReadShape, ShapeReads] = field(default_factory=dict)
    chunks: Mapping[Interval, ChunkReads] = field(default_factory=dict)
    start: Instant | None = None
    end: Instant | None = None

    @property
    def reads(self) -> float:
        """Return the number of reads."""
        return sum(each.reads for each in self.shapes.values())

    def heat(self, interval: Interval) -> float:
        """Return the heat of an interval, from 0 to 1."""
        worst = max((each.wasted for each in self.chunks.values()), default=0.0)
        here = (each.wasted for at, each in self.chunks.items() if at.overlaps(interval))
        return max(here, default=0.0) / worst if worst else 0.0

    def factor(self, interval: Interval) -> float:
        """Return the factor on the gain of a plan, from 1 to ``MOST_HEAT``."""
        return 1.0 + (MOST_HEAT - 1.0) * self.heat(interval)


def summarized(facts: Iterable[ReadFacts], now: Instant) -> ReadSummary:
    """Return the summary of facts."""
    some = tuple(facts)
    shapes: dict[ReadShape, ShapeReads] = {}
    chunks: dict[Interval, ChunkReads] = {}
    for each in some:
        weight = _weight(now - each.end)
        for shape, counts in each.shapes.items():
            known = shapes.get(shape, ShapeReads(reads=0.0, faded=ReadCounts()))
            faded = known.faded + counts.times(weight)
            shapes[shape] = ShapeReads(reads=known.reads + counts.reads, faded=faded)
        for at, reads in each.chunks.items():
            chunks[at] = chunks.get(at, ChunkReads()) + reads.times(weight)
    return ReadSummary(
        shapes=shapes,
        chunks=chunks,
        start=min((each.start for each in some), default=None),
        end=max((each.end for each in some), default=None),
    )


def _weight(age_us: int) -> float:
    return math.exp2(-max(age_us, 0) / HOUR_US / HALF_LIFE_H)

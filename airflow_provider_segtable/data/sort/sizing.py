"""Grouping of ranges into segments, parts and jobs.

1. The number of a time chunk's segments is its bytes divided by the target size, rounded, at least
   one. A segment is a run of consecutive ranges; all segments have about equal size.
2. Segments are cut at a mark that keeps equal values of the order together, if one is near.
3. A segment is gathered in parts of bounded size. Segments that fit into one part together are
   gathered by one job, so that their common inputs are read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from airflow_provider_segtable.data.parquet.blocks import Block
from airflow_provider_segtable.data.sort.ranges import Ranges

Span = tuple[int, int]
"""Ranges ``[first, end)``."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The rows of a segment and of a part; at most ``most`` segments in all (0: no limit)."""

    RANGES: ClassVar[int] = 16
    """Ranges for each segment: fine enough to balance segments."""

    rows: float
    part: float
    most: int = 0


def grouped(ranges: Ranges, sizing: Sizing) -> list[Span]:
    """Return the ranges of each segment."""
    chunks = np.asarray(ranges.chunks)
    rows = np.asarray(ranges.rows)
    firsts = np.flatnonzero(np.concatenate([[True], chunks[1:] != chunks[:-1]]))
    ends = [*firsts[1:], len(chunks)]
    counts = [_count(rows[a:b], sizing.rows) for a, b in zip(firsts, ends, strict=True)]
    if sizing.most and sum(counts) > sizing.most:
        counts = [max(1, count * sizing.most // sum(counts)) for count in counts]
    spans: list[Span] = []
    for first, end, count in zip(firsts, ends, counts, strict=True):
        depths = np.concatenate([[0], ranges.marks.depths])[first:end]
        cuts = _balanced(rows[first:end], depths, count)
        spans += [(int(first + a), int(first + b)) for a, b in cuts]
    return spans


def _count(rows: npt.NDArray[np.float64], wanted: float) -> int:
    return min(len(rows), max(1, round(float(rows.sum()) / wanted)))


def _balanced(
    rows: npt.NDArray[np.float64], depths: npt.NDArray[np.int64], count: int
) -> list[Span]:
    """Cut ranges into ``count`` groups of about equal rows, none empty."""
    before = np.concatenate([[0.0], np.cumsum(rows)])
    step = before[-1] / count
    places = [0]
    for number in range(1, count):
        low, high = places[-1] + 1, len(rows) - (count - number)
        options = np.arange(low, high + 1)
        away = np.abs(before[options] - number * step)
        near = options[away <= max(step / 16, away.min())]
        best = near[depths[near] == depths[near].min()]
        places.append(int(best[np.argmin(np.abs(before[best] - number * step))]))
    return list(zip(places, [*places[1:], len(rows)], strict=True))


def packed(segments: Sequence[Span], rows: Sequence[float], sizing: Sizing) -> list[list[Span]]:
    """Return the segments of each gather job: neighbours that fit into one part."""
    packs: list[list[Span]] = []
    held = 0.0
    for first, end in segments:
        size = sum(rows[first:end])
        small = size < sizing.rows / 4
        if packs and small and held + size <= min(sizing.part, sizing.rows):
            packs[-1].append((first, end))
            held += size
        else:
            packs.append([(first, end)])
            held = size if small else float("inf")
    return packs


def parts_of(pack: Sequence[Span], rows: Sequence[float], sizing: Sizing) -> list[Span]:
    """Return the ranges to read and sort at once; several segments form one part."""
    first, end = pack[0][0], pack[-1][1]
    if len(pack) > 1:
        return [(first, end)]
    count = max(1, min(end - first, int(-(-sum(rows[first:end]) // sizing.part))))
    some = np.asarray(rows[first:end], float)
    cuts = _balanced(some, np.zeros(len(some), np.int64), count)
    return [(first + a, first + b) for a, b in cuts]


def batches(blocks: Sequence[Block], share: float, parallelism: int) -> list[list[Block]]:
    """Group blocks, in order, into bounded batches of similar size, enough for all tasks."""
    total = sum(block.rows for block in blocks)
    wanted = -(-total // max(1, int(share)))
    wanted = -(-wanted // parallelism) * parallelism
    step = min(total / wanted, share)
    found: list[list[Block]] = []
    rows = 0
    for block in blocks:
        if not found or rows + block.rows / 2 > step:
            found.append([])
            rows = 0
        found[-1].append(block)
        rows += block.rows
    return found

"""Cells of a segment map for chunks: each sums up the lines of a lane and state in some columns.

1. A run of ``k`` neighbouring columns becomes one, with the smallest ``k`` by which the map has no
   more cells than its limit. A run is by number, not by length: a lonely chunk far away does not
   squeeze the others. All cells of a run span its whole time, so that they can be compared.
2. A map of more than ``MOST_LANES`` buckets and levels shows its buckets as one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_provider_segtable.core.segment import NO_BUCKET
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.overview import (
    MIXED,
    NEVER,
    STATES,
    Lines,
    Overview,
)

MOST_LANES = 64

Numbers = npt.NDArray[np.int64]


class Sum(NamedTuple):
    """The chunks of one bucket, level and state in a run of columns, summed up."""

    bucket: int | None
    level: int
    state: GroupState
    start: Instant
    end: Instant
    version: Instant
    chunks: int
    segments: int
    hidden: int
    rows: int
    bytes: int
    generation: int
    clustering: str
    sorted_bytes: int
    deleted_rows: int
    small: int
    newest: Instant | None
    oldest: Instant | None


def sums_of(overview: Overview, lines: Lines, columns: Numbers, limit: int) -> list[Sum]:
    """Return at most ``limit`` sums, by time, that cover all chunks; one a lane at least.

    Args:
        overview: the overview of the lines.
        lines: at least one, as ``Overview.within`` returns them.
        columns: the numbers of their columns.
        limit: most sums.
    """
    buckets = lines["bucket"].astype(np.int64)
    levels = int(lines["level"].max()) + 1
    if len(np.unique(buckets * levels + lines["level"])) > min(limit, MOST_LANES):
        buckets = np.full(len(lines), NO_BUCKET)
    run = max(1, -(-len(lines) // max(1, limit)))
    while True:
        order, first = _grouped(columns // run, buckets, lines)
        if len(first) <= limit or run > columns[-1]:
            ends = _ends(lines[order], (columns // run)[order], first)
            return [*_sums(lines[order], buckets[order], first, ends, overview.orders)]
        run = max(run + 1, run * len(first) // limit)


def _grouped(runs: Numbers, buckets: Numbers, lines: Lines) -> tuple[Numbers, Numbers]:
    """Return the lines in the order of runs and lanes, and the first line of each group."""
    keys = (lines["state"], lines["level"], buckets, runs)
    order = np.lexsort(keys)
    changes = np.zeros(len(order), bool)
    changes[0] = True
    for key in keys:
        some = key[order]
        changes[1:] |= some[1:] != some[:-1]
    return order, np.flatnonzero(changes)


def _ends(lines: Lines, runs: Numbers, first: Numbers) -> tuple[Numbers, Numbers]:
    """Return when the run of each group begins and ends."""
    begins = np.flatnonzero(np.append(True, runs[1:] != runs[:-1]))
    of_run = np.searchsorted(begins, first, "right") - 1
    starts = np.minimum.reduceat(lines["start"], begins)
    ends = np.maximum.reduceat(lines["end"], begins)
    return starts[of_run], ends[of_run]


def _sums(
    lines: Lines,
    buckets: Numbers,
    first: Numbers,
    ends: tuple[Numbers, Numbers],
    orders: tuple[str, ...],
) -> Iterator[Sum]:
    def least(name: str) -> list[int]:
        return [*map(int, np.minimum.reduceat(lines[name], first))]

    def most(name: str) -> list[int]:
        return [*map(int, np.maximum.reduceat(lines[name], first))]

    def total(name: str) -> list[int]:
        return [*map(int, np.add.reduceat(lines[name], first))]

    low, high = least("order"), most("order")
    alike = [orders[a] if a == b != MIXED else "" for a, b in zip(low, high, strict=True)]
    yield from map(
        Sum,
        [None if bucket == NO_BUCKET else int(bucket) for bucket in buckets[first]],
        [*map(int, lines["level"][first])],
        [STATES[number] for number in lines["state"][first]],
        *([*map(int, some)] for some in ends),
        most("version"),
        [*map(int, np.diff(np.append(first, len(lines))))],
        *(total(name) for name in ("segments", "hidden", "rows", "bytes")),
        most("generation"),
        alike,
        *(total(name) for name in ("sorted", "deleted", "small")),
        [at or None for at in most("newest")],
        [None if at == NEVER else at for at in least("oldest")],
    )

"""The cells of a segment map, and its lanes.

``map_cells`` decides between chunks and segments (``library.segment_map``, rule 1).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.library.segment_map.chunks import Sum, sums_of
from airflow_provider_segtable.library.segment_map.columns import columns_of
from airflow_provider_segtable.library.segment_map.overview import Overview
from airflow_provider_segtable.library.segment_map.segments import Drawn, drawn_of

LIMIT = 2000
"""Most cells of a map, unless a reader asks for another number."""

LanePlace: TypeAlias = tuple[int | None, int, int]
"""Bucket, level and generation of a lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCells:
    """The cells of a window.

    Attributes:
        window: the shown time; None for an empty table.
        whole: the time of all chunks; None for an empty table.
        total: the number of present segments of the chunks that overlap the window.
        sums: the cells at level ``chunks``; None at level ``segments``.
        drawn: the cells at level ``segments``.
        lanes: from the bottom to the top.
    """

    window: Interval | None
    whole: Interval | None
    total: int
    sums: tuple[Sum, ...] | None
    drawn: tuple[Drawn, ...] = ()
    lanes: tuple[LanePlace, ...]


def map_cells(
    state: State,
    window: Interval | None = None,
    *,
    limit: int = LIMIT,
    overview: Overview | None = None,
) -> MapCells:
    """Return the cells of a window of a version.

    Args:
        state: the version.
        window: the event times to show; chunks that overlap them are shown. None shows all.
        limit: most cells.
        overview: that of the version, if it was made before.
    """
    known = overview or Overview.of(state)
    lines, columns = known.within(window)
    whole, total = state.timeline.span, int(lines["present"].sum())
    if total > limit and columns[0] != columns[-1]:
        sums = tuple(sums_of(known, lines, columns, limit))
        return MapCells(
            window=window or whole,
            whole=whole,
            total=total,
            sums=sums,
            lanes=_lanes((each.bucket, each.level, 0) for each in sums),
        )
    some = [*columns_of(state.timeline, window)]
    drawn = tuple(drawn_of(some, state, limit)) if some else ()
    return MapCells(
        window=window or whole,
        whole=whole,
        total=total,
        sums=None,
        drawn=drawn,
        lanes=_lanes((each.bucket, each.level, each.generation) for each in drawn),
    )


def _lanes(places: Iterable[LanePlace]) -> tuple[LanePlace, ...]:
    return tuple(sorted(set(places), key=_from_below))


def _from_below(place: LanePlace) -> tuple[int, int, int]:
    bucket, level, generation = place
    return -1 if bucket is None else bucket, level, generation

"""Cells of a segment map for segments: each at its place in its time chunk, by its roots.

1. Inside a time chunk, the appended partitions (*roots*) lie side by side, in order. A segment lies
   over the roots that it covers, on the lane of its generation; so it lies above the segments that
   it replaced, and overshadowing is what lies on top.
2. Roots between two edges of groups form a *strip*. Its width is the share of bytes of its heaviest
   layer, at least ``LEAST`` of the chunk: so area is by bytes, and nothing vanishes.
3. The segments of a group share its width by their bytes.
4. If a single time chunk has more segments than the limit, each ``k`` neighbouring groups of a
   generation are drawn together, one cell for each of their states; ``k`` is the smallest power of
   two by which the map has no more cells than its limit.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import GroupKey, Segment, beside_base
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Group, GroupState
from airflow_provider_segtable.library.segment_map.columns import Column, Placed

LEAST = 0.002
"""Least share of a strip in the width of its time chunk."""


class Drawn(NamedTuple):
    """Segments of one group, generation and state at their place; usually one segment."""

    bucket: int | None
    level: int
    generation: int
    state: GroupState
    interval: Interval
    left: float
    right: float
    segments: tuple[Segment, ...]
    in_base: bool


def drawn_of(columns: Sequence[Column], state: State, limit: int | None = None) -> list[Drawn]:
    """Return the segments of columns, by time, level, generation and root; each alone by default.

    Args:
        columns: the columns, at least one.
        state: the version.
        limit: most cells.
    """
    chunks = [_Chunk(placed, state) for column in columns for placed in column]
    together = 1
    while True:
        found = [each for chunk in chunks for each in chunk.drawn(together)]
        if (
            limit is None
            or len(found) <= limit
            or together >= max(chunk.widest for chunk in chunks)
        ):
            return found
        together *= 2


class _Chunk:
    """A decoded chunk with the states and places of its groups."""

    def __init__(self, placed: Placed, state: State) -> None:
        self._placed = placed
        chunk = placed.chunk.unpacked
        groups = sorted(chunk.groups(), key=lambda group: group.key)
        keys = [group.key for group in groups]
        states = state.timeline.states(chunk.key, keys)
        self._states: dict[GroupKey, GroupState] = dict(zip(keys, states, strict=True))
        self._beside = {segment.id for segment in beside_base(chunk.visible)}
        self._places = _Places(groups)
        minors = sorted({key.minor_version for key in keys})
        self._layers = [[g for g in groups if g.key.minor_version == minor] for minor in minors]

    @property
    def widest(self) -> int:
        """Return the number of groups of its largest generation."""
        return max(map(len, self._layers), default=0)

    def drawn(self, together: int) -> Iterator[Drawn]:
        """Yield its segments, with so many neighbouring groups drawn together."""
        for rank, layer in enumerate(self._layers):
            for at in range(0, len(layer), together):
                by_state: dict[GroupState, list[Group]] = {}
                for group in layer[at : at + together]:
                    by_state.setdefault(self._states[group.key], []).append(group)
                for state, some in by_state.items():
                    yield from self._cells(rank, state, some, apart=together == 1)

    def _cells(
        self, rank: int, state: GroupState, groups: Sequence[Group], *, apart: bool
    ) -> Iterator[Drawn]:
        left = self._places.at(min(group.start for group in groups))
        right = self._places.at(max(group.end for group in groups))
        segments = tuple(segment for group in groups for segment in group.segments)
        pieces = [(segment,) for segment in segments] if apart else [segments]
        weights = [max(1, sum(segment.size for segment in piece)) for piece in pieces]
        edges = [0, *accumulate(weights)]
        for piece, (start, end) in zip(pieces, pairwise(edges), strict=True):
            inside = all(s.shard.base and s.id not in self._beside for s in piece)
            yield Drawn(
                bucket=self._placed.bucket,
                level=self._placed.level,
                generation=rank,
                state=state,
                interval=self._placed.chunk.key.interval,
                left=left + (right - left) * start / edges[-1],
                right=left + (right - left) * end / edges[-1],
                segments=piece,
                in_base=inside,
            )


class _Places:
    """The places of roots across a time chunk, 0 to 1."""

    def __init__(self, groups: Sequence[Group]) -> None:
        roots = sorted({edge for group in groups for edge in (group.start, group.end)})
        self._roots = roots
        weights = [0.0] * max(1, len(roots) - 1)
        for group in groups:
            first, after = bisect_left(roots, group.start), bisect_left(roots, group.end)
            each = sum(s.size for s in group.segments) / (after - first)
            for strip in range(first, after):
                weights[strip] = max(weights[strip], each)
        whole = sum(weights)
        least = min(LEAST, 1 / len(weights))
        shares = [max(least, weight / whole if whole else 1.0) for weight in weights]
        total = sum(shares)
        self._edges = [0.0, *(at / total for at in accumulate(shares))]

    def at(self, root: int) -> float:
        """Return the place of a root that is the edge of a group."""
        return self._edges[bisect_left(self._roots, root)]

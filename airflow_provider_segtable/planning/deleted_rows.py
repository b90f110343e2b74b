"""Estimate the deleted rows of each segment from the log alone, without reading files.

1. The log records how many rows of a root each event deleted, and which segments may hold the
   root. If one segment holds the whole root, the count is exact. Otherwise the rows are spread in
   proportion to the root's rows in each traced segment, and to all rows of a segment with hidden
   columns. Segments rewritten since then get no share, although they may have held some of the
   rows: the estimate is rather too high than too low.
2. Only deletions that still apply count (``Segment.deletes_applied_through``). A rewritten segment
   has none left, however wrong the estimate was, so planning by the estimate terminates.
3. The number of rows that a predicate deletes from a rollup table is unknown before reading. So
   the estimate counts the pending predicate deletes that may match in a segment's time range.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.deletion import roots_among
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import may_hold
from airflow_provider_segtable.core.segment import ChunkKey, Roots, Segment, SegmentId
from airflow_provider_segtable.core.time import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Deleted but still stored data: estimated ``rows``, and number of pending ``predicates``."""

    rows: Mapping[SegmentId, float] = field(default_factory=dict)
    predicates: Mapping[SegmentId, int] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """Return whether there are no deletions."""
        return not self.rows and not self.predicates

    def rows_of(self, segments: Iterable[Segment]) -> float:
        """Return the estimated number of deleted rows in some segments."""
        return sum(self.rows.get(segment.id, 0.0) for segment in segments)

    @property
    def most_waiting(self) -> int:
        """Return the largest number of pending predicate deletes of any segment."""
        return max(self.predicates.values(), default=0)

    def share(self, segments: Iterable[Segment]) -> float:
        """Return the estimated share of deleted rows in some segments, usually 0 to 1."""
        some = tuple(segments)
        return self.rows_of(some) / max(1, sum(segment.rows for segment in some))

    def waiting(self, segments: Iterable[Segment]) -> int:
        """Return the largest number of pending predicate deletes of any of the segments."""
        return max((self.predicates.get(segment.id, 0) for segment in segments), default=0)

    def touches(self, segment: Segment) -> bool:
        """Return whether a segment may have deleted rows."""
        return segment.id in self.rows or segment.id in self.predicates

    def bytes_of(self, segments: Iterable[Segment]) -> float:
        """Return the estimated number of deleted bytes in some segments."""
        if not self.rows:
            return 0.0
        return sum(
            segment.size * self.rows.get(segment.id, 0.0) / max(1, segment.rows)
            for segment in segments
        )


def deleted_in(state: State, interval: Interval | None = None) -> Deleted:
    """Return the deleted data in the visible segments of a state, or of an interval."""
    if not state.vectors and not state.predicate_deletes:
        return Deleted()
    visible = [segment for segment in _holding(state, interval) if segment.rows]
    return Deleted(rows=dict(_spread(state, visible)), predicates=dict(_waiting(state, visible)))


def _holding(state: State, interval: Interval | None) -> Iterable[Segment]:
    """Return the visible segments of an interval, and all that may hold the same deleted rows.

    A root's deleted rows are spread over all its holders, so holders outside the interval count.
    Rows stay within their root's interval, so only chunks that overlap one are decoded.
    """
    if interval is None and state.predicate_deletes:
        return state.timeline.visible_segments()
    if interval is None:
        return state.timeline.visible_near(root.interval for root in state.vectors)
    shared = {root.interval for root in state.vectors if root.interval.overlaps(interval)}
    chunks = (c for each in (interval, *shared) for c in state.timeline.visible_chunks(each))
    whole = {chunk.interval for chunk in chunks}
    found = (s for each in whole for s in state.timeline.visible_segments(each))
    return {segment.id: segment for segment in found}.values()


def _waiting(state: State, segments: Iterable[Segment]) -> Iterator[tuple[SegmentId, int]]:
    time = state.table.time_column
    column = state.table.schema.find(time)
    exact = column is not None and not column.type.startswith("timestamp[ns")
    for segment in segments if state.predicate_deletes else ():
        hitting = [
            each
            for each in state.erased(segment)
            if may_hold(each.predicate, time, segment.time_min, segment.time_max, exact=exact)
        ]
        if hitting:
            yield segment.id, len(hitting)


@dataclass(slots=True)
class _Holders:
    """Segments that hold or may hold the same roots, and their deleted rows so far."""

    segments: list[Segment]
    deletes_applied_through: int
    deleted: float = 0.0

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    def rows_of(self, root: SegmentId) -> int:
        """Return the rows of a root: the exact number if traced, else all rows as upper bound."""
        runs = self.segments[0].runs
        return sum(run.rows for run in runs if run.root == root) if runs else self.rows


def _spread(state: State, segments: Iterable[Segment]) -> Iterator[tuple[SegmentId, float]]:
    by_root: dict[SegmentId, list[tuple[_Holders, int]]] = {}
    every = [*_together(segments)]
    for holders in every:
        for root in roots_among(holders.segments[0], state.vectors):
            by_root.setdefault(root, []).append((holders, holders.rows_of(root)))
    for root, held in by_root.items():
        for deletion in state.vectors[root]:
            due = [
                (holders, rows)
                for holders, rows in held
                if holders.deletes_applied_through < deletion.n
            ]
            whole = sum(rows for _, rows in due)
            for holders, rows in due:
                holders.deleted += deletion.rows * rows / whole
    for holders in every:
        share = min(1.0, holders.deleted / max(1, holders.rows))
        if share:
            yield from ((segment.id, share * segment.rows) for segment in holders.segments)


def _together(segments: Iterable[Segment]) -> Iterator[_Holders]:
    """Yield each traced segment alone; group the others by chunk, roots and applied deletes."""
    alike: dict[tuple[ChunkKey, tuple[Roots, ...], int], list[Segment]] = {}
    for segment in segments:
        if segment.traced:
            yield _Holders([segment], segment.deletes_applied_through)
        else:
            alike.setdefault(
                (segment.id.chunk, segment.roots, segment.deletes_applied_through), []
            ).append(segment)
    for (_, _, deletes_applied_through), members in alike.items():
        yield _Holders(members, deletes_applied_through)

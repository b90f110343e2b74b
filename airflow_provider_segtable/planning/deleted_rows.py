"""How much of each segment is deleted already, told by the log alone: no file is read.

1. The log says how many rows of a root each event deleted, and which segments may hold the root:
   those of its time. Where one segment holds all of it that is exact. Else the rows are spread in
   proportion: to how many rows of the root a traced segment has, to all rows of one with hidden
   columns. Those that were rewritten since have no part in it, though they may have had the rows:
   better too much than too little.
2. Only deletions that still apply count (``Segment.deletes_applied_through``). Whatever was
   rewritten since has none left, however wrong the estimate was, so planning by it comes to an end.
3. How many rows a predicate deletes from a rollup table is unknown before reading: what counts is
   how many predicates wait for a segment, and may hold at any of its time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.deletes.deletion import roots_among
from airflow_provider_segtable.core.deletes.predicate import may_hold
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import ChunkKey, Roots, Segment, SegmentId
from airflow_provider_segtable.core.time.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What is deleted and still in files: estimated ``rows``, and how many predicates wait."""

    rows: Mapping[SegmentId, float] = field(default_factory=dict)
    predicates: Mapping[SegmentId, int] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        """Return whether nothing is deleted."""
        return not self.rows and not self.predicates

    def rows_of(self, segments: Iterable[Segment]) -> float:
        """Return about how many rows of some segments are deleted."""
        return sum(self.rows.get(segment.id, 0.0) for segment in segments)

    def share(self, segments: Iterable[Segment]) -> float:
        """Return which share of the rows of some segments is deleted, 0 to 1."""
        some = tuple(segments)
        return self.rows_of(some) / max(1, sum(segment.rows for segment in some))

    def waiting(self, segments: Iterable[Segment]) -> int:
        """Return how many predicates wait for the segment that most wait for."""
        return max((self.predicates.get(segment.id, 0) for segment in segments), default=0)

    def touches(self, segment: Segment) -> bool:
        """Tell whether anything may be deleted in a segment."""
        return segment.id in self.rows or segment.id in self.predicates

    def bytes_of(self, segments: Iterable[Segment]) -> float:
        """Return about how many bytes of some segments are deleted."""
        if not self.rows:
            return 0.0
        return sum(
            segment.size * self.rows.get(segment.id, 0.0) / max(1, segment.rows)
            for segment in segments
        )


def deleted_in(state: State, interval: Interval | None = None) -> Deleted:
    """Return what is deleted in the visible segments of a state, or of a stretch of time."""
    if not state.vectors and not state.predicate_deletes:
        return Deleted()
    visible = [segment for segment in _holding(state, interval) if segment.rows]
    return Deleted(rows=dict(_spread(state, visible)), predicates=dict(_waiting(state, visible)))


def _holding(state: State, interval: Interval | None) -> Iterable[Segment]:
    """Return the visible segments of a time, and all that may hold the same deleted rows.

    Rows of one root are spread over all its holders, so those outside of the time count, too.
    """
    if interval is None:
        return state.timeline.visible_segments()
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
    """Segments that hold, or may hold, the same roots: rows of each, and deleted ones so far."""

    segments: list[Segment]
    deletes_applied_through: int
    deleted: float = 0.0

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    def rows_of(self, root: SegmentId) -> int:
        """Return how many rows of a root they have: that is known, or all may be."""
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
    """Yield traced segments alone, and the others with those of their plan and chunk."""
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

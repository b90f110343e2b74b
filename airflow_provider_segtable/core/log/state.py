"""The state of a table: what its events add up to, and the questions it answers.

1. State holds every published segment (visible or overshadowed) in the timeline, the layout of
   time, all pending plans, the last finished ones, the settled ids, and the ids of recent commits,
   by which a committer recognises its own event.
2. Only the fold changes it (``core.log.fold``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.deletes.deletion import (
    Deletion,
    PredicateDelete,
    Vectors,
    applying,
)
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.locks.lockbox import Generation
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.log.loads import Loads
from airflow_provider_segtable.core.log.overwritten import Overwritten
from airflow_provider_segtable.core.log.recent_commits import RecentCommits
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.plans.plan_state import PlanState
from airflow_provider_segtable.core.reads.consumer import Consumer
from airflow_provider_segtable.core.segments.id_space import IdSpace, IdSpaces
from airflow_provider_segtable.core.segments.numbering import NO_BUCKET
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Instant, Interval, iso
from airflow_provider_segtable.core.time.layout import GranularityOverride, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a table at event ``n``.

    ``retained_from`` is the oldest version kept for its age; ``tags`` are versions kept by name;
    ``pending_delete`` are paths of unneeded files that the log does not record as deleted yet.
    ``vectors`` are the deletions that readers may need, by root, and ``predicate_deletes`` those
    of a rollup table. Some vectors of events up to ``vectors_pruned_through`` have been removed
    by a cleaning, or undone by a restore. ``overwritten`` are the times that recent overwrites and
    restores replaced, oldest first; ``consumers`` are readers by name, with their positions, and
    ``indexes`` the indexes by name. ``log_store`` has what is committed of
    each bucket of the log store, and ``loads`` the last parts of recent loads. After the event that
    ``dropped`` the table, none follows.
    """

    n: int
    time: Instant
    base_version: Instant
    table: TableCreated
    timeline: Timeline
    overrides: tuple[GranularityOverride, ...] = ()
    plans: Mapping[str, PlanState] = field(default_factory=dict)
    ids: IdSpaces = field(default_factory=IdSpaces)
    voided: Mapping[ChunkKey, frozenset[int]] = field(default_factory=dict)
    commits: RecentCommits = field(default_factory=RecentCommits)
    retained_from: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    pending_delete: frozenset[str] = frozenset()
    vectors: Vectors = field(default_factory=dict)
    predicate_deletes: tuple[PredicateDelete, ...] = ()
    vectors_pruned_through: int = 0
    overwritten: tuple[Overwritten, ...] = ()
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    indexes: Mapping[str, IndexState] = field(default_factory=dict)
    log_store: Mapping[int, BucketManifest] = field(default_factory=dict)
    loads: Loads = field(default_factory=dict)
    dropped: bool = False

    def __repr__(self) -> str:
        """Return the table and the event number; a large table's contents fill megabytes."""
        return f"State({self.table.name!r}, n={self.n}, time={iso(self.time)})"

    def keeps(self, n: int) -> bool:
        """Return whether version ``n`` can be read: it is retained or tagged."""
        return self.retained_from <= n <= self.n or n in self.tags.values()

    def deletions(self, segment: Segment) -> Mapping[SegmentId, tuple[Deletion, ...]]:
        """Return the deletions that a reader of the segment has to apply, by root."""
        return applying(segment, self.vectors)

    def erased(self, segment: Segment) -> tuple[PredicateDelete, ...]:
        """Return the predicate deletes that a reader of the segment has to apply."""
        return tuple(
            each for each in self.predicate_deletes if each.n > segment.deletes_applied_through
        )

    def id_space(self, chunk: ChunkKey, generation: Generation) -> IdSpace:
        """Return the id space of a chunk and generation."""
        return self.ids.of(chunk, generation)

    def pending_plans(self) -> tuple[PlanState, ...]:
        """Return the plans that still claim their inputs, oldest first."""
        return tuple(p for p in self.plans.values() if p.status.pending)

    @property
    def layout(self) -> Layout:
        """Return the layout of time chunks."""
        return self.table.layout(self.overrides)

    def append_chunk(self, interval: Interval, bucket: int = NO_BUCKET) -> ChunkKey:
        """Return the chunk for new segments of an interval, at its visible version or the base.

        A tombstone that encloses the interval counts, because it would hide a lower version.
        """
        chunks = self.timeline.visible_chunks(interval)
        versions = (
            c.version for c in chunks if c.bucket == bucket and c.interval.encloses(interval)
        )
        return ChunkKey(interval, max(versions, default=self.base_version), bucket)

    def version_above(self, interval: Interval) -> Instant:
        """Return the highest used version of the interval; a new one must be higher."""
        present = (chunk.version for chunk in self.timeline.chunk_keys(interval))
        promised = (
            p.version
            for p in self.plans.values()
            if p.version and p.plan.interval.overlaps(interval)
        )
        return max((self.base_version, *present, *promised))

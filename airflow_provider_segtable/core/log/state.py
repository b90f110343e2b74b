"""The fold: a table's state is ``apply`` over its events, and nothing else changes state.

1. ``apply(state, event)`` is pure, and total over logs whose events ``admission.admit`` accepted.
2. Events arrive in order without gaps, at strictly increasing times; anything else is a
   ``CorruptTable``, never skipped.
3. State holds every published segment (visible or overshadowed) in the timeline, the layout of
   time, all pending plans, the last finished ones, the settled ids, and the ids of recent commits,
   by which a committer recognises its own event.
4. A segment leaves the timeline by cleaning or repair. If it is cleaned, its file is *pending
   delete* until ``Swept``, unless another present segment shares the file. Deletions that no
   present segment needs leave with it (``core.deletes.deletion``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from airflow_provider_segtable.core.deletes.deletion import (
    Deletion,
    PredicateDelete,
    VectorFile,
    Vectors,
    applying,
    needed,
    newest,
    paths,
    with_file,
)
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.locks.lockbox import Generation
from airflow_provider_segtable.core.log.events import (
    Appended,
    Cleaned,
    Event,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    RowsChanged,
    Swept,
    TableCreated,
    TableRepaired,
    Tagged,
    Untagged,
    Voided,
)
from airflow_provider_segtable.core.log.recent_commits import RecentCommits
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan
from airflow_provider_segtable.core.plans.plan_state import PlanState, PlanStatus
from airflow_provider_segtable.core.segments.id_space import IdSpace, IdSpaces
from airflow_provider_segtable.core.segments.packed_chunk import segments_of, summary_of
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Instant, Interval
from airflow_provider_segtable.core.time.layout import GranularityOverride, Layout

FINISHED_PLANS_KEPT = 1000
COMMITS_KEPT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a table at event ``n``.

    ``retained_from`` is the oldest version kept for its age; ``tags`` are versions kept by name;
    ``pending_delete`` are paths of unneeded files that the log does not record as deleted yet.
    ``vectors`` are the deletions that readers may need, by root, and ``predicate_deletes`` those
    of a rollup table. Some vectors of events up to ``vectors_pruned_through`` have been removed.
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
        return Layout(granularity=self.table.granularity, overrides=self.overrides)

    def append_chunk(self, interval: Interval) -> ChunkKey:
        """Return the chunk for new segments of an interval, at its visible version or the base.

        A tombstone that encloses the interval counts, because it would hide a lower version.
        """
        chunks = self.timeline.visible_chunks(interval)
        versions = (c.version for c in chunks if c.interval.encloses(interval))
        return ChunkKey(interval, max(versions, default=self.base_version))

    def version_above(self, interval: Interval) -> Instant:
        """Return the highest used version of the interval; a new one must be higher."""
        present = (chunk.version for chunk in self.timeline.chunk_keys(interval))
        promised = (
            p.version
            for p in self.plans.values()
            if p.version and p.plan.interval.overlaps(interval)
        )
        return max((self.base_version, *present, *promised))


def fold(state: State | None, events: Iterable[Event]) -> State | None:
    """Apply events in order."""
    for event in events:
        state = apply(state, event)
    return state


def apply(state: State | None, event: Event) -> State:
    """Return the state after one more event.

    Raises:
        CorruptTable: if the event cannot follow this state.
    """
    if state is None:
        return _created(event)
    if event.n != state.n + 1 or event.time <= state.time:
        raise CorruptTable(
            f"event {event.n} at {event.time} µs cannot follow event {state.n} at {state.time} µs"
        )
    commits = state.commits.added(event.commit, event.n, COMMITS_KEPT)
    return replace(_acted(state, event), n=event.n, time=event.time, commits=commits)


def _created(event: Event) -> State:
    if event.n != 0 or not isinstance(event.action, TableCreated):
        raise CorruptTable(f"a log begins with event 0, TableCreated; found {event.n} {event.kind}")
    return State(
        n=0,
        time=event.time,
        base_version=event.time,
        table=event.action,
        timeline=Timeline.empty(),
        commits=RecentCommits({event.commit: 0}),
    )


def _acted(state: State, event: Event) -> State:  # noqa: C901, PLR0912 - one case a kind
    match event.action:
        case TableCreated():
            raise CorruptTable(f"event {event.n} creates the table a second time")
        case Appended(segments=segments):
            return _publish(state, segments)
        case RowsChanged():
            return _changed(state, event.action, event.n)
        case Voided(ids=ids):
            return _void(_settle(state, ids), ids)
        case PlanRequested(plan=plan):
            return _with_plan(state, PlanState.requested(plan, event))
        case PlanInflight(outputs=outputs) as action:
            started = _plan(state, action.plan_id, event).started(action, event)
            return _settle(_with_plan(state, started), outputs)
        case PlanCompleted(segments=segments, plan_id=plan_id):
            done = _plan(state, plan_id, event).finished(PlanStatus.COMPLETED, "", event)
            return _publish(_recut(_with_plan(state, done), done.plan), segments)
        case PlanYielded(plan_id=plan_id, reason=reason):
            return _with_plan(state, _plan(state, plan_id, event).yielded(reason, event))
        case PlanAborted(plan_id=plan_id, reason=reason):
            aborted = _plan(state, plan_id, event).finished(PlanStatus.ABORTED, reason, event)
            return _with_plan(state, aborted)
        case Cleaned():
            return _cleaned(state, event.action)
        case Swept(paths=paths):
            return replace(state, pending_delete=state.pending_delete.difference(paths))
        case Tagged(name=name, n=n):
            return replace(state, tags={**state.tags, name: n})
        case Untagged(name=gone):
            return replace(state, tags={k: n for k, n in state.tags.items() if k != gone})
        case TableRepaired():
            return _restored(state, event.action, event.n)
        case _:
            assert_never(event.action)


def _changed(state: State, action: RowsChanged, n: int) -> State:
    published = _with_vectors(_publish(state, action.segments), action.vectors, n)
    if action.predicate is None:
        return published
    predicate_delete = PredicateDelete(n=n, predicate=action.predicate)
    return replace(published, predicate_deletes=(*state.predicate_deletes, predicate_delete))


def _with_vectors(state: State, files: Iterable[VectorFile], n: int) -> State:
    vectors = state.vectors
    for file in files:
        vectors = with_file(vectors, n, file)
    return replace(state, vectors=vectors)


def _restored(state: State, action: TableRepaired, n: int) -> State:
    left = replace(state, timeline=state.timeline.with_changes(remove=action.lost))
    roots = (  # the roots of compacted segments were published once, with or without files now
        segment.id.chunk.segment(partition)
        for segment in action.segments
        for partition in range(segment.shard.root_start, segment.shard.root_end)
    )
    settled = _settle(left, (*roots, *action.voided))
    voided = _void(settled, action.voided)
    overrides = state.overrides if action.overrides is None else action.overrides
    published = _with_vectors(_publish(voided, action.segments), action.vectors, n)
    return replace(published, overrides=overrides)


def _cleaned(state: State, action: Cleaned) -> State:
    gone = [segment for i in action.ids if (segment := state.timeline.get(i))]
    timeline = state.timeline.with_changes(remove=action.ids)
    shared = {segment.path for segment in _around((s.id.interval for s in gone), timeline)}
    pending_delete = {segment.path for segment in gone if segment.path} - shared
    left = replace(
        state,
        timeline=timeline,
        pending_delete=state.pending_delete | pending_delete,
        retained_from=max(state.retained_from, action.retained_from),
    )
    return _forgetting(left)


def _forgetting(state: State) -> State:
    """Return the state with deletions pruned that no present segment needs."""
    if not state.vectors and not state.predicate_deletes:
        return state
    holders = _around((root.interval for root in state.vectors), state.timeline)
    vectors = needed(state.vectors, (segment for segment in holders if segment.rows))
    predicate_deletes = state.predicate_deletes and _waiting(state)
    dropped = {r: set(some) - set(vectors.get(r, ())) for r, some in state.vectors.items()}
    last = newest({root: tuple(some) for root, some in dropped.items()})
    return replace(
        state,
        vectors=vectors,
        predicate_deletes=predicate_deletes,
        pending_delete=state.pending_delete | (paths(state.vectors) - paths(vectors)),
        vectors_pruned_through=max(state.vectors_pruned_through, last),
    )


def _around(intervals: Iterable[Interval], timeline: Timeline) -> Iterator[Segment]:
    """Yield the segments of every chunk that overlaps an interval, each once.

    These include all segments that share a carried file or have rows of a root, because the rows
    of a file or root lie inside each chunk that they belong to.
    """
    chunks = {chunk.key: chunk for each in set(intervals) for chunk in timeline.chunks(each)}
    return segments_of(chunks.values())


def _waiting(state: State) -> tuple[PredicateDelete, ...]:
    """Return the predicate deletes that are not applied yet in some present segment."""
    found = (summary_of(chunk).least_purged for chunk in state.timeline.chunks())
    least = min(
        (
            deletes_applied_through
            for deletes_applied_through in found
            if deletes_applied_through is not None
        ),
        default=state.n,
    )
    return tuple(each for each in state.predicate_deletes if each.n > least)


def forgettable(state: State) -> bool:
    """Return whether a cleaning would prune deletions, even without removing a segment."""
    after = _forgetting(state)
    return (after.vectors, after.predicate_deletes) != (state.vectors, state.predicate_deletes)


def _publish(state: State, segments: tuple[Segment, ...]) -> State:
    ids = (segment.id for segment in segments)
    origins = (segment.origin for segment in segments if segment.origin)  # they may be roots
    settled = _settle(state, (*ids, *origins))
    return replace(settled, timeline=state.timeline.with_changes(add=segments))


def _recut(state: State, plan: CompactionPlan) -> State:
    if plan.region is None or plan.granularity is None:
        return state
    return replace(state, overrides=state.layout.recut(plan.region, plan.granularity).overrides)


def _settle(state: State, ids: Iterable[SegmentId]) -> State:
    return replace(state, ids=state.ids.settle(ids))


def _void(state: State, ids: tuple[SegmentId, ...]) -> State:
    voided = dict(state.voided)
    for segment_id in ids:
        chunk = segment_id.chunk
        voided[chunk] = voided.get(chunk, frozenset()) | {segment_id.partition}
    return replace(state, voided=voided)


def _plan(state: State, plan_id: str, event: Event) -> PlanState:
    if plan_id not in state.plans:
        raise CorruptTable(f"event {event.n} ({event.kind}) names unknown plan {plan_id}")
    return state.plans[plan_id]


def _with_plan(state: State, plan: PlanState) -> State:
    plans = {**state.plans, plan.plan.id: plan}
    if plan.status.pending or len(plans) <= FINISHED_PLANS_KEPT:
        return replace(state, plans=plans)
    finished = [p for p in plans.values() if not p.status.pending]
    if len(finished) > FINISHED_PLANS_KEPT:
        oldest = min(finished, key=lambda p: p.last_n)
        del plans[oldest.plan.id]
    return replace(state, plans=plans)

"""The fold: a table's state is ``apply`` over its events, and nothing else changes state.

1. ``apply(state, event)`` is pure and total over logs that ``rebase.admit`` let through.
2. Events arrive in order without gaps, at strictly increasing times; anything else is a
   ``CorruptTable``, never skipped.
3. State keeps every published segment (visible or overshadowed) in the timeline, how time is cut
   (``layout``), all pending plans, the last finished ones, which ids are settled, and the ids of
   recent commits, by which a committer recognises its own event.
4. A segment leaves the timeline only by cleaning: its file is *doomed* then, unless another present
   segment was carried over with it, until ``Swept`` says that it is deleted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.events import (
    Appended,
    Cleaned,
    Event,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    Restored,
    Swept,
    TableCreated,
    Tagged,
    Untagged,
    Voided,
)
from airflow_provider_segtable.core.ids import IdSpace
from airflow_provider_segtable.core.interval import Instant, Interval
from airflow_provider_segtable.core.layout import Layout, Zone
from airflow_provider_segtable.core.lockbox import FencingToken, Generation
from airflow_provider_segtable.core.overshadow import Timeline
from airflow_provider_segtable.core.plan import CompactionPlan
from airflow_provider_segtable.core.segment import (
    FIRST_GENERATION_IDS,
    ChunkKey,
    Segment,
    SegmentId,
)

FINISHED_PLANS_KEPT = 1000
COMMITS_KEPT = 10_000


class PlanStatus(StrEnum):
    """Where a plan stands."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ABORTED = "aborted"

    @property
    def pending(self) -> bool:
        """Tell whether the plan still has a claim on its inputs."""
        return self in (PlanStatus.REQUESTED, PlanStatus.INFLIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A plan and how far it got; ``last_n`` and ``author`` are of its newest event.

    ``yields`` counts the attempts that gave way to somebody more urgent; ``version`` is the
    newest that an attempt of a major compaction was to make.
    """

    plan: CompactionPlan
    status: PlanStatus
    requested_at: Instant
    changed_at: Instant
    last_n: int
    author: str
    attempts: int = 0
    attempt: str | None = None
    token: FencingToken | None = None
    outputs: tuple[SegmentId, ...] = ()
    note: str = ""
    yields: int = 0
    version: Instant | None = None
    found: tuple[SegmentId, ...] = ()

    @property
    def inputs(self) -> tuple[SegmentId, ...]:
        """Return the inputs: as planned, or as a major compaction found them under its lock."""
        return self.found or self.plan.inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the log says up to event ``n``.

    ``retained_from`` is the oldest version that is kept for its age; ``tags`` are those kept by
    name; ``doomed`` are paths of files that nobody needs and that may not be deleted yet.
    """

    n: int
    time: Instant
    base_version: Instant
    table: TableCreated
    timeline: Timeline
    zones: tuple[Zone, ...] = ()
    plans: Mapping[str, PlanState] = field(default_factory=dict)
    ids: Mapping[tuple[ChunkKey, Generation], IdSpace] = field(default_factory=dict)
    voided: Mapping[ChunkKey, frozenset[int]] = field(default_factory=dict)
    commits: Mapping[str, int] = field(default_factory=dict)
    retained_from: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    doomed: frozenset[str] = frozenset()

    def keeps(self, n: int) -> bool:
        """Tell whether version ``n`` can be read: it is young enough, or tagged."""
        return self.retained_from <= n <= self.n or n in self.tags.values()

    def id_space(self, chunk: ChunkKey, generation: Generation) -> IdSpace:
        """Return what the log knows of a chunk's ids."""
        return self.ids.get((chunk, generation), IdSpace(generation.ids.start))

    def pending_plans(self) -> tuple[PlanState, ...]:
        """Return the plans that still claim their inputs, oldest first."""
        return tuple(p for p in self.plans.values() if p.status.pending)

    @property
    def layout(self) -> Layout:
        """Return how time is cut into chunks."""
        return Layout(granularity=self.table.granularity, zones=self.zones)

    def append_chunk(self, interval: Interval) -> ChunkKey:
        """Return where new segments of a time chunk go: to its visible version, or the base.

        A tombstone around the interval counts: what is appended there must not lie below it.
        """
        chunks = self.timeline.visible_chunks(interval)
        versions = (c.version for c in chunks if c.interval.encloses(interval))
        return ChunkKey(interval, max(versions, default=self.base_version))

    def version_above(self, interval: Interval) -> Instant:
        """Return what a new version of the interval must be higher than."""
        present = (chunk.version for chunk in self.timeline.chunk_keys(interval))
        promised = (
            p.version
            for p in self.plans.values()
            if p.version and p.plan.interval.overlaps(interval)
        )
        return max((self.base_version, *present, *promised))


def generation_of(segment_id: SegmentId) -> Generation:
    """Return the id space a segment's id belongs to."""
    first = segment_id.partition in FIRST_GENERATION_IDS
    return Generation.FIRST if first else Generation.LATER


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
    commits = _keep_newest({**state.commits, event.commit: event.n}, COMMITS_KEPT)
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
        commits={event.commit: 0},
    )


def _acted(state: State, event: Event) -> State:  # noqa: C901, PLR0912 - one case a kind
    match event.action:
        case TableCreated():
            raise CorruptTable(f"event {event.n} creates the table a second time")
        case Appended(segments=segments):
            return _publish(state, segments)
        case Voided(ids=ids):
            return _void(_settle(state, ids), ids)
        case PlanRequested(plan=plan):
            return _with_plan(state, _requested(plan, event))
        case PlanInflight(outputs=outputs) as action:
            return _settle(_with_plan(state, _inflight(state, action, event)), outputs)
        case PlanCompleted(segments=segments, plan_id=plan_id):
            done = _finished(state, plan_id, PlanStatus.COMPLETED, "", event)
            return _publish(_recut(_with_plan(state, done), done.plan), segments)
        case PlanYielded(plan_id=plan_id, reason=reason):
            return _with_plan(state, _yielded(state, plan_id, reason, event))
        case PlanAborted(plan_id=plan_id, reason=reason):
            return _with_plan(state, _finished(state, plan_id, PlanStatus.ABORTED, reason, event))
        case Cleaned():
            return _cleaned(state, event.action)
        case Swept(paths=paths):
            return replace(state, doomed=state.doomed.difference(paths))
        case Tagged(name=name, n=n):
            return replace(state, tags={**state.tags, name: n})
        case Untagged(name=gone):
            return replace(state, tags={k: n for k, n in state.tags.items() if k != gone})
        case Restored():
            return _restored(state, event.action)
        case _:
            assert_never(event.action)


def _restored(state: State, action: Restored) -> State:
    left = replace(state, timeline=state.timeline.with_changes(remove=action.lost))
    roots = (  # what compacted segments stand for was published once, whether files tell or not
        segment.id.chunk.segment(partition)
        for segment in action.segments
        for partition in range(segment.shard.root_start, segment.shard.root_end)
    )
    settled = _settle(left, (*roots, *action.voided))
    voided = _void(settled, action.voided)
    zones = state.zones if action.zones is None else action.zones
    return replace(_publish(voided, action.segments), zones=zones)


def _cleaned(state: State, action: Cleaned) -> State:
    gone = [segment for i in action.ids if (segment := state.timeline.get(i))]
    timeline = state.timeline.with_changes(remove=action.ids)
    shared = {segment.path for segment in timeline.segments()}
    doomed = {segment.path for segment in gone if segment.path} - shared
    return replace(
        state,
        timeline=timeline,
        doomed=state.doomed | doomed,
        retained_from=max(state.retained_from, action.retained_from),
    )


def _publish(state: State, segments: tuple[Segment, ...]) -> State:
    settled = _settle(state, tuple(segment.id for segment in segments))
    return replace(settled, timeline=state.timeline.with_changes(add=segments))


def _recut(state: State, plan: CompactionPlan) -> State:
    if plan.region is None or plan.granularity is None:
        return state
    return replace(state, zones=state.layout.recut(plan.region, plan.granularity).zones)


def _settle(state: State, ids: Iterable[SegmentId]) -> State:
    by_space: dict[tuple[ChunkKey, Generation], list[int]] = {}
    for segment_id in ids:
        key = (segment_id.chunk, generation_of(segment_id))
        by_space.setdefault(key, []).append(segment_id.partition)
    changed = {key: state.id_space(*key).settle(parts) for key, parts in by_space.items()}
    return replace(state, ids={**state.ids, **changed})


def _void(state: State, ids: tuple[SegmentId, ...]) -> State:
    voided = dict(state.voided)
    for segment_id in ids:
        chunk = segment_id.chunk
        voided[chunk] = voided.get(chunk, frozenset()) | {segment_id.partition}
    return replace(state, voided=voided)


def _requested(plan: CompactionPlan, event: Event) -> PlanState:
    return PlanState(
        plan=plan,
        status=PlanStatus.REQUESTED,
        requested_at=event.time,
        changed_at=event.time,
        last_n=event.n,
        author=event.author,
    )


def _inflight(state: State, action: PlanInflight, event: Event) -> PlanState:
    before = _plan(state, action.plan_id, event)
    return replace(
        before,
        status=PlanStatus.INFLIGHT,
        changed_at=event.time,
        last_n=event.n,
        author=event.author,
        attempts=before.attempts + 1,
        attempt=action.attempt,
        token=action.token,
        outputs=action.outputs,
        version=action.version,
        found=action.inputs,
    )


def _yielded(state: State, plan_id: str, reason: str, event: Event) -> PlanState:
    before = _plan(state, plan_id, event)
    return replace(
        before,
        status=PlanStatus.REQUESTED,
        changed_at=event.time,
        last_n=event.n,
        author=event.author,
        note=reason,
        yields=before.yields + 1,
    )


def _finished(state: State, plan_id: str, status: PlanStatus, note: str, event: Event) -> PlanState:
    before = _plan(state, plan_id, event)
    return replace(
        before,
        status=status,
        changed_at=event.time,
        last_n=event.n,
        author=event.author,
        note=note,
    )


def _plan(state: State, plan_id: str, event: Event) -> PlanState:
    if plan_id not in state.plans:
        raise CorruptTable(f"event {event.n} ({event.kind}) names unknown plan {plan_id}")
    return state.plans[plan_id]


def _with_plan(state: State, plan: PlanState) -> State:
    plans = {**state.plans, plan.plan.id: plan}
    finished = [p for p in plans.values() if not p.status.pending]
    if len(finished) > FINISHED_PLANS_KEPT:
        oldest = min(finished, key=lambda p: p.last_n)
        del plans[oldest.plan.id]
    return replace(state, plans=plans)


def _keep_newest(commits: dict[str, int], limit: int) -> dict[str, int]:
    if len(commits) > limit:
        del commits[next(iter(commits))]
    return commits

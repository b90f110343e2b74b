"""What every planner looks at: the chunks with rows, and who has a claim on them already.

1. A segment is *claimed* while a plan over it is pending; a pending major compaction claims its
   whole region. After a plan was aborted its inputs *rest* for a while, from plans of its kind
   and larger ones.
2. Tombstones hold no rows: they are never inputs, and what consists of them only is not looked at.
   A group all of whose rows were deleted is none: it is an input beside others, or would keep its
   neighbours apart.
3. Neighbouring groups are one *run* as long as nothing lives, or may come to live, between them.
4. A stretch of time is *hot* if it ends less than ``skip_offset_minutes`` before the latest event
   time, or before now: nothing is planned there. Without an offset nothing is hot.
5. *Much* is deleted of segments from ``deleted_share`` of their rows on, by estimate; of a rollup's
   from ``deleted_predicates`` on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.compaction_plan import PlanKind
from airflow_provider_segtable.core.plans.plan_state import PlanState, PlanStatus
from airflow_provider_segtable.core.segments.adjacency import adjacent
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Group
from airflow_provider_segtable.core.time.interval import Instant, Interval, iso
from airflow_provider_segtable.planning.deleted_rows import Deleted, deleted_in
from airflow_provider_segtable.planning.policy import MINUTE_US, NOW, Policy
from airflow_provider_segtable.planning.reasons import Skipped

Run = tuple[Group, ...]
KINDS = (PlanKind.MINOR, PlanKind.SEMI_MAJOR, PlanKind.MAJOR)
"""From the smallest to the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerContext:
    """A table at one version under a policy, at a time.

    ``skip_from`` is the instant that the policy's skip offset counts back from.
    ``claims`` and ``resting`` (by kind of the aborted plan) say why a segment is not free;
    ``pending`` are the plans that are not done yet; ``deleted`` is what rewriting would get rid of.
    ``within`` is the time that is looked at; None: all. ``seen`` keeps what ``segments`` found.
    """

    state: State
    policy: Policy
    now: Instant
    skip_from: Instant
    within: Interval | None = None
    claims: Mapping[SegmentId, str] = field(default_factory=dict)
    resting: Mapping[PlanKind, Mapping[SegmentId, str]] = field(default_factory=dict)
    pending: tuple[PlanState, ...] = ()
    deleted: Deleted = field(default_factory=Deleted)
    seen: dict[Interval, tuple[Segment, ...]] = field(default_factory=dict, repr=False)

    def groups(self, chunk: ChunkKey) -> tuple[Group, ...]:
        """Return the visible groups of a chunk, by root, but for a tombstone; none without rows."""
        visible = self.state.timeline.visible_groups(chunk)
        groups = tuple(g for g in visible if not _stone(g.segments[0]))
        return groups if any(s.rows for g in groups for s in g.segments) else ()

    def much_deleted(self, segments: Iterable[Segment]) -> str | None:
        """Return, in words, that much of some segments is deleted; None if it is not."""
        if self.deleted.nothing:
            return None
        some = tuple(segments)
        waiting, share = self.deleted.waiting(some), self.deleted.share(some)
        if waiting >= self.policy.deleted_predicates:
            what = "deletion by predicate waits" if waiting == 1 else "deletions by predicate wait"
            return f"{waiting} {what} for it"
        if share and share >= self.policy.deleted_share:
            return f"{100 * share:.0f} % of its rows are deleted"
        return None

    def due_for_deletes(self, groups: Iterable[Group]) -> str | None:
        """Return why some groups together, or any one of them, should lose deleted rows."""
        if self.deleted.nothing:
            return None
        some = tuple(groups)
        together = self.much_deleted(members(some))
        return together or next(filter(None, (self.much_deleted(g.segments) for g in some)), None)

    def segments(self, interval: Interval) -> tuple[Segment, ...]:
        """Return the visible segments of a stretch of time that have rows."""
        if interval not in self.seen:
            visible = self.state.timeline.visible_segments(interval)
            self.seen[interval] = tuple(s for s in visible if not s.tombstone)
        return self.seen[interval]

    def chunks(self) -> tuple[ChunkKey, ...]:
        """Return the visible chunks that have rows, of the time that is looked at."""
        timeline = self.state.timeline
        visible = timeline.visible_chunks(self.within)
        return tuple(chunk for chunk in visible if timeline.summary(chunk).rows)

    def open_chunks(self, skipped: list[Skipped]) -> Iterator[ChunkKey]:
        """Yield the chunks that may be compacted at all; say why of the others."""
        for chunk in self.chunks():
            major = self.major_over(chunk.interval)
            claimed = f"claimed by pending plan {major.plan.id}" if major else None
            reason = self.hot(chunk.interval) or claimed
            if reason is None:
                yield chunk
            else:
                skipped.append(Skipped(chunk=chunk, partitions=(), reason=reason))

    def hot(self, interval: Interval) -> str | None:
        """Return why a stretch of time is left alone for its newness, or None if it is not hot."""
        offset = self.policy.skip_offset_minutes
        if not offset or self.skip_from - interval.end >= offset * MINUTE_US:
            return None
        by_clock = self.policy.skip_offset_from == NOW
        since = "now" if by_clock else f"the latest event time, {iso(self.skip_from)}"
        return f"ends less than {offset:g} min before {since}"

    def claim(self, segments: Iterable[Segment], kind: PlanKind) -> str | None:
        """Return why not all of these segments are free for a plan of this kind."""
        smaller = [self.resting[each] for each in KINDS[: KINDS.index(kind) + 1]]
        taken = [why for why in (self.claims, *smaller) if why]
        for segment in segments if taken else ():
            for why in taken:
                if segment.id in why:
                    return why[segment.id]
        return None

    def major_over(self, interval: Interval) -> PlanState | None:
        """Return the pending major compaction of any of this time."""
        return self._first(interval, major=True)

    def pending_in(self, interval: Interval) -> PlanState | None:
        """Return a pending plan that is not major over any of this time."""
        return self._first(interval, major=False)

    def _first(self, interval: Interval, *, major: bool) -> PlanState | None:
        return next(
            (
                known
                for known in self.pending
                if (known.plan.kind is PlanKind.MAJOR) is major
                and known.plan.interval.overlaps(interval)
            ),
            None,
        )

    def runs(self, chunk: ChunkKey, groups: Iterable[Group]) -> Iterator[Run]:
        """Yield groups of a chunk, in root order, as runs of neighbours."""
        voided = self.state.voided.get(chunk, frozenset())
        run: list[Group] = []
        for group in groups:
            if run and not adjacent(run[-1].end, group.start, voided):
                yield tuple(run)
                run = []
            run.append(group)
        if run:
            yield tuple(run)


def look_at_table(state: State, policy: Policy, now: Instant) -> PlannerContext:
    """Look at a table."""
    return looking_at(planner_context(state, policy, now), None)


def planner_context(state: State, policy: Policy, now: Instant) -> PlannerContext:
    """Return what is known of a table without looking at any segment."""
    rest_us = policy.retry_aborted_minutes * MINUTE_US
    claims: dict[SegmentId, str] = {}
    resting: dict[PlanKind, dict[SegmentId, str]] = {kind: {} for kind in KINDS}
    for known in state.plans.values():
        plan = known.plan
        if known.status.pending and plan.kind is not PlanKind.MAJOR:
            claims |= dict.fromkeys(plan.inputs, f"claimed by pending plan {plan.id}")
        elif known.status is PlanStatus.ABORTED and now - known.changed_at < rest_us:
            why = f"plan {plan.id} over it was aborted ({known.note})"
            rests = f"{why}; rests {policy.retry_aborted_minutes:g} min"
            resting[plan.kind] |= dict.fromkeys(plan.inputs, rests)
    return PlannerContext(
        state=state,
        policy=policy,
        now=now,
        skip_from=_skip_from(state, policy, now),
        claims=claims,
        resting=resting,
        pending=state.pending_plans(),
    )


def looking_at(found: PlannerContext, interval: Interval | None) -> PlannerContext:
    """Return the same of a stretch of time that cuts no chunk apart; None: of all."""
    return replace(found, within=interval, deleted=deleted_in(found.state, interval), seen={})


def _skip_from(state: State, policy: Policy, now: Instant) -> Instant:
    if policy.skip_offset_from == NOW or not policy.skip_offset_minutes:
        return now
    timeline = state.timeline
    found = (timeline.summary(chunk).time_max for chunk in timeline.visible_chunks())
    return max((at for at in found if at is not None), default=now)


def _stone(segment: Segment) -> bool:
    """Tell tombstones from segments that lost all their rows: those are not alone in a core."""
    return not segment.rows and segment.shard.core == 1 and segment.id.partition == 0


def group_size(group: Group) -> int:
    """Return the bytes of a group."""
    return sum(segment.size for segment in group.segments)


def run_size(run: Sequence[Group]) -> int:
    """Return the bytes of a run, or of a part of one."""
    return sum(map(group_size, run))


def members(run: Iterable[Group]) -> tuple[Segment, ...]:
    """Return the segments of a run, by root."""
    return tuple(segment for group in run for segment in group.segments)


def skip(
    chunk: ChunkKey, segments: Iterable[Segment], reason: str, kind: PlanKind = PlanKind.MINOR
) -> Skipped:
    """Return that these segments are left alone."""
    partitions = tuple(segment.shard.partition for segment in segments)
    return Skipped(chunk=chunk, partitions=partitions, reason=reason, kind=kind)

"""The planners' shared context: chunks with rows, claims on segments, deleted rows, and regions.

1. A segment is *claimed* while a plan over it is pending; a pending plan over an interval claims
   everything in it. After a plan is aborted, its inputs *rest* for a while: plans of its kind and
   larger kinds skip them.
2. Tombstones have no rows: they are no inputs, and chunks with only tombstones are skipped. But in
   a file group that begins with one, it is the (empty) base, so a new base replaces it (``slice``).
   An empty group is not a tombstone: it is an input beside other groups, because otherwise it
   would separate its neighbours.
3. Neighbouring groups form one *run* if no segment is, or may appear, between them.
4. An interval is *hot* if it ends less than ``skip_offset_minutes`` before the latest event time
   (or before now): no plan is made there. Without an offset no interval is hot.
5. Segments are *much deleted* if the estimated share of deleted rows is at least
   ``deleted_share``; in a rollup table, if at least ``deleted_predicates`` are pending.

The deleted rows of each segment are estimated from the log alone, without reading files:

6. The log records how many rows of a root each event deleted, and which segments may hold the
   root. If one segment holds the whole root, the count is exact. Otherwise the rows are spread in
   proportion to the root's rows in each traced segment, and to all rows of a segment with hidden
   columns. Segments rewritten since then get no share, although they may have held some of the
   rows: the estimate is rather too high than too low.
7. Only deletions that still apply count (``Segment.deletes_applied_through``). A rewritten segment
   has none left, however wrong the estimate was, so planning by the estimate terminates.
8. The number of rows that a predicate deletes from a rollup table is unknown before reading. So
   the estimate counts the pending predicate deletes that may match in a segment's time range.

Regions are intervals that split no chunk, neither of the current nor of a wanted granularity:

9. A region is usually one chunk; more if granularity changes (24 hours become a day). Regions that
   overlap are joined, for example weeks that become months. Where chunks cross (``core.time``),
   a region takes the granularity override there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import roots_among
from airflow_provider_segtable.core.log.plan import Plan, PlanState, PlanStatus
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.log.replacement import closed_region
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import may_hold
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey, Roots, Segment, SegmentId
from airflow_provider_segtable.core.time import MINUTE_US, Cut, Instant, Interval, iso, united
from airflow_provider_segtable.core.timeline import Group, adjacent
from airflow_provider_segtable.core.timeline_blocks import latest_time
from airflow_provider_segtable.planning.properties import NOW, Policy
from airflow_provider_segtable.planning.selection import Code, Obstacle, Reason, Skipped, Threshold


# Deleted rows, estimated from the log
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


# The context of planners
Run = tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerContext:
    """A table at one version, with a policy and the current time.

    ``skip_from`` is the instant from which the policy's skip offset counts back.
    ``claims`` and ``resting`` (by kind of the aborted plan, smallest first) give the reason why a
    segment is not free; ``rests_end`` are the times at which rests end. ``pending`` are the pending
    plans; ``deleted`` are the rows that a rewrite would remove. ``within`` limits planning to an
    interval; None means all, or ``windows``, disjoint intervals that split no chunk. ``blocking``
    are the schemas whose files keep the table from being published, each with the reason. ``seen``
    caches ``segments``.
    """

    state: State
    policy: Policy
    now: Instant
    skip_from: Instant
    within: Interval | None = None
    windows: tuple[Interval, ...] | None = None
    claims: Mapping[SegmentId, str] = field(default_factory=dict)
    resting: Mapping[type[Plan], Mapping[SegmentId, Reason]] = field(default_factory=dict)
    rests_end: frozenset[Instant] = frozenset()
    pending: tuple[PlanState, ...] = ()
    deleted: Deleted = field(default_factory=Deleted)
    blocking: Mapping[int, str] = field(default_factory=dict)
    seen: dict[Interval, tuple[Segment, ...]] = field(default_factory=dict, repr=False)

    def groups(self, chunk: ChunkKey) -> tuple[Group, ...]:
        """Return a chunk's visible groups in root order, without tombstones; empty if no rows."""
        visible = self.state.timeline.visible_groups(chunk)
        groups = tuple(g for g in visible if not _stone(g.segments[0]))
        return groups if any(s.rows for g in groups for s in g.segments) else ()

    def slice(self, chunk: ChunkKey) -> tuple[Group, ...]:
        """Return ``groups`` of a file group with the tombstone that it may begin with."""
        groups = self.groups(chunk)
        if not groups or chunk.bucket == NO_BUCKET:
            return groups
        first = self.state.timeline.visible_groups(chunk)[0]
        return groups if first == groups[0] else (first, *groups)

    def much_deleted(self, segments: Iterable[Segment]) -> str | None:
        """Return a description if segments are much deleted (rule 5), else None."""
        if self.deleted.nothing:
            return None
        some = tuple(segments)
        waiting, share = self.deleted.waiting(some), self.deleted.share(some)
        if waiting >= self.policy.deleted_predicates:
            wait = "deletion by predicate waits" if waiting == 1 else "deletions by predicate wait"
            return f"{waiting} {wait} for it"
        if share and share >= self.policy.deleted_share:
            return f"{100 * share:.0f} % of its rows are deleted"
        return None

    def due_for_deletes(self, groups: Iterable[Group]) -> str | None:
        """Return why groups are much deleted, together or any one of them; None if they are not."""
        if self.deleted.nothing:
            return None
        some = tuple(groups)
        together = self.much_deleted(members(some))
        return together or next(filter(None, (self.much_deleted(g.segments) for g in some)), None)

    def blocks(self, segment: Segment) -> bool:
        """Return whether a segment keeps the table from being published."""
        shown = bool(segment.shard.base) or not self.state.table.kind.shows_base
        return segment.schema in self.blocking and shown

    def blocked(self, segments: Iterable[Segment]) -> str | None:
        """Return why segments keep the table from being published; None if they do not."""
        some = [each for each in segments if self.blocks(each)] if self.blocking else []
        if not some:
            return None
        files = "1 has" if len(some) == 1 else f"{len(some)} have"
        return f"{files} columns of before, so {self.blocking[some[0].schema]}"

    def segments(self, interval: Interval) -> tuple[Segment, ...]:
        """Return the visible segments of an interval, without tombstones."""
        if interval not in self.seen:
            visible = self.state.timeline.visible_segments(interval)
            self.seen[interval] = tuple(s for s in visible if not s.tombstone)
        return self.seen[interval]

    def late(self, interval: Interval) -> tuple[Segment, ...]:
        """Return the visible segments of an interval with rows beside the base of their chunk."""
        timeline = self.state.timeline
        chunks = timeline.visible_chunks(interval)
        return tuple(s for c in chunks for s in timeline.beside_base(c))

    def chunks(self) -> tuple[ChunkKey, ...]:
        """Return the visible chunks with rows in ``within``."""
        return tuple([chunk for chunk, _ in self.summaries()])

    def summaries(self) -> list[tuple[ChunkKey, ChunkSummary]]:
        """Return ``chunks`` with their summaries."""
        timeline = self.state.timeline
        if self.within is not None or self.windows is None:
            visible = [*timeline.visible_summaries(self.within).items()]
        else:
            some = map(timeline.visible_summaries, self.windows)
            visible = [known for each in some for known in each.items()]
        return [known for known in visible if known[1].rows]

    def open_chunks(self, skipped: list[Skipped]) -> Iterator[ChunkKey]:
        """Yield the chunks that may be compacted; add reasons for the others."""
        for chunk in self.chunks():
            claiming = self.claimed_by(chunk.interval)
            reason = self.hot(chunk.interval) or (claimed(claiming) if claiming else None)
            if reason is None:
                yield chunk
            else:
                skipped.append(Skipped(chunk=chunk, partitions=(), reason=reason))

    def hot(self, interval: Interval) -> Reason | None:
        """Return why an interval is hot (rule 4), or None if it is not."""
        offset = self.policy.skip_offset_minutes
        if not offset or self.skip_from - interval.end >= offset * MINUTE_US:
            return None
        by_clock = self.policy.skip_offset_from == NOW
        since = "now" if by_clock else f"the latest event time, {iso(self.skip_from)}"
        until = interval.end + int(offset * MINUTE_US) if by_clock else None
        past = max(0.0, (self.skip_from - interval.end) / MINUTE_US)
        ended = Threshold("compaction.skip_offset_minutes", past, offset, "minutes")
        text = f"ends less than {offset:g} min before {since}"
        return Reason(text, Code.HOT, until=until, threshold=ended)

    def claim(self, segments: Iterable[Segment], kind: type[Plan]) -> str | None:
        """Return why a segment is not free for a plan of this kind; None if all are free."""
        smaller = [rest for each, rest in self.resting.items() if each.rank <= kind.rank]
        taken = [why for why in (self.claims, *smaller) if why]
        for segment in segments if taken else ():
            for why in taken:
                if segment.id in why:
                    return why[segment.id]
        return None

    def claimed_by(self, interval: Interval) -> PlanState | None:
        """Return a pending plan that claims everything in an interval that overlaps this one."""
        over = (known for known in self.pending if known.plan.claim.segments is None)
        return next((known for known in over if known.plan.interval.overlaps(interval)), None)

    def pending_in(self, interval: Interval, bucket: int = NO_BUCKET) -> PlanState | None:
        """Return a pending plan that claims segments, in an interval that overlaps this one.

        With a bucket, plans over other buckets do not count.
        """
        some = (
            known
            for known in self.pending
            if known.plan.claim.segments and bucket in (NO_BUCKET, known.plan.chunk.bucket)
        )
        return next((known for known in some if known.plan.interval.overlaps(interval)), None)

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
    """Return the planner context of a whole table, with its deleted rows."""
    return looking_at(planner_context(state, policy, now), None)


def planner_context(state: State, policy: Policy, now: Instant) -> PlannerContext:
    """Return the planner context of a table without reading any segment.

    Ages are never negative, even if a host with a clock that is ahead wrote the newest event.
    """
    skip_from = _skip_from(state, policy, now)
    now = max(now, state.time)
    rest_us = policy.retry_aborted_minutes * MINUTE_US
    claims: dict[SegmentId, str] = {}
    resting: dict[type[Plan], dict[SegmentId, Reason]] = {kind: {} for kind in kinds()}
    rests_end: set[Instant] = set()
    for known in state.plans.values():
        plan = known.plan
        if known.status.pending:
            of_plan = plan.claim.segments or ()
            claims |= dict.fromkeys(of_plan, claimed(known))
        elif known.status is PlanStatus.ABORTED and now - known.changed_at < rest_us:
            rests_end.add(known.changed_at + int(rest_us))
            why = f"plan {plan.id} over it was aborted ({known.note})"
            text = f"{why}; rests {policy.retry_aborted_minutes:g} min"
            until = known.changed_at + int(rest_us)
            rests = Reason(text, Code.RESTING, Obstacle.ABORTED, until=until)
            resting[type(plan)] |= dict.fromkeys(plan.inputs, rests)
    return PlannerContext(
        state=state,
        policy=policy,
        now=now,
        skip_from=skip_from,
        claims=claims,
        resting=resting,
        rests_end=frozenset(rests_end),
        pending=state.pending_plans(),
    )


def looking_at(found: PlannerContext, interval: Interval | None) -> PlannerContext:
    """Limit a planner context to an interval that splits no chunk; None means the whole table."""
    return replace(found, within=interval, deleted=deleted_in(found.state, interval), seen={})


def claimed(known: PlanState) -> Reason:
    """Return that a pending plan claims segments, as a reason."""
    return Reason(f"claimed by pending plan {known.plan.id}", Code.CLAIMED)


def _skip_from(state: State, policy: Policy, now: Instant) -> Instant:
    if policy.skip_offset_from == NOW or not policy.skip_offset_minutes:
        return now
    latest = latest_time(state.timeline)
    return now if latest is None else latest


def _stone(segment: Segment) -> bool:
    """Return whether a segment is a tombstone, alone in its core, and not just an empty segment."""
    return not segment.rows and segment.shard.core == 1 and segment.id.partition == 0


def group_size(group: Group) -> int:
    """Return the size of a group in bytes."""
    first, *others = group.segments
    return first.size + sum(segment.size for segment in others) if others else first.size


def run_size(run: Sequence[Group]) -> int:
    """Return the size of a run, or of a part of one, in bytes."""
    return sum(map(group_size, run))


def members(run: Iterable[Group]) -> tuple[Segment, ...]:
    """Return the segments of a run, by root."""
    return tuple(segment for group in run for segment in group.segments)


def skip(chunk: ChunkKey, segments: Iterable[Segment], reason: str, kind: type[Plan]) -> Skipped:
    """Return the skip record of segments."""
    partitions = tuple(segment.shard.partition for segment in segments)
    return Skipped(chunk=chunk, partitions=partitions, reason=reason, kind=kind.kind)


# Regions: intervals that split no chunk
def regions(found: PlannerContext, chunks: tuple[ChunkKey, ...], cut: Cut) -> tuple[Interval, ...]:
    """Return the smallest disjoint regions, sorted, that contain the chunks and split none."""
    return disjoint(found, closed_regions(found, chunks, cut), cut)


def closed_regions(
    found: PlannerContext, chunks: Iterable[ChunkKey], cut: Cut
) -> Iterator[Interval]:
    """Yield the closed region of each chunk, once for all chunks inside it."""
    region: Interval | None = None
    for chunk in sorted(chunks):
        if region is None or not region.encloses(chunk.interval):
            region = _closed(found.state, chunk.interval, cut)
            yield region


def disjoint(found: PlannerContext, some: Iterable[Interval], cut: Cut) -> tuple[Interval, ...]:
    """Return disjoint closed regions: overlapping ones are joined."""
    apart = united(some)
    before: list[Interval] = []
    while apart != before:
        before = apart
        apart = united(_closed(found.state, region, cut) for region in before)
    return tuple(apart)


def cut_after(state: State, region: Interval, cut: Cut) -> Cut:
    """Return a region's new division: the wanted one, or the granularity of crossing chunks.

    Neither granularity nor buckets if the region is divided so already.
    """
    if cut.granularity is None:
        cut = replace(cut, granularity=state.layout.crossing(region))
    return cut if changes_cut(state, region, cut) else Cut()


def changes_cut(state: State, region: Interval, cut: Cut) -> bool:
    """Return whether the region now has another granularity or number of buckets."""
    if not cut:
        return False
    return state.layout.recut(region, cut.granularity, cut.buckets) != state.layout


def _closed(state: State, region: Interval, cut: Cut) -> Interval:
    """Return the smallest enclosing region that splits no chunk, current or wanted.

    If a region already has the wanted granularity, that granularity does not extend it.
    """
    before: Interval | None = None
    while region != before:
        before = region
        region = closed_region(region, cut_after(state, region, cut).granularity, state)
    return region

"""Plan major compactions: select the time regions to replace by a new version.

1. A region is the smallest interval that splits no chunk, old or new: usually one chunk, more if
   the granularity changes (24 hours become a day). Overlapping regions worth replacing are joined,
   for example weeks that become months. Where chunks cross (``core.time``), a region takes
   the granularity override there, even without ``major_granularity``.
2. A region is worth replacing if its rollup is not perfect (segments with rows are visible beside
   the output of a major compaction: ``core.segment``), a large share is not sorted, many rows are
   deleted, its segments are badly sized, or it is not divided by ``major_granularity`` and
   ``major_buckets``. In a primary-key table only the division counts: semi-major compaction does
   the rest.
3. A region is due if it is cold: its end and the creation of the first segment to tidy are
   ``major_after_minutes`` ago, and it is outside the time that ``skip_offset_minutes`` excludes.
   So late rows, however many, cause one major compaction some time later.
4. The output of a major compaction is not compacted again only for its size.
5. If a region is due but other plans in it are pending, no new plan is made there until they are
   done. A pending major compaction excludes all other plans from its region.

Source of the idea: Druid (major compaction under a time chunk lock, ``skipOffsetFromLatest``,
granularity changes, core partitions).
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan, plan_id
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import MINUTE_US, Cut, Interval
from airflow_provider_segtable.planning.finders.finder import Finder
from airflow_provider_segtable.planning.planner_context import (
    PlannerContext,
    changes_cut,
    claimed,
    closed_regions,
    cut_after,
    disjoint,
    regions,
)
from airflow_provider_segtable.planning.properties import OFF, Policy
from airflow_provider_segtable.planning.selection import (
    Candidate,
    Code,
    Draining,
    Obstacle,
    Reason,
    Skipped,
    Threshold,
    skipped_plan,
    too_large,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A reason to replace a region, and the segments that cause it."""

    why: str
    segments: tuple[Segment, ...]


def major_due(found: PlannerContext, skipped: list[Skipped]) -> tuple[Candidate | Draining, ...]:
    """Return the major compactions that are due."""
    if found.policy.major == OFF:
        return ()
    due: list[Candidate | Draining] = []
    cut = found.policy.cut
    needed = dict(_needed(found, cut))
    for region in disjoint(found, needed, cut):
        needs = needed.get(region) or tuple(_needs(found, region, cut))
        needs = needs or _needs_inside(region, needed)
        chunk = found.segments(region)[0].id.chunk
        why_not = _not_due(found, region, needs)
        waits_for = found.pending_in(region)
        if why_not:
            where = ChunkKey(region, chunk.version)
            skipped.append(Skipped(chunk=where, partitions=(), reason=why_not, kind=MajorPlan.kind))
        elif waits_for:
            due.append(Draining(kind=MajorPlan.kind, interval=region, waits_for=waits_for.plan.id))
        else:
            due.append(replacing(found, region, cut, needs))
    return tuple(due)


def _needed(found: PlannerContext, cut: Cut) -> Iterator[tuple[Interval, tuple[Need, ...]]]:
    """Yield the smallest regions that are worth replacing; they may overlap."""
    for region in closed_regions(found, found.chunks(), cut):
        needs = tuple(_needs(found, region, cut))
        if needs:
            yield region, needs


def _needs_inside(
    region: Interval, needed: Mapping[Interval, tuple[Need, ...]]
) -> tuple[Need, ...]:
    """Return the needs of a region's parts, if the whole region is below every threshold."""
    return tuple(n for part, some in needed.items() if region.encloses(part) for n in some)


def replacing(
    found: PlannerContext, region: Interval, cut: Cut, needs: tuple[Need, ...]
) -> Candidate:
    """Return the plan that replaces a region, because of ``needs``."""
    segments, order = found.segments(region), found.policy.clustering
    inputs = tuple(segment.id for segment in segments)
    size = sum(segment.size for segment in segments)
    anew = cut_after(found.state, region, cut)
    about = _ideal(found, region, cut)
    form = f"by {anew}, " if anew else ""
    plan = MajorPlan(
        id=plan_id(found.state.table.table_id, MajorPlan.kind, inputs, _purpose(order, anew)),
        chunk=segments[0].id.chunk,
        inputs=inputs,
        outputs=about,
        rows=sum(segment.rows for segment in segments),
        size=size,
        reason=(
            f"{counted(len(inputs), 'segment')}, {describe_size(size)} -> about {about} in a new "
            f"version, {form}sorted by {order or 'event time'}: "
            f"{'; '.join(need.why for need in needs)}"
        ),
        clustering=order,
        region=region,
        granularity=anew.granularity,
        buckets=anew.buckets,
    )
    tidied = sum(s.size for s in {s.id: s for n in needs for s in n.segments}.values())
    gain = max(0, len(inputs) - about) + tidied / found.policy.target_size
    return Candidate(plan=plan, gain=gain)


def _needs(found: PlannerContext, region: Interval, cut: Cut) -> Iterator[Need]:
    segments, policy = found.segments(region), found.policy
    late = found.late(region)
    if changes_cut(found.state, region, cut):
        yield Need(why=f"it is to be cut by {cut}", segments=segments)
    kind = found.state.table.kind
    if not kind.major_tidies:
        return
    if kind.merges and late:
        why = f"{len(late)} of {len(segments)} {kind.unmerged}"
        yield Need(why=why, segments=late)
    total = max(1, sum(segment.size for segment in segments))
    loose = tuple(s for s in segments if s.clustering != policy.clustering)
    share = sum(segment.size for segment in loose) / total
    if policy.clustering and loose and share >= policy.major_unclustered:
        why = f"{100 * share:.0f} % are not sorted by {policy.clustering}"
        yield Need(why=why, segments=loose)
    much = found.much_deleted(segments)
    if much:
        blamed = (s for s in segments if found.deleted.touches(s))
        yield Need(why=much, segments=tuple(blamed))
    small = tuple(s for s in segments if s.size < policy.small_size)
    large = tuple(s for s in segments if s.size > policy.largest_output)
    if late and len(small) > 1 and len(segments) >= 2 * _ideal(found, region, cut):
        yield Need(why=f"{len(small)} are small", segments=small)
    if late and large:
        yield Need(why=f"{len(large)} are oversized", segments=large)


def _ideal(found: PlannerContext, region: Interval, cut: Cut) -> int:
    """Return the approximate number of target-size segments: at least one per chunk with rows."""
    segments, layout = found.segments(region), found.state.layout
    anew = cut_after(found.state, region, cut)
    layout = layout.recut(region, anew.granularity, anew.buckets) if anew else layout
    chunk = layout.chunk(segments[0].time_min)
    first = min(segment.time_min for segment in segments)
    last = max(segment.time_max for segment in segments)
    chunks = 1 + (last - min(first, chunk.start)) // (chunk.end - chunk.start)
    size = sum(segment.size for segment in segments)
    rows = max(1, sum(segment.rows for segment in segments))
    least = min(rows, chunks * max(1, layout.buckets_at(chunk.start)))
    return max(least, ceil(size / found.policy.target_size))


def _crowded(summaries: Sequence[ChunkSummary], policy: Policy) -> bool:
    """Return whether a region of these chunks may have twice the ideal number of segments."""
    if len(summaries) > 1:
        return True  # it may have some of them only
    (only,) = summaries
    return only.visible >= 2 * max(1, ceil(only.size / policy.target_size))


def _not_due(found: PlannerContext, region: Interval, needs: tuple[Need, ...]) -> str | None:
    policy, why = found.policy, "; ".join(need.why for need in needs)
    pending = found.claimed_by(region)
    if pending:
        return claimed(pending)
    size = sum(segment.size for segment in found.segments(region))
    if size > policy.max_plan_bytes:
        over = f"{why}, but {describe_size(size)} are over the budget: raise max_plan_bytes"
        large = too_large(size, policy)
        return Reason(over, Code.TOO_LARGE, Obstacle.TOO_LARGE, threshold=large)
    hot, resting = found.hot(region), _resting(found, region)
    if hot:
        return hot.after(f"{why}, but ")
    if resting:
        return resting.after(f"{why}, but ")
    written = min(segment.created for need in needs for segment in need.segments)
    begun = max(written, region.end)
    warm = (found.now - begun) / MINUTE_US
    if warm < policy.major_after_minutes:
        since = "it ended" if region.end > written else "that was written"
        ago = f"{warm:.0f} min since {since}" if warm >= 0 else "not over yet"
        text = f"{why}, but it is not cold: {ago}, of {policy.major_after_minutes:g}"
        wait = policy.major_after_minutes
        cold = Threshold("compaction.major_after_minutes", max(0.0, warm), wait, "minutes")
        until = begun + int(wait * MINUTE_US)
        return Reason(text, Code.NOT_COLD, until=until, threshold=cold)
    return None


def _resting(found: PlannerContext, region: Interval) -> Reason | None:
    """Return why a segment in the region rests after an aborted plan, or None."""
    aborted = (why for each in found.resting.values() for why in each.items())
    inside = {segment.id for segment in found.segments(region)}
    return next((why for segment_id, why in aborted if segment_id in inside), None)


def _purpose(order: str, anew: Cut) -> str:
    return f"{order}/{anew}" if anew else order


class MajorFinder(Finder):
    """Finds major compactions."""

    plan: ClassVar[type[Plan]] = MajorPlan
    switch: ClassVar[str] = "major"

    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        """Return whether a need may arise in a region of the interval."""
        policy, kind = found.policy, found.state.table.kind
        if policy.major == OFF:
            return False
        if changes_cut(found.state, interval, policy.cut):
            return True
        if not kind.major_tidies:
            return False
        order, least = policy.clustering, policy.major_unclustered
        # The share of a region is at most the largest of its chunks.
        if order and any(s.unsorted(order) and s.unsorted_share(order) >= least for s in summaries):
            return True
        if all(summary.late == 0 for summary in summaries):
            return False
        large = any(summary.any_larger(policy.largest_output) for summary in summaries)
        small = sum([summary.smaller(policy.small_size) for summary in summaries])
        return kind.merges or large or (small > 1 and _crowded(summaries, policy))

    def may_tidy(
        self, found: PlannerContext, chunks: Sequence[tuple[ChunkKey, ChunkSummary]]
    ) -> bool:
        """Return whether a chunk may be cold: it ended, and its oldest segment was written."""
        if found.policy.major == OFF:
            return False
        oldest = min([summary.oldest or 0 for _, summary in chunks])
        begun = max(oldest, min([chunk.interval.end for chunk, _ in chunks]))
        return (found.now - begun) / MINUTE_US >= found.policy.major_after_minutes

    def in_interval(
        self, found: PlannerContext, skipped: list[Skipped]
    ) -> tuple[Candidate | Draining, ...]:
        """Return the compactions that are due."""
        return major_due(found, skipped)

    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return one plan per region; pending plans over segments are waited for."""
        plans: list[Plan] = []
        cut = found.policy.cut
        for region in regions(found, tuple(chunks), cut):
            need = Need(why=why, segments=found.segments(region))
            plan = replacing(found, region, cut, (need,)).plan
            pending = found.claimed_by(region)
            if pending and pending.plan.id != plan.id:
                skipped.append(skipped_plan(plan, claimed(pending)))
            else:
                plans.append(plan)
        return plans


FINDER = MajorFinder()

"""Which regions of time a major compaction should replace by a new version, and why not the others.

1. A region is as small as can be without cutting a chunk apart, old or new: one chunk as a rule,
   more where chunks are to be cut anew (24 hours that become a day). Regions that are worth
   replacing and overlap become one: weeks that are to become months grow into each other.
   Where chunks cross (``core.time.layout``) a region is cut as the zone there is, wanted or not.
2. A region is worth replacing if its rollup is not perfect (anything shows besides the core set
   that a major compaction made), too much of it is not sorted, much of it is deleted, its segments
   are badly sized, or it is cut otherwise than ``major_granularity``.
3. It is due once it is cold: it ended long ago, and so was written what there is to tidy; and if
   it does not reach into the time that ``skip_offset_minutes`` leaves alone. A late
   row therefore starts one major compaction a while later, not one at once, however many come.
4. What a major compaction made is not made again for its size alone, whatever that came to.
5. If it is due but other plans in the region are pending, nothing new is planned there until they
   are done. A pending major compaction keeps all other plans out of its region.

Source of the idea: Druid (major compaction under a time chunk lock, ``skipOffsetFromLatest``,
granularity changes, core partitions).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind, plan_id
from airflow_provider_segtable.core.recovery.version_claims import united
from airflow_provider_segtable.core.segments.replacement import closed_region
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time.interval import Granularity, Instant, Interval
from airflow_provider_segtable.planning.planner_context import PlannerContext, look_at_table
from airflow_provider_segtable.planning.policy import MINUTE_US, OFF, Policy
from airflow_provider_segtable.planning.reasons import Planned, Skipped, describe_size
from airflow_provider_segtable.planning.selection import Candidate, Draining, choose

KIND = PlanKind.MAJOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Why a region is worth replacing: in words, and the segments that are to blame."""

    why: str
    segments: tuple[Segment, ...]


def plan_major(state: State, policy: Policy, now: Instant) -> Planned:
    """Plan major compactions of a table.

    Args:
        state: the table at one version.
        policy: when it pays.
        now: the wall clock, for ages.

    Returns:
        The chosen plans, best first, and a reason for every region worth replacing that waits.
    """
    found = look_at_table(state, policy, now)
    skipped: list[Skipped] = []
    due = major_due(found, skipped)
    for one in due:
        if isinstance(one, Draining):
            chunk = ChunkKey(one.interval, state.base_version)
            skipped.append(Skipped(chunk=chunk, partitions=(), reason=one.reason, kind=KIND))
    return choose((one for one in due if isinstance(one, Candidate)), policy, skipped)


def major_due(found: PlannerContext, skipped: list[Skipped]) -> tuple[Candidate | Draining, ...]:
    """Return the major compactions that a table is due for."""
    if found.policy.major == OFF:
        return ()
    due: list[Candidate | Draining] = []
    cut = found.policy.cut
    needed = dict(_needed(found, cut))
    for region in _apart(found, needed, cut):
        needs = tuple(_needs(found, region, cut)) or _needs_inside(region, needed)
        chunk = found.segments(region)[0].id.chunk
        why_not = _not_due(found, region, needs)
        waits_for = found.pending_in(region)
        if why_not:
            where = ChunkKey(region, chunk.version)
            skipped.append(Skipped(chunk=where, partitions=(), reason=why_not, kind=KIND))
        elif waits_for:
            due.append(Draining(kind=KIND, interval=region, waits_for=waits_for.plan.id))
        else:
            due.append(replacing(found, region, cut, needs))
    return tuple(due)


def regions(
    found: PlannerContext, chunks: tuple[ChunkKey, ...], cut: Granularity | None
) -> tuple[Interval, ...]:
    """Return the smallest disjoint regions, sorted, that hold the chunks and cut none apart."""
    return _apart(found, _closed_regions(found, chunks, cut), cut)


def _needed(
    found: PlannerContext, cut: Granularity | None
) -> Iterator[tuple[Interval, tuple[Need, ...]]]:
    """Yield the regions that are worth replacing, as small as can be; they may overlap."""
    for region in _closed_regions(found, found.chunks(), cut):
        needs = tuple(_needs(found, region, cut))
        if needs:
            yield region, needs


def _closed_regions(
    found: PlannerContext, chunks: Iterable[ChunkKey], cut: Granularity | None
) -> Iterator[Interval]:
    """Yield the closed region of each chunk, once for all chunks inside it."""
    region: Interval | None = None
    for chunk in sorted(chunks):
        if region is None or not region.encloses(chunk.interval):
            region = _closed(found.state, chunk.interval, cut)
            yield region


def _apart(
    found: PlannerContext, some: Iterable[Interval], cut: Granularity | None
) -> tuple[Interval, ...]:
    """Return closed regions without overlaps: those that overlap become one."""
    disjoint = united(some)
    before: list[Interval] = []
    while disjoint != before:
        before = disjoint
        disjoint = united(_closed(found.state, region, cut) for region in before)
    return tuple(disjoint)


def _closed(state: State, region: Interval, cut: Granularity | None) -> Interval:
    """Return the smallest region around this one that cuts no chunk apart, as it is and as wanted.

    A region that is cut as wanted already does not grow for that.
    """
    before: Interval | None = None
    while region != before:
        before = region
        region = closed_region(region, _anew(state, region, cut), state)
    return region


def _needs_inside(
    region: Interval, needed: Mapping[Interval, tuple[Need, ...]]
) -> tuple[Need, ...]:
    """Return the needs of the parts of a region, where the whole is below every threshold."""
    return tuple(n for part, some in needed.items() if region.encloses(part) for n in some)


def replacing(
    found: PlannerContext, region: Interval, cut: Granularity | None, needs: tuple[Need, ...]
) -> Candidate:
    """Return the plan that replaces a region, because of ``needs``."""
    segments, order = found.segments(region), found.policy.clustering
    inputs = tuple(segment.id for segment in segments)
    size = sum(segment.size for segment in segments)
    anew = _anew(found.state, region, cut)
    about = _ideal(found, region, cut)
    form = f"by {anew.value}, " if anew else ""
    plan = CompactionPlan(
        id=plan_id(found.state.table.table_id, KIND, inputs, _purpose(order, anew)),
        kind=KIND,
        chunk=segments[0].id.chunk,
        inputs=inputs,
        root_start=0,
        root_end=0,
        outputs=about,
        rows=sum(segment.rows for segment in segments),
        size=size,
        reason=(
            f"{len(inputs)} segments, {describe_size(size)} -> about {about} in a new version, "
            f"{form}sorted by {order or 'event time'}: {'; '.join(need.why for need in needs)}"
        ),
        clustering=order,
        region=region,
        granularity=anew,
    )
    tidied = sum(s.size for s in {s.id: s for n in needs for s in n.segments}.values())
    gain = max(0, len(inputs) - about) + tidied / found.policy.target_size
    return Candidate(plan=plan, gain=gain)


def _anew(state: State, region: Interval, cut: Granularity | None) -> Granularity | None:
    """Return how a region must be cut anew: as wanted, or where its chunks cross; None: not."""
    if cut is None:
        return state.layout.crossing(region)
    return cut if changes_cut(state, region, cut) else None


def changes_cut(state: State, region: Interval, cut: Granularity) -> bool:
    """Return whether the region is cut otherwise today."""
    return state.layout.recut(region, cut) != state.layout


def _needs(found: PlannerContext, region: Interval, cut: Granularity | None) -> Iterator[Need]:
    segments, policy = found.segments(region), found.policy
    late = tuple(s for s in segments if s.shard.root_end > s.shard.core)
    if cut and changes_cut(found.state, region, cut):
        yield Need(why=f"it is to be cut by {cut.value}", segments=segments)
    if found.state.table.rollup is not None and late:
        why = f"{len(late)} of {len(segments)} are not rolled up perfectly"
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


def _ideal(found: PlannerContext, region: Interval, cut: Granularity | None) -> int:
    """Return about how many well-sized segments the region needs: one a chunk at least."""
    segments, layout = found.segments(region), found.state.layout
    anew = _anew(found.state, region, cut)
    chunk = (layout.recut(region, anew) if anew else layout).chunk(segments[0].time_min)
    first = min(segment.time_min for segment in segments)
    last = max(segment.time_max for segment in segments)
    chunks = 1 + (last - min(first, chunk.start)) // (chunk.end - chunk.start)
    size = sum(segment.size for segment in segments)
    return max(chunks, ceil(size / found.policy.target_size))


def _not_due(found: PlannerContext, region: Interval, needs: tuple[Need, ...]) -> str | None:
    policy, why = found.policy, "; ".join(need.why for need in needs)
    pending = found.major_over(region)
    if pending:
        return f"claimed by pending plan {pending.plan.id}"
    size = sum(segment.size for segment in found.segments(region))
    if size > policy.max_plan_bytes:
        return f"{why}, but {describe_size(size)} are over the budget: raise max_plan_bytes"
    left_alone = found.hot(region) or _resting(found, region)
    if left_alone:
        return f"{why}, but {left_alone}"
    written = min(segment.created for need in needs for segment in need.segments)
    warm = (found.now - max(written, region.end)) / MINUTE_US
    if warm < policy.major_after_minutes:
        since = "it ended" if region.end > written else "that was written"
        ago = f"{warm:.0f} min since {since}" if warm >= 0 else "not over yet"
        return f"{why}, but it is not cold: {ago}, of {policy.major_after_minutes:g}"
    return None


def _resting(found: PlannerContext, region: Interval) -> str | None:
    """Return why something in the region is not to be touched yet; what is pending only drains."""
    aborted = (why for each in found.resting.values() for why in each.items())
    inside = {segment.id for segment in found.segments(region)}
    return next((why for segment_id, why in aborted if segment_id in inside), None)


def _purpose(order: str, anew: Granularity | None) -> str:
    return f"{order}/{anew.value}" if anew else order

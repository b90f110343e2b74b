"""Plan semi-major compactions: select the chunks to sort.

1. A chunk is due if it is large enough and a large share of its bytes does not have the policy's
   ``clustering``, or if many of its rows are deleted. A recently sorted chunk is not due. Without
   a ``clustering``, only a group with many deleted rows that is too large for a minor compaction
   is due.
2. The inputs are all visible groups of the chunk at planning time. Appends continue: later
   segments stay beside the sorted ones until the chunk is due again.
3. If a live writer's ids separate the groups, or some groups rest after an aborted plan, the
   longest run of neighbours (by bytes) is chosen; the others get a reason. No plan waits for a
   slow writer. In a primary-key table only the run of the first root is chosen: it is a base file,
   and replaces the tombstone that a bucket begins with if it was empty when a version began.
4. A bucket without a base, of which a compaction sorted some files, is due at once, however little
   it has: readers that merge nothing see no row of it. It was restored by an older segtable, or a
   part of its base was lost.
5. If the chunk is due but other plans over it are pending, no new plan is made there until they
   are done.
6. Files with the columns of an earlier schema may keep the table from being published
   (``PlannerContext.blocking``). A chunk with such files is due whatever its size and age; without
   a ``clustering`` only they, and the segments between, are the inputs.
7. The ids of the outputs are allocated before their number is known: twice the number that the
   sizes suggest, plus two. Unused ids are discarded, which costs nothing.

    [P0 sorted][P1 sorted] P2 P3 P4 (hole) P6     ->     [P0' P1' P2' sorted, roots 0..4] (hole) P6

Source of the idea: "semi-major" is named but not built in Druid's proposal for segment locking;
share and interval follow Druid's switch from minor to full compaction and Amoro's full compaction.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan, may_begin
from airflow_provider_segtable.core.log.plan import Plan, plan_id
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey, Segment
from airflow_provider_segtable.core.time import MINUTE_US, Interval
from airflow_provider_segtable.core.timeline import Group
from airflow_provider_segtable.planning.finders.finder import Finder, open_among
from airflow_provider_segtable.planning.planner_context import (
    PlannerContext,
    Run,
    group_size,
    members,
    run_size,
    skip,
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
    too_large,
)


def semi_major_due(
    found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]
) -> Candidate | Draining | None:
    """Return the semi-major compaction that is due for a chunk, if any."""
    if found.policy.semi_major == OFF:
        return None
    segments = members(found.groups(chunk))
    blocked, torn = found.blocked(segments), _torn(found, chunk)
    if not found.policy.clustering and not blocked:
        return _oversized(found, chunk)
    sorted_so = not unsorted(segments, found.policy.clustering)
    if sorted_so and not (blocked or torn or found.much_deleted(segments)):
        return None
    why_not = _not_due(found, chunk, segments, at_once=torn or bool(blocked))
    if why_not:
        skipped.append(skip(chunk, segments, why_not, SemiMajorPlan))
        return None
    waits_for = found.pending_in(chunk.interval, chunk.bucket)
    if waits_for:
        return Draining(
            kind=SemiMajorPlan.kind, interval=chunk.interval, waits_for=waits_for.plan.id
        )
    run = longest_run(found, chunk, skipped)
    run = run if found.policy.clustering else _blocking(found, run)
    why = "; ".join(_reasons(found, chunk, run))
    return sorting(found, chunk, run, why) if why else None


def _blocking(found: PlannerContext, run: Run) -> Run:
    """Return the part of a run from the first group that blocks publishing to the last one."""
    some = [at for at, group in enumerate(run) if any(map(found.blocks, group.segments))]
    return run[some[0] : some[-1] + 1] if some else ()


def _torn(found: PlannerContext, chunk: ChunkKey) -> bool:
    """Return whether a bucket has lost its base (rule 4)."""
    groups = found.groups(chunk) if chunk.bucket != NO_BUCKET else ()
    wrote = any(segment.clustering for segment in members(groups))
    return wrote and not found.state.timeline.base(chunk)


def _reasons(found: PlannerContext, chunk: ChunkKey, run: Run) -> Iterator[str]:
    blocked = found.blocked(members(run))
    if blocked:
        yield blocked
    if run and _torn(found, chunk):
        yield "its bucket has no base"
    left = unsorted(members(run), found.policy.clustering)
    if left and found.policy.clustering:
        yield f"{100 * left / run_size(run):.0f} % are not sorted"
    much = found.much_deleted(members(run))
    if much:
        yield much


def _oversized(found: PlannerContext, chunk: ChunkKey) -> Candidate | None:
    """Return a plan for the oversized group with the most deleted bytes, if any."""
    large = [
        group
        for group in found.groups(chunk)
        if found.policy.largest_output < group_size(group) <= found.policy.max_plan_bytes
        and found.much_deleted(group.segments)
        and not found.claim(group.segments, SemiMajorPlan)
    ]
    if not large:
        return None
    most = max(large, key=lambda group: found.deleted.bytes_of(group.segments))
    return sorting(found, chunk, (most,), found.much_deleted(most.segments) or "")


def _not_due(
    found: PlannerContext, chunk: ChunkKey, segments: tuple[Segment, ...], *, at_once: bool
) -> str | None:
    policy, size = found.policy, max(1, sum(segment.size for segment in segments))
    share = unsorted(segments, policy.clustering) / size
    much = found.much_deleted(segments)
    if share < policy.semi_major_unclustered and not much and not at_once:
        wanted = policy.semi_major_unclustered
        name = "compaction.semi_major_unclustered"
        return Reason(
            f"{100 * share:.0f} % are not sorted by {policy.clustering}, of {100 * wanted:g} %",
            Code.SORTED,
            threshold=Threshold(name, share, wanted, "share"),
        )
    little = size < policy.target_size and len(segments) < policy.min_segments
    if little and not much and not at_once:
        return Reason(
            f"too little to sort: {describe_size(size)} in {counted(len(segments), 'segment')}, "
            f"of {describe_size(policy.target_size)} or {policy.min_segments}",
            Code.TOO_LITTLE,
            threshold=Threshold("compaction.target_size", size, policy.target_size, "bytes"),
        )
    if size > policy.max_plan_bytes:
        over = f"{describe_size(size)} are over the budget of a run: raise max_plan_bytes"
        large = too_large(size, policy)
        return Reason(over, Code.TOO_LARGE, Obstacle.TOO_LARGE, threshold=large)
    last, wait = _last_sorted(found.state, chunk), policy.semi_major_interval_minutes
    minutes = (found.now - last) / MINUTE_US
    if minutes < wait and not at_once:
        text = f"sorted {minutes:.0f} min ago, of {wait:g}"
        since = Threshold("compaction.semi_major_interval_minutes", minutes, wait, "minutes")
        until = int(last + wait * MINUTE_US)
        return Reason(text, Code.SORTED_LATELY, until=until, threshold=since)
    return None


def _last_sorted(state: State, chunk: ChunkKey) -> float:
    return max(
        (
            known.changed_at
            for known in state.plans.values()
            if known.completed
            and isinstance(known.plan, SemiMajorPlan)
            and known.plan.chunk.interval == chunk.interval
            and known.plan.chunk.bucket == chunk.bucket
        ),
        default=float("-inf"),
    )


def unsorted(segments: tuple[Segment, ...], clustering: str) -> int:
    """Return the bytes of segments with another clustering."""
    return sum(segment.size for segment in segments if segment.clustering != clustering)


def longest_run(found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]) -> Run:
    """Return the longest run of free neighbours (by bytes); add reasons for the others.

    It is empty if no run may be sorted (``may_begin``).
    """
    free: list[Group] = []
    for group in found.slice(chunk):
        claim = found.claim(group.segments, SemiMajorPlan)
        if claim:
            skipped.append(skip(chunk, group.segments, claim, SemiMajorPlan))
        else:
            free.append(group)
    runs = tuple(found.runs(chunk, free))
    able = (run for run in runs if may_begin(chunk, run[0].start))
    longest = max(able, key=lambda run: (run_size(run), len(run)), default=())
    for run in runs if longest else ():
        if run is not longest:
            reason = Reason(
                f"not next to the larger run of partitions [{longest[0].start}, "
                f"{longest[-1].end}): a writer may still fill the ids between",
                Code.APART,
            )
            skipped.append(skip(chunk, members(run), reason, SemiMajorPlan))
    return longest


def sorting(found: PlannerContext, chunk: ChunkKey, run: Run, why: str) -> Candidate:
    """Return the plan that sorts a run, because of ``why``."""
    segments, order = members(run), found.policy.clustering
    inputs = tuple(segment.id for segment in segments)
    filled = [segment for segment in segments if segment.rows]
    size = run_size(run)
    about = ceil(size / found.policy.target_size)
    plan = SemiMajorPlan(
        id=plan_id(found.state.table.table_id, SemiMajorPlan.kind, inputs, order),
        chunk=chunk,
        inputs=inputs,
        root_start=run[0].start,
        root_end=run[-1].end,
        outputs=2 * about + 2,
        rows=sum(segment.rows for segment in segments),
        size=size,
        reason=(
            f"{counted(len(filled), 'segment')}, {describe_size(size)} -> about {about} "
            f"sorted by {order or 'event time'}: {why}"
        ),
        clustering=order,
    )
    torn = _torn(found, chunk)
    loose = sum(s.size for s in segments if torn or s.clustering != order or found.blocks(s))
    tidied = loose + found.deleted.bytes_of(segments)
    gain = max(0, len(filled) - about) + tidied / found.policy.target_size
    return Candidate(plan=plan, gain=gain)


class SemiMajorFinder(Finder):
    """Finds semi-major compactions."""

    plan: ClassVar[type[Plan]] = SemiMajorPlan
    switch: ClassVar[str] = "semi_major"

    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        """Return whether much is unsorted, a base may be torn, or files may block publishing."""
        del interval
        policy, keyed = found.policy, found.state.table.kind.buckets
        if policy.semi_major == OFF:
            return False
        return bool(found.blocking) or (
            bool(policy.clustering)
            and any(_much_unsorted(s, policy) or (keyed and _maybe_torn(s)) for s in summaries)
        )

    def may_tidy(
        self, found: PlannerContext, chunks: Sequence[tuple[ChunkKey, ChunkSummary]]
    ) -> bool:
        """Return whether segments have another clustering, no base, or may block publishing."""
        order = found.policy.clustering
        return bool(found.blocking) or any(
            summary.unsorted(order) or (chunk.bucket != NO_BUCKET and summary.baseless)
            for chunk, summary in chunks
        )

    def in_chunk(
        self, found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]
    ) -> tuple[Candidate | Draining, ...]:
        """Return the compaction that is due for a chunk, if any."""
        due = semi_major_due(found, chunk, skipped)
        return (due,) if due else ()

    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return one plan per chunk, over its longest run."""
        free = open_among(found, chunks, skipped)
        return [plan for chunk in free for plan in _asked_in(found, chunk, why, skipped)]


def _asked_in(
    found: PlannerContext, chunk: ChunkKey, why: str, skipped: list[Skipped]
) -> Iterator[Plan]:
    groups, order = found.groups(chunk), found.policy.clustering
    tidy = all(s.clustering == order for s in members(groups))
    if (
        order
        and tidy
        and not found.blocked(members(groups))
        and _in_one_piece(found, chunk, groups)
    ):
        reason = Reason(f"sorted by {order} already, all in one piece", Code.SORTED)
        skipped.append(skip(chunk, (), reason, SemiMajorPlan))
        return
    run = longest_run(found, chunk, skipped)
    if run:
        yield sorting(found, chunk, run, why).plan


def _in_one_piece(found: PlannerContext, chunk: ChunkKey, groups: Sequence[Group]) -> bool:
    """Return whether a chunk's files are one group, and of a bucket, whether they are its base."""
    if chunk.bucket == NO_BUCKET:
        return len(groups) == 1
    return not found.state.timeline.beside_base(chunk)


FINDER = SemiMajorFinder()


# Bounds from summaries
def _much_unsorted(summary: ChunkSummary, policy: Policy) -> bool:
    """Return whether a chunk may have enough to sort (``_not_due``)."""
    order = policy.clustering
    little = summary.size < policy.target_size and summary.visible < policy.min_segments
    return (
        not little
        and summary.unsorted(order) > 0
        and summary.unsorted_share(order) >= policy.semi_major_unclustered
    )


def _maybe_torn(summary: ChunkSummary) -> bool:
    """Return whether a bucket may have lost its base: segments without a file count as sorted."""
    wrote = any(summary.clustered) or summary.visible > summary.files
    return wrote and summary.baseless

"""Plan minor compactions: select runs of small adjacent groups to join.

1. The visible groups of each chunk are read in root order. A group is *eligible* if it is small,
   or if many of its rows are deleted and it fits one output. A group is not eligible if a pending
   plan claims it, if it rests after an aborted plan, or if it already has the policy's clustering,
   which joining would undo.
2. Eligible neighbours form a run while they are adjacent (no segment is, or may appear, between
   them). A run is split into batches that fill one output each.
3. A group much larger than the rest of its batch is left out (size-tiered), so that a few new rows
   never rewrite a large segment.
4. A batch is compacted if it fills an output, has ``min_segments``, its oldest segment is old
   enough, or many of its rows are deleted; the last holds for a single group, too.
5. Of segments that a user chose, one batch is made in each chunk, or they are refused: they must be
   whole neighbouring groups without another claim, and fit one output. Their sizes and number do
   not matter.
6. Batches are ranked by gain per cost, and chosen until the budget is used up. Every other
   segment gets a reason. A dry run returns the same object.

    P0 P1 P2 [P3 large] P4 P5 (hole) P7   ->   runs: P0 P1 P2 | P4 P5 | P7
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import SegmentsRefused
from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.plan import Plan, plan_id
from airflow_provider_segtable.core.segment import ChunkKey, torn_base
from airflow_provider_segtable.core.time import MINUTE_US, Instant, Interval
from airflow_provider_segtable.core.timeline import Group
from airflow_provider_segtable.planning.finders.finder import Chosen, Finder, open_among
from airflow_provider_segtable.planning.planner_context import (
    PlannerContext,
    Run,
    claimed,
    group_size,
    members,
    run_size,
    skip,
)
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import (
    Candidate,
    Code,
    Reason,
    Skipped,
    Threshold,
)


def minor_candidates(
    found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]
) -> tuple[Candidate, ...]:
    """Return the worthwhile minor compactions of a chunk; add reasons for the rest."""
    return tuple(
        Candidate(plan=plan, gain=len(plan.inputs) - plan.outputs + _purged(found, batch))
        for batch in _batches(found, chunk, skipped)
        for plan in (_plan(found, chunk, batch),)
    )


def _purged(found: PlannerContext, batch: Run) -> float:
    if found.deleted.nothing:
        return 0.0
    return found.deleted.bytes_of(members(batch)) / found.policy.target_size


def _batches(found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]) -> Iterator[Run]:
    for run in _eligible_runs(found, chunk, skipped):
        for filled in _fill(run, found.policy):
            for batch in _tiered(filled, found.policy):
                why_not = _not_worth_it(batch, found)
                if why_not:
                    skipped.append(skip(chunk, members(batch), why_not, MinorPlan))
                else:
                    yield batch


def _eligible_runs(found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]) -> Iterator[Run]:
    for run in found.runs(chunk, found.groups(chunk)):
        eligible: list[Group] = []
        for group in run:
            why_not = _ineligible(group, found)
            if why_not is None:
                eligible.append(group)
                continue
            skipped.append(skip(chunk, group.segments, why_not, MinorPlan))
            if eligible:
                yield tuple(eligible)
            eligible = []
        if eligible:
            yield tuple(eligible)


def _ineligible(group: Group, found: PlannerContext) -> str | None:
    policy, size = found.policy, group_size(group)
    much = found.much_deleted(group.segments)
    if size >= policy.small_size and not much:
        share = size / policy.target_size
        text = f"large enough: {describe_size(size)}, {100 * share:.0f} % of the target"
        small = Threshold("compaction.small_below", share, policy.small_below, "share")
        return Reason(text, Code.LARGE_ENOUGH, threshold=small)
    if size > policy.largest_output:
        text = f"{much}, but {describe_size(size)} are too much for one output"
        share = size / policy.target_size
        most = Threshold("compaction.oversize_above", share, policy.oversize_above, "share")
        return Reason(text, Code.TOO_LARGE, threshold=most)
    wanted = policy.clustering
    if wanted and all(segment.clustering == wanted for segment in group.segments):
        text = f"sorted by {wanted} already: left to semi-major compaction"
        return Reason(text, Code.SORTED)
    return found.claim(group.segments, MinorPlan)


def _fill(run: Run, policy: Policy) -> Iterator[Run]:
    batch: list[Group] = []
    size = 0
    for group in run:
        if batch and (
            size >= policy.target_size or size + group_size(group) > policy.largest_output
        ):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(group)
        size += group_size(group)
    if batch:
        yield tuple(batch)


def _tiered(batch: Run, policy: Policy) -> Iterator[Run]:
    total = run_size(batch)
    at = max(range(len(batch)), key=lambda i: group_size(batch[i]))
    largest = group_size(batch[at])
    fills = total >= policy.small_size
    if len(batch) < 2 or fills or largest <= policy.tier_ratio * (total - largest):
        yield batch
        return
    for part in (batch[:at], batch[at : at + 1], batch[at + 1 :]):
        if part:
            yield from _tiered(part, policy)


def _not_worth_it(batch: Run, found: PlannerContext) -> str | None:
    policy, count = found.policy, len(members(batch))
    if not any(segment.rows for segment in members(batch)):
        empty = "all its rows are deleted already: joined as soon as a neighbour is"
        return Reason(empty, Code.NO_ROWS)
    if found.due_for_deletes(batch):
        return None
    if count < 2:
        return Reason("alone: no small neighbour next to it", Code.ALONE)
    if _fills(batch, policy) or count >= policy.min_segments:
        return None
    age_minutes = _oldest_minutes(batch, found.now)
    if age_minutes >= policy.max_age_minutes:
        return None
    return Reason(
        f"only {counted(count, 'adjacent small segment')} of {policy.min_segments}, "
        f"oldest {age_minutes:.0f} min of {policy.max_age_minutes:g}",
        Code.TOO_FEW,
        threshold=Threshold("compaction.min_segments", count, policy.min_segments, "segments"),
        until=_oldest(batch) + int(policy.max_age_minutes * MINUTE_US),
    )


def _fills(batch: Run, policy: Policy) -> bool:
    return run_size(batch) >= policy.small_size


def _oldest(batch: Run) -> Instant:
    return min(segment.created for segment in members(batch))


def _oldest_minutes(batch: Run, now: Instant) -> float:
    return (now - _oldest(batch)) / MINUTE_US


def _plan(found: PlannerContext, chunk: ChunkKey, batch: Run) -> MinorPlan:
    segments = members(batch)
    inputs = tuple(segment.id for segment in segments)
    size, left = run_size(batch), run_size(batch) - found.deleted.bytes_of(segments)
    average = describe_size(size / len(inputs))
    noun = "small segments" if len(inputs) > 1 else "segment"
    return MinorPlan(
        id=plan_id(found.state.table.table_id, MinorPlan.kind, inputs),
        chunk=chunk,
        inputs=inputs,
        root_start=batch[0].start,
        root_end=batch[-1].end,
        outputs=1,
        rows=sum(segment.rows for segment in segments),
        size=size,
        reason=f"{len(inputs)} {noun} of {average} -> 1 of {describe_size(left)}: "
        f"{_why(batch, found)}",
    )


def _why(batch: Run, found: PlannerContext) -> str:
    policy, much = found.policy, found.due_for_deletes(batch)
    if much:
        return much
    if len(members(batch)) >= policy.min_segments:
        return f"at least {policy.min_segments} of them"
    if _fills(batch, policy):
        return "they fill an output"
    return f"the oldest is {_oldest_minutes(batch, found.now):.0f} min old"


class MinorFinder(Finder):
    """Finds minor compactions."""

    plan: ClassVar[type[Plan]] = MinorPlan

    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        """Return whether two segments of a chunk may be small."""
        del interval
        small_size = found.policy.small_size
        return max([summary.smaller(small_size) for summary in summaries], default=0) > 1

    def may_tidy(
        self, found: PlannerContext, chunks: Sequence[tuple[ChunkKey, ChunkSummary]]
    ) -> bool:
        """Return False: joining neither sorts nor replaces."""
        del found, chunks
        return False

    def in_chunk(
        self, found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]
    ) -> tuple[Candidate, ...]:
        """Return the worthwhile batches of a chunk."""
        return minor_candidates(found, chunk, skipped)

    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return one plan per run of small neighbours."""
        free = open_among(found, chunks, skipped)
        candidates = (c for chunk in free for c in minor_candidates(found, chunk, skipped))
        return [replace(c.plan, reason=f"{c.plan.reason}; {why}") for c in candidates]

    def chosen(
        self, found: PlannerContext, ids: Chosen, why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return one plan for each chunk, over exactly the chosen segments."""
        del skipped
        chunks = sorted({each.chunk for each in ids})
        plans = (_plan(found, chunk, _chosen_run(found, chunk, ids)) for chunk in chunks)
        return [replace(plan, reason=f"{plan.reason}; {why}") for plan in plans]


FINDER = MinorFinder()


def _chosen_run(found: PlannerContext, chunk: ChunkKey, ids: Chosen) -> Run:
    """Return the chosen groups of a chunk; errors as ``Finder.chosen``."""
    touched = [g for g in found.groups(chunk) if any(s.id in ids for s in g.segments)]
    runs = tuple(found.runs(chunk, touched))
    why_not = _unfit(found, chunk, runs, ids)
    if why_not:
        raise SegmentsRefused(f"the chosen segments of {chunk.interval} {why_not}")
    return runs[0]


def _unfit(found: PlannerContext, chunk: ChunkKey, runs: Sequence[Run], ids: Chosen) -> str | None:
    """Return why chosen groups cannot be joined (rule 5); None if they can."""
    if not runs:
        return "have no rows: there is nothing to compact"
    groups = [group for run in runs for group in run]
    segments, policy = members(groups), found.policy
    torn = [str(segment.id) for segment in segments if segment.id not in ids]
    claiming = found.claimed_by(chunk.interval)
    claim: str | None = claimed(claiming) if claiming else None
    if claim := claim or found.claim(segments, MinorPlan):
        return f"are being compacted: {claim}; run or abort that plan first"
    if torn:
        return f"are parts of groups that are replaced as a whole: choose {', '.join(torn)}, too"
    if len(runs) > 1:
        left, right = runs[0][-1], runs[1][0]
        return (
            f"are not neighbours: between partitions [{left.start}, {left.end}) and "
            f"[{right.start}, {right.end}) lie others, or ids that a writer may still fill; choose "
            "the segments between, too, or compact them one run at a time"
        )
    here = {segment_id for segment_id in ids if segment_id.chunk == chunk}
    beside = torn_base(here, found.state.timeline.base(chunk))
    if beside:
        return (
            f"are a part of the base of their bucket, and others beside it: choose {beside}, too, "
            "or a semi-major compaction"
        )
    if run_size(groups) > policy.largest_output:
        return (
            f"have {describe_size(run_size(groups))}, more than one output may have, "
            f"{describe_size(policy.largest_output)}: choose fewer, or a semi-major compaction"
        )
    if len(segments) < 2 and not found.deleted.touches(segments[0]):
        return "are one segment without deleted rows: choose a neighbour, too"
    wanted = policy.clustering
    if wanted and all(segment.clustering == wanted for segment in segments):
        return f"are sorted by {wanted}, which joining would undo: use a semi-major compaction"
    return None

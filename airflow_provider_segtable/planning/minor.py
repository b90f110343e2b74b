"""Which runs of small adjacent groups a minor compaction should join, and why not the others.

1. In each chunk the visible groups are walked in root order. A group is *eligible* if it is
   small, not claimed by a pending plan, and not resting after an aborted one.
2. Eligible neighbours form a run as long as they are adjacent (nothing lives, or may come to
   live, between them); a run is cut into batches that fill one output each.
3. A group much larger than the rest of its batch is left out (size-tiered): a few new rows
   never rewrite a large segment.
4. A batch is worth it if it fills an output, has ``min_segments``, or its oldest is old enough.
5. Batches are ranked by segments removed per byte, and chosen until the budget is used up.
   Whatever is not chosen gets a reason. The dry run is this same object.

    P0 P1 P2 [P3 large] P4 P5 (hole) P7   ->   runs: P0 P1 P2 | P4 P5 | P7
"""

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_segtable.core.adjacency import adjacent
from airflow_provider_segtable.core.interval import Instant
from airflow_provider_segtable.core.overshadow import Group
from airflow_provider_segtable.core.plan import CompactionPlan, PlanKind, plan_id
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.state import PlanState, PlanStatus, State
from airflow_provider_segtable.planning.policy import MIB, MINUTE_US, Policy
from airflow_provider_segtable.planning.reasons import Planned, Skipped, describe_size

Batch = tuple[Group, ...]


def plan_minor(state: State, policy: Policy, now: Instant) -> Planned:
    """Plan minor compactions of a table.

    Args:
        state: the table at one version.
        policy: when it pays.
        now: the wall clock, for ages.

    Returns:
        The chosen plans, best first, and a reason for everything skipped.
    """
    skipped: list[Skipped] = []
    candidates: list[CompactionPlan] = []
    for chunk in state.timeline.visible_chunks():
        if now - chunk.interval.end < policy.skip_offset_minutes * MINUTE_US:
            reason = f"ends less than {policy.skip_offset_minutes:g} min before now"
            skipped.append(Skipped(chunk=chunk, partitions=(), reason=reason))
            continue
        for batch in _batches(state, chunk, policy, now, skipped):
            candidates.append(_plan(state, chunk, batch, policy, now))
    return _within_budget(candidates, policy, skipped)


def _batches(
    state: State, chunk: ChunkKey, policy: Policy, now: Instant, skipped: list[Skipped]
) -> Iterator[Batch]:
    for run in _runs(state, chunk, policy, now, skipped):
        for filled in _fill(run, policy):
            for batch in _tiered(filled, policy):
                why_not = _not_worth_it(batch, policy, now)
                if why_not:
                    skipped.append(_skip(chunk, batch, why_not))
                else:
                    yield batch


def _runs(
    state: State, chunk: ChunkKey, policy: Policy, now: Instant, skipped: list[Skipped]
) -> Iterator[list[Group]]:
    claimed = _claims(state, policy, now)
    voided = state.voided.get(chunk, frozenset())
    run: list[Group] = []
    for group in state.timeline.visible_groups(chunk):
        ineligible = _ineligible(group, policy, claimed)
        if ineligible:
            skipped.append(_skip(chunk, (group,), ineligible))
        apart = run and not adjacent(run[-1].key.root_end, group.key.root_start, voided)
        if run and (ineligible or apart):
            yield run
            run = []
        if not ineligible:
            run.append(group)
    if run:
        yield run


def _claims(state: State, policy: Policy, now: Instant) -> dict[SegmentId, str]:
    rest_us = policy.retry_aborted_minutes * MINUTE_US
    claims: dict[SegmentId, str] = {}
    for known in state.plans.values():
        if known.status.pending:
            claims |= dict.fromkeys(known.plan.inputs, f"claimed by pending plan {known.plan.id}")
        elif known.status is PlanStatus.ABORTED and now - known.changed_at < rest_us:
            claims |= dict.fromkeys(known.plan.inputs, _resting(known, policy))
    return claims


def _resting(known: PlanState, policy: Policy) -> str:
    return (
        f"plan {known.plan.id} over it was aborted ({known.note}); "
        f"rests {policy.retry_aborted_minutes:g} min"
    )


def _ineligible(group: Group, policy: Policy, claimed: dict[SegmentId, str]) -> str | None:
    size = group_size(group)
    if size >= policy.small_size:
        share = 100 * size / policy.target_size
        return f"large enough: {describe_size(size)}, {share:.0f} % of the target"
    return next((claimed[s.id] for s in group.segments if s.id in claimed), None)


def _fill(run: Sequence[Group], policy: Policy) -> Iterator[Batch]:
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


def _tiered(batch: Batch, policy: Policy) -> Iterator[Batch]:
    total = batch_size(batch)
    at = max(range(len(batch)), key=lambda i: group_size(batch[i]))
    largest = group_size(batch[at])
    fills = total >= policy.small_size
    if len(batch) < 2 or fills or largest <= policy.tier_ratio * (total - largest):
        yield batch
        return
    for part in (batch[:at], batch[at : at + 1], batch[at + 1 :]):
        if part:
            yield from _tiered(part, policy)


def _not_worth_it(batch: Batch, policy: Policy, now: Instant) -> str | None:
    count = segment_count(batch)
    if count < 2:
        return "alone: no small neighbour next to it"
    if _fills(batch, policy) or count >= policy.min_segments:
        return None
    age_minutes = _oldest_minutes(batch, now)
    if age_minutes >= policy.max_age_minutes:
        return None
    return (
        f"only {count} adjacent small segments of {policy.min_segments}, "
        f"oldest {age_minutes:.0f} min of {policy.max_age_minutes:g}"
    )


def _fills(batch: Batch, policy: Policy) -> bool:
    return batch_size(batch) >= policy.small_size


def _oldest_minutes(batch: Batch, now: Instant) -> float:
    oldest = min(segment.created for group in batch for segment in group.segments)
    return (now - oldest) / MINUTE_US


def _plan(
    state: State, chunk: ChunkKey, batch: Batch, policy: Policy, now: Instant
) -> CompactionPlan:
    segments = [segment for group in batch for segment in group.segments]
    inputs = tuple(segment.id for segment in segments)
    size = batch_size(batch)
    if len(inputs) >= policy.min_segments:
        why = f"at least {policy.min_segments} of them"
    elif _fills(batch, policy):
        why = "they fill an output"
    else:
        why = f"the oldest is {_oldest_minutes(batch, now):.0f} min old"
    average = describe_size(size / len(inputs))
    return CompactionPlan(
        id=plan_id(state.table.table_id, PlanKind.MINOR, inputs),
        kind=PlanKind.MINOR,
        chunk=chunk,
        inputs=inputs,
        root_start=batch[0].key.root_start,
        root_end=batch[-1].key.root_end,
        outputs=1,
        rows=sum(segment.rows for segment in segments),
        size=size,
        reason=f"{len(inputs)} small segments of {average} -> 1 of {describe_size(size)}: {why}",
    )


def _within_budget(
    candidates: Iterable[CompactionPlan], policy: Policy, skipped: list[Skipped]
) -> Planned:
    chosen: list[CompactionPlan] = []
    left = policy.max_plan_bytes
    for plan in sorted(candidates, key=lambda p: (-score(p), p.id)):
        if len(chosen) == policy.max_plans:
            over = f"over the budget of {policy.max_plans} plans a run"
        elif plan.size > left:
            over = f"over the budget of {describe_size(policy.max_plan_bytes)} a run"
        else:
            chosen.append(plan)
            left -= plan.size
            continue
        partitions = tuple(segment_id.partition for segment_id in plan.inputs)
        skipped.append(Skipped(chunk=plan.chunk, partitions=partitions, reason=over))
    return Planned(chosen=tuple(chosen), skipped=tuple(skipped))


def score(plan: CompactionPlan) -> float:
    """Return gain per cost: segments removed per MiB to copy (plus a fixed cost of 1 MiB)."""
    return (len(plan.inputs) - plan.outputs) / (1 + plan.size / MIB)


def group_size(group: Group) -> int:
    """Return the bytes of a group."""
    return sum(segment.size for segment in group.segments)


def batch_size(batch: Batch) -> int:
    """Return the bytes of a batch."""
    return sum(map(group_size, batch))


def segment_count(batch: Batch) -> int:
    """Return the number of segments of a batch."""
    return sum(len(group.segments) for group in batch)


def _skip(chunk: ChunkKey, batch: Batch, reason: str) -> Skipped:
    partitions = tuple(s.shard.partition for group in batch for s in group.segments)
    return Skipped(chunk=chunk, partitions=partitions, reason=reason)

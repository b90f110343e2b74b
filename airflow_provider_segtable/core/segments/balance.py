"""Balance check: a compaction's outputs account for all rows of its inputs, at every commit.

1. The outputs have as many events (ingested rows, before rollup) as the inputs, less the rows
   deleted through the outputs' ``deletes_applied_through``. If the log records how many deleted
   rows the inputs had, that number is exact, else an upper bound. Without rollup, the rows are
   checked, too.
2. If every row is traced, the outputs' lineage equals the inputs', row for row. The outputs'
   hidden columns may name only roots that the inputs may hold.
3. The outputs have the ids, root range, group size and minor version that the plan and its
   attempt allow. The segments of a new version are its core sets: partitions ``0..n-1`` of each
   chunk of its region, with core size ``n``. Each row lies inside its chunk, and no other chunk
   of the version hides it.
"""

from collections.abc import Iterable, Sequence

from airflow_provider_segtable.core.deletes.deletion import roots_among
from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.plans.plan_state import PlanState
from airflow_provider_segtable.core.segments.replacement import hidden_by_equals, layout_after
from airflow_provider_segtable.core.segments.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    Shard,
    concatenated,
    roots_of,
)


def check_balance(found: PlanState, segments: Sequence[Segment], state: State) -> None:
    """Refuse outputs that do not account for the inputs.

    Args:
        found: the plan and its current attempt.
        segments: the outputs of the attempt.
        state: the table before the commit.

    Raises:
        RowsOutOfBalance: with the plan and every difference.
    """
    inputs = [s for i in found.inputs if (s := state.timeline.get(i))]
    problems = [*_purged(inputs, segments, state), *_amounts(inputs, segments, state)]
    if found.plan.kind is PlanKind.MAJOR:
        problems += _new_version(found, segments, state)
    else:
        problems += _group(found, inputs, segments, state)
    if problems:
        raise RowsOutOfBalance(f"plan {found.plan.id} is refused: {'; '.join(problems)}")


def _amounts(inputs: Sequence[Segment], segments: Sequence[Segment], state: State) -> Iterable[str]:
    least, most = _deleted(inputs, segments, state)
    given, made = _events(inputs), _events(segments)
    yield from _outside("events", made, given - most, given - least)
    if state.table.rollup is None:
        yield from _unequal("rows", sum(s.rows for s in segments), made)
        yield from _strangers(inputs, segments)


def _strangers(inputs: Sequence[Segment], segments: Sequence[Segment]) -> Iterable[str]:
    """Report outputs with roots that are absent from the inputs."""
    known = {roots.chunk: roots.spans for roots in roots_of(inputs)}
    for roots in roots_of(segments):
        for start, end in roots.spans:
            if not any(a <= start and end <= b for a, b in known.get(roots.chunk, ())):
                yield f"rows of {roots.chunk} {start}..{end}, which no input has"


def _purged(inputs: Sequence[Segment], segments: Sequence[Segment], state: State) -> Iterable[str]:
    found = {segment.deletes_applied_through for segment in segments}
    least = max((segment.deletes_applied_through for segment in inputs), default=0)
    if len(found) > 1:
        yield f"outputs are purged up to different events: {sorted(found)}"
    for n in found:
        if not least <= n <= state.n:
            yield f"outputs are purged up to event {n}: expected {least} to {state.n}"


def _deleted(
    inputs: Sequence[Segment], segments: Sequence[Segment], state: State
) -> tuple[int, int]:
    """Return the least and the most rows that the outputs may leave out."""
    upto = max((segment.deletes_applied_through for segment in segments), default=state.n)
    if any(each.n <= upto for segment in inputs for each in state.erased(segment)):
        return 0, _events(inputs)
    due = {
        (root, each)
        for segment in inputs
        for root, some in state.deletions(segment).items()
        for each in some
        if each.n <= upto
    }
    deletes_applied_through = _purged_whole({root for root, _ in due}, inputs, state)
    exactly = sum(each.rows for root, each in due if deletes_applied_through[root] < each.n)
    return exactly, sum(each.rows for _, each in due)


def _purged_whole(
    roots: set[SegmentId], inputs: Sequence[Segment], state: State
) -> dict[SegmentId, int]:
    """Return, by root, the latest event whose deletes may be applied already in a part of its rows.

    For rows outside the inputs that is ``state.n``. A tombstone counts for every root, because it
    does not name the roots that it replaced.
    """
    given = {segment.id for segment in inputs}
    deletes_applied_through = dict.fromkeys(roots, 0)
    for interval in {root.interval for root in roots}:
        here = {root for root in roots if root.interval == interval}
        for segment in state.timeline.visible_segments(interval):
            for root in here if segment.tombstone else roots_among(segment, here):
                inside = segment.id in given
                deletes_applied_through[root] = max(
                    deletes_applied_through[root],
                    segment.deletes_applied_through if inside else state.n,
                )
    return deletes_applied_through


def _group(
    found: PlanState, inputs: Sequence[Segment], segments: Sequence[Segment], state: State
) -> Iterable[str]:
    plan = found.plan
    strangers = {s.id for s in segments} - set(found.outputs)
    if strangers or not segments:
        yield f"output ids: expected some of {found.outputs}, found {[s.id for s in segments]}"
    left = any(segment.rows for segment in segments)
    if state.table.rollup is None and left and all(segment.traced for segment in segments):
        runs = concatenated(sorted(segments, key=lambda s: s.shard.partition))
        yield from _unequal("lineage", runs, concatenated(inputs))
    minor = state.timeline.max_minor(plan.chunk, plan.root_start, plan.root_end)
    core = state.timeline.core(plan.chunk)
    for segment in segments:
        yield from _wrong_shard(plan, segment, len(segments), core)
        if segment.shard.minor_version <= minor:
            found_minor = segment.shard.minor_version
            yield f"minor version of {segment.id} is {found_minor}, must be over {minor}"


def _wrong_shard(plan: CompactionPlan, segment: Segment, size: int, core: int) -> Iterable[str]:
    shard = segment.shard
    roots = (shard.root_start, shard.root_end)
    yield from _unequal(f"root range of {segment.id}", roots, (plan.root_start, plan.root_end))
    yield from _unequal(f"group size of {segment.id}", shard.group_size, size)
    yield from _unequal(f"core set of {segment.id}", shard.core, core)


def _new_version(found: PlanState, segments: Sequence[Segment], state: State) -> Iterable[str]:
    layout = layout_after(found.plan, state)
    chunks: dict[ChunkKey, list[Segment]] = {}
    for segment in segments:
        chunks.setdefault(segment.id.chunk, []).append(segment)
        inside = layout.holds(segment.time_min, segment.time_max)
        yield from _unequal(f"time chunk of {segment.id}", segment.id.interval, inside)
        yield from _unequal(f"version of {segment.id}", segment.id.version, found.version)
    for segment, winner in hidden_by_equals(segments):
        yield f"rows of {segment.id} would be hidden by chunk {winner} of the same version"
    for chunk, members in chunks.items():
        if not found.plan.interval.encloses(chunk.interval):
            yield f"chunk {chunk} is outside the region {found.plan.interval}"
        size = len(members)
        shards = sorted((s.shard for s in members), key=lambda shard: shard.partition)
        expected = [Shard.first_generation(p, core=size) for p in range(size)]
        yield from _unequal(f"core set of {chunk}", shards, expected)


def _events(segments: Iterable[Segment]) -> int:
    return sum(segment.events for segment in segments)


def _outside(what: str, found: int, least: int, most: int) -> Iterable[str]:
    if not least <= found <= most:
        expected = most if least == most else f"{least} to {most}"
        yield f"{what}: expected {expected}, found {found}"


def _unequal(what: str, found: object, expected: object) -> Iterable[str]:
    if found != expected:
        yield f"{what}: expected {expected}, found {found}"

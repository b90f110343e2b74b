"""The books: a compaction's outputs hold what its inputs held. Checked at every commit.

1. Events out equal events in: ingested rows, whatever was rolled up. Without rollup, rows too.
2. Where every row can be traced, the outputs' lineage is the inputs', row for row.
3. The outputs have the ids, root range, group size and minor version that the plan and its
   attempt allow. A new version's segments are its core sets: partitions ``0..n-1`` of chunks of
   its region, each sized ``n``, each row inside its chunk.
"""

from collections.abc import Iterable, Sequence

from airflow_provider_segtable.core.errors import BooksDoNotBalance
from airflow_provider_segtable.core.plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.replacement import layout_after
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard, concatenated
from airflow_provider_segtable.core.state import PlanState, State


def check_books(found: PlanState, segments: Sequence[Segment], state: State) -> None:
    """Refuse outputs that do not balance.

    Args:
        found: the plan and its present attempt.
        segments: what the attempt made.
        state: the table before the commit.

    Raises:
        BooksDoNotBalance: naming the plan and every difference.
    """
    inputs = [s for i in found.inputs if (s := state.timeline.get(i))]
    problems = list(_amounts(inputs, segments, state))
    if found.plan.kind is PlanKind.MAJOR:
        problems += _new_version(found, segments, state)
    else:
        problems += _group(found, inputs, segments, state)
    if problems:
        raise BooksDoNotBalance(f"plan {found.plan.id} is refused: {'; '.join(problems)}")


def _amounts(inputs: Sequence[Segment], segments: Sequence[Segment], state: State) -> Iterable[str]:
    yield from _unequal("events", _events(segments), _events(inputs))
    if state.table.rollup is None:
        yield from _unequal("rows", sum(s.rows for s in segments), sum(s.rows for s in inputs))


def _group(
    found: PlanState, inputs: Sequence[Segment], segments: Sequence[Segment], state: State
) -> Iterable[str]:
    plan = found.plan
    strangers = {s.id for s in segments} - set(found.outputs)
    if strangers or not segments:
        yield f"output ids: expected some of {found.outputs}, found {[s.id for s in segments]}"
    if plan.kind is PlanKind.MINOR and state.table.rollup is None:
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
    for chunk, members in chunks.items():
        if not found.plan.interval.encloses(chunk.interval):
            yield f"chunk {chunk} is outside the region {found.plan.interval}"
        size = len(members)
        shards = sorted((s.shard for s in members), key=lambda shard: shard.partition)
        expected = [Shard.first_generation(p, core=size) for p in range(size)]
        yield from _unequal(f"core set of {chunk}", shards, expected)


def _events(segments: Iterable[Segment]) -> int:
    return sum(segment.events for segment in segments)


def _unequal(what: str, found: object, expected: object) -> Iterable[str]:
    if found != expected:
        yield f"{what}: expected {expected}, found {found}"

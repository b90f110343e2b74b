"""Invariants of a table's state, callable after every event.

Each check yields sentences that say what is wrong; none means all is well. They are stated from
the segments' descriptors alone, independently of the incremental timeline, so that the fold and
the overshadowing rules check each other.
"""

from collections import Counter
from collections.abc import Iterator

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.state import PlanStatus, State, generation_of


def violations(state: State) -> Iterator[str]:
    """Yield everything that is wrong with a state."""
    yield from _visible_as_descriptors_say(state)
    yield from _rows_once(state)
    yield from _groups_complete(state)
    yield from _ids_settled(state)
    yield from _plans_sound(state)


def _visible_as_descriptors_say(state: State) -> Iterator[str]:
    present = list(state.timeline.segments())
    full = _full_groups(present)
    above = _may_hide(full)
    expected = {s.id for s in full if not any(_hides(other, s) for other in above)}
    found = {segment.id for segment in state.timeline.visible_segments()}
    for extra in found - expected:
        yield f"{extra} is visible, but by its descriptor it is overshadowed or incomplete"
    for missing in expected - found:
        yield f"{missing} should be visible by its descriptor, but is not"


def _full_groups(present: list[Segment]) -> list[Segment]:
    sizes = Counter((segment.id.chunk, segment.shard.group) for segment in present)
    return [
        segment
        for segment in present
        if sizes[segment.id.chunk, segment.shard.group] == segment.shard.group_size
    ]


def _may_hide(full: list[Segment]) -> list[Segment]:
    """Return later generations, and one segment a chunk version for what lies below it."""
    one_each = {segment.id.chunk: segment for segment in full}
    return [*one_each.values(), *(s for s in full if s.shard.minor_version > 0)]


def _hides(upper: Segment, lower: Segment) -> bool:
    if upper.id.chunk == lower.id.chunk:
        return upper.shard.group.overshadows(lower.shard.group)
    higher = upper.id.version > lower.id.version
    return higher and upper.id.interval.encloses(lower.id.interval)


def _rows_once(state: State) -> Iterator[str]:
    """Every first-generation row is visible exactly once, whatever was compacted."""
    first = {s.id: s.rows for s in state.timeline.segments() if s.shard.minor_version == 0}
    seen: dict[object, list[tuple[int, int]]] = {segment_id: [] for segment_id in first}
    for segment in state.timeline.visible_segments():
        for run in segment.runs:
            root = segment.id.chunk.segment(run.root)
            seen.setdefault(root, []).append((run.start, run.start + run.rows))
    for segment_id, rows in first.items():
        at = 0
        for start, end in sorted(seen[segment_id]):
            if start != at:
                verb = "lost" if start > at else "doubled"
                yield f"rows {min(at, start)}..{max(at, start)} of {segment_id} are {verb}"
            at = max(at, end)
        if at != rows:
            yield f"{segment_id} had {rows} rows, {at} are visible"


def _groups_complete(state: State) -> Iterator[str]:
    for found in state.timeline.lookup():
        sizes = {segment.shard.group_size for segment in found.segments}
        if sizes != {len(found.segments)}:
            yield f"group {found.group} of {found.chunk} is visible with {len(found.segments)}"


def _ids_settled(state: State) -> Iterator[str]:
    for segment in state.timeline.segments():
        space = state.id_space(segment.id.chunk, generation_of(segment.id))
        if space.free(segment.id.partition):
            yield f"{segment.id} is published but its id is free"
        if segment.id.partition in state.voided.get(segment.id.chunk, ()):
            yield f"{segment.id} is published and voided"


def _plans_sound(state: State) -> Iterator[str]:
    claimed: dict[object, str] = {}
    for known in state.plans.values():
        if known.status is PlanStatus.INFLIGHT and known.attempt is None:
            yield f"plan {known.plan.id} is in flight without an attempt"
        if not known.status.pending:
            continue
        for segment_id in known.plan.inputs:
            if segment_id in claimed:
                yield f"{segment_id} is claimed by {claimed[segment_id]} and {known.plan.id}"
            claimed[segment_id] = known.plan.id

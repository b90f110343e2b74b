"""Invariants of a table's state, callable after every event.

Each check yields a sentence for every violation. The checks use the segments' descriptors alone,
not the incremental timeline, so that the fold and the overshadowing rules check each other.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.replacement import hidden_by_equals, home
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey, Segment
from airflow_provider_segtable.core.timeline import Group


def violations(state: State) -> Iterator[str]:
    """Yield every violation in a state."""
    yield from _visible_as_descriptors_say(state)
    yield from _cores_agree(state)
    yield from _not_hidden_by_equals(state)
    yield from _in_their_places(state)
    yield from _rows_once(state)
    yield from _groups_complete(state)
    yield from _ids_settled(state)
    yield from _plans_sound(state)
    yield from _deletions_sound(state)


def _visible_as_descriptors_say(state: State) -> Iterator[str]:
    chunks = _by_chunk(state)
    shown = {chunk: _unhidden(present) for chunk, present in chunks.items()}
    whole = {chunk for chunk, present in chunks.items() if _complete(present, shown[chunk])}
    winners = _winners([chunk for chunk in chunks if shown[chunk]], whole)
    expected = {segment.id for chunk in winners for segment in shown[chunk]}
    found = {segment.id for segment in state.timeline.visible_segments()}
    for extra in found - expected:
        yield f"{extra} is visible, but by its descriptor it is overshadowed or incomplete"
    for missing in expected - found:
        yield f"{missing} should be visible by its descriptor, but is not"


def _by_chunk(state: State) -> dict[ChunkKey, list[Segment]]:
    chunks: dict[ChunkKey, list[Segment]] = {}
    for segment in state.timeline.segments():
        chunks.setdefault(segment.id.chunk, []).append(segment)
    return chunks


def _winners(chunks: Iterable[ChunkKey], whole: Collection[ChunkKey]) -> set[ChunkKey]:
    """Return the chunks that win between any two neighbouring edges.

    A complete chunk wins over incomplete ones, then the highest version, then the later start,
    then the earlier end; in each bucket by itself.
    """
    edges = sorted({edge for c in chunks for edge in (c.interval.start, c.interval.end)})
    buckets = {chunk.bucket for chunk in chunks}
    held = (
        [c for c in chunks if c.bucket == bucket and c.interval.holds(edge)]
        for bucket in buckets
        for edge in edges
    )
    return {
        max(here, key=lambda c: (c in whole, c.version, c.interval.start, -c.interval.end))
        for here in held
        if here
    }


def _complete(present: Sequence[Segment], shown: Sequence[Segment]) -> bool:
    """Return whether the shown segments cover the core set and all roots of present segments."""
    wanted, covered = (_roots(some) for some in (present, shown))
    wanted |= set(range(present[0].shard.core))
    return wanted <= covered


def _roots(segments: Iterable[Segment]) -> set[int]:
    groups = {segment.shard.group for segment in segments}
    return {root for group in groups for root in range(group.root_start, group.root_end)}


def _cores_agree(state: State) -> Iterator[str]:
    for chunk, present in _by_chunk(state).items():
        sizes = Counter(segment.shard.core for segment in present)
        if len(sizes) > 1:
            yield f"segments of {chunk} disagree about the size of its core set: {dict(sizes)}"


def _not_hidden_by_equals(state: State) -> Iterator[str]:
    for segment, winner in hidden_by_equals(state.timeline.visible_segments()):
        yield f"rows of {segment.id} are hidden by chunk {winner} of the same version"


def _in_their_places(state: State) -> Iterator[str]:
    """Check that the rows of file groups are divided by time and key as the layout says."""
    for segment in state.timeline.visible_segments():
        if segment.rows and segment.id.bucket != NO_BUCKET:
            place = home(segment, state.layout)
            if isinstance(place, Conflict):
                yield f"{segment.id} is visible, but {place.reason}"


def _unhidden(present: Sequence[Segment]) -> list[Segment]:
    """Return the segments of full groups that no other full group of the chunk overshadows."""
    sizes = Counter(segment.shard.group for segment in present)
    full = [s for s in present if sizes[s.shard.group] == s.shard.group_size]
    above = {s.shard.group for s in full if s.shard.minor_version > 0}
    return [s for s in full if not any(group.overshadows(s.shard.group) for group in above)]


def _rows_once(state: State) -> Iterator[str]:
    """Check that each first-generation row of a visible chunk is visible exactly once."""
    for chunk in state.timeline.visible_chunks():
        groups = state.timeline.visible_groups(chunk)
        for segment in (s for g in state.timeline.groups(chunk) for s in g.segments):
            if segment.shard.minor_version:
                continue
            over = [g for g in groups if g.start <= segment.shard.partition < g.end]
            if len(over) != 1:
                yield f"{segment.id} is covered by {len(over)} visible groups"
        for group in groups:
            yield from _sums_up(state, chunk, group)


def _sums_up(state: State, chunk: ChunkKey, group: Group) -> Iterator[str]:
    voided = state.voided.get(chunk, frozenset())
    wanted = [chunk.segment(p) for p in range(group.start, group.end) if p not in voided]
    roots = [s for i in wanted if (s := state.timeline.get(i))]
    events, made = sum(s.events for s in roots), sum(s.events for s in group.segments)
    least = events - _gone(state, roots)
    if not least <= made <= events and len(roots) == len(wanted):  # else some were cleaned
        yield f"group {group.key} of {chunk} has {made} events of {events}"
    yield from state.table.kind.doubled(group.segments)


def _gone(state: State, segments: Sequence[Segment]) -> int:
    """Return the most rows of the segments that compactions may have left out as deleted."""
    if state.predicate_deletes or state.vectors_pruned_through:
        return sum(segment.events for segment in segments)
    due = {(r, each) for s in segments for r, some in state.deletions(s).items() for each in some}
    return sum(each.rows for _, each in due)


def _groups_complete(state: State) -> Iterator[str]:
    for found in state.timeline.lookup():
        sizes = {segment.shard.group_size for segment in found.segments}
        if sizes != {len(found.segments)}:
            yield f"group {found.group} of {found.chunk} is visible with {len(found.segments)}"


def _ids_settled(state: State) -> Iterator[str]:
    for segment in state.timeline.segments():
        space = state.id_space(segment.id.chunk, Generation.of(segment.id))
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
        # A claim to an interval is settled by locks: plans over segments in it may be pending.
        for segment_id in known.plan.claim.segments or ():
            if segment_id in claimed:
                yield f"{segment_id} is claimed by {claimed[segment_id]} and {known.plan.id}"
            claimed[segment_id] = known.plan.id


def _deletions_sound(state: State) -> Iterator[str]:
    """Check that deletions are of past events, and that no segment has both lineage and roots."""
    for root, some in state.vectors.items():
        numbers = [each.n for each in some]
        if numbers != sorted(numbers) or any(not 0 <= n <= state.n for n in numbers):
            yield f"deletions of {root} are of events {numbers}, at event {state.n}"
        if not some or any(each.rows <= 0 for each in some):
            yield f"deletions of {root} have no rows: {[each.rows for each in some]}"
    erased = [each.n for each in state.predicate_deletes]
    if erased != sorted(erased) or any(n > state.n for n in erased):
        yield f"deletions by predicate are of events {erased}, at event {state.n}"
    for segment in state.timeline.segments():
        if segment.deletes_applied_through > state.n:
            through = segment.deletes_applied_through
            yield f"{segment.id} is purged up to event {through}, at event {state.n}"
        if segment.lineage and segment.roots:
            yield f"{segment.id} has lineage and roots"

"""A segment among the others: why it is visible or not, what lies above it, and what below.

1. *Above* are the visible segments that hide it: of its own version, those of a higher generation
   over its roots; or else those of the versions that win in its time chunk.
2. *Below* are present segments that it stands for: of its own version, those of lower generations
   over its roots. In a new version, also those that its writer names as replaced, or all of lower
   versions in its time chunk, as far as they have not been cleaned.
"""

from collections.abc import Iterable, Iterator

from airflow_provider_segtable.core.chunk import Chunk
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, GroupKey, Segment
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.core.timeline import GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A segment among the others; ``why`` is one sentence."""

    state: GroupState
    why: str
    above: tuple[Segment, ...]
    below: tuple[Segment, ...]


def related(state: State, segment: Segment) -> Related:
    """Return a present segment among the others of a version."""
    chunk, group = segment.id.chunk, segment.shard.group
    found = state.timeline.state(chunk, group)
    above: tuple[Segment, ...] = ()
    if found is GroupState.OVERSHADOWED:
        above = tuple(_covering(state, chunk, group)) or tuple(_winning(state, chunk))
    return Related(
        state=found,
        why=_why(state, segment, found, above),
        above=above,
        below=tuple(_below(state, segment)),
    )


def _covering(state: State, chunk: ChunkKey, group: GroupKey) -> Iterator[Segment]:
    for other in state.timeline.visible_groups(chunk):
        if other.key.overlaps(group) and other.key.minor_version > group.minor_version:
            yield from other.segments


def _winning(state: State, chunk: ChunkKey) -> Iterator[Segment]:
    for other in state.timeline.visible_chunks(chunk.interval):
        if other != chunk and other.bucket == chunk.bucket:
            yield from (s for g in state.timeline.visible_groups(other) for s in g.segments)


def _below(state: State, segment: Segment) -> Iterator[Segment]:
    chunk, group = segment.id.chunk, segment.shard.group
    for other in state.timeline.groups(chunk):
        if other.key.overlaps(group) and other.key.minor_version < group.minor_version:
            yield from other.segments
    if not segment.shard.core or segment.shard.minor_version:
        return
    for known in state.timeline.chunks(chunk.interval):
        if known.key.version < chunk.version and known.key.bucket == chunk.bucket:
            yield from _shown(known.unpacked)


def _shown(chunk: Chunk) -> Iterable[Segment]:
    return (segment for group in chunk.visible for segment in group.segments)


def _why(state: State, segment: Segment, found: GroupState, above: tuple[Segment, ...]) -> str:
    if found is GroupState.VISIBLE:
        if segment.tombstone:
            return "it has no rows, and hides the lower versions of its time chunk"
        newest = "no newer segment covers its partitions"
        return f"readers see it: {newest}, and its version wins in its time chunk"
    if found is GroupState.STANDBY:
        return _waiting(state, segment)
    first = above[0] if above else None
    if first is not None and first.id.chunk == segment.id.chunk:
        return (
            f"hidden: {counted(len(above), 'newer segment')} of generation "
            f"{first.shard.minor_version} cover its partitions"
        )
    since = f" of {iso(first.id.version)}" if first is not None else ""
    return f"hidden: a newer version{since} wins in its whole time chunk"


def _waiting(state: State, segment: Segment) -> str:
    groups = state.timeline.groups(segment.id.chunk)
    present = next((g for g in groups if g.key == segment.shard.group), None)
    have, size = len(present.segments) if present else 0, segment.shard.group_size
    if have < size:
        return f"it waits: {have} of {counted(size, 'segment')} of its group are present"
    return "it waits: its version lacks segments, so another one is shown in its time chunk"

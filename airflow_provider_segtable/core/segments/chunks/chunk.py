"""The visible groups of one chunk: a time chunk at one version, or one of its buckets.

1. Segments of equal root range and minor version are one *atomic update group*; it is full iff
   all ``group_size`` of them are present. Only full groups are ever visible.
2. The visible groups: go through the full groups from the highest minor version down (among equal
   ones: wider range first, then lower start) and take each that overlaps none taken before.
3. For ranges that compaction can make (nested or disjoint, minor versions rising outwards) this
   equals "full, and no full group overshadows it". It falls back through all generations, also in
   part: if [0, 3) loses a segment, [0, 2) at v1 and [2, 3) at v0 are visible again.
4. It is a function of the segments present, not of the order in which they came and went.
5. The chunk is *complete* iff visible groups cover every root that any present segment covers,
   and the whole core set of its version.

``chunk_layers`` keeps the visible groups up to date. A chunk may also be packed, so that it is
decoded on demand (``packed_chunk``); both answer the same questions (``AnyChunk`` there).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.segments.chunks.chunk_layers import (
    Group,
    Layer,
    layer_at,
    layered,
    layers_of,
    settled,
)
from airflow_provider_segtable.core.segments.chunks.chunk_summary import ChunkSummary, summarize
from airflow_provider_segtable.core.segments.chunks.spans import Spans
from airflow_provider_segtable.core.segments.segment import (
    ChunkKey,
    GroupKey,
    Segment,
)

BULK = 64
"""Least number of changed groups that rebuilds the chunk; at least an eighth of its segments.
An empty chunk is always built anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The segments of one (interval, version, bucket).

    ``later`` maps partitions of later generations to their groups.
    """

    key: ChunkKey
    layers: tuple[Layer, ...] = ()
    visible: Spans[Group] = field(default_factory=Spans)
    later: Mapping[int, GroupKey] = field(default_factory=dict)
    count: int = 0

    @property
    def start(self) -> int:
        """Return the first instant."""
        return self.key.interval.start

    @property
    def end(self) -> int:
        """Return the first instant after the chunk."""
        return self.key.interval.end

    def get(self, partition: int) -> Segment | None:
        """Return a present segment, or None."""
        key = self.home(partition)
        group = self.group(key) if key else None
        return _member(group, partition) if group else None

    def home(self, partition: int) -> GroupKey | None:
        """Return the group that a partition would be in, or None; a first-generation id tells."""
        if partition in self.key.numbering.first:
            return GroupKey(partition, partition + 1, 0)
        return self.later.get(partition)

    def group(self, key: GroupKey) -> Group | None:
        """Return a group that has present segments, or None."""
        at = layer_at(self.layers, key.minor_version)
        if at == len(self.layers) or self.layers[at].minor_version != key.minor_version:
            return None
        return self.layers[at].groups.find(key.root_start, key.root_end, key)

    def groups(self) -> Iterator[Group]:
        """Yield all groups, visible or not, by minor version from the highest, then by root."""
        return (group for layer in self.layers for group in layer.groups)

    def segments(self) -> Iterator[Segment]:
        """Yield all segments by partition."""
        if self.layers and not self.layers[-1].minor_version:
            yield from (segment for g in self.layers[-1].groups for segment in g.segments)
        for partition in sorted(self.later):
            segment = self.get(partition)
            if segment:
                yield segment

    def shows(self, key: GroupKey) -> bool:
        """Return whether the group is visible, other versions aside."""
        return self.visible.find(key.root_start, key.root_end, key) is not None

    def hides(self, key: GroupKey) -> bool:
        """Return whether a visible group of higher minor version overlaps the group."""
        rivals = self.visible.overlapping(key.root_start, key.root_end)
        return any(rival.key.minor_version > key.minor_version for rival in rivals)

    @property
    def complete(self) -> bool:
        """Return whether visible groups cover the core set and all roots of present segments."""
        runs: list[tuple[int, int]] = []
        for group in self.visible:
            start = runs.pop()[0] if runs and runs[-1][1] == group.start else group.start
            runs.append((start, group.end))
        ends = [end for _, end in runs]
        for group in self.groups():
            at = bisect_left(ends, group.end)
            if at == len(runs) or runs[at][0] > group.start:
                return False
        return not self.core or bool(runs and runs[0][0] == 0 and runs[0][1] >= self.core)

    @property
    def shows_any(self) -> bool:
        """Return whether any group is visible, other versions aside."""
        return bool(self.visible)

    @property
    def unpacked(self) -> "Chunk":
        """Return the chunk itself, which is decoded."""
        return self

    @property
    def summary(self) -> ChunkSummary:
        """Return the chunk's summary, computed at each call."""
        return summarize(
            self.segments(),
            visible=[segment for group in self.visible for segment in group.segments],
            core=self.core,
            complete=self.complete,
            minor_version=self.layers[0].minor_version if self.layers else 0,
        )

    def paths(self) -> Iterator[str]:
        """Yield the paths of the files of all segments."""
        return (segment.path for segment in self.segments() if segment.path)

    @property
    def core(self) -> int:
        """Return the size of the core set of the chunk's version, from its first segment."""
        first = next(self.groups(), None)
        return first.segments[0].shard.core if first else 0

    def max_minor(self, root_start: int, root_end: int) -> int:
        """Return the highest minor version among groups over these roots, or 0."""
        for layer in self.layers:
            if any(True for _ in layer.groups.overlapping(root_start, root_end)):
                return layer.minor_version
        return 0

    def _only(self, partitions: AbstractSet[int]) -> bool:
        """Return whether all segments are among these partitions."""
        return all(segment.id.partition in partitions for segment in self.segments())

    def with_changes(self, add: Iterable[Segment], remove: Iterable[int]) -> "Chunk":
        """Return the chunk with partitions removed, then segments added.

        Raises:
            CorruptTable: if segments contradict each other.
        """
        added, removed = tuple(add), frozenset(remove)
        if not added and len(removed) >= self.count and self._only(removed):
            return Chunk(key=self.key)
        draft = _Draft(self)
        for partition in removed:
            draft.remove(partition)
        for segment in added:
            draft.add(segment)
        changed = draft.changed()
        if not changed:
            return self
        growth = sum(len(new.segments) if new else 0 for _, new in changed)
        shrink = sum(len(old.segments) if old else 0 for old, _ in changed)
        held = replace(self, later=draft.later, count=self.count + growth - shrink)
        if not self.count or len(changed) >= max(BULK, self.count // 8):
            layers, visible = layers_of(_groups_after(self, changed))
            return replace(held, layers=layers, visible=visible)
        layers, visible = self.layers, self.visible
        for old, new in changed:
            layers = layered(layers, old, new)
            visible = settled(layers, visible, old, new)
        return replace(held, layers=layers, visible=visible)


_Change = tuple[Group | None, Group | None]
"""A group before and after."""


class _Draft:
    """Collects changed members by group, so that each group changes once."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._members: dict[GroupKey, dict[int, Segment]] = {}
        self.later: Mapping[int, GroupKey] = chunk.later
        self._first = chunk.key.numbering.first

    def remove(self, partition: int) -> None:
        first = partition in self._first
        key = GroupKey(partition, partition + 1, 0) if first else self.later.get(partition)
        if key and self._of(key).pop(partition, None) and partition in self.later:
            self._own_later().pop(partition)

    def add(self, segment: Segment) -> None:
        partition, key = segment.id.partition, segment.shard.group
        members = self._of(key)
        own, first = members, partition in self._first  # its group follows from its id
        if not first:
            home = self.later.get(partition)
            own = members if home == key else self._of(home) if home else {}
        known = own.get(partition)
        if known and known != segment:
            raise CorruptTable(
                f"two different segments are called {segment.id}: {known.path!r} "
                f"and {segment.path!r}; remove the one that the log does not name"
            )
        members[partition] = segment
        if not first and not known:
            self._own_later()[partition] = key

    def changed(self) -> list[_Change]:
        changes = []
        for key, members in self._members.items():
            old, new = self._chunk.group(key), _group(key, members)
            if old != new:
                changes.append((old, new))
        return changes

    def _of(self, key: GroupKey) -> dict[int, Segment]:
        known = self._members.get(key)
        if known is None:
            group = self._chunk.group(key)
            known = {s.id.partition: s for s in group.segments} if group else {}
            self._members[key] = known
        return known

    def _own_later(self) -> dict[int, GroupKey]:
        if self.later is self._chunk.later:
            self.later = dict(self.later)
        return self.later  # type: ignore[return-value]


def _member(group: Group, partition: int) -> Segment | None:
    return next((s for s in group.segments if s.id.partition == partition), None)


def _group(key: GroupKey, members: Mapping[int, Segment]) -> Group | None:
    if not members:
        return None
    segments = tuple(members.values())
    wanted = segments[0].shard.group_size
    if len(segments) == wanted == 1:
        return Group(key=key, segments=segments)
    segments = tuple(members[partition] for partition in sorted(members))
    if len(segments) > wanted or any(s.shard.group_size != wanted for s in segments):
        sizes = {str(s.id): s.shard.group_size for s in segments}
        raise CorruptTable(
            f"group {key} cannot be made of {len(segments)} segments with group "
            f"sizes {sizes}; remove the ones without a completed plan"
        )
    return Group(key=key, segments=segments)


def _groups_after(chunk: Chunk, changed: Iterable[_Change]) -> Iterable[Group]:
    """Return the groups of a chunk after changes."""
    groups = {group.key: group for group in chunk.groups()}
    for old, new in changed:
        if new:
            groups[new.key] = new
        elif old:
            del groups[old.key]
    return groups.values()

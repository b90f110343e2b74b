"""The groups of one chunk: a time chunk at one version, or one of its buckets.

1. Segments of equal root range and minor version are one *atomic update group*; it is full iff
   all ``group_size`` of them are present. Only full groups are ever visible.
2. The visible groups: go through the full groups from the highest minor version down (among equal
   ones: wider range first, then lower start) and take each that overlaps none taken before.
3. For ranges that compaction can make (nested or disjoint, minor versions rising outwards) this
   equals "full, and no full group overshadows it". It falls back through all generations, also in
   part: if [0, 3) loses a segment, [0, 2) at v1 and [2, 3) at v0 are visible again.
4. It is a function of the segments present, not of the order in which they were added and removed.
5. The chunk is *complete* iff visible groups cover every root that any present segment covers,
   and the whole core set of its version.
6. Groups lie in *layers*, one per minor version, highest first, each sorted by root. The visible
   groups are a sorted set of their own.
7. The visible groups are kept up to date. A group that becomes full is hidden by a higher visible
   one, or replaces the groups it encloses. A visible group that is no longer full leaves a gap,
   which the layers below fill from the top down.
8. If ranges cross, which no compaction makes, everything connected to the gap is computed again.
9. A *summary* has the values that are available without decoding segments: whether the chunk is
   complete, and the number and size of its visible segments. The timeline, admission and the
   planner need them of every chunk.
10. A summary is a named tuple: a large table has a hundred thousand of them, which are made at once
    from the columns of a checkpoint.
11. A chunk may also be packed, so that it is decoded on demand (``PackedChunk`` in
    ``core.timeline``). It stores its summary, and answers the same questions (``AnyChunk``).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from types import MappingProxyType
from typing import Any, NamedTuple

from airflow_provider_segtable.core.dataclass import dataclass, replace
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.segment import WIDE, ChunkKey, GroupKey, Segment, base_of
from airflow_provider_segtable.core.spans import Spans
from airflow_provider_segtable.core.time import Instant


# Groups and layers
@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The present segments of an atomic update group, at least one, by partition."""

    key: GroupKey
    segments: tuple[Segment, ...]

    @property
    def full(self) -> bool:
        """Return whether all segments of the group are present."""
        return len(self.segments) == self.segments[0].shard.group_size

    @property
    def start(self) -> int:
        """Return the first root."""
        return self.key.root_start

    @property
    def end(self) -> int:
        """Return the first root after the group."""
        return self.key.root_end


@dataclass(frozen=True, slots=True)
class Layer:
    """The groups of one minor version."""

    minor_version: int
    groups: Spans[Group]


def layers_of(groups: Iterable[Group]) -> tuple[tuple[Layer, ...], Spans[Group]]:
    """Return the layers of a chunk's groups, and the visible groups."""
    by_minor: dict[int, list[Group]] = {}
    for group in groups:
        by_minor.setdefault(group.key.minor_version, []).append(group)
    layers = tuple(
        Layer(minor, Spans.of(by_minor[minor])) for minor in sorted(by_minor, reverse=True)
    )
    filled = _filled(layers, 0, WIDE.first.stop)
    return layers, Spans.of(filled or ())


def layer_at(layers: tuple[Layer, ...], minor_version: int) -> int:
    """Return the position of a minor version's layer, or where it would be."""
    return bisect_left(layers, -minor_version, key=_rank)


def _rank(layer: Layer) -> int:
    return -layer.minor_version


def layered(layers: tuple[Layer, ...], old: Group | None, new: Group | None) -> tuple[Layer, ...]:
    """Return the layers after ``old`` became ``new``; None is a group without segments."""
    minor = next(group.key.minor_version for group in (old, new) if group)
    at = layer_at(layers, minor)
    known = at < len(layers) and layers[at].minor_version == minor
    groups: Spans[Group] = layers[at].groups if known else Spans()
    if new:
        groups = groups.put(new)
    elif old:
        groups = groups.drop(old)
    changed = (Layer(minor, groups),) if groups else ()
    return (*layers[:at], *changed, *layers[at + known :])


def visible_after(
    layers: tuple[Layer, ...], visible: Spans[Group], old: Group | None, new: Group | None
) -> Spans[Group]:
    """Return the visible groups after ``old`` became ``new``."""
    if new and new.full:
        return _taken_in(layers, visible, new)
    if old and old.full and visible.find(old.start, old.end, old.key):
        filled = _filled(layers, old.start, old.end, old.key.minor_version)
        if filled is not None:
            return visible.splice(old.start, old.end, filled)
        return _recomputed(layers, visible, old)
    return visible


def _taken_in(layers: tuple[Layer, ...], visible: Spans[Group], new: Group) -> Spans[Group]:
    mine = _priority(new)
    crossed = False
    for rival in visible.overlapping(new.start, new.end):
        if _priority(rival) < mine:
            return visible
        crossed = crossed or rival.start < new.start or rival.end > new.end
    if crossed:
        return _recomputed(layers, visible, new)
    return visible.splice(new.start, new.end, (new,))


def _recomputed(layers: tuple[Layer, ...], visible: Spans[Group], about: Group) -> Spans[Group]:
    start, end = about.start, about.end
    wider = (-1, -1)
    while wider != (start, end):
        wider = (start, end)
        for layer in layers:
            for cell in layer.groups.cells(start, end):
                start, end = min(start, cell.start), max(end, cell.end)
    return visible.splice(start, end, _filled(layers, start, end) or ())


def _priority(group: Group) -> tuple[int, int, int]:
    return -group.key.minor_version, group.start - group.end, group.start


def _filled(
    layers: tuple[Layer, ...], start: int, end: int, minor: int | None = None
) -> list[Group] | None:
    """Return the groups of layers up to ``minor`` that fill an empty range, by root.

    None if a full group crosses an edge of the range: then the range cannot be filled alone.
    """
    gaps = [(start, end)]
    filled: list[Group] = []
    for layer in layers if minor is None else layers[layer_at(layers, minor) :]:
        left_over: list[tuple[int, int]] = []
        for gap in gaps:
            taken: list[Group] = []
            for cell in layer.groups.cells(*gap):
                full = [g for g in cell.items if g.full and g.start < gap[1] and gap[0] < g.end]
                if any(g.start < start or g.end > end for g in full):
                    return None
                taken += _first_come([g for g in full if gap[0] <= g.start and g.end <= gap[1]])
            filled += taken
            left_over += _between(gap, taken)
        gaps = left_over
        if not gaps:
            break
    return sorted(filled, key=lambda group: group.start)


def _first_come(groups: list[Group]) -> list[Group]:
    if len(groups) == 1:
        return groups
    taken: list[Group] = []
    for group in sorted(groups, key=_priority):
        if not any(group.key.overlaps(other.key) for other in taken):
            taken.append(group)
    return sorted(taken, key=lambda group: group.start)


def _between(gap: tuple[int, int], taken: list[Group]) -> Iterator[tuple[int, int]]:
    at = gap[0]
    for group in taken:
        if at < group.start:
            yield at, group.start
        at = group.end
    if at < gap[1]:
        yield at, gap[1]


# Summaries
_NOTHING: Mapping[Any, int] = MappingProxyType({})


class ChunkSummary(NamedTuple):
    """The summary of a chunk, available without decoding it.

    Attributes:
        count: the number of present segments, visible or not.
        core: the size of the core set of the chunk's version.
        complete: see ``Chunk.complete``.
        minor_version: the highest minor version of its groups.
        least_purged: the lowest ``deletes_applied_through`` of present segments with rows; None if
            no present segment has rows.
        visible: the number of visible segments, tombstones included; all that follows is about
            visible segments alone.
        rows: their rows.
        size: their bytes.
        time_max: the latest event time; None if no visible segment has rows.
        oldest: the creation time of the oldest segment; None if no segment is visible.
        newest: the creation time of the newest segment; None if no segment is visible.
        files: the number of segments with a file: all but tombstones.
        sizes: the number of segments with a file, by the bit length of their size in bytes.
        clustered: bytes by clustering; shows how much is not sorted as a policy wants.
        late: the number of segments with rows beside the chunk's base (``core.segment``);
            None if a checkpoint of an older segtable has no number.
        least, second, most: the sizes of the smallest, the second smallest and the largest file.
        time_min: the earliest event time.
        spanned: the sum over segments with rows of the time from first to last event.

    The last five are None if there is none, if the number is too large for a checkpoint, or if an
        older segtable wrote that.
    """

    count: int  # type: ignore[assignment]  # instead of the method of tuples
    core: int = 0
    complete: bool = False
    minor_version: int = 0
    least_purged: int | None = None
    visible: int = 0
    rows: int = 0
    size: int = 0
    time_max: Instant | None = None
    oldest: Instant | None = None
    newest: Instant | None = None
    files: int = 0
    sizes: Mapping[int, int] = _NOTHING
    clustered: Mapping[str, int] = _NOTHING
    late: int | None = 0
    least: int | None = None
    second: int | None = None
    most: int | None = None
    time_min: Instant | None = None
    spanned: int | None = None

    @property
    def hidden(self) -> int:
        """Return the number of present segments that are not visible."""
        return self.count - self.visible

    def unsorted(self, clustering: str) -> int:
        """Return the bytes of segments with another clustering."""
        return self.size - self.clustered.get(clustering, 0)

    def unsorted_share(self, clustering: str) -> float:
        """Return the share of these bytes."""
        return self.unsorted(clustering) / max(1, self.size)

    @property
    def baseless(self) -> bool:
        """Return whether there are rows, and none of them in a base; true if that is not known."""
        return self.late is None or 0 < self.late == self.files

    def smaller_files(self, size: float) -> int | None:
        """Return the number of files smaller than this, in bytes; None if it is not known."""
        if self.least is not None and self.least >= size:
            return 0
        if self.second is not None and self.second >= size:
            return 1
        if self.most is not None and self.most < size:
            return self.files
        if any(least_size(bits) < size <= (1 << bits) - 1 for bits in self.sizes):
            return None
        return sum(n for bits, n in self.sizes.items() if least_size(bits) < size)

    def smaller(self, size: float) -> int:
        """Return the most segments that may be smaller than this, in bytes."""
        few = self.smaller_files(size)
        if few is not None:
            return self.visible - self.files + few
        return self.visible - sum(n for bits, n in self.sizes.items() if least_size(bits) >= size)

    def any_larger(self, size: float) -> bool:
        """Return whether a segment may be larger than this, in bytes."""
        if self.most is not None:
            return self.most > size
        return any(1 << bits > size for bits in self.sizes)


def least_size(bits: int) -> int:
    """Return the smallest size with this bit length."""
    return 1 << (bits - 1) if bits else 0


def overlap_of(chunks: Sequence[ChunkSummary]) -> float | None:
    """Return how many visible segments of chunks with rows hold one instant, on average.

    The average is over the time from their first event to their last one; None if it is not known.
    """
    spanned, first, last = 0, None, None
    for each in chunks:
        if each.spanned is None or each.time_min is None or each.time_max is None:
            return None
        spanned += each.spanned
        first = each.time_min if first is None else min(first, each.time_min)
        last = each.time_max if last is None else max(last, each.time_max)
    return 0.0 if first is None or last is None else spanned / (last + 1 - first)


def summarize(
    segments: Iterable[Segment],
    *,
    visible: Sequence[Segment],
    core: int,
    complete: bool,
    minor_version: int,
) -> ChunkSummary:
    """Return the summary of a chunk.

    Args:
        segments: its present segments.
        visible: the visible ones among them, by root.
        core: the size of the core set of its version.
        complete: whether it is complete.
        minor_version: the highest minor version of its groups.
    """
    present = tuple(segments)
    sizes: Counter[int] = Counter()
    clustered: Counter[str] = Counter()
    for segment in visible:
        if segment.path:
            sizes[segment.size.bit_length()] += 1
            clustered[segment.clustering] += segment.size
    ascending = sorted([segment.size for segment in visible if segment.path])
    filled = [segment for segment in visible if segment.rows]
    spanned = sum(segment.time_max + 1 - segment.time_min for segment in filled)
    return ChunkSummary(
        count=len(present),
        core=core,
        complete=complete,
        minor_version=minor_version,
        least_purged=min((s.deletes_applied_through for s in present if s.rows), default=None),
        visible=len(visible),
        rows=sum(segment.rows for segment in visible),
        size=sum(segment.size for segment in visible),
        time_max=max((segment.time_max for segment in filled), default=None),
        oldest=min((segment.created for segment in visible), default=None),
        newest=max((segment.created for segment in visible), default=None),
        files=len(ascending),
        sizes=dict(sorted(sizes.items())),
        clustered=dict(sorted(clustered.items())),
        late=len(filled) - sum(1 for s in base_of(visible) if s.rows),
        least=ascending[0] if ascending else None,
        second=ascending[1] if len(ascending) > 1 else None,
        most=ascending[-1] if ascending else None,
        time_min=min((segment.time_min for segment in filled), default=None),
        spanned=spanned if 0 < spanned < _MOST_SPANNED else None,
    )


_MOST_SPANNED = 2**63
"""Checkpoints have 64 bits for each number."""


# Chunks, and changes of their segments
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
        """Return the group of a partition, or None; a first-generation id implies it."""
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
            visible = visible_after(layers, visible, old, new)
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

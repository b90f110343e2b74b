"""The groups of a chunk in layers, and the visible ones among them.

1. Groups lie in *layers*, one per minor version, highest first, each sorted by root. The visible
   groups are a sorted set of their own (which ones: ``core.segments.chunks.chunk``, rule 2).
2. A group that becomes full is hidden by a higher visible one, or replaces the groups it encloses.
   A visible group that is no longer full leaves a gap, which the layers below fill from the top
   down.
3. If ranges cross, which no compaction makes, everything connected to the gap is computed again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_segtable.core.segments.chunks.spans import Spans
from airflow_provider_segtable.core.segments.numbering import WIDE
from airflow_provider_segtable.core.segments.segment import GroupKey, Segment


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


def settled(
    layers: tuple[Layer, ...], visible: Spans[Group], old: Group | None, new: Group | None
) -> Spans[Group]:
    """Return the visible groups after ``old`` became ``new``."""
    if new and new.full:
        return _taken_in(layers, visible, new)
    if old and old.full and visible.find(old.start, old.end, old.key):
        filled = _filled(layers, old.start, old.end, old.key.minor_version)
        if filled is not None:
            return visible.splice(old.start, old.end, filled)
        return _settled_anew(layers, visible, old)
    return visible


def _taken_in(layers: tuple[Layer, ...], visible: Spans[Group], new: Group) -> Spans[Group]:
    mine = _priority(new)
    crossed = False
    for rival in visible.overlapping(new.start, new.end):
        if _priority(rival) < mine:
            return visible
        crossed = crossed or rival.start < new.start or rival.end > new.end
    if crossed:
        return _settled_anew(layers, visible, new)
    return visible.splice(new.start, new.end, (new,))


def _settled_anew(layers: tuple[Layer, ...], visible: Spans[Group], about: Group) -> Spans[Group]:
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

"""What is visible, said naively over the set of present segments; and histories to say it of.

Nothing here is incremental or clever, and nothing is imported from the code under test but its
vocabulary. ``druid`` is the rule of the Druid proposal, for what compaction can make; ``greedy``
is the rule for any set whatsoever; ``Instants`` says which version wins, instant by instant.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from airflow_provider_segtable.core.segment import ChunkKey, GroupKey, Segment, Shard
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import GroupState

CHUNK = ChunkKey(Interval(0, 100), 7)


class Made(NamedTuple):
    """A group that a history made: its roots, minor version and number of segments."""

    start: int
    end: int
    minor: int
    size: int

    @property
    def key(self) -> GroupKey:
        """Return the group's name."""
        return GroupKey(self.start, self.end, self.minor)


_numbers: dict[tuple[Made, int], int] = {}


@cache
def segment(made: Made, index: int, chunk: ChunkKey = CHUNK) -> Segment:
    """Return a segment of a group; equal arguments give the very same segment."""
    partition = made.start
    if made.minor:
        partition = 32768 + _numbers.setdefault((made, index), len(_numbers))
    return Segment(
        id=chunk.segment(partition),
        shard=Shard(
            partition=partition,
            root_start=made.start,
            root_end=made.end,
            minor_version=made.minor,
            group_size=made.size,
        ),
        path=f"data/{chunk.interval.name}/{chunk.version}_{partition}.parquet",
        rows=1,
        size=1,
        row_groups=1,
        time_min=chunk.interval.start,
        time_max=chunk.interval.end - 1,
        created=0,
    )


def segments(family: Iterable[Made], chunk: ChunkKey = CHUNK) -> list[Segment]:
    """Return all segments of a family of groups."""
    return [segment(made, index, chunk) for made in family for index in range(made.size)]


def firsts(count: int) -> tuple[Made, ...]:
    """Return first-generation groups 0..count-1."""
    return tuple(Made(root, root + 1, 0, 1) for root in range(count))


def compacted(tops: Sequence[Made], first: int, last: int, outputs: int) -> Made:
    """Return the group that compacting the adjacent top groups first..last makes."""
    minor = 1 + max(made.minor for made in tops[first : last + 1])
    return Made(tops[first].start, tops[last].end, minor, outputs)


def families(roots: int, compactions: int, outputs: int) -> Iterator[tuple[Made, ...]]:
    """Yield what every legal history makes: any adjacent top groups, compacted again and again."""

    def grow(
        tops: tuple[Made, ...], made: tuple[Made, ...], left: int
    ) -> Iterator[frozenset[Made]]:
        yield frozenset(made)
        if not left:
            return
        for first, last in combinations(range(len(tops) + 1), 2):
            for size in range(1, outputs + 1):
                new = compacted(tops, first, last - 1, size)
                yield from grow((*tops[:first], new, *tops[last:]), (*made, new), left - 1)

    seen = set(grow(firsts(roots), firsts(roots), compactions))
    yield from sorted(tuple(sorted(family)) for family in seen)


def full_groups(present: Iterable[Segment]) -> dict[GroupKey, list[Segment]]:
    """Return the full groups of one chunk."""
    groups = all_groups(present)
    return {key: held for key, held in groups.items() if len(held) == held[0].shard.group_size}


def all_groups(present: Iterable[Segment]) -> dict[GroupKey, list[Segment]]:
    """Return the groups of one chunk of which anything is present."""
    groups: dict[GroupKey, list[Segment]] = {}
    for one in present:
        groups.setdefault(one.shard.group, []).append(one)
    return groups


def druid(present: Iterable[Segment]) -> set[GroupKey]:
    """Full, and no full group overshadows it."""
    full = full_groups(present)
    return {key for key in full if not any(other.overshadows(key) for other in full)}


def greedy(present: Iterable[Segment]) -> set[GroupKey]:
    """Full, and overlapped by no visible one of higher minor version, or of equal but wider."""
    full = full_groups(present)

    def prior(key: GroupKey) -> tuple[int, int, int]:
        return -key.minor_version, key.root_start - key.root_end, key.root_start

    @cache
    def visible(key: GroupKey) -> bool:
        rivals = (o for o in full if prior(o) < prior(key) and o.overlaps(key))
        return not any(visible(rival) for rival in rivals)

    return {key for key in full if visible(key)}


def roots(keys: Iterable[GroupKey]) -> set[int]:
    """Return the roots that groups cover."""
    return {root for key in keys for root in range(key.root_start, key.root_end)}


def core_of(present: Iterable[Segment]) -> int:
    """Return the size of the core set that the segments of a chunk speak of."""
    return max((one.shard.core for one in present), default=0)


class Instants:
    """Who wins when, for segments of any chunks over a short range of instants."""

    def __init__(self, present: Iterable[Segment]) -> None:
        self.chunks: dict[ChunkKey, list[Segment]] = {}
        for one in present:
            self.chunks.setdefault(one.id.chunk, []).append(one)
        self.visible = {key: greedy(held) for key, held in self.chunks.items()}

    def complete(self, chunk: ChunkKey) -> bool:
        """Tell whether visible groups cover the core set and all roots of present segments."""
        wanted = roots(all_groups(self.chunks[chunk])) | set(range(core_of(self.chunks[chunk])))
        return roots(self.visible[chunk]) >= wanted

    def winner(self, at: int) -> ChunkKey | None:
        """Return the chunk that wins at an instant."""
        holding = [c for c in self.chunks if c.interval.holds(at) and self.visible[c]]
        best = [c for c in holding if self.complete(c)] or holding
        return max(best, key=lambda c: (c.version, c.interval.start, -c.interval.end), default=None)

    def shown(self, at: int) -> set[tuple[ChunkKey, GroupKey]]:
        """Return the groups that readers see at an instant."""
        winner = self.winner(at)
        return {(winner, key) for key in self.visible[winner]} if winner else set()

    def state(self, chunk: ChunkKey, group: GroupKey) -> GroupState:
        """Return a group's state, by the words of rule 4."""
        instants = range(chunk.interval.start, chunk.interval.end)
        if any((chunk, group) in self.shown(at) for at in instants):
            return GroupState.VISIBLE
        rivals = (o for o in self.visible[chunk] if o.overlaps(group))
        winners = [self.winner(at) for at in instants]
        beaten = all(w and w != chunk and w.version >= chunk.version for w in winners)
        if beaten or any(rival.minor_version > group.minor_version for rival in rivals):
            return GroupState.OVERSHADOWED
        return GroupState.STANDBY

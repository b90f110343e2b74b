"""Partition ids of a chunk that the log has used, for one generation.

1. An id is *settled* once it is published, voided or burnt. Settled ids are never used again.
2. Below ``next`` every id is settled except the *holes*: ids allocated to a writer that has not
   committed yet (or never will). The log names no id from ``next`` on.
3. ``IdSpaces`` holds the spaces of a table: the ones at opening, and the ones changed since.
   Settling ids costs time by the spaces touched, finding holes by the number of spaces with holes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.persistent_map import PersistentMap
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId


@dataclass(frozen=True, slots=True)
class IdSpace:
    """The settled ids of one chunk and generation."""

    next: int
    holes: frozenset[int] = frozenset()

    def free(self, partition: int) -> bool:
        """Return whether this id is not settled."""
        return partition >= self.next or partition in self.holes

    def settle(self, partitions: Iterable[int]) -> "IdSpace":
        """Return the space with these ids settled; they may be settled already."""
        after, holes = self.next, set(self.holes)
        for partition in sorted(partitions):
            holes.update(range(after, partition))
            holes.discard(partition)
            after = max(after, partition + 1)
        return IdSpace(after, frozenset(holes))


SpaceKey = tuple[ChunkKey, Generation]


class IdSpaces(Mapping[SpaceKey, IdSpace]):
    """The id spaces of a table. Immutable: changes return a new one."""

    __slots__ = ("_before", "_changed", "_open")

    def __init__(
        self,
        spaces: Mapping[SpaceKey, IdSpace] | None = None,
        open_spaces: Iterable[SpaceKey] | None = None,
    ) -> None:
        """Wrap ``spaces``, which must not change from now on.

        Args:
            spaces: the spaces that the table is opened with.
            open_spaces: the keys of those with holes; computed if not given.
        """
        self._before: Mapping[SpaceKey, IdSpace] = {} if spaces is None else spaces
        self._changed: PersistentMap[SpaceKey, IdSpace] = PersistentMap()
        if open_spaces is None:
            open_spaces = (key for key, space in self._before.items() if space.holes)
        self._open = frozenset(open_spaces)

    def __getitem__(self, key: SpaceKey) -> IdSpace:
        """Return the space of a chunk and generation; the log must have named it."""
        return self._changed[key] if key in self._changed else self._before[key]

    def __iter__(self) -> Iterator[SpaceKey]:
        """Yield the keys in the order of their first appearance in the log."""
        yield from self._before
        yield from (key for key in self._changed if key not in self._before)

    def __len__(self) -> int:
        """Return the number of spaces."""
        return len(self._before) + sum(key not in self._before for key in self._changed)

    def __eq__(self, other: object) -> bool:
        """Compare as a mapping."""
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def of(self, chunk: ChunkKey, generation: Generation) -> IdSpace:
        """Return the space of a chunk and generation; empty if the log never named it."""
        return self.get((chunk, generation)) or IdSpace(generation.ids(chunk).start)

    def changed_from(self, spaces: Mapping[SpaceKey, IdSpace]) -> frozenset[ChunkKey] | None:
        """Return the chunks changed since opening with ``spaces``; None if opened with others."""
        if self._before is not spaces:
            return None
        return frozenset(chunk for chunk, _ in self._changed)

    def settle(self, ids: Iterable[SegmentId]) -> "IdSpaces":
        """Return the spaces with these ids settled."""
        touched: dict[SpaceKey, list[int]] = {}
        for segment_id in ids:
            key = (segment_id.chunk, Generation.of(segment_id))
            touched.setdefault(key, []).append(segment_id.partition)
        changed = {key: self.of(*key).settle(parts) for key, parts in touched.items()}
        still_open = self._open.difference(k for k, space in changed.items() if not space.holes)
        opened = (key for key, space in changed.items() if space.holes)
        settled = IdSpaces(self._before, still_open.union(opened))
        settled._changed = self._changed.with_entries(changed)
        return settled

    def holes(self, generation: Generation) -> Iterator[SegmentId]:
        """Yield the holes of all spaces of a generation (rule 2)."""
        for key in sorted(self._open):
            if key[1] is generation:
                yield from map(key[0].segment, sorted(self[key].holes))

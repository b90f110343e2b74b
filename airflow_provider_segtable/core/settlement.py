"""Settled file groups: which rows of a file group's files readers show, as an event recorded it.

1. A group is *settled* over a set of its files: for each key with records in them it is known which
   record wins. Vectors, one set of files for each group, name the rows (``data.keyed.row_fates``):
   rows that no reader shows, and rows that are merged at read. All others are shown as they are.
2. A settlement is a fact about these files alone, so it never gets old, and no write waits for one.
   A version uses it iff all of its files are visible in the group, by id, path and completion time
   (``usable``). The files after it, the *tail*, are merged with it at read.
3. What replaces one of the files (compactions, restores, repairs, other buckets) makes it unused,
   without knowing of it.
4. The state has the newest settlement of each group. Older versions have their own. A vector file
   that a later event replaced stays until no kept version has it (``ReplacedVectors``).
5. No read depends on one: where a vector file is missing or damaged, all files are merged.

Source of the idea: merge-on-write deletion vectors (Paimon, Doris, StarRocks); here they are made
after the commit, so writers keep their speed and need no lock.
"""

from collections.abc import Collection, Iterable, Mapping

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey, Segment, SegmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledGroup:
    """A settled file group.

    Attributes:
        chunk: the file group.
        files: the partitions of its files, ascending.
        identity: the digest of their paths and completion times.
        hidden: the number of rows that no reader shows.
        open: the number of rows that are merged at read.
    """

    chunk: ChunkKey
    files: tuple[int, ...]
    identity: str
    hidden: int
    open: int

    @property
    def ids(self) -> tuple[SegmentId, ...]:
        """Return the ids of its files."""
        return tuple(map(self.chunk.segment, self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """A settled group, with the vector file and its checksum, by event ``n``."""

    n: int
    path: str
    checksum: str
    group: SettledGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedVectors:
    """A vector file that versions from ``first`` to before ``last`` use."""

    path: str
    first: int
    last: int

    def needed(self, retained_from: int, tags: Collection[int]) -> bool:
        """Return whether a retained or tagged version uses the file."""
        return max(self.first, retained_from) < self.last or any(
            self.first <= n < self.last for n in tags
        )


Settlements = Mapping[ChunkKey, Settlement]


def identity_of(segments: Iterable[Segment]) -> str:
    """Return the digest of the paths and completion times of files, in the order of their ids."""
    ordered = sorted(segments, key=lambda segment: segment.id.partition)
    lines = (f"{each.id.partition} {each.path} {each.completed}" for each in ordered)
    return digest("\n".join(lines).encode())


def usable(group: SettledGroup, visible: Iterable[Segment]) -> bool:
    """Return whether all files of a settled group are among the group's visible files."""
    wanted = {*group.files}
    found = [each for each in visible if each.id.chunk == group.chunk]
    found = [each for each in found if each.id.partition in wanted]
    return len(found) == len(wanted) and identity_of(found) == group.identity


def vector_paths(settled: Settlements) -> frozenset[str]:
    """Return the vector files of settlements."""
    return frozenset(each.path for each in settled.values())


def without_files(settled: Settlements, gone: Iterable[SegmentId]) -> Settlements:
    """Return the settlements none of whose files is among ``gone``."""
    by_chunk: dict[ChunkKey, set[int]] = {}
    for each in gone:
        by_chunk.setdefault(each.chunk, set()).add(each.partition)
    lost = {
        chunk
        for chunk, partitions in by_chunk.items()
        if chunk in settled and not partitions.isdisjoint(settled[chunk].group.files)
    }
    return (
        {chunk: each for chunk, each in settled.items() if chunk not in lost} if lost else settled
    )

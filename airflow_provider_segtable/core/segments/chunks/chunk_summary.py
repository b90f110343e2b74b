"""The facts about a time chunk that are available without decoding its segments.

The timeline, admission and the planner need them of every chunk: whether it is complete, and the
number and size of its visible segments. A packed chunk stores its summary (``packed_chunk``).

A summary is a named tuple: a large table has a hundred thousand of them, which are made at once
from the columns of a checkpoint.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from airflow_provider_segtable.core.segments.base import base_of
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.time.interval import Instant

_NOTHING: Mapping[Any, int] = MappingProxyType({})


class ChunkSummary(NamedTuple):
    """The facts about a chunk that are available without decoding it.

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
        sizes: the number of segments with a file, by the bit length of their size in bytes.
        clustered: bytes by clustering; shows how much is not sorted as a policy wants.
        late: the number of segments with rows beside the chunk's base (``core.segments.base``);
            None if a checkpoint of an older segtable does not tell.
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
    sizes: Mapping[int, int] = _NOTHING
    clustered: Mapping[str, int] = _NOTHING
    late: int | None = 0

    @property
    def hidden(self) -> int:
        """Return the number of present segments that are not visible."""
        return self.count - self.visible

    def unsorted(self, clustering: str) -> int:
        """Return the bytes of segments with another clustering."""
        return self.size - self.clustered.get(clustering, 0)

    @property
    def baseless(self) -> bool:
        """Return whether there are rows, and none of them in a base; true if that is not known."""
        return self.late is None or 0 < self.late == self.files

    @property
    def files(self) -> int:
        """Return the number of visible segments with a file: all but tombstones."""
        return sum(self.sizes.values())

    def smaller_files(self, size: float) -> int | None:
        """Return the number of files smaller than this, in bytes; None if ``sizes`` do not tell."""
        if any(least_size(bits) < size <= (1 << bits) - 1 for bits in self.sizes):
            return None
        return sum(n for bits, n in self.sizes.items() if least_size(bits) < size)

    def smaller(self, size: float) -> int:
        """Return the most segments that may be smaller than this, in bytes."""
        small = self.visible
        for bits, n in self.sizes.items():
            if least_size(bits) >= size:
                small -= n
        return small

    def any_larger(self, size: float) -> bool:
        """Return whether a segment may be larger than this, in bytes."""
        return any(1 << bits > size for bits in self.sizes)


def least_size(bits: int) -> int:
    """Return the smallest size with this bit length."""
    return 1 << (bits - 1) if bits else 0


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
    return ChunkSummary(
        count=len(present),
        core=core,
        complete=complete,
        minor_version=minor_version,
        least_purged=min((s.deletes_applied_through for s in present if s.rows), default=None),
        visible=len(visible),
        rows=sum(segment.rows for segment in visible),
        size=sum(segment.size for segment in visible),
        time_max=max((segment.time_max for segment in visible if segment.rows), default=None),
        oldest=min((segment.created for segment in visible), default=None),
        newest=max((segment.created for segment in visible), default=None),
        sizes=dict(sorted(sizes.items())),
        clustered=dict(sorted(clustered.items())),
        late=sum(1 for s in visible if s.rows) - sum(1 for s in base_of(visible) if s.rows),
    )

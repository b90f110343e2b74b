"""A time chunk whose segments are decoded on demand.

1. A ``ChunkSummary`` holds the facts that the timeline, admission and the planner need of every
   chunk: whether it is complete, and the number and size of its visible segments.
2. A ``PackedChunk`` is a position in a ``ChunkSource``. Questions that the summary cannot answer
   decode the chunk. The source decides how many decoded chunks stay in memory.
3. ``summarize`` computes the summary of a decoded chunk; for a packed chunk it was stored when the
   chunk was packed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_segtable.core.segments.chunk import Chunk
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time.interval import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSummary:
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
        late: the number of segments beyond the core set of the version: no major compaction has
            rewritten them.
    """

    count: int
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
    sizes: Mapping[int, int] = field(default_factory=dict)
    clustered: Mapping[str, int] = field(default_factory=dict)
    late: int = 0

    @property
    def hidden(self) -> int:
        """Return the number of present segments that are not visible."""
        return self.count - self.visible

    def unsorted(self, clustering: str) -> int:
        """Return the bytes of segments with another clustering."""
        return self.size - self.clustered.get(clustering, 0)

    def smaller(self, size: float) -> int:
        """Return the most segments that may be smaller than this, in bytes."""
        larger = sum(n for bits, n in self.sizes.items() if least_size(bits) >= size)
        return self.visible - larger

    def any_larger(self, size: float) -> bool:
        """Return whether a segment may be larger than this, in bytes."""
        return any(1 << bits > size for bits in self.sizes)


def least_size(bits: int) -> int:
    """Return the smallest size with this bit length."""
    return 1 << (bits - 1) if bits else 0


def summarize(chunk: Chunk) -> ChunkSummary:
    """Return the summary of a decoded chunk."""
    shown = [segment for group in chunk.visible for segment in group.segments]
    sizes: Counter[int] = Counter()
    clustered: Counter[str] = Counter()
    for segment in shown:
        if segment.path:
            sizes[segment.size.bit_length()] += 1
            clustered[segment.clustering] += segment.size
    return ChunkSummary(
        count=chunk.count,
        core=chunk.core,
        complete=chunk.complete(),
        minor_version=chunk.layers[0].minor_version if chunk.layers else 0,
        least_purged=min(
            (s.deletes_applied_through for s in chunk.segments() if s.rows), default=None
        ),
        visible=len(shown),
        rows=sum(segment.rows for segment in shown),
        size=sum(segment.size for segment in shown),
        time_max=max((segment.time_max for segment in shown if segment.rows), default=None),
        oldest=min((segment.created for segment in shown), default=None),
        newest=max((segment.created for segment in shown), default=None),
        sizes=dict(sorted(sizes.items())),
        clustered=dict(sorted(clustered.items())),
        late=sum(s.shard.root_end > s.shard.core for s in shown if not s.tombstone),
    )


class ChunkSource(Protocol):
    """Packed chunks by number; equal numbers give equal answers."""

    def summary(self, at: int) -> ChunkSummary:
        """Return the summary of a chunk."""

    def chunk(self, at: int) -> Chunk:
        """Return the decoded chunk."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedChunk:
    """A chunk of the timeline that is decoded on demand; see the module."""

    key: ChunkKey
    source: ChunkSource
    at: int

    def __eq__(self, other: object) -> bool:
        """Return whether the decoded chunks are equal."""
        return isinstance(other, PackedChunk | Chunk) and self.unpacked == unpacked(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def start(self) -> Instant:
        """Return the first instant."""
        return self.key.interval.start

    @property
    def end(self) -> Instant:
        """Return the first instant after the chunk."""
        return self.key.interval.end

    @property
    def summary(self) -> ChunkSummary:
        """Return the chunk's summary, without decoding it."""
        return self.source.summary(self.at)

    @property
    def count(self) -> int:
        """Return the number of present segments."""
        return self.summary.count

    @property
    def unpacked(self) -> Chunk:
        """Return the decoded chunk."""
        return self.source.chunk(self.at)


AnyChunk = Chunk | PackedChunk


def unpacked(chunk: AnyChunk) -> Chunk:
    """Return the chunk, decoding it if it is packed."""
    return chunk.unpacked if isinstance(chunk, PackedChunk) else chunk


def summary_of(chunk: AnyChunk) -> ChunkSummary:
    """Return the chunk's summary; a packed chunk is not decoded."""
    return chunk.summary if isinstance(chunk, PackedChunk) else summarize(chunk)


def shows_any(chunk: AnyChunk) -> bool:
    """Return whether any group of the chunk is visible, other versions aside."""
    return bool(chunk.summary.visible if isinstance(chunk, PackedChunk) else chunk.visible)


def is_complete(chunk: AnyChunk) -> bool:
    """Return whether the chunk is complete (``Chunk.complete``)."""
    return chunk.summary.complete if isinstance(chunk, PackedChunk) else chunk.complete()


def core_of(chunk: AnyChunk) -> int:
    """Return the size of the core set of the chunk's version."""
    return chunk.summary.core if isinstance(chunk, PackedChunk) else chunk.core


def segments_of(chunks: Iterable[AnyChunk]) -> Iterator[Segment]:
    """Yield all segments of the chunks, decoding one chunk at a time."""
    for chunk in chunks:
        yield from unpacked(chunk).segments()

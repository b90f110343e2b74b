"""A time chunk whose segments are decoded on demand.

1. ``AnyChunk`` is what the timeline, admission and the planner ask of a chunk. A decoded ``Chunk``
   and a ``PackedChunk`` answer alike.
2. A ``PackedChunk`` is a position in a ``ChunkSource``. Questions that its summary cannot answer
   decode the chunk. The source decides how many decoded chunks stay in memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_segtable.core.segments.chunks.chunk import Chunk
from airflow_provider_segtable.core.segments.chunks.chunk_summary import ChunkSummary
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time.interval import Instant


class AnyChunk(Protocol):
    """A time chunk at one version; only ``unpacked`` and ``segments`` decode it."""

    @property
    def key(self) -> ChunkKey:
        """Return the chunk's interval and version."""

    @property
    def start(self) -> Instant:
        """Return the first instant."""

    @property
    def end(self) -> Instant:
        """Return the first instant after the chunk."""

    @property
    def summary(self) -> ChunkSummary:
        """Return the facts about the chunk."""

    @property
    def count(self) -> int:
        """Return the number of present segments."""

    @property
    def shows_any(self) -> bool:
        """Return whether any group of the chunk is visible, other versions aside."""

    @property
    def complete(self) -> bool:
        """Return whether the chunk is complete (``core.segments.chunks.chunk``, rule 5)."""

    @property
    def core(self) -> int:
        """Return the size of the core set of the chunk's version."""

    @property
    def unpacked(self) -> Chunk:
        """Return the decoded chunk."""

    def segments(self) -> Iterator[Segment]:
        """Yield all segments by partition."""

    def paths(self) -> Iterator[str]:
        """Yield the paths of the files of all segments."""


class ChunkSource(Protocol):
    """Packed chunks by number; equal numbers give equal answers."""

    def summary(self, at: int) -> ChunkSummary:
        """Return the summary of a chunk."""

    def chunk(self, at: int) -> Chunk:
        """Return the decoded chunk."""

    def paths(self, at: int) -> Iterable[str]:
        """Return the paths of the files of a chunk's segments."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedChunk:
    """A chunk of the timeline that is decoded on demand; see the module."""

    key: ChunkKey
    source: ChunkSource
    at: int

    def __eq__(self, other: object) -> bool:
        """Return whether the decoded chunks are equal."""
        if isinstance(other, PackedChunk) and self.source is other.source and self.at == other.at:
            return True
        return isinstance(other, PackedChunk | Chunk) and self.unpacked == other.unpacked

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
        """Return the chunk's summary, which was stored when the chunk was packed."""
        return self.source.summary(self.at)

    @property
    def count(self) -> int:
        """Return the number of present segments."""
        return self.summary.count

    @property
    def shows_any(self) -> bool:
        """Return whether any group of the chunk is visible, other versions aside."""
        return self.summary.visible > 0

    @property
    def complete(self) -> bool:
        """Return whether the chunk is complete (``core.segments.chunks.chunk``, rule 5)."""
        return self.summary.complete

    @property
    def core(self) -> int:
        """Return the size of the core set of the chunk's version."""
        return self.summary.core

    @property
    def unpacked(self) -> Chunk:
        """Return the decoded chunk."""
        return self.source.chunk(self.at)

    def segments(self) -> Iterator[Segment]:
        """Yield all segments by partition."""
        return self.unpacked.segments()

    def paths(self) -> Iterator[str]:
        """Yield the paths of the files of all segments, without decoding them."""
        return iter(self.source.paths(self.at))

"""File slices of primary-key tables: the base of a bucket, and the log files above it.

1. A *base* is a visible group that a compaction wrote and that begins at the first root of its
   bucket: it has all that completed before its end, merged. A bucket has one at most.
2. All other visible files are *log files*; log compaction makes one of several.
3. Reading base files alone (``base_only``) merges nothing. It shows each bucket as it was when its
   base compaction was planned: older than the newest version, and not at one time in all buckets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.segments.timeline import Timeline, Visible


def is_base(segment: Segment) -> bool:
    """Return whether a visible segment belongs to the base of its bucket."""
    shard = segment.shard
    return shard.minor_version > 0 and shard.root_start == segment.id.chunk.numbering.first.start


def is_base_group(group: Visible) -> bool:
    """Return whether a visible group is the base of its bucket."""
    return is_base(group.segments[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The visible files of a bucket.

    Attributes:
        chunk: the bucket.
        buckets: the number that its region has of its own; 0 if it has the table's.
        base_files: the number of base files.
        base_bytes: their size.
        log_files: the number of log files.
        log_bytes: their size.
        runs: how many sorted runs a read merges.
    """

    chunk: ChunkKey
    buckets: int = 0
    base_files: int = 0
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    runs: int = 0

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return self.base_bytes + self.log_bytes

    @property
    def log_share(self) -> float:
        """Return the share of log files in the bytes."""
        return self.log_bytes / max(1, self.size)


def slices(timeline: Timeline) -> Iterator[Slice]:
    """Yield the slice of each bucket with rows."""
    for chunk in timeline.visible_chunks():
        groups = [group.segments for group in timeline.visible_groups(chunk)]
        filled = [group for group in groups if any(segment.rows for segment in group)]
        if filled:
            yield _slice(chunk, filled)


def _slice(chunk: ChunkKey, groups: Sequence[Sequence[Segment]]) -> Slice:
    files = [segment for group in groups for segment in group if segment.path]
    base = [segment for segment in files if is_base(segment)]
    logs = [segment for segment in files if not is_base(segment)]
    return Slice(
        chunk=chunk,
        buckets=files[0].buckets,
        base_files=len(base),
        base_bytes=sum(segment.size for segment in base),
        log_files=len(logs),
        log_bytes=sum(segment.size for segment in logs),
        runs=len(groups),
    )

"""File slices of primary-key tables: the base of a bucket, and the log files above it.

1. The *base* of a bucket (``core.segments.base``) has all that completed before its end, merged. A
   bucket has one at most.
2. All other visible files are *log files*; log compaction makes one of several.
3. Files are sorted by key, and those of a base, or of an update group, one after another: they are
   one *sorted run*.
4. Reading base files alone (``base_only``) merges nothing. It shows each bucket as it was when its
   base compaction was planned: older than the newest version, and not at one time in all buckets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.segments.base import base_groups, beside_base
from airflow_provider_segtable.core.segments.segment import ChunkKey, GroupKey, Segment
from airflow_provider_segtable.core.segments.timeline import Group, Timeline


def sorted_run(segment: Segment) -> tuple[int, GroupKey | None]:
    """Return what the files of a sorted run of a bucket share, and no others."""
    base = segment.shard.base
    return base, None if base else segment.shard.group


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
        torn: whether it has no base, although a compaction sorted some of its files: they were
            restored, or a part of the base was lost. Nothing is shown of it without merging.
    """

    chunk: ChunkKey
    buckets: int = 0
    base_files: int = 0
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    runs: int = 0
    torn: bool = False

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
        groups = timeline.visible_groups(chunk)
        if any(segment.rows for group in groups for segment in group.segments):
            yield _slice(chunk, groups)


def _slice(chunk: ChunkKey, groups: Sequence[Group]) -> Slice:
    files = [segment for group in groups for segment in group.segments if segment.path]
    logs = beside_base(groups)
    beside = {segment.id for segment in logs}
    base = [segment for segment in files if segment.id not in beside]
    return Slice(
        chunk=chunk,
        buckets=files[0].buckets,
        base_files=len(base),
        base_bytes=sum(segment.size for segment in base),
        log_files=len(logs),
        log_bytes=sum(segment.size for segment in logs),
        runs=len({sorted_run(segment) for segment in files}),
        torn=not base_groups(groups) and any(segment.clustering for segment in files),
    )

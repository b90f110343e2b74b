"""The result of a cleaning run: what was deleted, and what stays and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_segtable.core.log.families.cleaning_events import Keep
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.ports.storage import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRun:
    """The deletions of a cleaning run; of a dry run, the deletions it would make.

    Attributes:
        version: the newest version read.
        retained_from: the oldest version kept for its age or number.
        segments: segments removed from the timeline.
        kept: the reason why each other hidden segment stays.
        files: deleted data files that no segment names any more.
        vectors: deleted vector files that no present segment needs.
        vectors_kept: number of vector files that present segments need.
        orphans: deleted files that the log does not name.
        young: number of unnamed files that are too young to be orphans.
        log_from: events below this number are deleted; 0 if none are.
        log_files: events, checkpoints and markers deleted.
        published: files that stay because published versions show them; the log names them no more.
        targets: by format, deleted files of what was published there.
        entries: by index, the number of entries deleted, because their files are gone.
        indexes: by index, the cleaning of its own table.
        failed: by index, the error that kept its own table from being cleaned.
    """

    version: int
    retained_from: int
    segments: tuple[Segment, ...] = ()
    kept: Mapping[SegmentId, Keep] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    vectors: tuple[Entry, ...] = ()
    vectors_kept: int = 0
    orphans: tuple[Entry, ...] = ()
    young: int = 0
    log_from: int = 0
    log_files: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    indexes: Mapping[str, "CleaningRun"] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the counts, on one line."""
        found = (self.segments, self.files, self.vectors, self.orphans, self.log_files)
        names = ("segments", "files", "vectors", "orphans", "log_files")
        counts = (f"{name}={len(each)}" for name, each in zip(names, found, strict=True))
        return f"CleaningRun(version={self.version}, {', '.join(counts)})"

    @property
    def bytes_freed(self) -> int:
        """Return the total known size of the deleted files, with those of the indexes' tables."""
        entries = (*self.orphans, *self.vectors)
        sizes = {s.path: s.size for s in self.segments} | {e.path: e.size for e in entries}
        going = {*self.files, *(entry.path for entry in entries)}
        inner = sum(each.bytes_freed for each in self.indexes.values())
        return inner + sum(size for path, size in sizes.items() if path in going)

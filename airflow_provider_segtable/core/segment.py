"""Segments: the unit of data, of locking and of overshadowing.

1. ``SegmentId = (interval, version, partition)`` within one table; ids are never used twice.
2. First-generation partitions are 0..32767, made by appends; later generations 32768..65535,
   made by compaction. At the limit a request is refused, never wrapped.
3. A shard says what a segment stands for: the first-generation partitions
   ``[root_start, root_end)``, at ``minor_version``, together with ``group_size`` segments of equal
   range and minor version (its *atomic update group*). A first-generation segment p is
   ``[p, p+1)`` at minor version 0, alone in its group.
4. Lineage says where each row came from, in order, as run lengths over first-generation rows.

Source of the idea: Apache Druid, "minor compaction" with segment locking
(NumberedOverwritingShardSpec); lineage is ours, so that deletes can follow rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import CorruptTable, LimitReached
from airflow_provider_segtable.core.interval import Instant, Interval

FIRST_GENERATION_IDS = range(32768)
LATER_GENERATION_IDS = range(32768, 65536)
MAX_MINOR_VERSION = 32767


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """Names one segment of a table, for ever."""

    interval: Interval
    version: Instant
    partition: int

    def __str__(self) -> str:
        """Return ``<start>_<end>_<version µs>_<partition>``."""
        return f"{self.interval.name}_{self.version}_{self.partition}"

    @staticmethod
    def parse(text: str) -> "SegmentId":
        """Parse the form that ``str`` gives."""
        try:
            start, end, version, partition = text.split("_")
            return SegmentId(Interval.from_name(f"{start}_{end}"), int(version), int(partition))
        except ValueError:
            raise CorruptTable(f"{text!r} is no segment id") from None

    @property
    def chunk(self) -> "ChunkKey":
        """Return the (interval, version) that the segment belongs to."""
        return ChunkKey(self.interval, self.version)


@dataclass(frozen=True, slots=True, order=True)
class ChunkKey:
    """A time chunk at one version: the space in which partition ids are numbered."""

    interval: Interval
    version: Instant

    def __str__(self) -> str:
        """Return ``<start>_<end>_<version µs>``."""
        return f"{self.interval.name}_{self.version}"

    @staticmethod
    def parse(text: str) -> "ChunkKey":
        """Parse the form that ``str`` gives."""
        return SegmentId.parse(f"{text}_0").chunk

    def segment(self, partition: int) -> SegmentId:
        """Return the id of a partition of this chunk."""
        return SegmentId(self.interval, self.version, partition)


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """Names an atomic update group inside its chunk."""

    root_start: int
    root_end: int
    minor_version: int

    def overshadows(self, other: "GroupKey") -> bool:
        """Druid's rule: my root range encloses the other's and my minor version is higher."""
        return (
            self.root_start <= other.root_start
            and self.root_end >= other.root_end
            and self.minor_version > other.minor_version
        )

    def overlaps(self, other: "GroupKey") -> bool:
        """Tell whether the two root ranges share a first-generation partition."""
        return self.root_start < other.root_end and other.root_start < self.root_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What a segment stands for among the segments of its chunk."""

    partition: int
    root_start: int
    root_end: int
    minor_version: int
    group_size: int

    def __post_init__(self) -> None:
        """Refuse shards that break the numbering rules."""
        if self.minor_version > MAX_MINOR_VERSION:
            raise LimitReached(
                f"minor version {self.minor_version} is over {MAX_MINOR_VERSION}: "
                "this chunk needs a major compaction, which starts a new version"
            )
        first = (self.partition, self.partition + 1, 0, 1)
        legal = (
            (self.root_start, self.root_end, self.minor_version, self.group_size) == first
            if self.partition in FIRST_GENERATION_IDS
            else self.partition in LATER_GENERATION_IDS
            and 0 <= self.root_start < self.root_end <= len(FIRST_GENERATION_IDS)
            and self.minor_version >= 1
            and self.group_size >= 1
        )
        if not legal:
            raise CorruptTable(f"{self} breaks the shard numbering rules")

    @staticmethod
    def first_generation(partition: int) -> "Shard":
        """Return the shard of an appended segment."""
        return Shard(
            partition=partition,
            root_start=partition,
            root_end=partition + 1,
            minor_version=0,
            group_size=1,
        )

    @property
    def group(self) -> GroupKey:
        """Return the atomic update group the shard belongs to."""
        return GroupKey(self.root_start, self.root_end, self.minor_version)


@dataclass(frozen=True, slots=True)
class Run:
    """``rows`` consecutive rows that were rows ``start..`` of first-generation ``root``."""

    root: int
    start: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The descriptor of one published data file.

    ``path`` is relative to the table's root; ``size`` in bytes; ``time_min`` and ``time_max`` are
    the first and last event time (inclusive); an empty ``lineage`` means the segment's own rows
    (first generation).
    """

    id: SegmentId
    shard: Shard
    path: str
    rows: int
    size: int
    row_groups: int
    time_min: Instant
    time_max: Instant
    created: Instant
    lineage: tuple[Run, ...] = ()

    def __post_init__(self) -> None:
        """Refuse descriptors that contradict themselves."""
        if self.id.partition != self.shard.partition:
            raise CorruptTable(f"segment {self.id} carries shard {self.shard.partition}")
        if self.lineage and sum(run.rows for run in self.lineage) != self.rows:
            raise CorruptTable(f"lineage of {self.id} does not add up to its {self.rows} rows")

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the lineage, also for a first-generation segment."""
        return self.lineage or (Run(self.shard.root_start, 0, self.rows),)


def concatenated(inputs: Iterable[Segment]) -> tuple[Run, ...]:
    """Return the lineage of the rows of ``inputs`` one after another, neighbours joined."""
    runs: list[Run] = []
    for run in (run for segment in inputs for run in segment.runs):
        last = runs[-1] if runs else None
        if last and last.root == run.root and last.start + last.rows == run.start:
            runs[-1] = Run(last.root, last.start, last.rows + run.rows)
        else:
            runs.append(run)
    return tuple(runs)


def root_span(segments: Sequence[Segment]) -> tuple[int, int]:
    """Return the smallest root range that holds all the segments."""
    return (
        min(s.shard.root_start for s in segments),
        max(s.shard.root_end for s in segments),
    )

"""Segments: the unit of data, of locking and of overshadowing.

1. ``SegmentId = (interval, version, partition)`` within one table; ids are never used twice.
2. First-generation partitions are 0..32767, made by appends; later generations 32768..65535,
   made by compaction. At the limit a request is refused; ids never wrap.
3. A shard records what a segment stands for: the first-generation partitions
   ``[root_start, root_end)``, at ``minor_version``, together with ``group_size`` segments of equal
   range and minor version (its *atomic update group*). A first-generation segment p is
   ``[p, p+1)`` at minor version 0, alone in its group.
4. A version that major compaction started has a *core set*: its first-generation partitions
   ``[0, core)``, which count only together. Segments appended later get the partitions after them.
5. A row's *root address* is the file it was first written to (by that file's segment id) and its
   row number there; it never changes. Lineage records the root address of each row, in order, as
   run lengths. If rows were sorted or left out, hidden columns of the file (``ROOT``, ``ROW``)
   record it instead, and ``roots`` lists the roots that they may name. Rollup tables have neither.
6. A *tombstone* is a segment without rows and without a file: it hides all lower versions in its
   interval. A segment may be *carried over* to another id without changing its file, which then
   still names its ``origin``.

Source of the idea: Apache Druid, "minor compaction" with segment locking
(NumberedOverwritingShardSpec), its core partitions, tombstones and concurrent append and replace;
root addresses are ours, so that deletes can follow rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import total_ordering

from airflow_provider_segtable.core.errors import CorruptTable, LimitReached
from airflow_provider_segtable.core.time.interval import Instant, Interval

FIRST_GENERATION_IDS = range(32768)
LATER_GENERATION_IDS = range(32768, 65536)
MAX_MINOR_VERSION = 32767

ROOT = "__segtable_root"
"""The hidden column that names a row's root, as ``str`` of its segment id."""
ROW = "__segtable_row"
"""The hidden column with a row's number in its root."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """The permanent id of one segment of a table."""

    interval: Interval
    version: Instant
    partition: int

    def __str__(self) -> str:
        """Return ``<start>_<end>_<version µs>_<partition>``."""
        return f"{self.interval.name}_{self.version}_{self.partition}"

    @staticmethod
    def parse(text: str) -> "SegmentId":
        """Parse the output of ``str``."""
        try:
            start, end, version, partition = text.split("_")
            return SegmentId(Interval.from_name(f"{start}_{end}"), int(version), int(partition))
        except ValueError:
            raise CorruptTable(f"{text!r} is not a segment id") from None

    @property
    def chunk(self) -> "ChunkKey":
        """Return the (interval, version) that the segment belongs to."""
        return ChunkKey(self.interval, self.version)


@total_ordering
@dataclass(frozen=True, slots=True)
class ChunkKey:
    """A time chunk at one version: the space in which partition ids are numbered."""

    interval: Interval
    version: Instant

    def __hash__(self) -> int:
        """Hash the three numbers at once: large tables look up many keys."""
        interval = self.interval
        return hash((interval.start, interval.end, self.version))

    def __lt__(self, other: "ChunkKey") -> bool:
        """Order by start, end and version; written out, as a search compares many keys."""
        mine, its = self.interval, other.interval
        return (mine.start, mine.end, self.version) < (its.start, its.end, other.version)

    def __str__(self) -> str:
        """Return ``<start>_<end>_<version µs>``."""
        return f"{self.interval.name}_{self.version}"

    @staticmethod
    def parse(text: str) -> "ChunkKey":
        """Parse the output of ``str``."""
        return SegmentId.parse(f"{text}_0").chunk

    def segment(self, partition: int) -> SegmentId:
        """Return the id of a partition of this chunk."""
        return SegmentId(self.interval, self.version, partition)


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """The key of an atomic update group inside its chunk."""

    root_start: int
    root_end: int
    minor_version: int

    def overshadows(self, other: "GroupKey") -> bool:
        """Return whether this group's root range encloses the other's at a higher minor version."""
        return (
            self.root_start <= other.root_start
            and self.root_end >= other.root_end
            and self.minor_version > other.minor_version
        )

    def overlaps(self, other: "GroupKey") -> bool:
        """Return whether the two root ranges share a first-generation partition."""
        return self.root_start < other.root_end and other.root_start < self.root_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The roots, minor version and group that a segment stands for in its chunk.

    ``core`` is the size of the core set of the chunk's version; 0 if appends started the version.
    """

    partition: int
    root_start: int
    root_end: int
    minor_version: int
    group_size: int
    core: int = 0

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
    def first_generation(partition: int, core: int = 0) -> "Shard":
        """Return the shard of a first-generation segment, appended or in a core set."""
        return Shard(
            partition=partition,
            root_start=partition,
            root_end=partition + 1,
            minor_version=0,
            group_size=1,
            core=core,
        )

    @property
    def group(self) -> GroupKey:
        """Return the atomic update group the shard belongs to."""
        return GroupKey(self.root_start, self.root_end, self.minor_version)


@dataclass(frozen=True, slots=True)
class Run:
    """``rows`` consecutive rows, starting at row ``start`` of the file of ``root``."""

    root: SegmentId
    start: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """Roots of a chunk, as half-open ranges of partitions."""

    chunk: ChunkKey
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FooterChecksum:
    """The CRC-32 of a file from byte ``start`` on: page indexes and footer."""

    start: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The descriptor of one published data file, or of a tombstone.

    Attributes:
        id: the segment's id.
        shard: its roots, minor version and group.
        path: the path of its file, relative to the table's root; empty for a tombstone.
        rows: the number of rows in the file.
        size: the file's size in bytes.
        row_groups: the number of row groups in the file.
        time_min: the first event time.
        time_max: the last event time (inclusive).
        created: the start time of the attempt that wrote it.
        lineage: the origin of its rows; empty if the file is its own root, or if ``roots`` is set.
        events: the number of ingested rows it stands for; differs from ``rows`` in rollup tables.
        clustering: the order of its rows (``core.tables.clustering``); empty if none is promised.
        origin: the id in its file's footer, if the segment was carried over.
        replaces: the segments that a new version replaces, in the first segment of each of its
            chunks. If the log is lost, recovery can so find the segments appended meanwhile.
        roots: the roots that the hidden columns of its file may name; empty without such columns.
        deletes_applied_through: the last event whose deletes are applied: the segment has no rows
            deleted by then. In a rollup table, such deletes may also precede its rows.
        schema: the number of the table's schema that its file was written with.
        footer: the checksum of its file's footer, which has the checksums of all other bytes;
            None if an older segtable wrote the file.
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
    events: int = -1
    clustering: str = ""
    origin: SegmentId | None = None
    replaces: tuple[Roots, ...] = ()
    roots: tuple[Roots, ...] = ()
    deletes_applied_through: int = 0
    schema: int = 0
    footer: FooterChecksum | None = None

    def __post_init__(self) -> None:
        """Refuse descriptors that contradict themselves."""
        if self.events < 0:
            object.__setattr__(self, "events", self.rows)
        if self.id.partition != self.shard.partition:
            raise CorruptTable(f"segment {self.id} carries shard {self.shard.partition}")
        if self.lineage and sum(run.rows for run in self.lineage) != self.rows:
            raise CorruptTable(f"lineage of {self.id} does not add up to its {self.rows} rows")
        if self.lineage and self.roots:
            raise CorruptTable(f"{self.id} has lineage and hidden columns: only one can be right")
        if self.path and not self.rows:
            raise CorruptTable(f"{self.id} has no rows, so it can have no file {self.path!r}")

    @property
    def file_id(self) -> SegmentId:
        """Return the id that the file's footer carries."""
        return self.origin or self.id

    def carried(self, segment_id: SegmentId, core: int) -> "Segment":
        """Return the segment under another first-generation id; unchanged if id and shard match."""
        shard = Shard.first_generation(segment_id.partition, core=core)
        if (segment_id, shard) == (self.id, self.shard):
            return self
        return replace(self, id=segment_id, shard=shard, origin=self.file_id, replaces=())

    @property
    def tombstone(self) -> bool:
        """Return whether the segment has no rows and no file."""
        return not self.rows

    @property
    def traced(self) -> bool:
        """Return whether the log records where each row came from."""
        return not self.roots

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the runs of its rows; empty if hidden columns record them."""
        own = self.traced and self.rows
        return self.lineage or ((Run(self.file_id, 0, self.rows),) if own else ())

    def may_hold(self, root: SegmentId) -> bool:
        """Return whether it may have rows of a root; all of these lie in the root's time chunk."""
        if self.traced:
            return any(run.root == root for run in self.runs)
        return self.id.interval.overlaps(root.interval) and any(
            start <= root.partition < end
            for some in self.roots
            if some.chunk == root.chunk
            for start, end in some.spans
        )


def concatenated(inputs: Iterable[Segment]) -> tuple[Run, ...]:
    """Return the lineage of the concatenated rows of ``inputs``, adjacent runs joined.

    It is empty if any input is untraced: then the output needs hidden columns.
    """
    inputs = tuple(inputs)
    if not all(segment.traced for segment in inputs):
        return ()
    runs: list[Run] = []
    for run in (run for segment in inputs for run in segment.runs):
        last = runs[-1] if runs else None
        if last and last.root == run.root and last.start + last.rows == run.start:
            runs[-1] = Run(last.root, last.start, last.rows + run.rows)
        else:
            runs.append(run)
    return tuple(runs)


def roots_of(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots that the rows of the segments may have, adjacent ranges joined."""
    segments = tuple(segments)
    files = (run.root for segment in segments for run in segment.runs)
    runs = ((root.chunk, root.partition, root.partition + 1) for root in files)
    named = ((r.chunk, start, end) for s in segments for r in s.roots for start, end in r.spans)
    return _joined((*runs, *named))


def named_roots(segment: Segment) -> Iterator[SegmentId]:
    """Yield the roots that a segment's hidden columns may name, if they overlap its interval."""
    for some in segment.roots:
        if some.chunk.interval.overlaps(segment.id.interval):
            for start, end in some.spans:
                yield from map(some.chunk.segment, range(start, end))


def root_span(segments: Sequence[Segment]) -> tuple[int, int]:
    """Return the smallest root range that covers all the segments."""
    return (
        min(s.shard.root_start for s in segments),
        max(s.shard.root_end for s in segments),
    )


def tombstone(chunk: ChunkKey, created: Instant) -> Segment:
    """Return a segment without rows that hides lower versions in the chunk's interval."""
    return Segment(
        id=chunk.segment(0),
        shard=Shard.first_generation(0, core=1),
        path="",
        rows=0,
        size=0,
        row_groups=0,
        time_min=chunk.interval.start,
        time_max=chunk.interval.end - 1,
        created=created,
    )


def replaced(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots that the segments stand for, by chunk, adjacent ranges joined.

    A carried segment also stands for its origin, the id in its file: a range of one at the
    origin's own partition (of any generation).
    """
    segments = tuple(segments)
    own = ((s.id.chunk, s.shard.root_start, s.shard.root_end) for s in segments)
    return _joined((*own, *_origins(segments)))


def inherited(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return what the outputs of a compaction inside one version replace besides its inputs."""
    segments = tuple(segments)
    before = (
        (each.chunk, start, end)
        for s in segments
        for each in s.replaces
        for start, end in each.spans
    )
    return _joined((*before, *_origins(segments)))


def _origins(segments: Iterable[Segment]) -> Iterable[tuple[ChunkKey, int, int]]:
    origins = (s.origin for s in segments if s.origin and s.origin != s.id)
    return ((origin.chunk, origin.partition, origin.partition + 1) for origin in origins)


def _joined(ranges: Iterable[tuple[ChunkKey, int, int]]) -> tuple[Roots, ...]:
    spans: dict[ChunkKey, list[tuple[int, int]]] = {}
    for chunk, start, end in sorted(ranges):
        known = spans.setdefault(chunk, [])
        if known and known[-1][1] >= start:
            known[-1] = (known[-1][0], max(known[-1][1], end))
        else:
            known.append((start, end))
    return tuple(Roots(chunk=chunk, spans=tuple(r)) for chunk, r in spans.items())

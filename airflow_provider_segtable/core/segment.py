"""Segments: the unit of data, of locking and of overshadowing.

1. ``SegmentId = (interval, version, partition)`` within one table; ids are never used twice.
   A primary-key table divides each time chunk into *buckets*, and ids name the bucket, too.
2. First-generation partitions are made by appends, later generations by compaction. Their ids are
   disjoint, and at the limit a request is refused: ids never wrap.
3. A shard records the place of a segment: the first-generation partitions
   ``[root_start, root_end)``, at ``minor_version``, together with ``group_size`` segments of equal
   range and minor version (its *atomic update group*). A first-generation segment p is
   ``[p, p+1)`` at minor version 0, alone in its group.
4. A version that major compaction started has a *core set*: its first-generation partitions
   ``[0, core)``, which count only together. Segments appended later get the partitions after them.
5. A *base* is the output of one compaction of all rows that its chunk had in its first roots,
   ``[0, base)``. A primary-key table's has one record of a key (and tombstones), as all of its
   compactions merge by key. A rollup table's has one row of a group: only a major compaction rolls
   up so. An append table's is the output of a major compaction.
   Segments record it (``Shard.base``): it follows from their writer, not from their ids or
   generation. It is decided anew when a segment gets another id: carried over beside others it is
   in no base; a restore keeps a whole base.
   A base counts only as a whole: visible segments of it cover all its roots. If a file was lost, or
   a part was compacted with other segments, the chunk has none, until a compaction makes one.
   Descriptors of an older segtable lack the attribute. Outputs of compactions are recognized by
   their numbers (``implied``); restored segments, and compactions inside a base, by an event and
   the state before it (``base_restored``, ``base_after``)::

       [0 1 2] 3 4   base 3, two segments beside it     ->  semi-major, keyed:  [0..5)  base 5
                                                            restored:           [0 1 2] 3 4  base 3

6. A row's *root address* is the file it was first written to (by that file's segment id) and its
   row number there; it never changes. Lineage records the root address of each row, in order, as
   run lengths. If rows were sorted or left out, hidden columns of the file (``ROOT``, ``ROW``)
   record it instead, and ``roots`` lists the roots that they may name. Rollup tables have neither.
7. A *tombstone* is a segment without rows and without a file: it hides all lower versions in its
   interval. A segment may be *carried over* to another id without changing its file, which then
   still names its ``origin``.
8. A time chunk has a ``NARROW`` numbering, as Druid's. A *file group* (a time chunk's bucket in a
   primary-key table) has a ``WIDE`` one: writers commit to it every few seconds for years.
9. A log file is written before it has an id, which it gets at its commit. Until then it has a
   *provisional* one, random, above all ids of segments; its footer keeps it.

Source of the idea: Apache Druid, "minor compaction" with segment locking
(NumberedOverwritingShardSpec), its core partitions, tombstones and concurrent append and replace;
root addresses are ours, so that deletes can follow rows.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import total_ordering
from typing import NamedTuple, Protocol, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, LimitReached
from airflow_provider_segtable.core.paths import DATA
from airflow_provider_segtable.core.time import Instant, Interval

NO_BUCKET = -1
"""The bucket of chunks of tables without buckets."""

_FILE_GROUP_IDS = 2**30
_WRITTEN = f"{DATA}/"


# Numbering: which partition ids are of which generation
@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The partition ids of a chunk.

    Attributes:
        first: ids of the first generation, from 0.
        later: ids of later generations, right after these.
        provisional: ids that files may have before their commit; none for time chunks.
        minor_versions: the highest minor version.
    """

    first: range
    later: range
    provisional: range
    minor_versions: int

    @property
    def published(self) -> range:
        """Return all ids that segments may be published under."""
        return range(self.first.start, self.later.stop)


NARROW = Numbering(
    first=range(32768),
    later=range(32768, 65536),
    provisional=range(0),
    minor_versions=32767,
)
WIDE = Numbering(
    first=range(_FILE_GROUP_IDS),
    later=range(_FILE_GROUP_IDS, 2 * _FILE_GROUP_IDS - 1),  # the next one fits 32 bits
    provisional=range(2 * _FILE_GROUP_IDS, 2**62),
    minor_versions=_FILE_GROUP_IDS,
)


def numbering_of(bucket: int) -> Numbering:
    """Return the numbering of a time chunk (``NO_BUCKET``) or a file group."""
    return NARROW if bucket == NO_BUCKET else WIDE


# Ids, shards and descriptors
ROOT = "__segtable_root"
"""The hidden column that names a row's root, as ``str`` of its segment id."""
ROW = "__segtable_row"
"""The hidden column with a row's number in its root."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """The permanent id of one segment of a table; ``bucket`` in primary-key tables only."""

    interval: Interval
    version: Instant
    bucket: int = field(default=NO_BUCKET, kw_only=True)
    partition: int

    def __str__(self) -> str:
        """Return ``<start>_<end>_<version µs>[_b<bucket>]_<partition>``."""
        return f"{self.chunk}_{self.partition}"

    @staticmethod
    def parse(text: str) -> "SegmentId":
        """Parse the output of ``str``."""
        chunk, _, partition = text.rpartition("_")
        try:
            return ChunkKey.parse(chunk).segment(int(partition))
        except (ValueError, CorruptTable):
            raise CorruptTable(f"{text!r} is not a segment id") from None

    @property
    def provisional(self) -> bool:
        """Return whether a commit has yet to give an id (``core.segment``)."""
        return self.partition in numbering_of(self.bucket).provisional

    @property
    def chunk(self) -> "ChunkKey":
        """Return the (interval, version, bucket) that the segment belongs to."""
        return ChunkKey(self.interval, self.version, self.bucket)


class Place(NamedTuple):
    """A time chunk, or one of its buckets, at any version."""

    interval: Interval
    bucket: int = NO_BUCKET


@total_ordering
@dataclass(frozen=True, slots=True)
class ChunkKey:
    """A time chunk at one version, or one of its buckets: the space in which ids are numbered."""

    interval: Interval
    version: Instant
    bucket: int = NO_BUCKET

    def __hash__(self) -> int:
        """Hash the numbers at once: large tables look up many keys."""
        interval = self.interval
        return hash((interval.start, interval.end, self.version, self.bucket))

    def __lt__(self, other: "ChunkKey") -> bool:
        """Order by start, end, version and bucket; written out, as a search compares many keys.

        All chunks of a table have a bucket, or none has.
        """
        mine, its = self.interval, other.interval
        return (mine.start, mine.end, self.version, self.bucket) < (
            *(its.start, its.end, other.version),
            other.bucket,
        )

    def __str__(self) -> str:
        """Return ``<start>_<end>_<version µs>[_b<bucket>]``."""
        bucket = "" if self.bucket == NO_BUCKET else f"_b{self.bucket}"
        return f"{self.interval.name}_{self.version}{bucket}"

    @staticmethod
    def parse(text: str) -> "ChunkKey":
        """Parse the output of ``str``."""
        try:
            start, end, version, *rest = text.split("_")
            interval = Interval.from_name(f"{start}_{end}")
            return ChunkKey(interval, int(version), _bucket(*rest) if rest else NO_BUCKET)
        except (ValueError, TypeError):
            raise CorruptTable(f"{text!r} is not a chunk") from None

    @property
    def place(self) -> Place:
        """Return the chunk without its version."""
        return Place(self.interval, self.bucket)

    @property
    def numbering(self) -> Numbering:
        """Return how the segments of the chunk are numbered."""
        return numbering_of(self.bucket)

    def segment(self, partition: int) -> SegmentId:
        """Return the id of a partition of this chunk."""
        return SegmentId(self.interval, self.version, partition, bucket=self.bucket)

    def provisional(self, token: str) -> SegmentId:
        """Return the id that a log file has until its commit; ``token`` is random hex digits."""
        ids = self.numbering.provisional
        return self.segment(ids.start + int(token, 16) % len(ids))


def _bucket(text: str) -> int:
    if not text.startswith("b"):
        raise ValueError(text)
    return int(text[1:])


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
    ``base`` is the first root after the base that the segment belongs to; 0 if it is in none.
    """

    partition: int
    root_start: int
    root_end: int
    minor_version: int
    group_size: int
    core: int = 0
    base: int = 0

    def __post_init__(self) -> None:
        """Refuse shards that contradict themselves."""
        first = (self.partition, self.partition + 1, 1)
        legal = (
            0 <= self.root_start < self.root_end and self.minor_version > 0 < self.group_size
            if self.minor_version
            else (self.root_start, self.root_end, self.group_size) == first
        )
        if not legal or 0 < self.base < self.root_end or self.base < 0:
            raise CorruptTable(f"{self} breaks the shard numbering rules")

    def check(self, numbering: Numbering) -> None:
        """Refuse a shard outside the numbering of its chunk.

        Raises:
            LimitReached: its minor version is over the limit.
            CorruptTable: its id or its roots are not of its generation.
        """
        most = numbering.minor_versions
        if self.minor_version > most:
            raise LimitReached(
                f"minor version {self.minor_version} is over {most}: "
                "this chunk needs a major compaction, which starts a new version"
            )
        ids, roots = numbering.first, numbering.first
        if self.minor_version:
            ids = numbering.later
        elif self.partition in numbering.provisional:
            ids = roots = numbering.provisional
        if self.partition not in ids or self.root_end > roots.stop:
            raise CorruptTable(f"{self} breaks the shard numbering rules")

    @staticmethod
    def first_generation(partition: int, core: int = 0, base: int = 0) -> "Shard":
        """Return the shard of a first-generation segment, appended or in a core set."""
        return Shard(
            partition=partition,
            root_start=partition,
            root_end=partition + 1,
            minor_version=0,
            group_size=1,
            core=core,
            base=base,
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
        path: the path of its file, relative to the table's root; empty for a tombstone. Outside of
            ``data/`` it is an *adopted* file: one that another program wrote, without a descriptor.
        rows: the number of rows in the file.
        size: the file's size in bytes.
        row_groups: the number of row groups in the file.
        time_min: the first event time.
        time_max: the last event time (inclusive).
        created: the start time of the attempt that wrote it.
        lineage: the origin of its rows; empty if the file is its own root, or if ``roots`` is set.
        events: the number of ingested rows it stands for; differs from ``rows`` in rollup tables.
        clustering: the order of its rows (``core.schema``); empty if none is promised.
        origin: the id in its file's footer, if the segment was carried over.
        replaces: the segments that a new version replaces, in the first segment of each of its
            chunks. If the log is lost, recovery can so find the segments appended meanwhile.
        roots: the roots that the hidden columns of its file may name; empty without such columns.
        deletes_applied_through: the last event whose deletes are applied: the segment has no rows
            deleted by then. In a rollup table, such deletes may also precede its rows.
        schema: the number of the table's schema that its file was written with.
        footer: the checksum of its file's footer, which has the checksums of all other bytes,
            except in an adopted file; None if an older segtable wrote the file.
        completed: the time of the event that published its rows; 0 if a compaction wrote it, in a
            rollup table, and if an older segtable read the event.
        buckets: the number of buckets that its rows were divided by, in a region that has its own
            number (``core.time``); 0 elsewhere.
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
    completed: Instant = 0
    buckets: int = 0

    def __post_init__(self) -> None:
        """Refuse descriptors that contradict themselves."""
        if self.events < 0:
            object.__setattr__(self, "events", self.rows)
        if self.id.partition != self.shard.partition:
            raise CorruptTable(f"segment {self.id} carries shard {self.shard.partition}")
        self.shard.check(numbering_of(self.id.bucket))
        if self.lineage and sum(run.rows for run in self.lineage) != self.rows:
            raise CorruptTable(f"lineage of {self.id} does not add up to its {self.rows} rows")
        if self.lineage and self.roots:
            raise CorruptTable(f"{self.id} has lineage and hidden columns: only one can be right")
        if self.path and not self.rows:
            raise CorruptTable(f"{self.id} has no rows, so it can have no file {self.path!r}")

    @property
    def adopted(self) -> bool:
        """Return whether another program wrote the file: it has no descriptor in its footer."""
        return bool(self.path) and not self.path.startswith(_WRITTEN)

    @property
    def file_id(self) -> SegmentId:
        """Return the id that the file's footer carries, or the record of its adoption."""
        return self.origin or self.id

    def carried(self, segment_id: SegmentId, core: int) -> "Segment":
        """Return the segment under another first-generation id; unchanged if id and shard match.

        It is in no base: others may lie beside it.
        """
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
        """Return whether the log records the lineage of the rows."""
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


def tombstone(chunk: ChunkKey, created: Instant) -> Segment:
    """Return a segment without rows that hides lower versions in the chunk's interval."""
    return Segment(
        id=chunk.segment(0),
        shard=Shard.first_generation(0, core=1, base=1),
        path="",
        rows=0,
        size=0,
        row_groups=0,
        time_min=chunk.interval.start,
        time_max=chunk.interval.end - 1,
        created=created,
    )


# Several segments together: lineage, ranges of roots, replaced versions
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


def replaced(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots that the segments stand for, by chunk, adjacent ranges joined.

    A carried segment also stands for its origin, the id in its file: a range of one at the
    origin's own partition (of any generation).
    """
    segments = tuple(segments)
    own = ((s.id.chunk, s.shard.root_start, s.shard.root_end) for s in segments)
    return _joined((*own, *_origins(segments)))


def replaced_files(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots of the segments' files, by the ids in their footers.

    A log file has a provisional id there, which no other file ever has.
    """
    ids = ((s.file_id, s) for s in segments)
    return _joined(
        (i.chunk, i.partition, i.partition + 1)
        if s.origin
        else (i.chunk, s.shard.root_start, s.shard.root_end)
        for i, s in ids
    )


def inherited(segments: Iterable[Segment]) -> tuple[Roots, ...]:
    """Return the roots that a compaction inside one version replaces besides its inputs."""
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


# Bases
class HasSegments(Protocol):
    """A group of segments of a chunk."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return the segments, by partition."""
        ...


Grouped = TypeVar("Grouped", bound=HasSegments)


def base_of(visible: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return the segments of a chunk's base, given all visible ones by root; empty without one."""
    found: list[Segment] = []
    end = at = 0
    for segment in visible:
        shard = segment.shard
        end = shard.base if not found else end
        if shard.base != end or shard.root_start > at:
            break
        found.append(segment)
        at = max(at, shard.root_end)
    return tuple(found) if 0 < end <= at else ()


def base_groups(visible: Iterable[Grouped]) -> tuple[Grouped, ...]:
    """Return the groups of a chunk's base, given all visible ones by root; empty without one."""
    groups = tuple(visible)
    inside = {s.id for s in base_of(s for group in groups for s in group.segments)}
    return tuple(group for group in groups if group.segments[0].id in inside)


def beside_base(visible: Iterable[HasSegments]) -> tuple[Segment, ...]:
    """Return the segments with rows beside a chunk's base, given all visible groups by root."""
    segments = [segment for group in visible for segment in group.segments]
    inside = {segment.id for segment in base_of(segments)}
    return tuple(s for s in segments if s.rows and s.id not in inside)


def base_after(inputs: Sequence[Segment], chunk: ChunkKey, roots: tuple[int, int]) -> int:
    """Return the base of the outputs of a compaction inside one version.

    Args:
        inputs: the segments.
        chunk: their chunk.
        roots: the roots that its outputs stand for.
    """
    inside = {segment.shard.base for segment in inputs}
    if len(inside) == 1 and max(inside) >= roots[1]:
        return max(inside)
    begins = roots[0] == chunk.numbering.first.start
    return roots[1] if begins and chunk.bucket != NO_BUCKET else 0


def torn_base(inputs: Collection[SegmentId], base: Sequence[Segment]) -> str:
    """Return the segments of a base that a compaction with other inputs leaves, as text.

    It is empty if the compaction takes the whole base, nothing of it, or nothing else.
    """
    ids = [segment.id for segment in base]
    left = [segment_id for segment_id in ids if segment_id not in inputs]
    taken = len(ids) - len(left)
    filed = ids and ids[0].bucket != NO_BUCKET
    return ", ".join(map(str, left)) if filed and 0 < taken < len(inputs) else ""


def base_restored(restored: Sequence[Segment], present: Iterable[Segment]) -> int:
    """Return how many of a chunk's restored segments are its base, if the event does not say so.

    Args:
        restored: the segments in order, with the ids in their files as origins.
        present: the segments of the chunk that they may have been in.
    """
    known = {segment.file_id: segment for segment in present}
    then = [known[i] for i in (each.file_id for each in restored) if i in known]
    return len(base_of(then)) if len(then) == len(restored) else 0


def implied(shard: Shard, segment_id: SegmentId, *, carried: bool) -> Shard:
    """Return the shard of an older segtable's descriptor with its base, as the numbers imply.

    Args:
        shard: the shard.
        segment_id: the segment's id.
        carried: whether it has another id than its file, so that a core set may be a restored one.
    """
    first = segment_id.chunk.numbering.first.start
    if not shard.minor_version:
        own = shard.partition < shard.core and not carried
        return replace(shard, base=shard.core) if own else shard
    if segment_id.bucket == NO_BUCKET or shard.root_start != first:
        return shard
    return replace(shard, base=max(shard.root_end, shard.core))


def with_base_of(one: Segment, other: Segment) -> Segment:
    """Return a descriptor with the base of another one of the same segment.

    It is unchanged if they differ although neither is by an older segtable, whose bases follow from
    the numbers.
    """
    if all(each.shard.base not in (0, _by_numbers(each)) for each in (one, other)):
        return one
    return replace(one, shard=replace(one.shard, base=other.shard.base))


def _by_numbers(segment: Segment) -> int:
    bare = replace(segment.shard, base=0)
    return implied(bare, segment.id, carried=segment.origin is not None).base

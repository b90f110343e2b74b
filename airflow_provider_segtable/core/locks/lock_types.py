"""Lock types: requests, grants and places in the queue; the rules are in ``lockbox``.

1. A request has one granularity: *segment* (existing segments, and new ids) or *time_chunk*
   (intervals). An append only allocates new ids; a replace names intervals. A request may be for
   nothing but its purpose: it keeps others of this purpose away.
2. A lock excludes others from its segments and intervals, except those it yielded (``excludes``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.segments.numbering import numbering_of
from airflow_provider_segtable.core.segments.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time.interval import Instant, Interval

MAX_YIELDS = 3
"""Number of yields after which a lock is no longer revocable, and its place goes first."""


class Generation(StrEnum):
    """The id space: of appended segments, or of compacted ones."""

    FIRST = "first"
    LATER = "later"

    def ids(self, chunk: ChunkKey) -> range:
        """Return the partition ids of a chunk's space."""
        numbering = chunk.numbering
        return numbering.first if self is Generation.FIRST else numbering.later

    @staticmethod
    def of(segment_id: SegmentId) -> "Generation":
        """Return the generation of a segment's id."""
        first = segment_id.partition in numbering_of(segment_id.bucket).first
        return Generation.FIRST if first else Generation.LATER


class Mode(StrEnum):
    """The mode of a lock: which locks may overlap it."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    APPEND = "append"
    REPLACE = "replace"


class LockGranularity(StrEnum):
    """The unit of a lock."""

    SEGMENT = "segment"
    TIME_CHUNK = "time_chunk"


@dataclass(frozen=True, slots=True, order=True)
class FencingToken:
    """Orders grants of one coordinator epoch; tokens of different epochs do not compare."""

    epoch: str
    number: int

    def older_than(self, other: "FencingToken") -> bool:
        """Return whether this grant is certainly earlier; False across epochs."""
        return self.epoch == other.epoch and self.number < other.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A request for ``count`` new ids of a chunk, none below ``at_least``."""

    chunk: ChunkKey
    generation: Generation
    count: int
    at_least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """A request for locks, ids and a version that a worker needs before it starts.

    ``table`` is the table's id; ``group`` is the unique name of this attempt; ``purpose`` is a plan
    id or ``append``; ``holder`` is shown to waiting workers (host, process, user);
    ``version_above`` asks for a version of the intervals higher than this instant; ``yields`` is
    the number of times that this plan yielded before.
    """

    table: str
    group: str
    purpose: str
    holder: str
    segments: frozenset[SegmentId] = frozenset()
    allocate: tuple[Allocation, ...] = ()
    priority: int = 25
    mode: Mode = Mode.EXCLUSIVE
    intervals: tuple[Interval, ...] = ()
    version_above: Instant | None = None
    yields: int = 0

    def __post_init__(self) -> None:
        """Refuse mixed granularities, and modes that do not fit the granularity."""
        at_fault = f"lock request {self.group} (mode {self.mode})"
        if self.intervals and (self.segments or self.allocate):
            raise InvalidInput(
                f"{at_fault} names intervals and segments: request one granularity, and number "
                "new segments yourself under a time chunk lock"
            )
        if self.version_above is not None and not self.intervals:
            raise InvalidInput(
                f"{at_fault} requests a version without intervals: name the intervals"
            )
        if self.mode is Mode.REPLACE and not self.intervals:
            raise InvalidInput(f"{at_fault} is a REPLACE without intervals: name the intervals")
        if self.mode is Mode.APPEND and (self.segments or not self.allocate):
            raise InvalidInput(f"{at_fault} must allocate new ids, and lock nothing that exists")

    @property
    def granularity(self) -> LockGranularity:
        """Return the granularity of the request."""
        return LockGranularity.TIME_CHUNK if self.intervals else LockGranularity.SEGMENT

    @property
    def of_purpose(self) -> bool:
        """Return whether the request is for nothing but its purpose."""
        return not (self.segments or self.allocate or self.intervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Segments and intervals, or a purpose; false if empty."""

    segments: frozenset[SegmentId] = frozenset()
    intervals: tuple[Interval, ...] = ()
    purpose: str = ""

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.segments or self.intervals or self.purpose)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """The segments and intervals that a lock yielded, and the first taker (for people)."""

    by: str
    segments: frozenset[SegmentId] = frozenset()
    intervals: tuple[Interval, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A granted request, as others see it; ``since`` is by the coordinator's clock.

    If ``waiting``, it is a place in the queue, and ``chunks`` are those in which it wants new ids.
    A ``publishing`` lock cannot be revoked. A revoked lock keeps ``revoked`` until its release.
    """

    group: str
    purpose: str
    holder: str
    priority: int
    segments: frozenset[SegmentId]
    allocated: tuple[SegmentId, ...]
    since: Instant
    token: FencingToken
    mode: Mode = Mode.EXCLUSIVE
    intervals: tuple[Interval, ...] = ()
    version: Instant | None = None
    yields: int = 0
    publishing: bool = False
    revoked: Revocation | None = None
    waiting: bool = False
    chunks: tuple[ChunkKey, ...] = ()

    @property
    def granularity(self) -> LockGranularity:
        """Return the granularity of the lock."""
        return LockGranularity.TIME_CHUNK if self.intervals else LockGranularity.SEGMENT

    @property
    def of_purpose(self) -> bool:
        """Return whether the lock is on nothing but its purpose."""
        return not (self.segments or self.allocated or self.intervals or self.chunks)

    @property
    def covered(self) -> frozenset[SegmentId]:
        """Return every segment the lock was taken on."""
        return self.segments | frozenset(self.allocated)

    @property
    def excludes(self) -> Extent:
        """Return the segments and intervals that the lock still excludes others from."""
        if self.revoked is None:
            return Extent(segments=self.covered, intervals=self.intervals)
        left = self.intervals
        for cut in self.revoked.intervals:
            left = tuple(piece for each in left for piece in _minus(each, cut))
        return Extent(segments=self.covered - self.revoked.segments, intervals=left)

    @property
    def firm(self) -> bool:
        """Return whether it has yielded ``MAX_YIELDS`` times, so that it yields no more."""
        return self.yields >= MAX_YIELDS


def _minus(interval: Interval, cut: Interval) -> Iterator[Interval]:
    if not interval.overlaps(cut):
        yield interval
        return
    if interval.start < cut.start:
        yield Interval(interval.start, cut.start)
    if cut.end < interval.end:
        yield Interval(cut.end, interval.end)

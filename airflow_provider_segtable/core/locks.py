"""Decide lock requests and allocate ids, pure: ``decide(request, held, counters) -> Decision``.

1. A request is granted whole or not at all. It has one granularity: *segment* (existing segments,
   and new ids, which are allocated and locked in the same step) or *time_chunk* (intervals, and
   a new version, higher than any before). An append only allocates new ids; a replace names
   intervals. A request may be for nothing but its purpose.
2. Two locks touch if they share a segment, if their intervals overlap, or if a segment of the one
   (new ones too) lies in an interval of the other. Locks that touch exclude each other, unless::

                 EXCLUSIVE   SHARED   APPEND   REPLACE
     EXCLUSIVE       -          -        -        -
     SHARED          -         yes       -        -
     APPEND          -          -       yes    if the REPLACE's interval encloses the new segment's
     REPLACE         -          -       (as above)  -

   So an append (new ids only) never waits for a compaction of segments, nor for a REPLACE. A
   compaction of segments never waits for an append: segments that it can name are published.
   A lock on *nothing* but its purpose excludes only such a lock of the same purpose.
3. A request *revokes* the locks in its way and is granted in the same step, if each of them has a
   lower priority, is not irrevocable, and has yielded fewer than ``MAX_YIELDS`` times. It takes the
   contested part only; a revoked lock excludes others from the rest (``excludes``) until its owner
   releases it, and stays revoked until then.
4. A waiting request has a *place*, which excludes requests behind it (``ahead``): firm places
   come first (yielded or overtaken ``MAX_YIELDS`` times), then higher priority, then earlier
   arrival. A place is never revoked. The order is total, so there is no deadlock.
5. Requests are idempotent by group: the same request again returns the same grant; a different
   request under the same group is refused.
6. Ids and versions grow and are never handed out twice: counters restart above ``at_least`` and
   ``version_above``, which the caller takes from the log, so a wiped coordinator repeats none.
7. Locks are hints, the log is truth: the grant's fencing token goes into the log, where a later
   holder's event supersedes it.
8. Appends that follow each other soon share one lock on a *block* of ids. They must be *alike*:
   they allocate as many ids in the same chunks, with the same mode, priority and holder. Each
   needs one *portion* of ids.
9. The first append asks for its own portion. One that soon follows an alike append asks for a
   block: as many portions as the appends so far, so that at most half of the ids stay unused.
   A block has ``MOST_IDS`` ids at most.
10. Unused ids go back if no other writer has allocated ids of the chunk since: the counter then
    continues with the first unused one. No append was given it, so no id is handed out twice. Ids
    that cannot go back are holes, like a dead writer's ids.

Source of the idea: Druid's TaskLockbox (segment locks, later APPEND and REPLACE), with allocation
and lock in one step.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, LimitReached
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId, numbering_of
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Instant, Interval

MAX_YIELDS = 3
"""Number of yields after which a lock is no longer revocable, and its place goes first."""


# Requests, locks and places in the queue
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
    An ``irrevocable`` lock cannot be revoked. A revoked lock keeps ``revoked`` until its release.
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
    irrevocable: bool = False
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


__all__ = [
    "MAX_YIELDS",
    "Allocation",
    "AlreadyGranted",
    "Counters",
    "Decision",
    "Extent",
    "FencingToken",
    "Generation",
    "Granted",
    "IdSource",
    "Lock",
    "LockGranularity",
    "LockRequest",
    "Mode",
    "Refused",
    "Revocation",
    "Revokes",
    "Waits",
    "ahead",
    "check_allocation",
    "contested",
    "decide",
    "gives_way",
    "in_turn",
]


# Decisions
class IdSource(StrEnum):
    """The source of new segment ids: the coordinator, or the task under its lock."""

    CENTRAL_INCREMENTAL = "central incremental"
    LOCAL_INCREMENTAL = "local incremental"
    LOCAL_BULK = "local bulk"


def check_allocation(granularity: LockGranularity | str, *, perfect_rollup: bool) -> IdSource:
    """Return the source of segment ids for a task (Druid's table).

    Raises:
        InvalidInput: for perfect rollup under segment locks: appends go on meanwhile, so the
            outputs cannot be numbered all at once.
    """
    if LockGranularity(granularity) is LockGranularity.TIME_CHUNK:
        return IdSource.LOCAL_BULK if perfect_rollup else IdSource.LOCAL_INCREMENTAL
    if perfect_rollup:
        raise InvalidInput(
            "perfect rollup under segment locks is not possible: rows appended meanwhile would "
            "stay apart; use a major compaction, which locks the time chunk"
        )
    return IdSource.CENTRAL_INCREMENTAL


Counters: TypeAlias = Mapping[tuple[ChunkKey, Generation], int]
"""The next id to allocate, by chunk and generation; a missing counter starts its range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The request is granted; ``counters`` are the changed ones, ``version`` set if requested."""

    allocated: tuple[SegmentId, ...]
    counters: Counters = field(default_factory=dict)
    version: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyGranted:
    """The group holds this lock already."""

    lock: Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The request waits for these locks and places."""

    on: tuple[Lock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revokes:
    """The request is granted; the locks ``whom``, in their state afterwards, are revoked."""

    whom: tuple[Lock, ...]
    granted: Granted


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The request can never be granted."""

    why: str


Decision: TypeAlias = Granted | AlreadyGranted | Waits | Revokes | Refused


def decide(
    request: LockRequest,
    held: Iterable[Lock],
    counters: Counters,
    *,
    now: Instant = 0,
    last_version: Instant = 0,
) -> Decision:
    """Decide a lock request; pure.

    Args:
        request: the request.
        held: the live locks of the table that it may touch, and the places ahead of it.
        counters: next ids, at least of the chunks in which the request allocates.
        now: the coordinator's wall clock, for a new version.
        last_version: the highest version ever granted for the table.

    Raises:
        LimitReached: if a chunk's ids are used up.
    """
    held = tuple(held)
    for lock in held:
        if lock.group == request.group:
            return _again(request, lock)
    in_the_way = tuple(lock for lock in held if contested(request, lock))
    if not all(gives_way(lock, request) for lock in in_the_way):
        return Waits(on=in_the_way)
    granted = _allocate(request, counters)
    if request.version_above is not None:
        version = max(now, request.version_above + 1, last_version + 1)
        granted = replace(granted, version=version)
    if not in_the_way:
        return granted
    return Revokes(whom=tuple(_revoked(lock, request) for lock in in_the_way), granted=granted)


def ahead(request: LockRequest, places: Sequence[Lock], mine: int | None = None) -> list[Lock]:
    """Return the places that are served before a request.

    Args:
        request: the request; ``yields`` counts how often it yielded or was overtaken.
        places: all places of the table, in the order of arrival.
        mine: the index of the request's own place; None if it has none yet.
    """
    arrival = len(places) if mine is None else mine
    own = (*_rank(request.priority, request.yields), arrival)
    return [
        place
        for n, place in enumerate(places)
        if n != mine and (*_rank(place.priority, place.yields), n) < own
    ]


def in_turn(places: Iterable[Lock]) -> tuple[Lock, ...]:
    """Sort places, given in the order of arrival, into the order of service."""
    return tuple(sorted(places, key=lambda place: _rank(place.priority, place.yields)))


def _rank(priority: int, yields: int) -> tuple[int, int]:
    return (0, 0) if yields >= MAX_YIELDS else (1, -priority)


def gives_way(lock: Lock, request: LockRequest) -> bool:
    """Return whether the request may revoke the lock."""
    return not (lock.waiting or lock.irrevocable or lock.firm or lock.priority >= request.priority)


def contested(request: LockRequest, lock: Lock) -> Extent:
    """Return the extent that the lock would yield to the request; empty if they do not conflict."""
    if request.mode is lock.mode is Mode.SHARED:
        return Extent()
    if request.of_purpose and lock.of_purpose:
        return Extent(purpose=request.purpose if request.purpose == lock.purpose else "")
    theirs, forgiven = lock.excludes, _replaced(request, lock)
    if request.granularity is LockGranularity.TIME_CHUNK:
        of_segments = {segment.interval for segment in theirs.segments} - forgiven
        hit = {each for each in of_segments if any(map(each.overlaps, request.intervals))}
        wanted = [chunk.interval for chunk in lock.chunks if chunk.interval not in forgiven]
        return Extent(
            segments=frozenset(s for s in theirs.segments if s.interval in hit),
            intervals=_common((*theirs.intervals, *wanted), request.intervals),
        )
    touched = {segment.interval for segment in request.segments}
    touched |= {ask.chunk.interval for ask in request.allocate}
    published = lock.mode is Mode.APPEND  # else its new segments could not be named yet
    return Extent(
        segments=frozenset() if published else theirs.segments & request.segments,
        intervals=_common(theirs.intervals, sorted(touched - forgiven)),
    )


def _replaced(request: LockRequest, lock: Lock) -> set[Interval]:
    """Return the intervals of one side's appends that the other side's REPLACE encloses."""
    if request.mode is Mode.APPEND and lock.mode is Mode.REPLACE:
        outer, inner = lock.intervals, {ask.chunk.interval for ask in request.allocate}
    elif request.mode is Mode.REPLACE and lock.mode is Mode.APPEND:
        inner = {s.interval for s in lock.allocated} | {c.interval for c in lock.chunks}
        outer = request.intervals
    else:
        return set()
    return {each for each in inner if any(span.encloses(each) for span in outer)}


def _common(some: Iterable[Interval], others: Sequence[Interval]) -> tuple[Interval, ...]:
    clipped = (one.clip(other) for one in some for other in others)
    return tuple(sorted({piece for piece in clipped if piece}))


def _again(request: LockRequest, lock: Lock) -> AlreadyGranted | Waits | Refused:
    if lock.waiting:
        return Waits(on=(lock,))
    asked = Counter[tuple[ChunkKey, Generation]]()
    for ask in request.allocate:
        asked[ask.chunk, ask.generation] += ask.count
    given = Counter((each.chunk, Generation.of(each)) for each in lock.allocated)
    same = (
        (request.mode, request.segments) == (lock.mode, lock.segments)
        and set(request.intervals) == set(lock.intervals)
        and (request.version_above is None) == (lock.version is None)
        and asked == given
    )
    if same:
        return AlreadyGranted(lock=lock)
    return Refused(
        why=f"group {request.group} holds another lock already ({lock.mode}, {lock.granularity}, "
        f"for {lock.purpose}): release that one first, or ask under a group of its own"
    )


def _revoked(lock: Lock, request: LockRequest) -> Lock:
    taken = contested(request, lock)
    before = lock.revoked or Revocation(
        by=f"{request.holder} for {request.purpose}, group {request.group}, "
        f"priority {request.priority} over {lock.priority}"
    )
    revoked = replace(
        before,
        segments=before.segments | taken.segments,
        intervals=tuple(sorted({*before.intervals, *taken.intervals})),
    )
    return replace(lock, revoked=revoked)


def _allocate(request: LockRequest, counters: Counters) -> Granted:
    after = dict(counters)
    allocated: list[SegmentId] = []
    for ask in request.allocate:
        key = (ask.chunk, ask.generation)
        ids = ask.generation.ids(ask.chunk)
        first = max(after.get(key, ids.start), ask.at_least)
        if first + ask.count > ids.stop:
            raise LimitReached(
                f"chunk {ask.chunk} has no {ask.count} free {ask.generation}-generation ids left "
                f"(next {first}, limit {ids.stop}): run a major compaction, "
                "which starts a new version with fresh ids"
            )
        allocated.extend(ask.chunk.segment(p) for p in range(first, first + ask.count))
        after[key] = first + ask.count
    changed = {(ask.chunk, ask.generation) for ask in request.allocate}
    return Granted(allocated=tuple(allocated), counters={k: after[k] for k in changed})


# Blocks of ids for appends that follow each other soon
MOST_IDS = 32

Portion: TypeAlias = tuple[SegmentId, ...]


def likeness(request: LockRequest) -> Hashable:
    """Return a value that is equal for appends that are alike."""
    asked = tuple((ask.chunk, ask.generation, ask.count) for ask in request.allocate)
    return asked, request.mode, request.priority, request.holder


def block_size(request: LockRequest, before: int) -> int:
    """Return the number of portions to ask for, after ``before`` alike appends shortly before."""
    return max(1, min(before, MOST_IDS // sum(ask.count for ask in request.allocate)))


def block_request(request: LockRequest, size: int) -> LockRequest:
    """Return the request for a block of ``size`` portions."""
    return replace(
        request,
        purpose=f"{request.purpose} and appends after it",
        allocate=tuple(replace(ask, count=ask.count * size) for ask in request.allocate),
    )


def portions(request: LockRequest, allocated: Sequence[SegmentId], size: int) -> list[Portion]:
    """Split a block's ids, given by allocation, into the portions of appends like ``request``."""
    found: list[Portion] = [() for _ in range(size)]
    start = 0
    for ask in request.allocate:
        for n in range(size):
            found[n] += tuple(allocated[start : start + ask.count])
            start += ask.count
    return found


def gone_back(unused: Iterable[SegmentId], counters: Counters) -> Counters:
    """Return the counters that continue with the first unused ids again.

    Args:
        unused: the last ids of a block, which no append was given.
        counters: the next id to allocate, by chunk and generation.
    """
    left: dict[tuple[ChunkKey, Generation], list[int]] = {}
    for each in unused:
        left.setdefault((each.chunk, Generation.of(each)), []).append(each.partition)
    return {
        key: min(left[key])
        for key, following in counters.items()
        if key in left and max(left[key]) + 1 == following
    }


# JSON of fencing tokens
def encode_token(token: FencingToken) -> Json:
    """Return a fencing token as JSON."""
    return {"epoch": token.epoch, "number": token.number}


def decode_token(body: Mapping[str, Any]) -> FencingToken:
    """Parse the output of ``encode_token``."""
    return FencingToken(**body)

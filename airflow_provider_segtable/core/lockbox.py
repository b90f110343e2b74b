"""Lock rules and id allocation, pure: ``decide(request, held, counters) -> Decision``.

1. A request is granted whole or not at all. It names existing segments, locked EXCLUSIVE, and
   asks for new ids; a new id is locked for its asker in the same step, so nobody else can ever
   hold it.
2. EXCLUSIVE excludes EXCLUSIVE on the same segment only: locks on different segments of a chunk
   coexist, and an append (new ids only) never waits for a compaction.
3. Requests are idempotent by group: asking again for what the group holds returns the same grant.
4. Ids grow and are never handed out twice: each counter restarts above ``at_least``, which the
   caller takes from the log, so a wiped coordinator cannot repeat one.
5. Locks are hints, the log is truth: the grant's fencing token goes into the log, where a later
   holder's event supersedes it.

Source of the idea: Druid's TaskLockbox, with allocation and lock in one step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from airflow_provider_segtable.core.errors import LimitReached
from airflow_provider_segtable.core.interval import Instant
from airflow_provider_segtable.core.segment import (
    FIRST_GENERATION_IDS,
    LATER_GENERATION_IDS,
    ChunkKey,
    SegmentId,
)


class Generation(StrEnum):
    """Which id space: appended segments, or what compaction makes."""

    FIRST = "first"
    LATER = "later"

    @property
    def ids(self) -> range:
        """Return the partition ids of the space."""
        return FIRST_GENERATION_IDS if self is Generation.FIRST else LATER_GENERATION_IDS


@dataclass(frozen=True, slots=True, order=True)
class FencingToken:
    """Orders grants of one coordinator epoch; tokens of different epochs do not compare."""

    epoch: str
    number: int

    def older_than(self, other: "FencingToken") -> bool:
        """Tell whether this grant is certainly the earlier one."""
        return self.epoch == other.epoch and self.number < other.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Asks for ``count`` new ids of a chunk, none below ``at_least``."""

    chunk: ChunkKey
    generation: Generation
    count: int
    at_least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """What one worker needs before it starts.

    ``table`` is the table's id; ``group`` names this attempt (unique); ``purpose`` what it is
    for (a plan id, or ``append``); ``holder`` is shown to those who wait (host, process, who).
    """

    table: str
    group: str
    purpose: str
    holder: str
    segments: frozenset[SegmentId] = frozenset()
    allocate: tuple[Allocation, ...] = ()
    priority: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A granted request, as others see it; ``since`` is the coordinator's clock."""

    group: str
    purpose: str
    holder: str
    priority: int
    segments: frozenset[SegmentId]
    allocated: tuple[SegmentId, ...]
    since: Instant
    token: FencingToken

    @property
    def covered(self) -> frozenset[SegmentId]:
        """Return every segment the lock excludes others from."""
        return self.segments | frozenset(self.allocated)


Counters: TypeAlias = Mapping[tuple[ChunkKey, Generation], int]
"""The next id to hand out, by chunk and generation; a missing one starts its range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The request holds; ``counters`` are the changed ones only."""

    allocated: tuple[SegmentId, ...]
    counters: Counters = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyGranted:
    """The group holds this lock already."""

    lock: Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """These locks are in the way."""

    on: tuple[Lock, ...]


Decision: TypeAlias = Granted | AlreadyGranted | Waits


def decide(request: LockRequest, held: Iterable[Lock], counters: Counters) -> Decision:
    """Decide a lock request; pure.

    Args:
        request: what is asked.
        held: all live locks of the table.
        counters: next ids; need hold only the chunks the request allocates in.

    Raises:
        LimitReached: if a chunk's ids are used up.
    """
    held = tuple(held)
    for lock in held:
        if lock.group == request.group:
            return AlreadyGranted(lock=lock)
    in_the_way = tuple(lock for lock in held if lock.covered & request.segments)
    if in_the_way:
        return Waits(on=in_the_way)
    return _allocate(request, counters)


def _allocate(request: LockRequest, counters: Counters) -> Granted:
    after = dict(counters)
    allocated: list[SegmentId] = []
    for ask in request.allocate:
        key = (ask.chunk, ask.generation)
        first = max(after.get(key, ask.generation.ids.start), ask.at_least)
        if first + ask.count > ask.generation.ids.stop:
            raise LimitReached(
                f"chunk {ask.chunk} has no {ask.count} free {ask.generation}-generation ids left "
                f"(next {first}, limit {ask.generation.ids.stop}): run a major compaction, "
                "which starts a new version with fresh ids"
            )
        allocated.extend(ask.chunk.segment(p) for p in range(first, first + ask.count))
        after[key] = first + ask.count
    changed = {(ask.chunk, ask.generation) for ask in request.allocate}
    return Granted(allocated=tuple(allocated), counters={k: after[k] for k in changed})

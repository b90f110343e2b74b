"""Coordination: mutual exclusion before expensive work, ids, liveness, and news of events.

Contract:

1. ``acquire`` grants a whole request or nothing, atomically: all locks, and the new segment ids,
   or version, in one transaction (rules: ``core.locks.lockbox.decide``). It waits by notification,
   not by polling storage, in the order of ``core.locks.lockbox.ahead``, up to ``wait_s`` seconds;
   then ``LockTimeout`` names who holds what since when. A waiter that finds itself overtaken counts
   that as having given way.
2. A lease lives as long as its holder's session. Its state is HELD, DOUBTFUL (connection
   suspended: may or may not hold; do not commit) or LOST (certainly gone or revoked; never comes
   back).
   ``publish`` comes before the put that makes the work visible: of ``publish`` and a rival's
   revocation exactly one wins. It may be called again, and then is a ``check``.
3. Fencing tokens grow within one epoch: a later grant has a higher ``number``. A wiped
   coordinator starts another epoch; numbers of different epochs do not compare.
4. Nothing here decides what is true: the log does. The coordinator may be wiped at any time;
   counters restart above what callers pass as ``at_least``.
5. ``announce`` is best effort and monotone; ``wait_head`` may wake early, late or not at all.
6. Errors: ``CoordinatorUnavailable`` (with the address and how to start one), ``AccessRefused``,
   ``LockTimeout``, ``LockLost`` and ``LockRevoked``; ``InvalidInput`` for a group that holds
   something else; ``UnreadableNode`` where a record may be a lock and cannot be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_provider_segtable.core.locks.lockbox import FencingToken, Lock, LockRequest
from airflow_provider_segtable.core.segments.segment import SegmentId
from airflow_provider_segtable.core.time.interval import Instant


class LeaseState(StrEnum):
    """What is known of a lease."""

    HELD = "held"
    DOUBTFUL = "doubtful"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayNode:
    """What the coordinator keeps for a table and segtable cannot read.

    ``name`` is what ``break_lock`` takes; ``blocks``: nothing is granted where it would have to be
    known.
    """

    name: str
    why: str
    blocks: bool


class Lease(Protocol):
    """Locks granted together, alive while the holder's session is."""

    @property
    def token(self) -> FencingToken:
        """Return the fencing token of the grant."""
        ...

    @property
    def allocated(self) -> tuple[SegmentId, ...]:
        """Return the new segment ids, in the order of the request's allocations."""
        ...

    @property
    def granted_at(self) -> Instant:
        """Return the coordinator's own wall clock at the grant."""
        ...

    @property
    def version(self) -> Instant | None:
        """Return the new version, if one was asked for."""
        ...

    @property
    def state(self) -> LeaseState:
        """Return what is known of the lease now."""
        ...

    def check(self) -> None:
        """Raise ``LockLost`` unless the lease is HELD; ``LockRevoked`` says who took it."""
        ...

    def publish(self) -> None:
        """Check, and from now on be not revocable until released.

        Raises:
            LockRevoked: a higher priority was first.
            LockLost: the lease is lost, or doubtful; then nobody knows which of the two won.
        """
        ...

    def report(self, progress: Mapping[str, str]) -> None:
        """Publish the holder's progress beside the lock, best effort."""
        ...

    def release(self) -> None:
        """Give the locks back; no error if they are gone already."""
        ...


class Coordinator(Protocol):
    """One coordination service, shared by all tables."""

    @property
    def address(self) -> str:
        """Return the address, for messages."""
        ...

    def acquire(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Grant ``request`` or raise ``LockTimeout``."""
        ...

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks of a table, oldest first."""
        ...

    def waiters(self, table: str) -> tuple[Lock, ...]:
        """Return the places of those who wait, in the order in which they are served."""
        ...

    def break_lock(self, table: str, group: str) -> bool:
        """Take a group's lock away from its holder; False if it has none.

        For people, when a holder hangs: its lease is lost, so it cannot commit any more. Instead
        of a group it takes the name of a stray node.
        """
        ...

    def strays(self, table: str) -> tuple[StrayNode, ...]:
        """Return what is kept for a table and cannot be read."""
        ...

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return what live holders last reported, by lock group."""
        ...

    def announce(self, table: str, n: int) -> None:
        """Tell watchers that event ``n`` is in the log; best effort, never raises."""
        ...

    def wait_head(self, table: str, *, beyond: int, wait_s: float) -> int | None:
        """Wait until an event number above ``beyond`` is announced; None at the deadline."""
        ...

    def close(self) -> None:
        """End the session: every lease of it is gone."""
        ...

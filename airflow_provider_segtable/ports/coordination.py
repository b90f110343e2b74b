"""Coordination: mutual exclusion before expensive work, ids, liveness, claims, and news of events.

Contract of the coordinator and its leases:

1. ``acquire`` grants a whole request or nothing, atomically: all locks, and the new segment ids,
   or version, in one transaction (rules: ``core.locks.decide``). It waits by notification,
   not by polling storage, in the order of ``core.locks.ahead``, up to ``wait_s`` seconds;
   then ``LockTimeout`` names the holders, their locks and since when. A waiter that is overtaken
   counts this as a yield.
2. A lease lives as long as its holder's session. Its state is HELD, DOUBTFUL (connection
   suspended: may or may not hold; do not commit) or LOST (certainly gone or revoked; final).
   ``make_irrevocable`` is called before the put that makes the work visible: of this call and a
   rival's revocation exactly one wins. A second call is a ``check``.
3. Fencing tokens grow within one epoch: a later grant has a higher ``number``. A wiped
   coordinator starts another epoch; numbers of different epochs do not compare.
4. The log alone decides what is true. The coordinator may be wiped at any time; counters restart
   above the callers' ``at_least``.
5. ``announce`` is best effort and monotone; ``wait_head`` and ``wait_heads`` may wake early, late
   or not at all, and ``heads`` may lag or lack a table. An announcement with ``overtaken`` may come
   some milliseconds later, and is left out if a later event is in the log by then: that one's
   author announces it.
6. ``commit_turn`` is a queue in front of the commit, first come, first served, for committers that
   lost a race. It is a hint, too: after ``wait_s``, or in doubt, a committer has its turn anyway.
7. ``acquire_for_append`` may *keep* locks: an append that soon follows another one of the same
   client gets its ids from the lock of that one. A kept lock ends when no append follows soon, and
   no later than the appends that use it when a request waits for it; ids that no append was given
   may be allocated again. Such a lease's ``check`` may rely on the client's view.
8. ``claim`` gives a name of a group to one client at a time (rules 10 to 15): the service that has
   a bucket, the members that are there. ``wait_claims`` returns when the claims of the group differ
   from ``seen``, or at the deadline.
9. Errors: ``CoordinatorUnavailable`` (with the address and how to start one), ``AccessRefused``,
   ``LockTimeout``, ``LockLost`` and ``LockRevoked``; ``InvalidInput`` if the group has another
   lock; ``UnreadableNode`` if a record may be a lock and cannot be read.

Contract of claims, names in a group that one client holds at a time, with a content for all:

10. A claim is made at once or not at all: no queue. It ends with its release, with its holder's
    session, and with ``Coordinator.forget`` of its table.
11. ``number`` grows: a later claim of the same name has a higher one, within one life of the
    coordinator. A reader that sees another number sees another claim.
12. Its state is HELD, DOUBTFUL (connection suspended: it may have ended) or LOST (final).
13. The content is a few short texts. Readers see all of an ``update``, or nothing of it.
14. A claim is a hint at the place of a service. The table's log decides which records count.
15. Errors: ``LockLost`` if an update cannot be made, because the claim is lost or doubtful;
    ``InvalidInput`` for a name with a '/', or a content above 64 kB; else as of ``Coordinator``.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.locks import FencingToken, Lock, LockRequest
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Instant


# Claims
class LeaseState(StrEnum):
    """The state of a claim, or of a lease."""

    HELD = "held"
    DOUBTFUL = "doubtful"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A live claim, as every client sees it; ``since`` is the coordinator's time."""

    name: str
    number: int
    content: Mapping[str, str]
    since: Instant


class Claim(Protocol):
    """A name that this client holds, as long as its session lives."""

    @property
    def number(self) -> int:
        """Return the number of the claim, higher than of earlier claims of its name."""
        ...

    @property
    def state(self) -> LeaseState:
        """Return the known state of the claim."""
        ...

    def update(self, content: Mapping[str, str]) -> None:
        """Replace the content; raise ``LockLost`` unless the claim is held."""
        ...

    def release(self) -> None:
        """End the claim; no error if it has ended already."""
        ...


# Leases and the coordinator
Overtaken: TypeAlias = Callable[[], bool]
"""Returns whether an event is no longer the last one of its log; never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayNode:
    """A record of a table in the coordinator that segtable cannot read.

    ``name`` is for ``break_lock``. If it ``blocks``, requests that may conflict with it fail.
    """

    name: str
    why: str
    blocks: bool


class Lease(Protocol):
    """Locks granted together, which live as long as the holder's session."""

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
        """Return the coordinator's wall clock at the grant."""
        ...

    @property
    def version(self) -> Instant | None:
        """Return the new version, if one was requested."""
        ...

    @property
    def state(self) -> LeaseState:
        """Return the current state of the lease."""
        ...

    def check(self) -> None:
        """Raise ``LockLost`` unless the lease is HELD; ``LockRevoked`` names the taker."""
        ...

    def make_irrevocable(self) -> None:
        """Check the lease, and make it irrevocable until its release.

        Raises:
            LockRevoked: if a request of higher priority was first.
            LockLost: if the lease is lost, or doubtful: then the outcome of a race is unknown.
        """
        ...

    def report(self, progress: Mapping[str, str]) -> None:
        """Publish the holder's progress beside the lock, best effort."""
        ...

    def release(self) -> None:
        """Release the locks; no error if they are gone already."""
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

    def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Grant an append's new ids, perhaps under a lock kept from an earlier append."""
        ...

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks of a table, oldest first."""
        ...

    def waiters(self, table: str) -> tuple[Lock, ...]:
        """Return the places of waiting requests, in the order of service."""
        ...

    def break_lock(self, table: str, group: str) -> bool:
        """Remove a group's lock, or a stray node by its name; False if there is none.

        For people, when a holder hangs: its lease is lost, so it can no longer commit.
        """
        ...

    def strays(self, table: str) -> tuple[StrayNode, ...]:
        """Return the records of a table that cannot be read."""
        ...

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return the last progress reports of live holders, by lock group."""
        ...

    def announce(self, table: str, n: int, overtaken: Overtaken | None = None, /) -> None:
        """Notify watchers that event ``n`` is in the log; best effort, never raises."""
        ...

    def commit_turn(self, table: str, *, wait_s: float) -> AbstractContextManager[None]:
        """Wait for this committer's turn, and hold it; best effort, never raises."""
        ...

    def wait_head(self, table: str, *, beyond: int, wait_s: float) -> int | None:
        """Wait until an event number above ``beyond`` is announced; None at the deadline."""
        ...

    def wait_heads(
        self, tables: Collection[str], *, seen: Mapping[str, int], wait_s: float
    ) -> Mapping[str, int]:
        """Wait until announced events of tables differ from ``seen``, and return these events.

        A table without an announcement has -1. Empty at the deadline.
        """
        ...

    def heads(self, tables: Collection[str]) -> Mapping[str, int]:
        """Return the newest announced event of each table that has one, in few round trips."""
        ...

    def claim(self, table: str, group: str, name: str, content: Mapping[str, str]) -> Claim | None:
        """Claim a name of a group; None while another claim has it."""
        ...

    def claims(self, table: str, group: str) -> Mapping[str, Claimed]:
        """Return the live claims of a group, by name."""
        ...

    def tables_with_claims(self, tables: Collection[str], group: str) -> Collection[str]:
        """Return the tables in which a name of a group is claimed, or was, in few round trips."""
        ...

    def wait_claims(
        self, table: str, group: str, *, seen: Mapping[str, Claimed], wait_s: float
    ) -> Mapping[str, Claimed]:
        """Wait until the claims of a group differ from ``seen``, and return them."""
        ...

    def forget(self, table: str) -> None:
        """Delete everything about a table that was dropped: locks, queues, ids, its head, claims.

        Holders lose their leases and claims. A late request makes records anew: forget the table
        again.
        """
        ...

    def close(self) -> None:
        """End the session, and with it all its leases."""
        ...

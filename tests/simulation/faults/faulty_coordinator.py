"""A coordinator with faults: sessions that expire, connections that are cut, wipes, lost answers.

The faults and their boundaries are those of ``testing.faulty``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import CoordinatorUnavailable
from airflow_provider_segtable.core.locks import FencingToken, Lock, LockRequest
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.coordination import (
    Claim,
    Claimed,
    Coordinator,
    Lease,
    LeaseState,
    Overtaken,
    StrayNode,
)
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.simulator import Actor


@dataclass(frozen=True, slots=True)
class FaultyCoordinator:
    """A ``Coordinator`` whose calls may fail, and whose session may expire at any call.

    ``expire(told)`` ends the session on the server, ``wipe(told)`` all sessions and server state;
    with ``notice=False`` the client's lease still shows HELD.
    ``cut(True)`` disconnects the client, so its leases become doubtful; ``cut(False)`` reconnects.
    """

    inner: Coordinator
    actor: Actor
    faults: Faults
    expire: Callable[[bool], None]
    wipe: Callable[[bool], None]
    cut: Callable[[bool], None] | None = None

    @property
    def address(self) -> str:
        """Return the address."""
        return self.inner.address

    def acquire(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Acquire the locks, or fail."""
        return self._acquired(lambda: self.inner.acquire(request, wait_s=wait_s))

    def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Acquire the lock of an append, or fail."""
        return self._acquired(lambda: self.inner.acquire_for_append(request, wait_s=wait_s))

    def _acquired(self, acquire: Callable[[], Lease]) -> Lease:
        self.boundary("before acquire")
        if self.faults.happens("error"):
            raise CoordinatorUnavailable("injected: the coordinator does not answer")
        lease = acquire()
        self.boundary("after acquire")
        return _FaultyLease(lease, self)

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks, or fail."""
        self.boundary("before locks")
        return self.inner.locks(table)

    def waiters(self, table: str) -> tuple[Lock, ...]:
        """Return the waiting requests, or fail."""
        self.boundary("before waiters")
        return self.inner.waiters(table)

    def break_lock(self, table: str, group: str) -> bool:
        """Break a lock, or fail."""
        self.boundary("before break_lock")
        return self.inner.break_lock(table, group)

    def strays(self, table: str) -> tuple[StrayNode, ...]:
        """Return unreadable nodes, or fail."""
        self.boundary("before strays")
        return self.inner.strays(table)

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return progress."""
        self.actor.require_alive()
        return self.inner.progress(table)

    def announce(self, table: str, n: int, overtaken: Overtaken | None = None, /) -> None:
        """Announce an event, or drop the announcement."""
        self.actor.point("announce")
        if not self.faults.happens("error"):
            self.inner.announce(table, n, overtaken)

    @contextmanager
    def commit_turn(self, table: str, *, wait_s: float) -> Iterator[None]:
        """Wait for a turn to commit."""
        self.actor.point("commit_turn")
        with self.inner.commit_turn(table, wait_s=wait_s):
            yield

    def wait_head(self, table: str, *, beyond: int, wait_s: float) -> int | None:
        """Wait for an announcement."""
        self.actor.require_alive()
        return self.inner.wait_head(table, beyond=beyond, wait_s=wait_s)

    def wait_heads(
        self, tables: Collection[str], *, seen: Mapping[str, int], wait_s: float
    ) -> Mapping[str, int]:
        """Wait for announcements of several tables."""
        self.actor.require_alive()
        return self.inner.wait_heads(tables, seen=seen, wait_s=wait_s)

    def heads(self, tables: Collection[str]) -> Mapping[str, int]:
        """Read announcements, or fail."""
        self.boundary("before heads")
        return self.inner.heads(tables)

    def claim(self, table: str, group: str, name: str, content: Mapping[str, str]) -> Claim | None:
        """Claim a name, or fail."""
        self.boundary("before claim")
        made = self.inner.claim(table, group, name, content)
        self.boundary("after claim")
        return made and _FaultyClaim(made, self)

    def claims(self, table: str, group: str) -> Mapping[str, Claimed]:
        """Return the live claims, or fail."""
        self.boundary("before claims")
        return self.inner.claims(table, group)

    def tables_with_claims(self, tables: Collection[str], group: str) -> Collection[str]:
        """Return the tables with claims, or fail."""
        self.boundary("before tables_with_claims")
        return self.inner.tables_with_claims(tables, group)

    def wait_claims(
        self, table: str, group: str, *, seen: Mapping[str, Claimed], wait_s: float
    ) -> Mapping[str, Claimed]:
        """Wait for other claims."""
        self.actor.require_alive()
        return self.inner.wait_claims(table, group, seen=seen, wait_s=wait_s)

    def forget(self, table: str) -> None:
        """Forget a table, or fail."""
        self.boundary("before forget")
        self.inner.forget(table)

    def close(self) -> None:
        """End the session."""
        self.actor.require_alive()
        self.inner.close()

    def boundary(self, label: str) -> None:
        """Yield; here the session may expire, or its connection be cut for a while."""
        self.actor.require_alive()
        if self.cut is not None and self.faults.happens("suspension"):
            cut = self.cut
            cut(True)
            self.faults.later(self.actor, "reconnection", lambda: cut(False))
        if self.faults.happens("expiry"):
            self.expire(self.faults.random.random() < 0.5)
        if self.faults.happens("wipe"):
            self.wipe(self.faults.random.random() < 0.5)
        self.faults.boundary(self.actor, label)


@dataclass(frozen=True, slots=True)
class _FaultyLease:
    """A lease that dies with its actor: a crashed process releases no locks."""

    inner: Lease
    coordinator: FaultyCoordinator

    @property
    def token(self) -> FencingToken:
        return self.inner.token

    @property
    def allocated(self) -> tuple[SegmentId, ...]:
        return self.inner.allocated

    @property
    def granted_at(self) -> Instant:
        return self.inner.granted_at

    @property
    def version(self) -> Instant | None:
        return self.inner.version

    @property
    def state(self) -> LeaseState:
        return self.inner.state

    def check(self) -> None:
        self.coordinator.boundary("before check")
        deaf = self.coordinator.faults.happens("deaf")
        blind = self.coordinator.faults.happens("blind")
        if not blind and not (deaf and self.inner.state is LeaseState.HELD):
            self.inner.check()  # else the client has not yet learned that its session is lost
        # A process may pause and lose its session between the check and the guarded put.
        self.coordinator.boundary("after check")

    def make_irrevocable(self) -> None:
        self.coordinator.boundary("before publish")
        if not self.coordinator.faults.happens("blind"):
            self.inner.make_irrevocable()  # the server decides, so no client is deaf to the outcome
        self.coordinator.boundary("after publish")

    def report(self, progress: Mapping[str, str]) -> None:
        self.coordinator.actor.require_alive()
        self.inner.report(progress)

    def release(self) -> None:
        self.coordinator.boundary("before release")
        self.inner.release()


@dataclass(frozen=True, slots=True)
class _FaultyClaim:
    """A claim that dies with its actor."""

    inner: Claim
    coordinator: FaultyCoordinator

    @property
    def number(self) -> int:
        return self.inner.number

    @property
    def state(self) -> LeaseState:
        return self.inner.state

    def update(self, content: Mapping[str, str]) -> None:
        self.coordinator.boundary("before update")
        self.inner.update(content)

    def release(self) -> None:
        self.coordinator.boundary("before release")
        self.inner.release()

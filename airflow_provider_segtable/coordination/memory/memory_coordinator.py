"""Coordination inside one process, for tests, simulation and single-process use.

1. Each ``MemoryCoordinator`` is one client of a ``MemoryService`` and owns one session at a time.
2. It is deterministic: no randomness, no clock but the given one, and it waits only by
   ``clock.sleep``, never inside the mutex. A simulation's clock controls every interleaving.
3. After a lost session the next call opens another; leases of the old one stay LOST.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from airflow_provider_segtable.coordination.memory.memory_claims import MemoryClaim
from airflow_provider_segtable.coordination.memory.memory_service import (
    Box,
    Held,
    MemoryService,
    Place,
    Session,
)
from airflow_provider_segtable.coordination.waiting import (
    WaitLog,
    refuse_paths,
    revoked_error,
    timed_out,
)
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, LockLost, LockRevoked
from airflow_provider_segtable.core.locks import FencingToken, Lock, LockRequest, in_turn
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.claims import Claimed, LeaseState
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.coordination import Overtaken, StrayNode

__all__ = ["MemoryCoordinator", "MemoryLease", "MemoryService", "Session"]

POLL_S = 0.01
UNAVAILABLE_AFTER_S = 15.0


class MemoryLease:
    """Lease of a grant; lives as long as its session."""

    def __init__(self, service: MemoryService, session: Session, table: str, lock: Lock) -> None:
        """Wrap a grant."""
        self._service = service
        self._session = session
        self._table = table
        self._lock = lock
        self._gone = lock.revoked is not None  # a repeated request may find its lock revoked
        self._revoked: LockRevoked | None = revoked_error(lock) if lock.revoked else None

    @property
    def token(self) -> FencingToken:
        """Return the fencing token of the grant."""
        return self._lock.token

    @property
    def allocated(self) -> tuple[SegmentId, ...]:
        """Return the new segment ids."""
        return self._lock.allocated

    @property
    def granted_at(self) -> Instant:
        """Return the server's clock at the grant."""
        return self._lock.since

    @property
    def version(self) -> Instant | None:
        """Return the new version, if one was requested."""
        return self._lock.version

    @property
    def state(self) -> LeaseState:
        """Return the client's view of the lease."""
        if self._gone or self._session.known_lost:
            return LeaseState.LOST
        return LeaseState.DOUBTFUL if self._session.suspended else LeaseState.HELD

    def check(self) -> None:
        """Ask the server; raise ``LockLost`` unless this lease still holds the lock."""
        with self._service.box(self._table) as box:
            self._ask(box)

    def publish(self) -> None:
        """Check the lock, and make it irrevocable from now on."""
        with self._service.box(self._table) as box:
            held = self._ask(box)
            held.lock = replace(held.lock, publishing=True)

    def _ask(self, box: Box) -> Held:
        held = None
        if self.state is LeaseState.HELD:
            held = self._held(box)
            self._gone = held is None
            self._session.known_lost = not self._session.alive
        if held is None or self.state is not LeaseState.HELD:
            raise self._revoked or LockLost(
                f"the lock of {self._lock.group} on table {self._table} is {self.state}: "
                "do not commit; run the plan again"
            )
        if held.lock.revoked:
            self._gone, self._revoked = True, revoked_error(held.lock)
            raise self._revoked
        return held

    def _held(self, box: Box) -> Held | None:
        held = box.held.get(self._lock.group)
        return held if held and held.lock.token == self._lock.token else None

    def report(self, progress: Mapping[str, str]) -> None:
        """Publish progress beside the lock."""
        with self._service.box(self._table) as box:
            held = self._held(box)
            if held and self.state is LeaseState.HELD:
                held.progress = dict(progress)

    def release(self) -> None:
        """Release the locks."""
        self._gone = True
        with self._service.box(self._table) as box:
            if self._held(box):
                del box.held[self._lock.group]


class MemoryCoordinator:
    """One client of a ``MemoryService``."""

    def __init__(self, clock: Clock, service: MemoryService, *, name: str = "memory") -> None:
        """Open a session at ``service``; all waiting goes through ``clock``."""
        self._clock = clock
        self._service = service
        self._name = name
        self._closed = False
        self._renewal = threading.Lock()
        self._session = service.open()

    @property
    def address(self) -> str:
        """Return ``memory://<name>``."""
        return f"memory://{self._name}"

    @property
    def session(self) -> Session:
        """Return the present session, for a simulation to break."""
        return self._session

    def acquire(self, request: LockRequest, *, wait_s: float) -> MemoryLease:
        """Grant ``request`` or raise ``LockTimeout``."""
        start = self._clock.monotonic()
        place: Place | None = None
        said = WaitLog(request, wait_s)
        try:
            while True:
                session = self._contact()
                now = self._service.time(self._clock)
                outcome = self._service.attempt(request, session, place, now)
                if outcome is None:
                    continue
                if isinstance(outcome, Held):
                    return MemoryLease(self._service, session, request.table, outcome.lock)
                waited_s = self._clock.monotonic() - start
                if waited_s >= wait_s:
                    raise timed_out(
                        request, outcome.on, address=self.address, now=now, waited_s=waited_s
                    )
                said.blocked(outcome.on, now=now, waited_s=waited_s)
                place = self._service.queue(request, session, place, now)
                self._clock.sleep(min(POLL_S, wait_s - waited_s))
        finally:
            with self._service.box(request.table) as box:
                if place in box.queue:
                    box.queue.remove(place)

    def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> MemoryLease:
        """Acquire the lock; it is not kept."""
        return self.acquire(request, wait_s=wait_s)

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks of a table, oldest first."""
        self._contact()
        with self._service.box(table) as box:
            return tuple(held.lock for held in box.held.values())

    def waiters(self, table: str) -> tuple[Lock, ...]:
        """Return the waiting requests, in the order in which they are served."""
        self._contact()
        with self._service.box(table) as box:
            return in_turn(place.lock for place in box.queue)

    def break_lock(self, table: str, group: str) -> bool:
        """Take a group's lock away from its holder; return False if it has none."""
        self._contact()
        with self._service.box(table) as box:
            return box.held.pop(group, None) is not None

    def strays(self, table: str) -> tuple[StrayNode, ...]:
        """Return an empty tuple: only this process writes here."""
        self._contact()
        with self._service.box(table):
            return ()

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return the last reported progress of live holders, by lock group."""
        self._contact()
        with self._service.box(table) as box:
            return {g: dict(held.progress) for g, held in box.held.items() if held.progress}

    def announce(self, table: str, n: int, _overtaken: Overtaken | None = None, /) -> None:
        """Announce to watchers that event ``n`` is in the log, at once, if connected."""
        if self._closed or self._session.suspended:
            return
        with self._service.box(table) as box:
            box.head = max(box.head, n)

    @contextmanager
    def commit_turn(self, table: str, *, wait_s: float) -> Iterator[None]:
        """Wait for this committer's turn, and hold it; a lost session loses its turns."""
        session, place = self._session, object()
        with self._service.box(table) as box:
            box.turns[place] = session
        try:
            deadline = self._clock.monotonic() + wait_s
            while session.alive and self._service.turn(table) is not place:
                if self._clock.monotonic() >= deadline:
                    break
                self._clock.sleep(POLL_S)
            yield
        finally:
            with self._service.box(table) as box:
                box.turns.pop(place, None)

    def wait_head(self, table: str, *, beyond: int, wait_s: float) -> int | None:
        """Wait until an event number above ``beyond`` is announced; None at the deadline."""
        deadline = self._clock.monotonic() + wait_s
        while True:
            self._contact()
            with self._service.box(table) as box:
                head = box.head
            if head > beyond:
                return head
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                return None
            self._clock.sleep(min(POLL_S, left_s))

    def claim(
        self, table: str, group: str, name: str, content: Mapping[str, str]
    ) -> MemoryClaim | None:
        """Claim a name of a group; None while another claim has it."""
        refuse_paths(group, name)
        while True:
            session = self._contact()
            now = self._service.time(self._clock)
            made = self._service.claim((table, group, name), content, session, now)
            if made:
                return MemoryClaim(self._service, session, (table, group), made)
            if session.alive:
                return None

    def claims(self, table: str, group: str) -> Mapping[str, Claimed]:
        """Return the live claims of a group, by name."""
        self._contact()
        with self._service.box(table) as box:
            held = box.claims.get(group, {})
            return {name: held[name].claimed for name in sorted(held)}

    def wait_claims(
        self, table: str, group: str, *, seen: Mapping[str, Claimed], wait_s: float
    ) -> Mapping[str, Claimed]:
        """Wait until the claims of a group differ from ``seen``, and return them."""
        deadline = self._clock.monotonic() + wait_s
        while True:
            found = self.claims(table, group)
            left_s = deadline - self._clock.monotonic()
            if found != seen or left_s <= 0:
                return found
            self._clock.sleep(min(POLL_S, left_s))

    def forget(self, table: str) -> None:
        """Delete the state of a table."""
        self._contact()
        self._service.forget(table)

    def close(self) -> None:
        """End the session with its locks, also a session that another thread is opening."""
        self._closed = True
        self._service.expire(self._session)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            self._service.expire(self._session)
            raise CoordinatorUnavailable(f"the client of {self.address} was closed: open it again")

    def _contact(self) -> Session:
        deadline = self._clock.monotonic() + UNAVAILABLE_AFTER_S
        while self._session.suspended:
            if self._clock.monotonic() >= deadline:
                raise CoordinatorUnavailable(
                    f"no coordinator answered at {self.address} for {UNAVAILABLE_AFTER_S:.0f} s: "
                    "try again"
                )
            self._clock.sleep(POLL_S)
        self._refuse_if_closed()
        with self._renewal:
            if not self._session.alive:
                self._session.known_lost = True
                self._session = self._service.open()
            self._refuse_if_closed()
            return self._session

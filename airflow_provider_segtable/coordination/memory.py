"""Coordination inside one process, for tests, simulation and single-process use.

1. ``MemoryService`` is the server: locks, queue, counters, heads, sessions, epoch. Each
   ``MemoryCoordinator`` is one client of it and owns one session at a time.
2. Deterministic: no randomness, no clock but the one given, and waiting is ``clock.sleep`` only,
   never inside the mutex. A simulation that owns the clock owns every interleaving.
3. What a client knows of its session differs from what the server knows: ``expire`` with
   ``told=False`` takes the locks away while the lease still says HELD, until the client's next
   contact. That is the paused process which wakes up late.
4. After a lost session the next call opens another; leases of the old one stay LOST.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from airflow_provider_segtable.coordination.waiting import place_in_queue, timed_out
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, LockLost
from airflow_provider_segtable.core.interval import Instant
from airflow_provider_segtable.core.lockbox import (
    AlreadyGranted,
    FencingToken,
    Generation,
    Granted,
    Lock,
    LockRequest,
    Waits,
    decide,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.coordination import LeaseState

POLL_S = 0.01
UNAVAILABLE_AFTER_S = 15.0


@dataclass(eq=False, slots=True)
class Session:
    """One client's session: ``alive`` is the server's view, the rest the client's."""

    number: int
    alive: bool = True
    suspended: bool = False
    known_lost: bool = False


@dataclass(eq=False, slots=True)
class _Held:
    lock: Lock
    session: Session
    progress: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Place:
    lock: Lock
    session: Session


@dataclass(eq=False, slots=True)
class _Box:
    """The server's state of one table."""

    held: dict[str, _Held] = field(default_factory=dict)
    queue: list[_Place] = field(default_factory=list)
    counters: dict[tuple[ChunkKey, Generation], int] = field(default_factory=dict)
    head: int = -1


class MemoryService:
    """The server that coordinators of one process share.

    Args:
        clock: the server's own clock; by default each request brings its client's.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Start empty, in epoch ``memory-1``."""
        self._clock = clock
        self._mutex = threading.RLock()
        self._boxes: dict[str, _Box] = {}
        self._sessions: list[Session] = []
        self._opened = 0
        self._epoch = 1
        self._grants = 0

    @property
    def epoch(self) -> str:
        """Return the epoch of the tokens handed out now."""
        return f"memory-{self._epoch}"

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Return the live sessions, oldest first."""
        with self._mutex:
            return tuple(self._sessions)

    def open(self) -> Session:
        """Open a session."""
        with self._mutex:
            self._opened += 1
            session = Session(self._opened)
            self._sessions.append(session)
            return session

    def expire(self, session: Session, *, told: bool = True) -> None:
        """End a session with its locks; with ``told=False`` its client does not know yet."""
        with self._mutex:
            session.alive = False
            if told:
                session.known_lost, session.suspended = True, False
            with suppress(ValueError):
                self._sessions.remove(session)
            for box in self._boxes.values():
                for group in [g for g, held in box.held.items() if held.session is session]:
                    del box.held[group]
                box.queue = [place for place in box.queue if place.session is not session]

    def suspend(self, session: Session) -> None:
        """Cut the client off: its leases become DOUBTFUL, its calls wait."""
        session.suspended = True

    def resume(self, session: Session) -> None:
        """Reconnect the client; it learns now whether its session survived."""
        session.suspended = False
        session.known_lost = session.known_lost or not session.alive

    def wipe(self, *, told: bool = True) -> None:
        """Lose everything: locks, counters, heads and sessions; another epoch begins."""
        with self._mutex:
            for session in tuple(self._sessions):
                self.expire(session, told=told)
            self._boxes.clear()
            self._epoch += 1
            self._grants = 0

    @contextmanager
    def box(self, table: str) -> Iterator[_Box]:
        """Yield the state of a table, alone."""
        with self._mutex:
            yield self._boxes.setdefault(table, _Box())

    def time(self, client: Clock) -> Instant:
        """Return the server's wall clock."""
        return (self._clock or client).now()

    def attempt(
        self, request: LockRequest, session: Session, place: _Place | None, now: Instant
    ) -> _Held | Waits | None:
        """Grant the request, say what is in the way, or None if the session has just ended."""
        with self.box(request.table) as box:
            if not session.alive:
                return None
            end = box.queue.index(place) if place in box.queue else len(box.queue)
            ahead = [other.lock for other in box.queue[:end]]
            held = [entry.lock for entry in box.held.values()]
            match decide(request, held + ahead, box.counters):
                case Granted(allocated=allocated, counters=counters):
                    box.counters.update(counters)
                    entry = _Held(self._lock(request, allocated, now), session)
                    box.held[request.group] = entry
                    return entry
                case AlreadyGranted(lock=lock):
                    mine = box.held.get(request.group)
                    if mine and mine.session is session:
                        return mine
                    return Waits(on=(lock,))
                case Waits() as waits:
                    return waits

    def _lock(self, request: LockRequest, allocated: tuple[SegmentId, ...], now: Instant) -> Lock:
        self._grants += 1
        return Lock(
            group=request.group,
            purpose=request.purpose,
            holder=request.holder,
            priority=request.priority,
            segments=request.segments,
            allocated=allocated,
            since=now,
            token=FencingToken(self.epoch, self._grants),
        )


class MemoryLease:
    """A grant, alive while its session is."""

    def __init__(self, service: MemoryService, session: Session, table: str, lock: Lock) -> None:
        """Wrap a grant."""
        self._service = service
        self._session = session
        self._table = table
        self._lock = lock
        self._gone = False

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
    def state(self) -> LeaseState:
        """Return what the client knows."""
        if self._gone or self._session.known_lost:
            return LeaseState.LOST
        return LeaseState.DOUBTFUL if self._session.suspended else LeaseState.HELD

    def check(self) -> None:
        """Ask the server; raise ``LockLost`` unless it still has the lock."""
        if self.state is LeaseState.HELD:
            with self._service.box(self._table) as box:
                held = box.held.get(self._lock.group)
                self._gone = held is None or held.lock is not self._lock
                self._session.known_lost = not self._session.alive
        if self.state is not LeaseState.HELD:
            raise LockLost(
                f"the lock of {self._lock.group} on table {self._table} is {self.state}: "
                "do not commit; run the plan again"
            )

    def report(self, progress: Mapping[str, str]) -> None:
        """Publish progress beside the lock."""
        with self._service.box(self._table) as box:
            held = box.held.get(self._lock.group)
            if held and held.lock is self._lock and self.state is LeaseState.HELD:
                held.progress = dict(progress)

    def release(self) -> None:
        """Give the locks back."""
        self._gone = True
        with self._service.box(self._table) as box:
            held = box.held.get(self._lock.group)
            if held and held.lock is self._lock:
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
        place: _Place | None = None
        try:
            while True:
                session = self._contact()
                now = self._service.time(self._clock)
                outcome = self._service.attempt(request, session, place, now)
                if outcome is None:
                    continue
                if isinstance(outcome, _Held):
                    return MemoryLease(self._service, session, request.table, outcome.lock)
                waited_s = self._clock.monotonic() - start
                if waited_s >= wait_s:
                    raise timed_out(
                        request, outcome.on, address=self.address, now=now, waited_s=waited_s
                    )
                place = self._queue(request, session, place, now)
                self._clock.sleep(min(POLL_S, wait_s - waited_s))
        finally:
            with self._service.box(request.table) as box:
                if place in box.queue:
                    box.queue.remove(place)

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks of a table, oldest first."""
        self._contact()
        with self._service.box(table) as box:
            return tuple(held.lock for held in box.held.values())

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return what live holders last reported, by lock group."""
        self._contact()
        with self._service.box(table) as box:
            return {g: dict(held.progress) for g, held in box.held.items() if held.progress}

    def announce(self, table: str, n: int) -> None:
        """Tell watchers that event ``n`` is in the log, if connected."""
        if self._closed or self._session.suspended:
            return
        with self._service.box(table) as box:
            box.head = max(box.head, n)

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

    def close(self) -> None:
        """End the session with its locks."""
        self._closed = True
        self._service.expire(self._session)

    def _contact(self) -> Session:
        deadline = self._clock.monotonic() + UNAVAILABLE_AFTER_S
        while self._session.suspended:
            if self._clock.monotonic() >= deadline:
                raise CoordinatorUnavailable(
                    f"no coordinator answers at {self.address} for {UNAVAILABLE_AFTER_S:.0f} s"
                )
            self._clock.sleep(POLL_S)
        if self._closed:
            raise CoordinatorUnavailable(f"{self.address} was closed here: open it again")
        with self._renewal:
            if not self._session.alive:
                self._session.known_lost = True
                self._session = self._service.open()
            return self._session

    def _queue(
        self, request: LockRequest, session: Session, place: _Place | None, now: Instant
    ) -> _Place:
        with self._service.box(request.table) as box:
            if place is None or place not in box.queue:
                place = _Place(place_in_queue(request, now), session)
                box.queue.append(place)
            return place

"""Coordination inside one process, for tests, simulation and single-process use.

1. ``MemoryService`` is the server: locks, queue, counters, heads, sessions, epoch.
2. Each ``MemoryCoordinator`` is one client of a service and owns one session at a time. After a
   lost session the next call opens another; leases of the old one stay LOST.
3. It is deterministic: no randomness, no clock but the given one, and it waits only by
   ``clock.sleep``, never inside the mutex. A simulation's clock controls every interleaving.
4. Every step is one critical section, so a grant with its revocations and ids is atomic.
5. The client's view of its session may differ from the server's: ``expire`` with ``notice=False``
   ends the locks while the lease still shows HELD, until the client's next contact. That models a
   paused process which wakes up late.
6. A claim lives as long as its session.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import count

from airflow_provider_segtable.coordination.waiting import (
    WaitLog,
    overtakers,
    place_in_queue,
    refuse_paths,
    revoked_error,
    timed_out,
)
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    InvalidInput,
    LockLost,
    LockRevoked,
)
from airflow_provider_segtable.core.locks import (
    AlreadyGranted,
    FencingToken,
    Generation,
    Granted,
    Lock,
    LockRequest,
    Refused,
    Revokes,
    Waits,
    ahead,
    decide,
    in_turn,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.ports.coordination import Claimed, LeaseState, Overtaken, StrayNode


@dataclass(eq=False, slots=True)
class Session:
    """One client's session: ``alive`` is the server's view, the rest the client's."""

    number: int
    alive: bool = True
    suspended: bool = False
    known_lost: bool = False

    @property
    def state(self) -> LeaseState:
        """Return the client's view of what it holds."""
        if self.known_lost:
            return LeaseState.LOST
        return LeaseState.DOUBTFUL if self.suspended else LeaseState.HELD


@dataclass(eq=False, slots=True)
class Held:
    """A grant, with the session that owns it."""

    lock: Lock
    session: Session
    progress: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Place:
    """A waiting request; ``lock.yields`` grows as others overtake it."""

    lock: Lock
    session: Session
    overtaken_by: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class HeldClaim:
    """A claim, with the session that owns it."""

    claimed: Claimed
    session: Session


@dataclass(eq=False, slots=True)
class Box:
    """The server's state of one table."""

    held: dict[str, Held] = field(default_factory=dict)
    queue: list[Place] = field(default_factory=list)
    counters: dict[tuple[ChunkKey, Generation], int] = field(default_factory=dict)
    last_version: Instant = 0
    head: int = -1
    turns: dict[object, Session] = field(default_factory=dict)
    claims: dict[str, dict[str, "HeldClaim"]] = field(default_factory=dict)

    @property
    def used(self) -> bool:
        """Return whether the box has any content."""
        numbers = self.counters or self.last_version or self.head >= 0
        claims = any(self.claims.values())
        return bool(self.held or self.queue or self.turns or claims or numbers)


class MemoryService:
    """The server shared by the coordinators of one process.

    Args:
        clock: the server's clock; by default each request uses its client's.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """Start without locks, in epoch ``memory-1``."""
        self._clock = clock
        self._mutex = threading.RLock()
        self._boxes: dict[str, Box] = {}
        self._sessions: list[Session] = []
        self._opened = 0
        self._epoch = 1
        self._grants = 0
        self._claims = count(1)  # not begun anew by a wipe: a number names one claim

    @property
    def epoch(self) -> str:
        """Return the epoch of new tokens."""
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

    def turn(self, table: str) -> object:
        """Return the first place of a live session in the queue of committers."""
        with self._mutex:
            turns = self._boxes.get(table, Box()).turns
            return next((place for place, session in turns.items() if session.alive), None)

    def expire(self, session: Session, *, notice: bool = True) -> None:
        """End a session with its locks; with ``notice=False`` without notice to its client."""
        with self._mutex:
            session.alive = False
            if notice:
                session.known_lost, session.suspended = True, False
            with suppress(ValueError):
                self._sessions.remove(session)
            for box in self._boxes.values():
                for group in [g for g, held in box.held.items() if held.session is session]:
                    del box.held[group]
                box.queue = [place for place in box.queue if place.session is not session]
                for claims in box.claims.values():
                    for name in [n for n, held in claims.items() if held.session is session]:
                        del claims[name]

    def suspend(self, session: Session) -> None:
        """Cut the client off: its leases become DOUBTFUL, its calls wait."""
        session.suspended = True

    def resume(self, session: Session) -> None:
        """Reconnect the client and inform it whether its session survived."""
        session.suspended = False
        session.known_lost = session.known_lost or not session.alive

    def wipe(self, *, notice: bool = True) -> None:
        """Delete all locks, counters, heads and sessions, and begin another epoch."""
        with self._mutex:
            for session in tuple(self._sessions):
                self.expire(session, notice=notice)
            self._boxes.clear()
            self._epoch += 1
            self._grants = 0

    def forget(self, table: str) -> None:
        """Delete the state of a table."""
        with self._mutex:
            self._boxes.pop(table, None)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that have a state."""
        with self._mutex:
            return tuple(self._boxes)

    @contextmanager
    def box(self, table: str) -> Iterator[Box]:
        """Yield the state of a table, inside the mutex; a table without any has no box."""
        with self._mutex:
            box = self._boxes.setdefault(table, Box())
            yield box
            if not box.used:
                self._boxes.pop(table, None)

    def claim(
        self, at: tuple[str, str, str], content: Mapping[str, str], session: Session, now: Instant
    ) -> Claimed | None:
        """Return a new claim of a session; None if the name is held, or the session has ended."""
        table, group, name = at
        with self.box(table) as box:
            held = box.claims.setdefault(group, {})
            if name in held or not session.alive:
                return None
            number = next(self._claims)
            made = Claimed(name=name, number=number, content=dict(content), since=now)
            held[name] = HeldClaim(made, session)
            return made

    def heads(self, tables: Iterable[str]) -> dict[str, int]:
        """Return the newest announced event of each table; -1 without one."""
        with self._mutex:
            return {table: self._boxes.get(table, Box()).head for table in tables}

    def time(self, client: Clock) -> Instant:
        """Return the server's wall clock."""
        return (self._clock or client).now()

    def attempt(
        self, request: LockRequest, session: Session, place: Place | None, now: Instant
    ) -> Held | Waits | None:
        """Grant the request, or return its blockers, or None if the session has just ended."""
        with self.box(request.table) as box:
            if not session.alive:
                return None
            mine = box.queue.index(place) if place in box.queue else None
            if place:
                request = replace(request, yields=place.lock.yields)
            before = ahead(request, [each.lock for each in box.queue], mine)
            held = [entry.lock for entry in box.held.values()]
            decision = decide(
                request, held + before, box.counters, now=now, last_version=box.last_version
            )
            match decision:
                case Granted():
                    return self._grant(box, request, session, decision, now)
                case Revokes(whom=whom, granted=granted):
                    for lock in whom:
                        box.held[lock.group].lock = lock
                    return self._grant(box, request, session, granted, now)
                case AlreadyGranted(lock=lock):
                    entry = box.held[request.group]
                    return entry if entry.session is session else Waits(on=(lock,))
                case Refused(why=why):
                    raise InvalidInput(why)
                case Waits(on=on):
                    if place:
                        self._note_overtakers(place, on)
                    return decision

    def queue(
        self, request: LockRequest, session: Session, place: Place | None, now: Instant
    ) -> Place:
        """Return the request's place, at the end of the queue if it is new."""
        with self.box(request.table) as box:
            if place is None or place not in box.queue:
                lock = place_in_queue(request, now, FencingToken(self.epoch, self._grants))
                if place:  # its place was lost with a session: keep its yields
                    lock = replace(lock, yields=place.lock.yields)
                place = Place(lock, session)
                box.queue.append(place)
            return place

    def _grant(
        self, box: Box, request: LockRequest, session: Session, granted: Granted, now: Instant
    ) -> Held:
        self._grants += 1
        box.counters.update(granted.counters)
        box.last_version = granted.version or box.last_version
        token = FencingToken(self.epoch, self._grants)
        lock = replace(
            place_in_queue(request, now, token),
            allocated=granted.allocated,
            version=granted.version,
            waiting=False,
            chunks=(),
        )
        box.held[request.group] = Held(lock, session)
        return box.held[request.group]

    def _note_overtakers(self, place: Place, on: tuple[Lock, ...]) -> None:
        new = overtakers(place.lock, on) - place.overtaken_by
        place.overtaken_by |= new
        place.lock = replace(place.lock, yields=place.lock.yields + len(new))


class MemoryClaim:
    """A claim of a session."""

    def __init__(
        self, service: MemoryService, session: Session, at: tuple[str, str], claimed: Claimed
    ) -> None:
        """Wrap a claim; ``at`` is its table and group."""
        self._service = service
        self._session = session
        self._table, self._group = at
        self._name = claimed.name
        self._gone = False
        self.number = claimed.number

    @property
    def state(self) -> LeaseState:
        """Return the client's view of the claim."""
        return LeaseState.LOST if self._gone else self._session.state

    def update(self, content: Mapping[str, str]) -> None:
        """Replace the content; raise ``LockLost`` unless the claim is held."""
        with self._service.box(self._table) as box:
            held = None
            if self.state is LeaseState.HELD:
                held = self._held(box.claims.get(self._group, {}))
                self._gone = held is None
            if held is None:
                raise LockLost(
                    f"the claim of {self._group}/{self._name} on table {self._table} is "
                    f"{self.state}: claim it again"
                )
            held.claimed = replace(held.claimed, content=dict(content))

    def release(self) -> None:
        """End the claim."""
        self._gone = True
        with self._service.box(self._table) as box, suppress(KeyError):
            if self._held(box.claims[self._group]):
                del box.claims[self._group][self._name]

    def _held(self, group: Mapping[str, HeldClaim]) -> HeldClaim | None:
        held = group.get(self._name)
        return held if held and held.claimed.number == self.number else None


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
        return LeaseState.LOST if self._gone else self._session.state

    def check(self) -> None:
        """Ask the server; raise ``LockLost`` unless this lease still holds the lock."""
        with self._service.box(self._table) as box:
            self._ask(box)

    def make_irrevocable(self) -> None:
        """Check the lock, and make it irrevocable from now on."""
        with self._service.box(self._table) as box:
            held = self._ask(box)
            held.lock = replace(held.lock, irrevocable=True)

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

    def wait_heads(
        self, tables: Collection[str], *, seen: Mapping[str, int], wait_s: float
    ) -> Mapping[str, int]:
        """Wait until announced events of tables differ from ``seen``, and return these events."""
        deadline = self._clock.monotonic() + wait_s
        while True:
            self._contact()
            heads = self._service.heads(tables)
            found = {table: n for table, n in heads.items() if seen.get(table) != n}
            left_s = deadline - self._clock.monotonic()
            if found or left_s <= 0:
                return found
            self._clock.sleep(min(POLL_S, left_s))

    def heads(self, tables: Collection[str]) -> Mapping[str, int]:
        """Return the newest announced event of each table that has one."""
        self._contact()
        return {table: n for table, n in self._service.heads(tables).items() if n >= 0}

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

    def tables_with_claims(self, tables: Collection[str], group: str) -> Collection[str]:
        """Return the tables in which a name of a group is claimed."""
        return [table for table in tables if self.claims(table, group)]

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

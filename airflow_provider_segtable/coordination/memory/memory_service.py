"""The server side of coordination inside one process, used by ``MemoryCoordinator``.

1. ``MemoryService`` is the server: locks, queue, counters, heads, sessions, epoch.
2. Every step is one critical section, so a grant with its revocations and ids is atomic.
3. The client's view of its session may differ from the server's: ``expire`` with ``told=False``
   ends the locks while the lease still shows HELD, until the client's next contact. That models a
   paused process which wakes up late.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from airflow_provider_segtable.coordination.waiting import overtakers, place_in_queue
from airflow_provider_segtable.core.errors import InvalidInput
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
)
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.claims import Claimed
from airflow_provider_segtable.ports.clock import Clock


@dataclass(eq=False, slots=True)
class Session:
    """One client's session: ``alive`` is the server's view, the rest the client's."""

    number: int
    alive: bool = True
    suspended: bool = False
    known_lost: bool = False


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
        """Return whether there is anything to remember."""
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

    def expire(self, session: Session, *, told: bool = True) -> None:
        """End a session with its locks; with ``told=False`` without notice to its client."""
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

    def wipe(self, *, told: bool = True) -> None:
        """Delete all locks, counters, heads and sessions, and begin another epoch."""
        with self._mutex:
            for session in tuple(self._sessions):
                self.expire(session, told=told)
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

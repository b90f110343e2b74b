"""The queue in front of a table's commits in this process: one thread puts for those that wait.

1. The first thread *leads*: it makes the attempt, for itself and for all who wait by then, at most
   ``MOST_JOINED`` changes. Threads that come meanwhile wait. When an attempt is over, its members
   go on, each with its own outcome, and the thread that has waited longest leads next.
2. A change whose event has a file of its own (``core.log.joint_file``) waits until it leads.
3. A thread waits for as long as its own put might take: until the leader's attempt is over. A
   leader that dies by an exception frees all its members; what its put did, the log tells.
4. A leader whose put lost a race goes on leading until its change is over (``leave``), so that one
   thread of a process queues up at the coordinator for all of them.
5. A queue belongs to one process. A forked child begins with an empty one.
6. A leader *gathers* right after an attempt of several threads: until as many wait as there were
   before, and no longer than ``GATHER_SHARE`` of the time that the attempt took. Without it its
   members, which come back with their next changes, would find the next put under way, and two
   halves of the writers would take turns.
7. A single writer pays two uncontended locks, and never gathers.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.events import MOST_JOINED
from airflow_provider_segtable.ports.clock import Clock

GATHER_SHARE = 0.25
LOOKS = 8
"""How often a leader looks who has come while it gathers."""


class Signal(Protocol):
    """Wakes one waiting thread; ``threading.Event`` is one."""

    def set(self) -> None:
        """Wake the thread that waits, now or later."""
        ...

    def wait(self) -> object:
        """Wait until ``set`` was called."""
        ...


class Member(Protocol):
    """A change that is committed in turn."""

    @property
    def joins(self) -> bool:
        """Return whether its event may share a file with others."""
        ...

    def wait_durable(self) -> None:
        """Wait until the files that the change names are durable; may raise."""
        ...


M = TypeVar("M", bound=Member)


@dataclass(eq=False, slots=True)
class _Place:
    """The place of one change in the queue; it ``leads``, or its attempt is ``over``."""

    member: Any
    signal: Signal
    leads: bool = False
    over: bool = False


@dataclass(eq=False, slots=True)
class CommitQueue:
    """See the module; ``signal`` makes what a thread waits for."""

    signal: Callable[[], Signal] = threading.Event
    _pid: int = field(default_factory=os.getpid)
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _leader: Member | None = None
    _active: int = 1
    _gather_s: float = 0.0
    _ended_s: float = 0.0
    _waiting: deque[_Place] = field(default_factory=deque)

    def attempt(self, member: M, put: Callable[[Sequence[M]], bool], clock: Clock) -> None:
        """Have a change attempted: ``put`` is called here, or the change is put by another thread.

        Args:
            member: the change.
            put: attempts several changes, the given one first, and notes the outcome of each;
                returns whether the first one goes on leading.
            clock: measures attempts, and pauses.
        """
        if self._pid != os.getpid():
            self._pid, self._mutex = os.getpid(), threading.Lock()
            self._leader, self._waiting = None, deque()
        place = _Place(member, self.signal())
        if not self._leads(place):
            member.wait_durable()
            if not self._leads(place, waits=True):
                self._wait(place)
        if place.over:
            return
        places, stays = [place], False
        try:
            if self._active > 1 and member.joins:
                self._gather(clock)
            begun_s = clock.monotonic()
            places += self._taken() if member.joins else []
            stays = put([each.member for each in places])
            self._ended_s = clock.monotonic()
            self._gather_s = (self._ended_s - begun_s) * GATHER_SHARE
            self._active = len(places) + len(self._waiting)
        finally:
            for each in places:
                each.over = True
                each.signal.set()
            if not stays:
                self.leave(member)

    def leave(self, member: Member) -> None:
        """Let the change that has waited longest lead, if the given one leads."""
        with self._mutex:
            if self._leader is not member:
                return
            following = self._waiting.popleft() if self._waiting else None
            self._leader = following.member if following else None
            if following is not None:
                following.leads = True
                following.signal.set()

    def _leads(self, place: _Place, *, waits: bool = False) -> bool:
        """Return whether the change leads; if not, it waits, if it is to."""
        with self._mutex:
            if self._leader is None or self._leader is place.member:
                self._leader, place.leads = place.member, True
            elif waits:
                self._waiting.append(place)
            return place.leads

    def _wait(self, place: _Place) -> None:
        """Wait until the change leads or is over; one that is interrupted gives up its place."""
        try:
            while not (place.leads or place.over):
                place.signal.wait()
        except BaseException:
            with self._mutex:
                if place in self._waiting:
                    self._waiting.remove(place)
            self.leave(place.member)
            raise

    def _gather(self, clock: Clock) -> None:
        """Wait for the members of the last attempt (rule 6)."""
        for _ in range(LOOKS):
            left_s = self._ended_s + self._gather_s - clock.monotonic()
            if left_s <= 0 or len(self._waiting) + 1 >= self._active:
                return
            clock.sleep(min(left_s, self._gather_s / LOOKS))

    def _taken(self) -> list[_Place]:
        """Take the waiting changes that may share a file."""
        with self._mutex:
            found = [each for each in self._waiting if each.member.joins][: MOST_JOINED - 1]
            for each in found:
                self._waiting.remove(each)
            return found

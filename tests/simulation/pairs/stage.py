"""Tables in memory, and the storage that holds an action before one of its effects.

1. An action's effects are the objects that it creates, replaces and deletes, in order; the events
   among them are named by their kinds. To hold it before an effect is to let another action run
   from there to its end, in another process's ports, which have read nothing yet.
2. So no thread and no clock decides anything. Whoever waits, moves the clock on.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.log.events import Event, decode
from airflow_provider_segtable.core.log.log_paths import TIMELINE, number
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.ports.storage import Entry, Storage, Turn
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from tests.support.clock import FakeClock, FakeRandomness
from tests.support.rooted import RootedFiles

LEAP_S = 2.0


class LeapingClock(FakeClock):
    """A clock that whoever waits moves on by seconds, so that no wait takes many turns."""

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.advance(max(seconds, LEAP_S))


@dataclass(slots=True)
class HeldStorage:
    """A storage that notes effects, and calls ``meanwhile`` once, before effect ``at``.

    Of an action that ``reads`` alone, the effects are what it lists and reads.
    """

    inner: Storage
    at: int = -1
    meanwhile: Callable[[], None] = lambda: None
    effects: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    reads: bool = False

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self.inner.uri

    @property
    def remote(self) -> bool:
        """Return whether a request costs a round trip."""
        return self.inner.remote

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        if self.reads:
            self._before(_label("read", path, b""))
        return self.inner.read(path)

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        if self.reads:
            self._before(_label("exists", path, b""))
        return self.inner.exists(path)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object."""
        if ready is not None:
            ready()
        if TIMELINE in path and number(path) is not None:
            self.events.append(decode(data, path))
        self._before(_label("create", path, data))
        self.inner.create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Overwrite a hint."""
        self._before(_label("replace", path, data))
        self.inner.replace(path, data)

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._before(_label("delete", path, b""))
        self.inner.delete(path)

    def flush(self, prefix: str) -> None:
        """Settle nothing."""
        self.inner.flush(prefix)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder."""
        if self.reads:
            self._before(_label("list", prefix, b""))
        return self.inner.list(prefix, after=after)

    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> AbstractContextManager[Turn]:
        """Take a turn."""
        return self.inner.turn(prefix, wait_s=wait_s, offer=offer)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Name folders."""
        return self.inner.folders(prefix)

    def prune(self, prefix: str) -> None:
        """Remove empty folders."""
        self.inner.prune(prefix)

    def _before(self, effect: str) -> None:
        self.effects.append(effect)
        if len(self.effects) - 1 == self.at:
            self.meanwhile()


def _label(what: str, path: str, data: bytes) -> str:
    """Return what an effect does: an event by its kind, anything else by its folder."""
    if path.startswith(f"{TIMELINE}/") and number(path) is not None and what == "create":
        return decode(data, path).kind
    return f"{what} {path.split('/', maxsplit=1)[0]}"


def points(effects: list[str]) -> dict[str, int]:
    """Return before which effects an action is held: the first and the last of each kind.

    Hints and the marks by which clocks are compared are left out: nobody goes by them.
    """
    found: dict[str, int] = {}
    for at, effect in enumerate(effects):
        if effect not in _HINTS:
            found.setdefault(f"before {effect}", at)
    for at, effect in enumerate(effects):
        if effects.count(effect) > 1 and effect not in (*effects[at + 1 :], *_HINTS):
            found[f"before the last {effect}"] = at
    return found


_HINTS = ("replace _segtable", "delete _segtable")


@dataclass(slots=True)
class Stage:
    """One table, with the storage, the time and the coordination that its processes share."""

    storage: MemoryStorage
    clock: LeapingClock
    service: MemoryService
    seeds: Iterator[int]

    @staticmethod
    def empty() -> "Stage":
        """Return a stage without a table."""
        clock = LeapingClock()
        return Stage(MemoryStorage(clock=clock), clock, MemoryService(clock), iter(range(1, 1000)))

    def copied(self) -> "Stage":
        """Return a stage of its own, an hour later; nobody holds a lock there."""
        clock = LeapingClock(self.clock.now() + HOUR_US)
        storage = MemoryStorage(clock=clock)
        storage._objects = copy(self.storage._objects)
        return Stage(storage, clock, MemoryService(clock), iter(range(1000, 2000)))

    def ports(self, author: str, held: HeldStorage | None = None) -> TableContext:
        """Return the ports of a new process."""
        storage = held or self.storage
        return TableContext(
            uri="memory://pairs",
            storage=storage,
            files=RootedFiles(storage),
            clock=self.clock,
            randomness=FakeRandomness(next(self.seeds)),
            author=author,
            optional_coordinator=MemoryCoordinator(self.clock, self.service),
        )

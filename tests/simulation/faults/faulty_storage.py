"""Ports with faults: delays, lost replies, errors, crashes before and after each effect.

1. Each call has two boundaries, *before* and *after* its effect. The actor yields at both, so the
   seed decides what other actors do in between.
2. A seed switches whole classes of faults on or off (swarm testing): a run with lost replies only
   goes deeper than a run with a few faults of each class.
3. ``crash_at`` kills at one numbered boundary instead, so that a test can enumerate them all.
4. A request with a lost reply took effect, or never does, or *will*: it is still in transit and
   lands later, perhaps after its sender died or went on.
5. A dead process has no effects: each of its calls raises ``Crash`` again.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NoReturn, TypeVar

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    OutcomeUnknown,
    StorageError,
)
from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source
from airflow_provider_segtable.ports.storage import Entry, Storage, Turn
from tests.simulation.simulator import Actor

if TYPE_CHECKING:
    from tests.simulation.faults.host_turns import Host

T = TypeVar("T")


@dataclass(slots=True)
class Faults:
    """Fault rates; shared by all ports of all actors of one simulation.

    Rates are probabilities per call. ``deaf``: the client has not yet learned that its lock is
    lost; ``blind``: the coordinator still reports it as held. ``clock``: a wall clock is set to a
    wrong or the right time; not in a swarm. ``crash_at`` is a boundary number; ``stop`` ends all.
    """

    random: Random
    delay: float = 0.0
    error: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    false_exists: float = 0.0
    crash: float = 0.0
    expiry: float = 0.0
    wipe: float = 0.0
    deaf: float = 0.0
    blind: float = 0.0
    suspension: float = 0.0
    clock: float = 0.0
    crash_at: int | None = None
    boundaries: int = 0
    injected: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def swarm(random: Random) -> "Faults":
        """Switch each class on with even odds, at a rate drawn from the seed."""
        faults = Faults(random=random)
        for name, most in _MOST.items():
            setattr(faults, name, random.choice((0.0, random.uniform(0.0, most))))
        return faults

    def stop(self) -> None:
        """End all faults, so that the system can be seen to recover."""
        for name in (*_MOST, "clock"):
            setattr(self, name, 0.0)
        self.crash_at = None

    def happens(self, name: str) -> bool:
        """Decide whether a fault of this class occurs now, and count it."""
        struck = bool(self.random.random() < getattr(self, name))
        if struck:
            self.injected[name] = self.injected.get(name, 0) + 1
        return struck

    def boundary(self, actor: Actor, label: str) -> None:
        """Yield to other actors, maybe for long; maybe crash."""
        actor.require_alive()
        self.boundaries += 1
        number = self.boundaries  # other actors may pass boundaries while this one waits
        if not self.clock:
            actor.wrong_us = 0
        elif self.happens("clock"):
            actor.wrong_us = self.random.choice(CLOCKS_US)
        if self.happens("delay"):
            actor.sleep(self.random.choice((0.05, 1.0, 30.0)))
        else:
            actor.point(label)
        if number == self.crash_at or self.happens("crash"):
            actor.crash()

    def call(self, actor: Actor, label: str, effect: Callable[[], T]) -> T:
        """Perform an effect between its two boundaries."""
        self.boundary(actor, f"before {label}")
        if self.happens("error"):
            raise StorageError(f"{label}: injected error")
        result = effect()
        self.boundary(actor, f"after {label}")
        return result

    def change(self, actor: Actor, label: str, effect: Callable[[], T]) -> T:
        """Perform an effect; its success may be reported as an error."""
        result = self.call(actor, label, effect)
        if self.happens("lost_reply"):
            raise StorageError(f"{label}: injected error after the effect")
        return result

    def later(self, actor: Actor, label: str, effect: Callable[[], None]) -> None:
        """Perform an effect later, even if its sender has died by then."""
        delay_s = self.random.choice(LATE_S)

        def arrive(request: Actor) -> None:
            request.sleep(delay_s)
            request.point(f"late {label}")
            effect()

        actor.simulation.spawn(f"request of {actor.name}.{actor.incarnation}", arrive)


LATE_S = (0.001, 0.05, 1.0, 30.0)
CLOCKS_US = (0, 2_302_128_000_000_000, -86_400_000_000)  # right, 73 years ahead, a day behind
_MOST: Mapping[str, float] = {
    "delay": 0.05,
    "error": 0.03,
    "lost_reply": 0.2,
    "late": 0.1,
    "false_exists": 0.1,
    "crash": 0.01,
    "expiry": 0.02,
    "wipe": 0.005,
    "deaf": 0.5,
    "blind": 0.3,
    "suspension": 0.02,
}


@dataclass(frozen=True, slots=True)
class FaultyStorage:
    """A ``Storage`` with faults; ``host`` has the turns of the actor's host."""

    inner: Storage
    actor: Actor
    faults: Faults
    host: "Host | None" = None

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self.inner.uri

    @property
    def remote(self) -> bool:
        """Return whether a request costs a round trip."""
        return self.inner.remote

    def read(self, path: str) -> bytes:
        """Return an object's bytes, or fail."""
        return self.faults.call(self.actor, f"read {path}", lambda: self.inner.read(path))

    def exists(self, path: str) -> bool:
        """Look at an object, or fail."""
        return self.faults.call(self.actor, f"exists {path}", lambda: self.inner.exists(path))

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object; the reply may be lost, the effect missing or delayed."""
        if ready is not None:
            ready()
        if self.faults.happens("late"):
            self._lose_reply(path, "late", lambda: self._late(path, data))
        if self.faults.happens("lost_reply"):
            lands = self.faults.random.random() < 0.5
            self._lose_reply(path, "lost", lambda: self._quietly(path, data) if lands else None)
        self.faults.call(self.actor, f"create {path}", lambda: self.inner.create(path, data))
        if self.faults.happens("false_exists"):
            raise AlreadyExists(f"{path}: injected answer to one's own first attempt")

    def replace(self, path: str, data: bytes) -> None:
        """Overwrite a hint, or fail."""
        self.faults.change(self.actor, f"replace {path}", lambda: self.inner.replace(path, data))

    def flush(self, prefix: str) -> None:
        """Settle without a boundary: writes are durable here."""
        self.actor.require_alive()
        self.inner.flush(prefix)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """List objects, or fail."""
        yield from self.faults.call(
            self.actor, f"list {prefix}", lambda: tuple(self.inner.list(prefix, after=after))
        )

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Name folders, or fail."""
        return self.faults.call(self.actor, f"folders {prefix}", lambda: self.inner.folders(prefix))

    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> AbstractContextManager[Turn]:
        """Take a turn on the actor's host, if it is on one."""
        if self.host is None or prefix != TIMELINE:
            return self.inner.turn(prefix, wait_s=wait_s, offer=offer)
        return self.host.turn(self.actor, self.faults, wait_s, offer)

    def prune(self, prefix: str) -> None:
        """Remove empty folders without a boundary: there are none in memory."""
        self.actor.require_alive()
        self.inner.prune(prefix)

    def delete(self, path: str) -> None:
        """Delete an object, or fail."""
        self.faults.change(self.actor, f"delete {path}", lambda: self.inner.delete(path))

    def _lose_reply(self, path: str, how: str, effect: Callable[[], None]) -> NoReturn:
        self.faults.call(self.actor, f"create {path} ({how})", effect)
        raise OutcomeUnknown(f"{path}: injected lost reply ({how})")

    def _late(self, path: str, data: bytes) -> None:
        self.faults.later(self.actor, f"create {path}", lambda: self._quietly(path, data))

    def _quietly(self, path: str, data: bytes) -> None:
        with suppress(AlreadyExists):
            self.inner.create(path, data)


@dataclass(frozen=True, slots=True)
class FaultyFiles:
    """``DataFiles`` with faults around open, create, commit and delete."""

    inner: DataFiles
    actor: Actor
    faults: Faults

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file, or fail."""
        self.faults.call(self.actor, f"open {_plain(path)}", lambda: None)
        with self.inner.open(path) as source:
            yield source

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a file, or fail; its commit may fail before or after its effect."""
        self.faults.call(self.actor, f"start {_plain(path)}", lambda: None)
        with self.inner.create(path) as sink:
            yield _FaultySink(sink, self.actor, self.faults)

    def delete(self, path: str) -> None:
        """Delete a file, or fail."""
        self.faults.change(self.actor, f"delete {_plain(path)}", lambda: self.inner.delete(path))


@dataclass(frozen=True, slots=True)
class _FaultySink:
    inner: Sink
    actor: Actor
    faults: Faults

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def position(self) -> int:
        return self.inner.position

    def write(self, data: bytes) -> None:
        self._middle("write")
        self.inner.write(data)

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        self._middle("copy")
        self.inner.copy_from(source, offset, length)

    def commit(self) -> None:
        self.faults.change(self.actor, f"publish {_plain(self.path)}", self.inner.commit)

    def begin_commit(self, threads: Executor) -> None:
        del threads
        self.commit()

    def _middle(self, what: str) -> None:
        """Maybe fail or crash half way; an uncommitted file stays invisible."""
        self.faults.boundary(self.actor, f"{what} {_plain(self.path)}")
        if self.faults.happens("error"):
            raise StorageError(f"{what} {self.path}: injected error")


def _plain(path: str) -> str:
    """Return a data file's path without the token that kernels draw from the real system."""
    return path.rsplit("-", 1)[0]

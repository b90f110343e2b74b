"""A deterministic world: several actors, one seed, virtual time, crashes.

1. Actors are ordinary synchronous functions over ports, each on a greenlet of its own. Exactly one
   runs at a time; it gives way at every ``point`` (before and after each I/O of a faulty port) and
   when it sleeps. Which ready actor goes on is chosen by the seed: equal seeds, equal traces.
2. Time is virtual. It moves when every actor sleeps, to the earliest awakening; each clock may be
   skewed. Nothing ever really waits.
3. A crash is ``Crash`` (a ``BaseException``) raised at a point. From then on every point of that
   incarnation raises it again, so clean-up code reaches no storage and no coordinator, as after
   SIGKILL. The actor then starts anew, with nothing but what is on storage.
4. A ``Process`` has several actors as its threads. A crash of one is a crash of all: the others
   have no effect any more, and start anew, too.
5. An actor that raises anything else fails the simulation. So does a simulation that takes more
   steps than allowed: something livelocks. Either error carries the seed and the trace's end.
"""

import hashlib
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_segtable.core.time import Instant

STEP_US = 100
LONG_S = 1e6
"""Longer than any simulation."""
TAIL = 20


class Crash(BaseException):
    """The process of an actor is gone."""


@dataclass(eq=False, slots=True)
class Actor:
    """One process: a name, how often it was started, and when it goes on."""

    name: str
    run: Callable[["Actor"], None]
    simulation: "Simulation"
    incarnation: int = 0
    wake_at: Instant = 0
    dead: bool = False
    done: bool = False
    process: "Process | None" = None
    skew_us: int = 0
    wrong_us: int = 0
    greenlet: Any = None
    on_crash: list[Callable[[], None]] = field(default_factory=list)

    def now(self) -> Instant:
        """Return this process's wall clock, which may be set wrong for a while."""
        return self.simulation.now + self.skew_us + self.wrong_us

    def monotonic(self) -> float:
        """Return seconds of virtual time."""
        return self.simulation.now / 1e6

    def sleep(self, seconds: float) -> None:
        """Let the others go on for a while."""
        self.simulation.pause(self, "sleep", seconds)

    def token(self) -> str:
        """Return 16 hexadecimal digits, from the seed."""
        return f"{self.simulation.random.getrandbits(64):016x}"

    def uniform(self) -> float:
        """Return a number in [0, 1), from the seed."""
        return self.simulation.random.random()

    def point(self, label: str) -> None:
        """Give way to others, here."""
        self.simulation.pause(self, label, 0.0)

    def require_alive(self) -> None:
        """Raise ``Crash`` again if this process is gone: nothing it does has an effect."""
        if self.dead:
            raise Crash(self.name)

    def crash(self) -> None:
        """Die here and now."""
        self.dead = True
        for told in self.on_crash:
            told()
        if self.process is not None:
            self.process.die()
        raise Crash(self.name)


@dataclass(eq=False, slots=True)
class Process:
    """Several actors that share what they have read; stands for the one that runs."""

    simulation: "Simulation"
    name: str
    threads: list[Actor] = field(default_factory=list)
    incarnation: int = 0
    on_crash: list[Callable[[], None]] = field(default_factory=list)
    shared: Any = None

    def die(self) -> None:
        """Lose what the threads share, and let none of them have another effect."""
        for told in self.on_crash:
            told()
        self.on_crash, self.shared = [], None
        self.incarnation += 1
        for thread in self.threads:
            thread.dead = not thread.done
            thread.wake_at = self.simulation.now
        self.threads = []

    def __getattr__(self, name: str) -> Any:
        """Return what the running thread has."""
        return getattr(self.simulation.running, name)

    @property
    def wrong_us(self) -> int:
        """Return how wrong the clock is set."""
        return self.simulation.running.wrong_us

    @wrong_us.setter
    def wrong_us(self, value: int) -> None:
        self.simulation.running.wrong_us = value


@dataclass(eq=False, slots=True)
class Signal:
    """What a thread waits for, in virtual time."""

    process: Process
    given: bool = False
    waiting: Actor | None = None

    def set(self) -> None:
        """Let the thread that waits go on."""
        self.given = True
        if self.waiting is not None:
            self.waiting.wake_at = self.process.simulation.now

    def wait(self) -> None:
        """Wait until the signal is given."""
        while not self.given:
            self.waiting = self.process.simulation.running
            self.waiting.sleep(LONG_S)


class Simulation:
    """Runs actors, deterministically."""

    def __init__(self, seed: int, *, start: Instant = 1_767_225_600_000_000) -> None:
        """Begin at ``start`` (2026-01-01 by default) with nobody in it."""
        self.seed = seed
        self.random = random.Random(seed)
        self.now: Instant = start
        self.actors: list[Actor] = []
        self.trace: list[str] = []
        self.steps = 0
        self.running: Any = None

    def spawn(self, name: str, run: Callable[[Actor], None], *, skew_us: int = 0) -> Actor:
        """Add an actor; it starts anew after each crash until ``run`` returns."""
        actor = Actor(name=name, run=run, simulation=self, wake_at=self.now, skew_us=skew_us)
        self.actors.append(actor)
        return actor

    def run(
        self,
        *,
        max_steps: int,
        until: Callable[[], bool] = lambda: False,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Run until every actor is done, or ``until`` says so; may be called again to go on.

        Raises:
            AssertionError: if that takes more than ``max_steps``.
        """
        try:
            while not until() and (living := [a for a in self.actors if not a.done]):
                self._step(living, max_steps)
                after_step()
        except BaseException as error:
            error.add_note(self.story())
            self.close()
            raise

    def pause(self, actor: Actor, label: str, seconds: float) -> None:
        """Suspend the running actor; called by the actor itself."""
        actor.require_alive()
        self.trace.append(f"{actor.name}.{actor.incarnation} {label}")
        actor.wake_at = self.now + max(int(seconds * 1e6), 0)
        actor.greenlet.parent.switch()
        actor.require_alive()

    def close(self) -> None:
        """End all actors where they stand, without effects."""
        for actor in self.actors:
            actor.dead = actor.done = True
            if actor.greenlet is not None and not actor.greenlet.dead:
                with suppress(Exception, Crash):
                    actor.greenlet.throw(Crash(actor.name))

    def story(self) -> str:
        """Return the seed, the trace's fingerprint and its end, for error messages."""
        tail = "\n  ".join(self.trace[-TAIL:])
        return f"seed {self.seed}, step {self.steps}, trace {self.digest()}, at last:\n  {tail}"

    def digest(self) -> str:
        """Return a fingerprint of everything that happened, in order."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def _step(self, living: list[Actor], max_steps: int) -> None:
        self.steps += 1
        if self.steps > max_steps:
            names = ", ".join(actor.name for actor in living)
            raise AssertionError(f"{names} still at it after {max_steps} steps")
        self.now = max(self.now + STEP_US, min(actor.wake_at for actor in living))
        ready = [actor for actor in living if actor.wake_at <= self.now]
        actor = ready[self.random.randrange(len(ready))]
        if actor.greenlet is None:
            actor.greenlet = self._greenlet(actor)
        self.running = actor
        with suppress(Crash):
            actor.greenlet.switch()
        if actor.dead:
            self._restart(actor)
        elif actor.greenlet.dead:
            actor.done = True

    def _greenlet(self, actor: Actor) -> Any:
        import greenlet

        return greenlet.greenlet(lambda: actor.run(actor))

    def _restart(self, actor: Actor) -> None:
        self.trace.append(f"{actor.name}.{actor.incarnation} crashed")
        actor.greenlet, actor.dead, actor.on_crash = None, False, []
        actor.incarnation += 1
        actor.wake_at = self.now + self.random.randrange(1, 5_000_000)

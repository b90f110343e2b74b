"""The threads of a simulated process: what its background runs on, in virtual time.

1. A thread is an actor of its process: it takes turns with all others, and dies with the process.
   A dead one does not begin anew; the process does, with an empty backlog.
2. The background under test is the real one (``table/background``), and so are the backlog and the
   turns of publications. Only what waits, waits here.
3. A process that ends has its background end first, as an interpreter does (``end``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from airflow_provider_segtable.table.background import ThreadBackground
from tests.simulation.simulator import LONG_S, Process, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor

BEHIND = "background of"
"""Begins the names of threads that are in a background."""


@dataclass(eq=False, slots=True)
class VirtualCondition:
    """A condition without a lock: nobody else runs between two points."""

    simulation: Simulation
    waiting: list[Actor] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release nothing."""

    def notify_all(self) -> None:
        """Let all that wait go on now."""
        for each in self.waiting:
            each.wake_at = min(each.wake_at, self.simulation.now)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a change, or for a time."""
        running: Actor = self.simulation.running
        self.waiting.append(running)
        running.sleep(LONG_S if timeout is None else timeout)
        self.waiting.remove(running)
        return True

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a predicate holds, or for a time."""
        until_us = self.simulation.now + int(1e6 * (LONG_S if timeout is None else timeout))
        while not predicate() and (left_us := until_us - self.simulation.now) > 0:
            self.wait(left_us / 1e6)
        return predicate()


@dataclass(eq=False, slots=True)
class VirtualLock:
    """A lock among the threads of a process; it is in place of ``threading.Lock``."""

    changed: VirtualCondition
    held: bool = False

    def acquire(self, blocking: bool = True) -> bool:  # noqa: FBT001, FBT002 - as the standard one
        """Take the lock, maybe after a wait."""
        if self.held and not blocking:
            return False
        while self.held:
            self.changed.wait()
        self.held = True
        return True

    def release(self) -> None:
        """Let one that waits have it."""
        self.held = False
        self.changed.notify_all()


@dataclass(eq=False, slots=True)
class ProcessThreads:
    """``table.background.Threads`` of a simulated process."""

    process: Process
    skew_us: int = 0

    def condition(self) -> VirtualCondition:
        """Return a new condition."""
        return VirtualCondition(self.process.simulation)

    def start(self, run: Callable[[], None]) -> None:
        """Start a thread, which dies with its process for good."""

        def live(thread: Actor) -> None:
            if thread.incarnation:
                return
            thread.require_alive()
            run()

        process = self.process
        name = f"{BEHIND} {process.name}.{process.incarnation}"
        thread = process.simulation.spawn(name, live, skew_us=self.skew_us)
        thread.process = process
        process.threads.append(thread)

    def at_exit(self, end: Callable[[], None]) -> None:
        """Leave the end to ``end``."""


def in_background(actor: Actor, connected: Callable[[Process], TableContext]) -> TableContext:
    """Return the ports of a process whose commits are published in its background.

    Its threads wait for their turns (``table/publications``) at locks that ``VirtualLock`` makes.

    Args:
        actor: the main thread, which has had no process since it was started.
        connected: connects a process.
    """
    process = Process(actor.simulation, actor.name, [actor], actor.incarnation)
    ports = connected(process)
    publish_in_background(ports, process, skew_us=actor.skew_us)
    actor.process, process.shared = process, ports
    return ports


def publish_in_background(ports: TableContext, process: Process, *, skew_us: int) -> None:
    """Give the ports of a process a background of virtual threads."""
    background = ThreadBackground(threads=ProcessThreads(process, skew_us))
    object.__setattr__(ports, "background", background)


def end(actor: Actor) -> None:
    """End the process of an actor whose work is over, unless other threads of it go on."""
    process = actor.process
    if process is None or process.shared is None or process.shared.background is None:
        return
    others = [each for each in process.threads if each is not actor and not each.done]
    if all(each.name.startswith(BEHIND) for each in others):
        process.shared.background.end()

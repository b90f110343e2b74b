"""Work of a process that goes on after its caller has returned.

1. ``attend`` calls an action again and again, whenever its queue is due, until the queue is empty.
   One action at a time runs for one queue, never in the caller's own call.
2. It returns False if nothing can be left to later any more, because the process ends: then the
   caller does the work itself.
3. ``flush`` and the end of the process make every queue due at once, and wait for them.
4. Actions raise nothing.
"""

from collections.abc import Callable
from typing import Protocol


class Queue(Protocol):
    """Work that waits; hashed by identity."""

    def due_s(self) -> float | None:
        """Return the seconds until the action is due, at most 0 if it is; None if none waits."""
        ...


class Background(Protocol):
    """What attends to queues."""

    def attend(self, queue: Queue, act: Callable[[], None]) -> bool:
        """Call ``act`` whenever the queue is due, until nothing waits; False if that is too late.

        A queue that is attended to keeps the action that it was first attended to with.
        """
        ...

    def flush(self) -> None:
        """Wait until nothing is left to do in any queue, for a bounded time."""
        ...

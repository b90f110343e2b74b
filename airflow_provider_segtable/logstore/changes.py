"""Changes of a state: threads make them in turn, and others wait for the next one.

1. A change is made under ``mutex``, and is counted.
2. A waiting thread names the number that it read *before* it looked at the state, so it misses no
   change.
3. Each has a lock of its own to sleep on. It needs no other one when it wakes, so threads that wake
   together do not stand in each other's way.
"""

import threading


class Changes:
    """Counts the changes of one state."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.number = 0
        self._waiting: list[threading.Lock] = []

    def made(self) -> None:
        """Count a change, and wake all threads that wait for one; ``mutex`` is held."""
        self.number += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.release()

    def wait(self, seen: int, wait_s: float) -> bool:
        """Wait for a change after the ``seen``-th; return whether there is one."""
        asleep = threading.Lock()
        asleep.acquire()
        with self.mutex:
            if self.number != seen:
                return True
            self._waiting.append(asleep)
        if asleep.acquire(timeout=max(0.0, wait_s)):
            return True
        with self.mutex:
            if self.number == seen:
                self._waiting.remove(asleep)
            return self.number != seen

"""Turns among the writers of one folder on this host: an advisory lock on the folder itself.

1. A writer locks the folder by ``flock``, on a descriptor of its own, so that the threads of one
   process take turns, too. The kernel serves writers in order, and ends a turn with its process.
2. A turn is a hint. After ``wait_s``, or if the file system has no such locks, a writer goes on
   without its turn.
3. A wait without success ends later, in its own thread, which passes the turn on at once. Until
   then this process takes no turns: a writer that was stopped in its turn costs others one wait.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Turns:
    """The turns that one storage takes."""

    def __init__(self) -> None:
        """Start without turns."""
        self.late: set[_Turn] = set()  # left before they came

    @contextmanager
    def turn(self, folder: int, wait_s: float) -> Iterator[None]:
        """Wait for a turn in an open folder, and hold it (rule 2)."""
        turn = _Turn(self.late)
        with suppress(OSError):
            if not self.late:
                turn.take(os.open(".", _FOLDER, dir_fd=folder), wait_s)
        try:
            yield
        finally:
            turn.leave()


class _Turn:
    """One turn: awaited, held or over; ``late`` has it if it is left before it comes."""

    def __init__(self, late: "set[_Turn]") -> None:
        self._late = late
        self._mutex = threading.Lock()
        self._came = threading.Event()
        self._fd = -1

    def take(self, fd: int, wait_s: float) -> None:
        """Wait for the turn; the descriptor is closed when the turn is over."""
        self._fd = fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            threading.Thread(target=self._await, name="segtable-turn", daemon=True).start()
            self._came.wait(wait_s)
        except OSError:  # a file system without such locks
            self._came.set()
        else:
            self._came.set()

    def leave(self) -> None:
        """End the turn; one that has not come ends when it comes."""
        if self._fd < 0:
            return
        with self._mutex:
            if self._came.is_set():
                self._end()
            else:
                self._late.add(self)

    def _await(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._mutex:
            self._came.set()
            if self in self._late:
                self._late.discard(self)
                self._end()

    def _end(self) -> None:
        with suppress(OSError):  # a forked child may have the descriptor, too: closing is no end
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)

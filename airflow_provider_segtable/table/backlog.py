"""Backlog: the commits of a process that are not published yet, joined, with a bound on their wait.

::

    commits      c1   c2 c3 c4       c5      c6
    publications [c1....] [c4.......]    [c6....]
                 |<- lag / 2 ->|<- lag / 2 ->|

1. Only the newest version is published, for all commits that wait.
2. The first publication begins at once; the next one half of the lag after the one before began. So
   a commit waits for half of the lag, and its publication may take the other half.
3. A commit that finds an earlier one unpublished for longer than the lag waits itself: publications
   that are slower than the commits slow these down.
4. A publication counts as an attempt: if it fails, the next one makes up for it.
5. A forked process begins with an empty backlog: its parent has the commits.
"""

import os
from collections.abc import Callable
from threading import Condition
from weakref import WeakSet

from airflow_provider_segtable.core.log.state import State

Monotonic = Callable[[], float]


class Backlog:
    """The unpublished commits of one table in one process; safe among threads."""

    def __init__(self, monotonic: Monotonic) -> None:
        """Start empty; ``monotonic`` is the deadline clock."""
        self._monotonic = monotonic
        self.reset()
        _ALL.add(self)

    def reset(self) -> None:
        """Forget all commits, in a forked process."""
        self._changed = Condition()
        self._newest: State | None = None
        self._lag_s = 0.0
        self._waiting_since: float | None = None
        self._publishing_since: float | None = None
        self._began: float | None = None

    def add(self, state: State, lag_s: float) -> bool:
        """Add a committed version; return whether an earlier one has waited for too long.

        Args:
            state: the version.
            lag_s: the longest time until it is published.
        """
        with self._changed:
            if self._waiting_since is None:
                self._waiting_since = self._monotonic()
            if self._newest is None or state.n > self._newest.n:
                self._newest = state
            self._lag_s = lag_s
            return self._overdue()

    def wait(self) -> None:
        """Wait until no commit has been unpublished for longer than the lag."""
        with self._changed:
            self._changed.wait_for(lambda: not self._overdue())

    def due_s(self) -> float | None:
        """Return the seconds until the next publication begins; None if nothing waits."""
        with self._changed:
            if self._newest is None:
                return None
            if self._began is None:
                return 0.0
            return self._began + self._lag_s / 2 - self._monotonic()

    def take(self) -> State | None:
        """Begin a publication: return the version to publish, if one waits."""
        with self._changed:
            taken, self._newest = self._newest, None
            self._publishing_since, self._waiting_since = self._waiting_since, None
            self._began = self._monotonic()
            return taken

    def finish(self) -> None:
        """End a publication, whatever its outcome."""
        with self._changed:
            self._publishing_since = None
            self._changed.notify_all()

    def _overdue(self) -> bool:
        oldest = self._publishing_since
        if oldest is None:
            oldest = self._waiting_since
        return oldest is not None and self._monotonic() - oldest >= self._lag_s


_ALL: WeakSet[Backlog] = WeakSet()


def _reset_all() -> None:
    for backlog in _ALL:
        backlog.reset()


os.register_at_fork(after_in_child=_reset_all)

"""Backlog: the commits of a process that are not published yet, joined, with a bound on their wait.

::

    commits      c1   c2 c3 c4       c5      c6
    publications [c1....] [c4.......]    [c6....]
                 |<- lag / 2 ->|<- lag / 2 ->|

1. Only the newest version is published, for all commits that wait.
2. The first publication begins at once; the next one half of the lag after the one before began. So
   a commit waits for half of the lag, and its publication may take the other half.
3. A commit that finds an earlier one unpublished for longer than the lag is published in its own
   call, after the publication under way: publications that are slower than the commits slow these.
4. A publication counts as an attempt: if it fails, the next one makes up for it.
5. A forked process begins with an empty backlog: its parent has the commits.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
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
        self._lock = Lock()
        self._newest: State | None = None
        self._since: float | None = None
        self._under_way: list[float] = []
        self._began: float | None = None
        self._lag_s = 0.0

    def add(self, state: State, lag_s: float) -> bool:
        """Add a committed version; return whether an earlier one has waited for too long.

        Args:
            state: the version.
            lag_s: the longest time until a version is published.
        """
        with self._lock:
            now = self._monotonic()
            if self._since is None:
                self._since = now
            if self._newest is None or state.n > self._newest.n:
                self._newest = state
            self._lag_s = lag_s
            return now - min([self._since, *self._under_way]) >= lag_s

    def due_s(self) -> float | None:
        """Return the seconds until the next publication begins; None if nothing waits."""
        with self._lock:
            if self._newest is None:
                return None
            if self._began is None:
                return 0.0
            return self._began + self._lag_s / 2 - self._monotonic()

    @contextmanager
    def taken(self) -> Iterator[State | None]:
        """Publish within: yield the version to publish, if one waits."""
        with self._lock:
            state, self._newest = self._newest, None
            since, self._since = self._since, None
            under_way = self._under_way
            self._began = self._monotonic()
            if since is not None:
                under_way.append(since)
        try:
            yield state
        finally:
            with self._lock:
                if since is not None:
                    under_way.remove(since)


_ALL: WeakSet[Backlog] = WeakSet()


def _reset_all() -> None:
    for backlog in _ALL:
        backlog.reset()


os.register_at_fork(after_in_child=_reset_all)

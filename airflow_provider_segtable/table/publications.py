"""Publications: a process's memory of the published versions of a table.

1. For each format it has the newest published version that the process has put or read, and a
   state of the log that shows the same files. So after a commit only the difference is read.
2. It is a hint. The target is read on from there, and read anew if that version was removed.
3. Threads take turns: one of them publishes for all that waited meanwhile.
4. A version that is in a catalog is not registered again. A catalog that failed is not called for a
   minute, so that it delays no commit.
5. A reason for not publishing is reported once, until the format is published again.
6. A forked process takes turns of its own: another thread of its parent may have held one.
"""

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import field
from string import digits
from threading import Lock
from weakref import WeakSet

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.formats.format import Published

REST_S = 60.0
"""Pause after a failed registration in a catalog."""

_NO_DIGITS = str.maketrans("", "", digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A published version, and a state with the same files."""

    published: Published
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The last attempt to make a version known in a catalog, at a time of the deadline clock.

    ``version`` identifies the version and the catalog; ``why`` it failed, empty if it did not.
    """

    version: Hashable
    why: str
    at: float

    def stands(self, version: Hashable, now: float) -> bool:
        """Return whether a new attempt would most likely have the same outcome."""
        return now - self.at < REST_S if self.why else self.version == version


@dataclass(slots=True, weakref_slot=True, eq=False)
class Publications:
    """The last publications of one table, by the name of the format."""

    _last: dict[str, Publication] = field(default_factory=dict)
    _registered: dict[str, Registration] = field(default_factory=dict)
    _turns: dict[str, Lock] = field(default_factory=dict)
    _named: dict[str, set[str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Have a fork reset the locks."""
        _ALL.add(self)

    def reset(self) -> None:
        """Make new locks, in a forked process."""
        self._turns, self._lock = {}, Lock()

    @contextmanager
    def turn(self, name: str) -> Iterator[bool]:
        """Take this thread's turn in a format; yield whether it had to wait."""
        with self._lock:
            turn = self._turns.setdefault(name, Lock())
        free = turn.acquire(blocking=False)
        if not free:
            turn.acquire()
        try:
            yield not free
        finally:
            turn.release()

    def last(self, name: str) -> Publication | None:
        """Return the last publication in a format."""
        with self._lock:
            return self._last.get(name)

    def keep(self, name: str, publication: Publication) -> None:
        """Remember a publication."""
        with self._lock:
            self._last[name] = publication
            self._named.pop(f"published {name}", None)

    def registered(self, name: str) -> Registration | None:
        """Return the last attempt to make a version of a format known."""
        with self._lock:
            return self._registered.get(name)

    def register(self, name: str, registration: Registration) -> None:
        """Remember an attempt."""
        with self._lock:
            self._registered[name] = registration

    def forget(self, name: str) -> None:
        """Forget what is known of a format."""
        with self._lock:
            self._last.pop(name, None)
            self._registered.pop(name, None)

    def names(self, about: str, reason: str) -> bool:
        """Return whether a reason is new, whatever numbers it has.

        Args:
            about: ``published`` and a format, until it is published again; or any other subject.
            reason: why it was not.
        """
        reason = reason.translate(_NO_DIGITS)
        with self._lock:
            known = self._named.setdefault(about, set())
            new = reason not in known
            known.add(reason)
            return new


_ALL: WeakSet[Publications] = WeakSet()


def _reset_all() -> None:
    for each in _ALL:
        each.reset()


os.register_at_fork(after_in_child=_reset_all)

"""What a process remembers of the published versions of a table.

1. Of each format: the newest published version that the process has put or read, and a state of
   the log that shows the same files. So after a commit only the difference is looked at.
2. It is a hint. The target is read on from there, and read anew if that version is gone.
3. Threads take turns: one of them publishes for all that waited meanwhile.
4. A reason for not publishing is named once, until the format is published again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.formats.format import Published


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A published version, and a state whose files it shows."""

    published: Published
    state: State


@dataclass(slots=True)
class Publications:
    """The last publications of one table, by the name of the format."""

    _last: dict[str, Publication] = field(default_factory=dict)
    _turns: dict[str, Lock] = field(default_factory=dict)
    _named: dict[str, set[str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def turn(self, name: str) -> Iterator[bool]:
        """Take this thread's turn in a format; the value is whether it had to wait for it."""
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
            self._named.pop(name, None)

    def forget(self, name: str) -> None:
        """Forget what is known of a format."""
        with self._lock:
            self._last.pop(name, None)

    def names(self, name: str, reason: str) -> bool:
        """Return whether a reason for not publishing is new in a format."""
        with self._lock:
            known = self._named.setdefault(name, set())
            new = reason not in known
            known.add(reason)
            return new

"""The locks of a table, as far as its coordinator answers.

1. Locks are hints, so a coordinator that is away is no error: ``trouble`` says so.
2. A coordinator that did not answer is left alone for ``REST_S``, so that views which only want to
   name a holder do not wait for it again and again.
"""

import threading
from dataclasses import field
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.library.lock_facts import locks_facts
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.ports.coordination import Coordinator

REST_S = 15.0
NO_COORDINATOR = "this page has no coordinator, so it cannot see locks: give it ZooKeeper's address"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLocks:
    """The locks and places of a table; ``trouble`` is why they are not known, empty if they are."""

    coordinator: str = ""
    held: tuple[Facts, ...] = ()
    waiting: tuple[Facts, ...] = ()
    unreadable: tuple[Facts, ...] = ()
    trouble: str = ""

    def of_purpose(self, purpose: str) -> Facts | None:
        """Return the lock, or else the first place, that is for a plan."""
        every = (*self.held, *self.waiting)
        return next((each for each in every if each["purpose"] == purpose), None)


@dataclass(slots=True)
class LockReader:
    """Reads locks, and remembers which coordinators did not answer; rule 2."""

    _failed: dict[int, tuple[float, str]] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def read(self, seen: Seen) -> HeldLocks:
        """Return the locks of a table, or why they are not known."""
        coordinator = seen.ports.optional_coordinator
        if coordinator is None:
            return HeldLocks(trouble=NO_COORDINATOR)
        now_s = seen.ports.clock.monotonic()
        with self._lock:
            since_s, why = self._failed.get(id(coordinator), (-REST_S, ""))
        if why and now_s - since_s < REST_S:
            return HeldLocks(trouble=why)
        return self._asked(seen, coordinator)

    def _asked(self, seen: Seen, coordinator: Coordinator) -> HeldLocks:
        try:
            facts = locks_facts(seen.ports, seen.state.table.table_id)
        except SegtableError as error:
            why = seen.safe(str(error))
            with self._lock:
                self._failed[id(coordinator)] = (seen.ports.clock.monotonic(), why)
            return HeldLocks(trouble=why)
        with self._lock:
            self._failed.pop(id(coordinator), None)
        return HeldLocks(
            coordinator=seen.safe(facts["coordinator"]),
            held=tuple(facts["locks"]),
            waiting=tuple(facts["waiting"]),
            unreadable=tuple(facts["unreadable"]),
        )

"""The newest states of tables, as the page has seen them.

1. At most one load of a table is under way at once: later questions wait for that one.
2. A table that was asked for within ``fresh_s`` is not asked again. Then it is asked for its next
   event and for markers of expiry, which a dropped table has, too: two requests. Every
   ``CHECKED_S`` it is compared with the log in full, as a place that is gone has neither.
3. States are kept within ``most_bytes``, by their last use; the one that was used last is always
   kept. A segment of a packed state takes about ``SEGMENT_BYTES``. Of a table that cannot be loaded
   nothing is kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field, replace

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import NotATable
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.page.sources import Source, TablePlace
from airflow_provider_segtable.page.workers import Workers
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.table.context import TableContext

CHECKED_S = 30.0
SEGMENT_BYTES = 300
STATE_BYTES = 64 * 1024
"""What a state takes beside its segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table as it was seen last.

    Attributes:
        name: in the lake.
        own_name: in its source's fleet.
        ports: for reading what is not in the state.
        state: the newest.
        at: when it was known to be the newest.
        fleet: the settings of the file that the table belongs to.
        safe: hides credentials in a text.
    """

    name: str
    own_name: str
    ports: TableContext
    state: State
    at: Instant
    fleet: Fleet
    safe: Callable[[str], str] = field(default=redacted, repr=False)

    @property
    def place(self) -> TablePlace:
        """Return where the table is."""
        source = self.name.removesuffix(self.own_name).removesuffix("/")
        return TablePlace(name=self.name, source=source, own_name=self.own_name, fleet=self.fleet)

    def version(self, n: int | None) -> State:
        """Return the state after event ``n``; the newest for None. It is read from the log.

        Raises:
            VersionExpired, NotATable: as ``EventLog.version``.
        """
        return self.state if n in (None, self.state.n) else self.ports.log.at(int(n or 0))


@dataclass(slots=True)
class _Table:
    """A table's kept state, and the load that is under way."""

    seen: Seen | None = None
    asked_s: float = 0.0
    checked_s: float = 0.0
    loading: "Future[Seen] | None" = None

    @property
    def bytes(self) -> int:
        """Return about what the state takes."""
        segments = 0 if self.seen is None else len(self.seen.state.timeline)
        return STATE_BYTES + SEGMENT_BYTES * segments


def _goes_on(seen: Seen) -> bool:
    """Return whether a log may have more than was seen: an event, or a marker above it."""
    log, after = seen.ports.log, seen.state.n + 1
    return log.event(after) is not None or log.first() > after


class TableStates:
    """The kept states; see the module."""

    def __init__(self, clock: Clock, *, fresh_s: float, most_bytes: int) -> None:
        """Begin without any."""
        self._clock = clock
        self._fresh_s = fresh_s
        self._most_bytes = most_bytes
        self._mutex = threading.RLock()
        self._tables: OrderedDict[str, _Table] = OrderedDict()

    def names(self) -> tuple[str, ...]:
        """Return the names of the tables that are kept, the one that was used last at the end."""
        return tuple(self._tables)

    def forget(self) -> None:
        """Forget all of them: names mean other tables from now on."""
        with self._mutex:
            self._tables.clear()

    def ask_again(self, name: str) -> None:
        """Let the next load ask for the table's next event, however fresh its state is."""
        with self._mutex:
            if (known := self._tables.get(name)) is not None:
                known.asked_s = float("-inf")

    def load(self, workers: Workers, source: Source, name: str, own_name: str) -> "Future[Seen]":
        """Return the load of a table; it is done already if the table was asked for just now.

        Raises:
            Unanswered: too much waits for the source.
        """
        with self._mutex:
            known = self._tables.setdefault(name, _Table())
            self._tables.move_to_end(name)
            age_s = self._clock.monotonic() - known.asked_s
            if known.loading is None and known.seen is not None and age_s < self._fresh_s:
                done: Future[Seen] = Future()
                done.set_result(known.seen)
                return done
            if known.loading is not None:
                return known.loading
            begun = workers.submit(lambda: self._loaded(known, source, name, own_name))
            known.loading = begun
        begun.add_done_callback(lambda done: self._ended(name, known, done))
        return begun

    def _loaded(self, known: _Table, source: Source, name: str, own_name: str) -> Seen:
        begun_s, at, seen = self._clock.monotonic(), self._clock.now(), known.seen
        if seen is None:
            ports = source.opening(own_name)
            state = ports.log.load()
            seen = Seen(
                name=name,
                own_name=own_name,
                ports=ports,
                state=state,
                at=at,
                fleet=source.fleet,
                safe=source.safe,
            )
            known.checked_s = begun_s
        elif begun_s - known.checked_s >= CHECKED_S or _goes_on(seen):
            seen = replace(seen, state=seen.ports.log.load(), at=at, fleet=source.fleet)
            known.checked_s = begun_s
        else:
            seen = replace(seen, at=at, fleet=source.fleet)
        known.seen, known.asked_s = seen, begun_s
        return seen

    def _ended(self, name: str, known: _Table, done: "Future[Seen]") -> None:
        with self._mutex:
            known.loading = None
            if isinstance(done.exception(), NotATable):
                known.seen = None  # another table may be created in its place
            if known.seen is None and self._tables.get(name) is known:
                del self._tables[name]
            left = sum(each.bytes for each in self._tables.values())
            for other in self.names()[:-1]:
                if left <= self._most_bytes:
                    return
                if self._tables[other].loading is None:
                    left -= self._tables.pop(other).bytes

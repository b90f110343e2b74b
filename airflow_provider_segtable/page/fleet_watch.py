"""What is known of all tables of a source, by passes in the background.

1. A pass is a dry run of the fleet's planner (``services.fleet_run``): only tables are looked at of
   which a look may find something new. No state outlives its look, so what is kept of a thousand
   tables is small, however large they are.
2. A pass begins when a reader asks, at the earliest ``PAUSE`` times as long after the last one as
   that one took. So a page that is watched costs a bounded share of one thread and of the store.
3. A table whose look is due, or which has pending plans, is looked at every ``AGAIN_US`` at most:
   the page recovers nothing, unlike a planner.
4. While the first pass is under way, the tables that it has looked at are known already.
5. A look that is newer gives the table a point of its history, of which the newest ``POINTS`` are
   kept. A table that is new here gets its history from its log, a few tables a pass, if it has at
   most ``MOST_SEGMENTS``.
6. Few tables are looked at at once (``AT_ONCE``), as other answers come from the same processor.
7. A pass that fails, for whatever reason, is said (``Fleetwide.late``), and the next one keeps its
   pause.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from types import MappingProxyType

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.time import MINUTE_US, Instant
from airflow_provider_segtable.health.glance import Glance, glance
from airflow_provider_segtable.library.growth import growth
from airflow_provider_segtable.page.sources import Source
from airflow_provider_segtable.page.workers import Workers
from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory
from airflow_provider_segtable.planning.fleet.fleet_plan import FleetPlan, TableLook
from airflow_provider_segtable.ports.clock import Clock
from airflow_provider_segtable.services.fleet_run import Looked, run_fleet
from airflow_provider_segtable.table.context import TableContext

_LOG = logging.getLogger(__name__)
PAUSE = 10
LEAST_PAUSE_S = 3.0
SLOW_S = 10.0
"""Seconds of a pass before it counts as slow, if earlier ones were quick."""
AGAIN_US = MINUTE_US
AT_ONCE: Mapping[bool, int] = MappingProxyType({False: 1, True: 4})
"""Tables that are looked at at once: in folders of this machine, and in remote stores."""
POINTS = 24
HISTORIES = 20
"""Tables that get their history from their log in one pass."""
MOST_SEGMENTS = 50_000

SizePoint = tuple[int, int]
"""Files and bytes of a table at one version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a table; it was not looked at yet if there is neither a look nor an error.

    With an error, the look is that of before. ``noticed`` is when its version was seen first.
    """

    look: TableLook | None = None
    glance: Glance = field(default_factory=Glance)
    error: str = ""
    history: tuple[SizePoint, ...] = ()
    noticed: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleetwide:
    """What is known of all tables of a source.

    Attributes:
        tables: by name.
        plan: which offers would begin now, and why others would not.
        at: when the last pass began; 0 before the first one has ended.
        late: why there is nothing newer; empty if there is.
    """

    tables: Mapping[str, Known] = field(default_factory=dict)
    plan: FleetPlan = field(default_factory=FleetPlan)
    at: Instant = 0
    late: str = ""


class FleetWatch:
    """The passes over one source."""

    def __init__(self, source: Source, clock: Clock) -> None:
        """Begin without a pass."""
        self.source = source
        self._clock = clock
        self._worker = Workers(f"the fleet of {source.label}", threads=1, most_waiting=1)
        self._mutex = threading.Lock()
        self._turns = {remote: threading.Semaphore(most) for remote, most in AT_ONCE.items()}
        self._known: dict[str, Known] = {}
        self._memory = FleetMemory()
        self._plan = FleetPlan()
        self._ended: Instant = 0
        self._late = ""
        self._pass: Future[None] | None = None
        self._begun_s = self._took_s = self._next_s = 0.0

    def look(self) -> "Future[None] | None":
        """Begin a pass if it is time; return the one that is under way, None if there is none."""
        with self._mutex:
            now_s = self._clock.monotonic()
            if (self._pass is None or self._pass.done()) and now_s >= self._next_s:
                self._begun_s = now_s
                self._pass = self._worker.submit(self._run)
            return None if self._pass is None or self._pass.done() else self._pass

    def known(self) -> Fleetwide:
        """Return what is known; nothing is read."""
        with self._mutex:
            late = self._late or self._waited()
            return Fleetwide(tables=dict(self._known), plan=self._plan, at=self._ended, late=late)

    def _waited(self) -> str:
        """Return why there is nothing newer, or not of all tables; empty if all is well."""
        if not self._ended:
            looked = sum(each.look is not None for each in self._known.values())
            return f"{looked:,} of {counted(len(self._known), 'table')} were looked at so far"
        waited = self._clock.monotonic() - self._begun_s
        running = self._pass is not None and not self._pass.done()
        if not running or waited < max(SLOW_S, self._took_s * PAUSE):
            return ""
        return f"{self.source.label} has been read for {waited:.0f} s"

    # A pass, in the watch's own thread
    def _run(self) -> None:
        late = ""
        try:
            self._look_at_all(self._clock.now())
        except (SegtableError, OSError) as error:
            late = self._failed(error)
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread (rule 7)
            late = self._failed(error)
            _LOG.warning(
                "the tables of %s were not all looked at", self.source.label, exc_info=True
            )
        with self._mutex:
            self._late = late
            now_s = self._clock.monotonic()
            self._took_s = now_s - self._begun_s
            self._next_s = now_s + max(LEAST_PAUSE_S, self._took_s * PAUSE)

    def _failed(self, error: Exception) -> str:
        return self.source.safe(f"{type(error).__name__}: {error}")

    def _look_at_all(self, now: Instant) -> None:
        source = self.source
        found = source.find(self._memory.found, now)
        names = sorted({*found.names, *found.unread, *source.fleet.tables})
        with self._mutex:
            self._known = {name: self._known.get(name, Known()) for name in names}
        run = run_fleet(
            source.fleet,
            names,
            self._opened,
            now,
            memory=self._memory,
            dry_run=True,
            observe=self._observe,
        )
        with self._mutex:
            self._memory = replace(calmed(run.memory), found=found)
            self._plan, self._ended = run.plan, now
            for report in run.tables:
                if report.error:
                    before = self._known.get(report.name, Known())
                    why = source.safe(report.error)
                    self._known[report.name] = replace(before, error=why)
        self._read_histories()

    @contextmanager
    def _opened(self, name: str) -> Iterator[TableContext]:
        """Open a table when it is its turn (rule 6)."""
        ports = self.source.opening(name)
        with self._turns[ports.storage.remote]:
            yield ports

    def _observe(self, name: str, ports: TableContext, looked: Looked) -> None:
        look, kept, now = looked.look, looked.kept, self._clock.now()
        seen = glance(ports, look.state, look.policy, look.planned, now)
        with self._mutex:
            before = self._known.get(name, Known())
            history, noticed = before.history, before.noticed
            if before.look is None or before.look.version != kept.version:
                noticed = now
                history = history and (*history, (kept.files, kept.bytes))[-POINTS:]
            self._known[name] = Known(look=kept, glance=seen, history=history, noticed=noticed)

    def _read_histories(self) -> None:
        """Read the past of some tables that have none here (rule 5)."""
        without = [
            name
            for name, known in self._known.items()
            if known.look and not known.history and known.look.files <= MOST_SEGMENTS
        ]
        for name in without[:HISTORIES]:
            with suppress(SegtableError, OSError):  # the next look says so
                log = self.source.opening(name).log
                points = growth(log, log.load(), POINTS)
                with self._mutex:
                    history = tuple((each.files, each.bytes) for each in points)
                    self._known[name] = replace(self._known[name], history=history)


def calmed(memory: FleetMemory) -> FleetMemory:
    """Return a memory by which no table is looked at again soon, unless it has a new event."""
    tables = {
        name: each
        if each.due is None and not each.unsettled
        else replace(each, unsettled=False, due=max(each.due or 0, each.at + AGAIN_US))
        for name, each in memory.tables.items()
    }
    return replace(memory, tables=tables)

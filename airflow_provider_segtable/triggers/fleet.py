"""Wake a fleet's planner when anyone commits to one of its tables: Spark, a stream, a log store.

::

    fleet_dags("fleet.toml")        the planner's schedule has the asset that this trigger watches

1. One trigger, with one session of ZooKeeper, serves all tables. It has one watch on the
   announcements of each: a thousand watches are little, and writers announce to them anyway.
2. The tables are those of the fleet file, which is read again every ``find_every`` seconds, as the
   planner found them last; they are searched for here if that was long ago. A new table wakes the
   planner, and so does the trigger's own start: a commit may have been missed.
3. An announcement is a hint. Up to ``MOST_READ`` events behind it are read, until one of them may
   give the planner work (``planning.fleet.waking``). So the planner's own requests do not wake it.
4. One event stands for the commits to all tables since the last one, and names some of them. What
   is to be done, the planner finds in the tables themselves.
5. A table that cannot be read is logged once, is tried again at the next search, and delays no
   other. What the watch misses, the planner's sweep finds.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Asset
from airflow.sdk import AssetWatcher

from airflow_provider_segtable.core.errors import CoordinatorUnavailable, SegtableError
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.hooks.fleet import fleet_of, tables_of
from airflow_provider_segtable.hooks.segtable import Place, PortsOf, SegtableHook
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.triggers.watch import class_path
from airflow_provider_segtable.triggers.watcher import WatcherTrigger

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables
    from airflow_provider_segtable.ports.coordination import Coordinator
    from airflow_provider_segtable.table.log.event_log import EventLog

MOST_READ = 16
"""Events of a table that are read for a wake-up; after more commits the planner looks anyway."""
MOST_NAMES = 20
"""Tables that a payload names; Airflow keeps it in its database."""
AT_ONCE = 8


def wake_asset(name: str, fleet: str, *, segtable_conn_id: str) -> Asset:
    """Make the asset whose events wake a fleet's planner.

    Args:
        name: the name of the asset.
        fleet: the fleet file, a path or a URI, as the triggerer finds it.
        segtable_conn_id: the connection.
    """
    trigger = SegtableFleetTrigger(fleet=fleet, segtable_conn_id=segtable_conn_id, asset=name)
    watcher = AssetWatcher(name="fleet", trigger=trigger)
    return Asset(name=name, group="segtable", watchers=[watcher])


class SegtableFleetTrigger(WatcherTrigger["_Fleet"]):
    """Fire when a table of a fleet changes in a way that may need a plan.

    An event's payload is ``{"tables": [names], "count": number}``; it names ``MOST_NAMES`` at most.

    Args:
        fleet: the fleet file, a path or a URI.
        segtable_conn_id: the connection; its host is where names of tables begin.
        poll_interval: seconds after which the trigger looks at itself.
        at_most_every: seconds from one event to the next.
        find_every: seconds from one look at the fleet file, and for new tables, to the next.
        asset: the name of the asset that it watches: equal triggers of two assets would be shared.
    """

    def __init__(
        self,
        *,
        fleet: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        poll_interval: float = 30.0,
        at_most_every: float = 5.0,
        find_every: float = 60.0,
        asset: str = "",
    ) -> None:
        super().__init__(
            f"fleet {fleet}",
            segtable_conn_id=segtable_conn_id,
            poll_interval=poll_interval,
            at_most_every=at_most_every,
        )
        self.fleet = fleet
        self.find_every = find_every
        self.asset = asset

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to rebuild this trigger."""
        return class_path(type(self)), {
            "fleet": self.fleet,
            "segtable_conn_id": self.segtable_conn_id,
            "poll_interval": self.poll_interval,
            "at_most_every": self.at_most_every,
            "find_every": self.find_every,
            "asset": self.asset,
        }

    async def opened(self, place: Place, before: "_Fleet | None") -> "_Fleet":
        """Return what watches the fleet, and knows what was seen."""
        if place.zookeeper is None:
            raise CoordinatorUnavailable(
                f"connection {place.conn_id} names no ZooKeeper, so no commit is announced: set "
                "zookeeper in its extra"
            )
        return _Fleet(place, self, before.seen if before else {})


class _Fleet:
    """The blocking half: the tables, and their newest announcements; used from one thread.

    ``seen`` has the announced event of each table id.
    """

    def __init__(
        self, place: Place, trigger: SegtableFleetTrigger, seen: Mapping[str, int]
    ) -> None:
        from airflow_provider_segtable.storage.local import SystemClock

        self.seen = dict(seen)
        self._place = place
        self._trigger = trigger
        self._clock = SystemClock()
        self._find_at = 0.0
        self._found: FoundTables | None = None
        self._names: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        self._open = ExitStack()
        self._ports_of: PortsOf | None = None

    def next(self, wait_s: float) -> Mapping[str, Any] | None:
        """Wait for a change that may need a plan; None if there was none in time."""
        left_s = self._find_at - self._clock.monotonic()
        if left_s <= 0:
            self._find()
            left_s = self._trigger.find_every
        coordinator = self._coordinator()
        if coordinator is None:
            self._clock.sleep(min(wait_s, left_s))
            return None
        heads = coordinator.wait_heads(
            tuple(self._names), seen=self.seen, wait_s=min(wait_s, left_s)
        )
        before, self.seen = self.seen, {**self.seen, **heads}
        gone = [table for table, n in heads.items() if n < before.get(table, -1)]
        for table in gone:  # it was dropped, or ZooKeeper was wiped: its id may be another one
            del self._names[table]
            self._find_at, self._found = 0.0, None
        changed = {t: n for t, n in heads.items() if t in self._names}
        if not any(self._matters(table, before.get(table), n) for table, n in changed.items()):
            return None
        names = sorted(self._names[table] for table in changed)
        return {"tables": names[:MOST_NAMES], "count": len(names)}

    def close(self) -> None:
        """End the session with ZooKeeper."""
        try:
            self._open.close()
        except SegtableError:
            return  # the session has ended already

    def _coordinator(self) -> "Coordinator | None":
        """Return the one session; None while there is no table."""
        first = next(iter(self._names.values()), None)
        return None if first is None else self._at(first)[0]

    def _at(self, name: str) -> "tuple[Coordinator, EventLog]":
        """Return the session, and the log of a table, which no state is read of."""
        from airflow_provider_segtable.table.log.event_log import EventLog

        if self._ports_of is None:
            self._ports_of = self._open.enter_context(self._place.ports_of_tables())
        with self._ports_of(name) as ports:
            return ports.coordinator, EventLog(ports.storage)

    def _matters(self, table: str, before: int | None, n: int) -> bool:
        """Return whether the events after one, up to another, may need a plan."""
        from airflow_provider_segtable.planning.fleet.waking import wakes

        if before is None or n - before > MOST_READ:
            return True
        try:
            log = self._at(self._names[table])[1]
            events = [log.event(each) for each in range(before + 1, n + 1)]
        except (SegtableError, OSError):
            return True
        return any(event is None or wakes(event) for event in events)

    def _find(self) -> None:
        """Find the tables, and the ids of those that are new."""
        fleet, self._place = fleet_of(self._trigger.fleet, self._place)
        known = [each for each in (self._found, self._last_search(fleet)) if each]
        before = max(known, key=lambda each: each.at, default=None)
        self._found = tables_of(fleet, self._place, before, self._clock.now())
        found = set(self._found.names)
        self._names = {table: name for table, name in self._names.items() if name in found}
        new = sorted(found.difference(self._names.values()))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ids = [*pool.map(self._id_of, new)]
        self._names |= {table: name for name, (table, _) in zip(new, ids, strict=True) if table}
        broken = {name: why for name, (_, why) in zip(new, ids, strict=True) if why}
        for name, why in _news(broken, self._broken):
            self._trigger.log.warning("%s: its commits wake no planner: %s", name, why)
        self._broken = broken
        self.seen = {table: n for table, n in self.seen.items() if table in self._names}
        self._find_at = self._clock.monotonic() + self._trigger.find_every

    def _last_search(self, fleet: Fleet) -> "FoundTables | None":
        """Return the planner's last search for tables."""
        from airflow_provider_segtable.services.fleet_memory_file import last_search
        from airflow_provider_segtable.storage import open_storage

        place = self._place
        root = open_storage(place.root, place.storage_options) if place.root else None
        return last_search(root, fleet.name)

    def _id_of(self, name: str) -> tuple[str, str]:
        """Return the id of a table, or why it cannot be read."""
        try:
            return self._at(name)[1].load().table.table_id, ""
        except (SegtableError, OSError) as error:
            return "", redacted(f"{type(error).__name__}: {error}")


def _news(found: Mapping[str, str], before: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return (item for item in found.items() if item not in before.items())

"""Start a DAG when anyone commits to a table: Spark, a stream, a log store, another team's program.

::

    with DAG("report", schedule=[commits_asset("s3://lake/trips")]):
        ...

1. The asset's watcher is this trigger. It is another asset than the table's own
   (``assets.table_asset``), of which this provider's operators emit events.
2. Only commits that change rows count. Compactions, plans, indexes and settings are none.
3. One event stands for all commits since the last one, at most one in ``at_most_every`` seconds.
   Airflow may join several events in one run, so a DAG reads the table, or a window from the
   version where its last run ended (``segtable consumers``), and not just what an event names.
4. ZooKeeper's announcement wakes the trigger; without one it looks every ``poll_interval`` seconds.
5. It never raises (``triggers.watcher``). So a table that is not there yet is waited for, and one
   that was dropped and made again is followed from there on.
6. A triggerer that takes over begins at the version that was reported last, where Airflow keeps it
   (3.3 and later); else at the newest version. Then a commit in between is reported with the next.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Asset
from airflow.sdk import AssetWatcher

from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.core.errors import CoordinationError, SegtableError
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.triggers.watch import OUTAGE_S, class_path
from airflow_provider_segtable.triggers.watcher import WatcherTrigger

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.events import Event
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext

STORED = "version"
"""Under this key Airflow keeps the last version that was reported."""


def commits_asset(
    uri: str,
    *,
    segtable_conn_id: str = SegtableHook.default_conn_name,
    poll_interval: float = 30.0,
    at_most_every: float = 5.0,
) -> Asset:
    """Make the asset whose events are the commits to a table, by whomever.

    Args:
        uri: the table's URI or absolute path.
        segtable_conn_id: the connection with ZooKeeper and the store's credentials.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
        at_most_every: seconds from one event to the next.

    Raises:
        InvalidName: it is neither a URI nor an absolute path, or it holds credentials.
    """
    name = f"{segtable_asset(uri).name}/commits"
    trigger = SegtableCommitTrigger(
        table=uri,
        segtable_conn_id=segtable_conn_id,
        poll_interval=poll_interval,
        at_most_every=at_most_every,
        asset=name,
    )
    watcher = AssetWatcher(name="commits", trigger=trigger)
    return Asset(name=name, uri=name, group="segtable", watchers=[watcher])


class SegtableCommitTrigger(WatcherTrigger["_Commits"]):
    """Fire whenever rows of a table change.

    An event's payload is ``{"table", "after", "version", "commits", "rows", "authors"}``: commits
    after version ``after``, up to ``version``.

    Args:
        table: below the connection's root, or a URI.
        segtable_conn_id: the connection.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
        at_most_every: seconds from one event to the next.
        asset: the name of the asset that it watches: equal triggers of two assets would be shared.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        poll_interval: float = 30.0,
        at_most_every: float = 5.0,
        asset: str = "",
    ) -> None:
        super().__init__(
            table,
            segtable_conn_id=segtable_conn_id,
            poll_interval=poll_interval,
            at_most_every=at_most_every,
        )
        self.table = table
        self.asset = asset

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to rebuild this trigger."""
        return class_path(type(self)), {
            "table": self.table,
            "segtable_conn_id": self.segtable_conn_id,
            "poll_interval": self.poll_interval,
            "at_most_every": self.at_most_every,
            "asset": self.asset,
        }

    async def opened(self, place: Place, before: "_Commits | None") -> "_Commits":
        """Return what reads the commits after the last report."""
        after = None if before is None else before.after
        return _Commits(place, self.table, await self._kept() if after is None else after)

    async def reported(self, payload: Mapping[str, Any]) -> None:
        """Keep the version that was reported, where Airflow can."""
        store = getattr(self, "asset_state_store", None)
        if store is not None:
            await store.aset(STORED, payload["version"])

    async def _kept(self) -> int | None:
        """Return the version that was reported last, where Airflow keeps it."""
        store = getattr(self, "asset_state_store", None)
        found = await store.aget(STORED) if store is not None else None
        return found if isinstance(found, int) else None


class _Commits:
    """The blocking half: commits after a version, ``after``; used from one thread."""

    def __init__(self, place: Place, table: str, after: int | None) -> None:
        self._place = place
        self._table = table
        self.after = after
        self._open = ExitStack()
        self._ports: TableContext | None = None
        self._state: State | None = None

    def next(self, wait_s: float) -> Mapping[str, Any] | None:
        """Wait for a change of rows; None if there was none in time."""
        if self._ports is None:
            self._ports = self._open.enter_context(self._place.table_ports(self._table))
        if self._state is None:
            self._state = self._ports.log.load()
            self.after = self._state.n if self.after is None else self.after
        else:
            self._wait(self._ports, self._state, wait_s)
            self._state = self._ports.log.refresh(self._state)
        return self._told(self._ports, self._state.n)

    def close(self) -> None:
        """End the session with ZooKeeper."""
        try:
            self._open.close()
        except SegtableError:
            return  # the session has ended already

    def _wait(self, ports: "TableContext", state: "State", wait_s: float) -> None:
        if ports.optional_coordinator is None:
            ports.clock.sleep(wait_s)
            return
        try:
            ports.coordinator.wait_head(state.table.table_id, beyond=state.n, wait_s=wait_s)
        except CoordinationError:
            ports.clock.sleep(min(wait_s, OUTAGE_S))

    def _told(self, ports: "TableContext", version: int) -> Mapping[str, Any] | None:
        """Return the payload for the commits since the last report; None without a change."""
        from airflow_provider_segtable.core.log.events import published

        after = version if self.after is None else self.after
        events = [event for n in range(after + 1, version + 1) if (event := _changing(ports, n))]
        self.after = version
        if not events:
            return None
        facts = published(events)
        return {
            "table": ports.uri,
            "after": after,
            "version": version,
            "commits": len(events),
            "rows": facts.rows,
            "authors": [*dict.fromkeys(event.author for event in events)][:MOST_AUTHORS],
        }


MOST_AUTHORS = 10
"""Authors that a payload names; Airflow keeps it in its database."""


def _changing(ports: "TableContext", n: int) -> "Event | None":
    """Return an event if it changes rows and is still there."""
    from airflow_provider_segtable.core.log.events import effects

    event = ports.log.event(n)
    return event if event is not None and effects(event.action) else None

"""Fire again and again, for what an asset watcher watches: a base of such triggers.

1. The blocking half is a ``Source``, used from the trigger's own thread. The trigger opens it, asks
   it for the next event, and yields that; at most one in ``at_most_every`` seconds.
2. Airflow restarts a watcher that raises at once, for ever. So it never raises: an error is logged,
   once as long as it stays the same, and after ``OUTAGE_S`` the source is opened anew.
3. Airflow may join several events in one run. So an event says that something has changed; whoever
   it wakes looks for itself.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from airflow.providers.common.compat.sdk import BaseHook
from airflow.providers.common.compat.triggers import BaseEventTrigger
from airflow.triggers.base import TriggerEvent

from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.triggers.watch import OUTAGE_S


class Source(Protocol):
    """The blocking half of a trigger."""

    def next(self, wait_s: float) -> Mapping[str, Any] | None:
        """Wait for something to report; None if there was nothing in time."""
        ...

    def close(self) -> None:
        """End the session with ZooKeeper."""
        ...


S = TypeVar("S", bound=Source)


class WatcherTrigger(BaseEventTrigger, Generic[S]):
    """Yield the events of a source, for ever; a base class.

    Args:
        watched: what is watched, for log lines.
        segtable_conn_id: the connection.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
        at_most_every: seconds from one event to the next.
    """

    def __init__(
        self, watched: str, *, segtable_conn_id: str, poll_interval: float, at_most_every: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watched = watched
        self.segtable_conn_id = segtable_conn_id
        self.poll_interval = poll_interval
        self.at_most_every = at_most_every

    @abstractmethod
    async def opened(self, place: Place, before: S | None) -> S:
        """Return a source that goes on where the one before it ended, if there was one."""

    async def reported(self, payload: Mapping[str, Any]) -> None:
        """Note that Airflow has taken an event."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield events, for ever."""
        own = ThreadPoolExecutor(1, thread_name_prefix="segtable-watcher")
        loop = asyncio.get_running_loop()
        source: S | None = None
        before: S | None = None
        said = ""
        try:
            while True:
                try:
                    if source is None:
                        source = await self.opened(await self._place(), before)
                    found = await loop.run_in_executor(own, source.next, self.poll_interval)
                except Exception as error:  # noqa: BLE001 - rule 2
                    told = redacted(f"{type(error).__name__}: {error}")
                    if told != said:
                        self.log.warning("%s: no look at the commits: %s", self.watched, told)
                    said = told
                    if source is not None:
                        own.submit(source.close)
                        before, source = source, None
                    await asyncio.sleep(OUTAGE_S)
                    continue
                said = ""
                if found is not None:
                    yield TriggerEvent(found)  # type: ignore[no-untyped-call]
                    await self.reported(found)
                    await asyncio.sleep(self.at_most_every)
        finally:
            if source is not None:
                own.submit(source.close)
            own.shutdown(wait=False)

    async def _place(self) -> Place:
        return Place.of(await BaseHook.aget_connection(self.segtable_conn_id)).masked()

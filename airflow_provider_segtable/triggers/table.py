"""Waiting for a table in the triggerer.

1. A trigger carries names and numbers. It looks up the connection itself, reads the log, and
   judges by the one verdict that every mode of the sensor shares.
2. ZooKeeper's announcements wake it early; the log alone decides. Without ZooKeeper, or with one
   that is away, it looks every ``poll_interval`` seconds.
3. Everything that blocks runs in a thread of the trigger's own: a long wait takes none of the
   few threads that all triggers of a triggerer share.
4. It never raises: what goes wrong ends as an event with status ``error``. A storage that fails
   is asked again, several times, before that.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_segtable.core.errors import CoordinationError, SegtableError, StorageError
from airflow_provider_segtable.core.interval import Interval
from airflow_provider_segtable.core.state import State
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.planning.policy import Policy
from airflow_provider_segtable.planning.verdict import Verdict, judge_small_segments
from airflow_provider_segtable.table.log import EventLog
from airflow_provider_segtable.table.ports import TablePorts

STORAGE_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSegments:
    """The question: has ``interval`` at most ``at_most`` small segments a chunk?"""

    table: str
    interval: str | None
    at_most: int

    def judge(self, state: State) -> Verdict:
        """Answer it for one state of the table."""
        policy = Policy.read(state.table.properties)
        interval = Interval.parse(self.interval) if self.interval else None
        return judge_small_segments(state, policy, interval, self.at_most)


class SmallSegmentsTrigger(BaseTrigger):
    """Fires when a table's interval has few enough small segments.

    Args:
        table: as the hook takes it.
        segtable_conn_id: the connection.
        interval: ISO 8601 ``start/end``; the whole table by default.
        at_most: how many small segments a chunk may have.
        poll_interval: how often to look, in seconds, if nothing is announced.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str,
        interval: str | None = None,
        at_most: int = 0,
        poll_interval: float = 30.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.question = SmallSegments(table=table, interval=interval, at_most=at_most)
        self.segtable_conn_id = segtable_conn_id
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger from."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.question.table,
                "segtable_conn_id": self.segtable_conn_id,
                "interval": self.question.interval,
                "at_most": self.question.at_most,
                "poll_interval": self.poll_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: ``{"status": "success" | "error", "message": ...}``."""
        try:
            told = await self._verdict()
        except Exception as error:  # noqa: BLE001  # an event tells the task; raising tells nobody
            told = {"status": "error", "message": f"{type(error).__name__}: {error}"}
        yield TriggerEvent(told)  # type: ignore[no-untyped-call]

    async def _verdict(self) -> Mapping[str, Any]:
        place = Place.of(await BaseHook.aget_connection(self.segtable_conn_id))
        own = ThreadPoolExecutor(1, thread_name_prefix="segtable-trigger")
        watch = _Watch(place, self.question)
        loop = asyncio.get_running_loop()
        try:
            while True:
                verdict = await loop.run_in_executor(own, watch.look)
                if verdict is not None and verdict.satisfied:
                    return {
                        "status": "success",
                        "message": verdict.message,
                        "version": verdict.version,
                    }
                self.log.info("%s", verdict.message if verdict else "the storage failed; once more")
                if not await loop.run_in_executor(own, watch.wait, self.poll_interval):
                    await asyncio.sleep(self.poll_interval)
        finally:
            own.submit(watch.close)
            own.shutdown(wait=False)


class _Watch:
    """The blocking half; used from one thread."""

    def __init__(self, place: Place, question: SmallSegments) -> None:
        self._place = place
        self._question = question
        self._open = ExitStack()
        self._ports: TablePorts | None = None
        self._state: State | None = None
        self._failures = 0

    def look(self) -> Verdict | None:
        """Judge the table now; None if its storage failed, for a few times."""
        try:
            if self._ports is None:
                ports = self._place.table_ports(self._question.table)
                self._ports = self._open.enter_context(ports)
            log = EventLog(self._ports.storage)
            self._state = log.refresh(self._state) if self._state else log.load()
        except StorageError:
            self._failures += 1
            if self._failures >= STORAGE_TRIES:
                raise
            return None
        self._failures = 0
        return self._question.judge(self._state)

    def wait(self, seconds: float) -> bool:
        """Wait for news; False if nobody can tell any."""
        if self._ports is None or self._state is None or self._ports.coordinator_ is None:
            return False
        try:
            self._ports.coordinator.wait_head(
                self._state.table.table_id, beyond=self._state.n, wait_s=seconds
            )
        except CoordinationError:
            return False
        return True

    def close(self) -> None:
        """End the session with ZooKeeper."""
        try:
            self._open.close()
        except SegtableError:
            return  # it is gone already

"""The event log on storage: reading it, folding it, and checkpoints that make opening cheap.

1. Event ``n`` is ``_segtable/timeline/<n, 20 digits>.json``; reading goes on until the first
   number that is not there.
2. A checkpoint ``_segtable/checkpoints/<n>.parquet`` is the state after event ``n``;
   ``_last`` names the newest. Both are hints: lost or torn, the log is folded from the start.
3. Opening costs the checkpoint and the events since, by number: listings, which may be late on
   some stores, are not needed.
"""

import json
from collections.abc import Iterator

from airflow_provider_segtable.core.codec import decode
from airflow_provider_segtable.core.errors import CorruptTable, NotATable, NotFound, StorageError
from airflow_provider_segtable.core.events import Event
from airflow_provider_segtable.core.interval import Instant, iso
from airflow_provider_segtable.core.state import State, apply, fold
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.checkpoint import read_checkpoint, write_checkpoint

TIMELINE = "_segtable/timeline"
CHECKPOINTS = "_segtable/checkpoints"
LAST = f"{CHECKPOINTS}/_last"


def event_path(n: int) -> str:
    """Return the path of event ``n``."""
    return f"{TIMELINE}/{n:020d}.json"


def checkpoint_path(n: int) -> str:
    """Return the path of the checkpoint after event ``n``."""
    return f"{CHECKPOINTS}/{n:020d}.parquet"


class EventLog:
    """The log of one table."""

    def __init__(self, storage: Storage) -> None:
        """Read from ``storage``; nothing is read before the first call."""
        self.storage = storage

    def load(self) -> State:
        """Return the newest state.

        Raises:
            NotATable: if there is no log here.
            UnsupportedFormat: if a newer segtable wrote to it.
            CorruptTable: if the log has a hole or a torn event.
        """
        found = self._newest_checkpoint()
        state = fold(found, self.events(found.n + 1 if found else 0))
        if state is None:
            raise NotATable(
                f"{self.storage.uri} holds no segtable table: "
                "check the path, or make one with `segtable table create`"
            )
        return state

    def refresh(self, state: State) -> State:
        """Return ``state`` with the events that came since."""
        while True:
            event = self.event(state.n + 1)
            if event is None:
                return state
            state = apply(state, event)

    def at(self, n: int) -> State:
        """Return the state after event ``n``, whatever came later."""
        state = fold(None, (event for event in self.events(0) if event.n <= n))
        if state is None or state.n != n:
            last = "nothing" if state is None else f"event {state.n}"
            raise NotATable(f"{self.storage.uri} has no event {n}: its log ends with {last}")
        return state

    def as_of(self, time: Instant) -> State:
        """Return the state at ``time``: every event with time <= it."""
        state: State | None = None
        for event in self.events(0):
            if event.time > time:
                break
            state = apply(state, event)
        if state is None:
            raise NotATable(f"{self.storage.uri} did not exist at {iso(time)}")
        return state

    def event(self, n: int) -> Event | None:
        """Return event ``n``, or None if the log does not reach it."""
        path = event_path(n)
        try:
            data = self.storage.read(path)
        except NotFound:
            return None
        event = decode(data, f"{self.storage.uri}/{path}")
        if event.n != n:
            raise CorruptTable(f"{self.storage.uri}/{path} holds event {event.n}: files were mixed")
        return event

    def events(self, start: int) -> Iterator[Event]:
        """Yield events from number ``start`` to the end of the log."""
        n = start
        while (event := self.event(n)) is not None:
            yield event
            n += 1

    def checkpoint(self, state: State) -> None:
        """Write a checkpoint of ``state``; failing to is no harm and is not reported."""
        try:
            self.storage.replace(checkpoint_path(state.n), write_checkpoint(state))
            self.storage.replace(LAST, json.dumps({"n": state.n}).encode())
        except StorageError:
            return

    def _newest_checkpoint(self) -> State | None:
        try:
            n = json.loads(self.storage.read(LAST))["n"]
            return read_checkpoint(self.storage.read(checkpoint_path(n)))
        except (NotFound, CorruptTable, ValueError, KeyError, TypeError):
            return None

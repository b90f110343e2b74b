"""The routes of one change: for each index of records, what its event brings besides its files.

1. Upserts, deletes and updates of a primary-key table append records. Before they are committed,
   their keys are routed in each index of records (``table.routing.route``): of equal keys in other
   time chunks one record wins, and the others are corrected in the same event.
2. An index that was requested meanwhile is seen in the next attempt of the commit. A route that
   does not hold any more is made again, as is one whose files a cleaning deleted. So two writers
   that bring one key to two time chunks end with one row, without a lock: the log decides who was
   first, and the other one corrects.
3. As with all indexes, a writer never waits or fails because of one. If the index cannot be read,
   or is left out (``table.indexes.feeding.left_out``), the event is not routed: the log records
   that the index lacks it, and its next run settles the keys (``services.indexing.settle``).
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.core.errors import NotFound, SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.events import Action, Appended
from airflow_provider_segtable.core.log.families.index_events import index_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feeding import left_out
from airflow_provider_segtable.table.routing.route import Route, discard, holds, routed

_LOG = logging.getLogger(__name__)


class Router:
    """The routes of one change, kept from attempt to attempt while they hold."""

    def __init__(
        self,
        ports: TableContext,
        action: Action,
        given: Iterable[Feed] = (),
        ready: Ready | None = None,
    ) -> None:
        """Begin without routes; indexes that the author of the change has fed need none.

        ``ready`` waits until the files of the action can be read; None if they can.
        """
        self._ports = ports
        self._ready = ready
        self._files = action.segments if isinstance(action, Appended) else ()
        self._given = {feed.index for feed in given}
        self._facts: dict[str, pa.Table] = {}
        self._routes: dict[str, Route | None] = {}
        self._stale: list[Route] = []

    def prepare(self, state: State) -> None:
        """Route the keys in the indexes of a state that have no route which holds."""
        for index in self._unrouted(state):
            name = index.definition.id
            old = self._routes.get(name)
            self._stale += [] if old is None else [old]
            self._routes[name] = self._routed(index, state)

    def ready(self, state: State) -> bool:
        """Return whether the keys are routed in all indexes of a state."""
        return not self._unrouted(state)

    def routed(self, action: Action, state: State) -> Action:
        """Return the action with the corrections of its routes."""
        found = [segment for route in self._of(state) for segment in route.corrections]
        if not found or not isinstance(action, Appended):
            return action
        return replace(action, segments=(*action.segments, *found))

    def feeds(self, state: State) -> tuple[Feed, ...]:
        """Return the feeds of an event after a state."""
        return tuple(route.feed for route in self._of(state))

    def tidy(self) -> None:
        """Delete the files of routes that did not hold: the event certainly does not name them."""
        while self._stale:
            discard(self._ports, self._stale.pop())

    def discard(self) -> None:
        """Delete the files of all routes: the event certainly does not land."""
        self._stale += [route for route in self._routes.values() if route is not None]
        self._routes.clear()
        self.tidy()

    def _of(self, state: State) -> list[Route]:
        found = (self._routes.get(each.definition.id) for each in state.indexes.values())
        return [route for route in found if route is not None]

    def _unrouted(self, state: State) -> list[IndexState]:
        if not self._files:
            return []
        return [
            index
            for index in state.indexes.values()
            if not index.definition.kind.about_files
            and index.definition.id not in self._given
            and not self._holds(index, state)
        ]

    def _holds(self, index: IndexState, state: State) -> bool:
        if index.definition.id not in self._routes:
            return False
        route = self._routes[index.definition.id]
        try:
            return route is None or holds(self._ports, route, state)
        except (SegtableError, OSError):
            return False

    def _routed(self, index: IndexState, state: State) -> Route | None:
        if left_out(self._files, index):
            return None
        try:
            return self._route(index.definition.id, state)
        except (SegtableError, OSError) as error:
            name = index.definition.name
            _LOG.warning("%s: keys were not routed by index %s: %s", self._ports.uri, name, error)
            return None

    def _route(self, index_id: str, state: State) -> Route | None:
        """Route the keys as of a version; of a newer one if cleaning deleted files of it."""
        index = index_of(index_id, state)
        if index is None:
            return None
        try:
            return routed(self._ports, state, index, self._new(index, state))
        except NotFound:
            newest = self._ports.log.refresh(state)
            if newest.n == state.n:
                raise
        return self._route(index_id, newest)

    def _new(self, index: IndexState, state: State) -> pa.Table:
        """Return the facts about the new records, computed once."""
        name = index.definition.id
        if name not in self._facts:
            if self._ready is not None:
                self._ready()
            filled = [segment for segment in self._files if segment.path]
            found = entries(index.definition, state.table, filled, self._ports.files)
            self._facts[name] = found
        return self._facts[name]

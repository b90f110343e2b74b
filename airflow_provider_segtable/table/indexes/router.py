"""The routes of one change: its keys are routed in each index of records before it is committed.

The rules are those of ``table.indexes.routing``, which is imported where a table has such an index.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import NotFound, SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.ports.files import Ready
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.feeding import left_out

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_segtable.table.indexes.routing import Route

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
        """Begin without routes; indexes fed by the author of the change need none.

        ``ready`` waits until the files of the action can be read; None if they can.
        """
        self._ports = ports
        self._ready = ready
        self._files = action.segments if isinstance(action, Appended) else ()
        self._given = {feed.index for feed in given}
        self._entries: dict[str, pa.Table] = {}
        self._routes: dict[str, Route | None] = {}
        self._stale: list[Route] = []

    def prepare(self, state: State) -> None:
        """Route the keys in the indexes of a state without a route that holds."""
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
        found = [segment for route in self._routes_at(state) for segment in route.corrections]
        if not found or not isinstance(action, Appended):
            return action
        return replace(action, segments=(*action.segments, *found))

    def feeds(self, state: State) -> tuple[Feed, ...]:
        """Return the feeds of an event after a state."""
        return tuple(route.feed for route in self._routes_at(state))

    def tidy(self) -> None:
        """Delete the files of replaced routes: the event certainly does not name them."""
        if not self._stale:
            return
        from airflow_provider_segtable.table.indexes.routing import discard

        while self._stale:
            discard(self._ports, self._stale.pop())

    def discard(self) -> None:
        """Delete the files of all routes: the event certainly does not land."""
        self._stale += [route for route in self._routes.values() if route is not None]
        self._routes.clear()
        self.tidy()

    def _routes_at(self, state: State) -> list["Route"]:
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
        from airflow_provider_segtable.table.indexes.routing import holds

        route = self._routes[index.definition.id]
        try:
            return route is None or holds(self._ports, route, state)
        except (SegtableError, OSError):
            return False

    def _routed(self, index: IndexState, state: State) -> "Route | None":
        if left_out(self._files, index):
            return None
        try:
            return self._route(index.definition.id, state)
        except (SegtableError, OSError) as error:
            name = index.definition.name
            _LOG.warning("%s: keys were not routed by index %s: %s", self._ports.uri, name, error)
            return None

    def _route(self, index_id: str, state: State) -> "Route | None":
        """Route the keys as of a version, or a newer one if cleaning deleted files of it."""
        from airflow_provider_segtable.table.indexes.routing import routed

        index = index_of(index_id, state)
        if index is None:
            return None
        try:
            return routed(self._ports, state, index, self._new_entries(index, state))
        except NotFound:
            newest = self._ports.log.refresh(state)
            if newest.n == state.n:
                raise
        return self._route(index_id, newest)

    def _new_entries(self, index: IndexState, state: State) -> "pa.Table":
        """Return the entries about the new records, computed once."""
        from airflow_provider_segtable.data.indexes.entries import entries

        name = index.definition.id
        if name not in self._entries:
            if self._ready is not None:
                self._ready()
            filled = [segment for segment in self._files if segment.path]
            found = entries(index.definition, state.table, filled, self._ports.files)
            self._entries[name] = found
        return self._entries[name]

"""The page inside Airflow: who may look, and at which tables.

1. A mounted app inherits no authentication of Airflow. So each route depends on Airflow's own user,
   by its cookie or token, and on the right to see plugins' pages. If that check cannot be imported,
   or the page not be made, every request is refused (``ui.lazy_page``).
2. Tables are those below the connections of ``[segtable] page_connections``, which is
   ``segtable_default`` by default. The first of them may have a fleet file, ``[segtable]
   page_fleet``, or ``$SEGTABLE_FLEET`` as the DAGs of the fleet take it.
3. Both are read again every minute (``page.lake``).
4. What a user may do to a table is what DAGs of the table the user may trigger
   (``ui.airflow_actions``).
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, conf
from fastapi import FastAPI, Request

from airflow_provider_segtable.core.secret import SecretOptions
from airflow_provider_segtable.hooks.fleet import fleet_of
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.page.answer import NotSetUp
from airflow_provider_segtable.page.app import page_app
from airflow_provider_segtable.page.lake import Lake
from airflow_provider_segtable.page.rights import Viewer
from airflow_provider_segtable.page.sources import Source, TablePlace, source_at
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.ui.airflow_actions import AirflowActions, DagRights
from airflow_provider_segtable.ui.table_dags import DagsOfTables

SECTION = "segtable"


def made() -> FastAPI:
    """Return the page.

    Raises:
        ImportError: Airflow has no such check, or a part of the page is missing.
    """
    clock = SystemClock()
    dags = DagsOfTables(connection_of, clock)
    rights = AirflowRights(DagRights(dags).refusal)
    return page_app(Lake(sources, clock), rights, AirflowActions(dags), airflow=True)


Refusal = Callable[[Viewer, str, TablePlace, Mapping[str, Any]], str]
"""Returns why a user may not do something to a table; empty if it is allowed."""


class AirflowRights:
    """The rights of Airflow's users: to see plugins' pages, and to trigger DAGs of tables."""

    def __init__(self, refusal: Refusal) -> None:
        """Import Airflow's own checks.

        Args:
            refusal: says which DAGs' runs the user may trigger.

        Raises:
            ImportError: they are not where they were.
        """
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
        from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view

        may_view = requires_access_view(AccessView.PLUGINS)

        def admitted(request: Request, user: GetUserDep) -> Viewer:
            may_view(request, user)
            return Viewer(name=user.get_name(), authenticated=True, identity=user)

        self._admitted = admitted
        self._refusal = refusal

    @property
    def view(self) -> Callable[..., Any]:
        """Return Airflow's check of the user, and of the right to see plugins' pages."""
        return self._admitted

    def refusal(
        self, viewer: Viewer, action: str, table: TablePlace, arguments: Mapping[str, Any]
    ) -> str:
        """Return why a user may not do this to a table; empty if it is allowed."""
        return self._refusal(viewer, action, table, arguments)


def connections() -> list[str]:
    """Return the names of the connections whose tables are shown."""
    names = conf.get(SECTION, "page_connections", fallback=SegtableHook.default_conn_name)
    return [each.strip() for each in names.split(",") if each.strip()]


def connection_of(source: str) -> str:
    """Return the connection of a source, by the name that its tables' names begin with."""
    return source or next(iter(connections()), "")


def sources() -> Mapping[str, Source]:
    """Return the places of tables by configuration.

    Raises:
        NotSetUp: a connection is missing or has no root.
        SegtableError: a connection or the fleet file is wrong.
    """
    file = conf.get(SECTION, "page_fleet", fallback="") or os.environ.get("SEGTABLE_FLEET", "")
    given = connections()
    return {
        conn_id if len(given) > 1 else "": _source(conn_id, "" if at else file)
        for at, conn_id in enumerate(given)
    }


def _source(conn_id: str, file: str) -> Source:
    fleet, place = _fleet_and_place(conn_id, file)
    return source_at(
        place.root,
        fleet=fleet,
        storage_options=SecretOptions(place.storage_options),
        zookeeper=place.zookeeper,
        zookeeper_options=place.zookeeper_options,
        log_store_options=place.log_store_options,
    )


def _fleet_and_place(conn_id: str, file: str) -> tuple[Fleet | None, Place]:
    try:
        place = SegtableHook(conn_id).place
    except AirflowNotFoundException as error:
        raise NotSetUp(str(error)) from None
    fleet, place = fleet_of(file, place) if file else (None, place)
    if not place.root:
        raise NotSetUp(
            f"connection {conn_id} has no root: set its host to the folder of the tables"
        )
    return fleet, place

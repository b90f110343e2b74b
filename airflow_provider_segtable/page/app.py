"""The page as an application: the API of all views, and the files that are served.

1. Every route depends on the rights; nothing is mounted beside them.
2. The files are named here: what else is in the folder is not served. They are read once.
3. The description of the API (OpenAPI) is not served; ``openapi`` returns it, for the build.
4. Routes are relative to the app's prefix, so a sub-path of a proxy needs no setting.
"""

import hashlib
import mimetypes
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from pydantic import Field

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.page import (
    event_list,
    explain_view,
    fleet_lines,
    index_view,
    plan_view,
    run_view,
    segment_map,
    segment_view,
    service_view,
    simulation,
    table_view,
)
from airflow_provider_segtable.page.actions import Actions, NoActions
from airflow_provider_segtable.page.actions import routes as action_routes
from airflow_provider_segtable.page.answer import Answer, Shown
from airflow_provider_segtable.page.guarding import Guard, answer_errors
from airflow_provider_segtable.page.lake import Lake
from airflow_provider_segtable.page.rights import Rights, Viewer
from airflow_provider_segtable.page.sources import Source

VIEWS: tuple[Callable[[Lake], APIRouter], ...] = (
    fleet_lines.routes,
    table_view.routes,
    segment_map.routes,
    segment_view.routes,
    event_list.routes,
    plan_view.routes,
    simulation.routes,
    index_view.routes,
    explain_view.routes,
    service_view.routes,
    run_view.routes,
)
"""The routes of each view module."""
FILES = ("index.html", "page.js", "page.css", "lake.svg", "lake-dark.svg")


class Session(Shown):
    """Who looks, at what, and what is allowed at all."""

    user: str
    authenticated: bool
    read_only: bool
    package_version: str
    fleet: str | None = Field(description="name of the fleet; null without a fleet file")
    places: list[str] = Field(description="roots of the tables, without credentials")
    actions: list[str] = Field(description="names of actions that exist; each has its own right")
    airflow: bool


def page_app(
    lake: Lake, rights: Rights, actions: Actions | None = None, *, airflow: bool = False
) -> FastAPI:
    """Return the application.

    Args:
        lake: the tables.
        rights: admits users to routes, and to actions.
        actions: what can be done; nothing by default.
        airflow: whether it is part of an Airflow, which has DAG runs and assets to link to.
    """
    app = FastAPI(
        title="segtable page",
        version=__version__,
        dependencies=[Depends(rights.view)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Guard)
    answer_errors(app, lake.safe)
    doing = actions or NoActions()
    app.include_router(_session(lake, rights, doing, airflow=airflow))
    app.include_router(action_routes(lake, rights, doing))
    for routes in VIEWS:
        app.include_router(routes(lake))
    app.include_router(_files())
    return app


def openapi(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, for the types of the front end."""
    return app.openapi()


def _session(lake: Lake, rights: Rights, actions: Actions, *, airflow: bool) -> APIRouter:
    router = APIRouter()

    @router.get("/api/session")
    async def session(viewer: Annotated[Viewer, Depends(rights.view)]) -> Answer[Session]:
        late, sources = "", tuple[Source, ...]()
        try:
            sources = await lake.sources()
        except (SegtableError, OSError) as error:
            late = lake.safe(str(error))
        fleets = [source.fleet.name for source in sources if source.fleet.name]
        shown = Session(
            user=viewer.name,
            authenticated=viewer.authenticated,
            read_only=not actions.names,
            package_version=__version__,
            fleet=", ".join(fleets) or None,
            places=[source.label for source in sources],
            actions=list(actions.names),
            airflow=airflow,
        )
        return lake.now(shown).model_copy(update={"late": late})

    return router


def _files() -> APIRouter:
    router, served = APIRouter(), _read()

    @router.get("/", include_in_schema=False)
    @router.get("/{name}", include_in_schema=False)
    async def file(request: Request, name: str = "index.html") -> Response:
        if name not in served:
            raise HTTPException(404, f"there is no {name[:80]!r} here")
        data, tag = served[name]
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(data, media_type=kind, headers=headers)

    return router


def _read() -> Mapping[str, tuple[bytes, str]]:
    """Return the files by name, each with its tag."""
    folder = files("airflow_provider_segtable.page") / "built"
    found = {name: folder / name for name in FILES}
    data = {name: file.read_bytes() for name, file in found.items() if file.is_file()}
    return {
        name: (each, f'"{hashlib.sha256(each).hexdigest()[:20]}"') for name, each in data.items()
    }

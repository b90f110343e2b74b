"""The page as Airflow mounts it: made at the first request.

1. Every process of Airflow loads the plugin: tasks and schedulers, too. So nothing of the page is
   imported before an API server is asked for it. It is made in a thread: the server goes on.
2. If it cannot be made, as Airflow's check of users is not where it was, every request is refused.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOG = logging.getLogger(__name__)


def made() -> "ASGIApp":
    """Return the page inside Airflow (``ui.lake_page``).

    Raises:
        ImportError: a part of it, or of Airflow's API server, is missing.
    """
    from airflow_provider_segtable.ui import lake_page

    return lake_page.made()


class LazyPage:
    """The page as Airflow mounts it; see the module."""

    def __init__(self, make: "Callable[[], ASGIApp]") -> None:
        """Take the function that makes the page."""
        self._make = make
        self._gate = asyncio.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request."""
        async with self._gate:
            if self._app is None:
                self._app = await asyncio.to_thread(self._made)
        await self._app(scope, receive, send)

    def _made(self) -> "ASGIApp":
        try:
            return self._make()
        except Exception:  # noqa: BLE001 - whatever it is, nothing may be shown
            _LOG.exception("the page of segtable cannot be made: every request to it is refused")
            return refused


async def refused(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Refuse a request."""
    from starlette.responses import JSONResponse

    if scope["type"] != "http":
        return
    body = {"error": "Refused", "message": "the page is not available", "way_out": ""}
    await JSONResponse({**body, "way_out": "the API server's log says why"}, 403)(
        scope, receive, send
    )

"""Who may look, and who may act.

1. Every route of the page depends on ``Rights.view``, static files, too. It is a dependency of
   FastAPI: it may ask for the request, for a user of Airflow, for whatever its system has. It
   returns the user, or raises ``HTTPException`` with 401 or 403.
2. An action needs a right of its own: ``refusal`` returns why the user may not, or nothing.
3. ``OnLoopback`` is for ``segtable ui``: the address is of this machine alone. It answers only
   requests that name this machine, so that a name of a foreign site that resolves to loopback reads
   nothing. With a token, requests without it are refused; without one, nothing can be changed.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fastapi import HTTPException, Request
from fastapi.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.secret import Secret
from airflow_provider_segtable.page.sources import TablePlace

COOKIE = "segtable_page"
_HERE = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The user of a request; ``identity`` is for the system that knows its rights."""

    name: str = ""
    authenticated: bool = False
    identity: Any = None


class Rights(Protocol):
    """What users may do; see the module."""

    @property
    def view(self) -> Callable[..., Any]:
        """Return the dependency that admits a request, and returns its ``Viewer``."""
        ...

    def refusal(
        self, viewer: Viewer, action: str, table: TablePlace, arguments: Mapping[str, Any]
    ) -> str:
        """Return why a user may not do this to a table; empty if it is allowed.

        It is called in a thread of the page, and may ask the system that knows the rights. Without
        arguments it is about the action in general.
        """
        ...


class OnLoopback:
    """The rights of ``segtable ui``: all users of this machine may look."""

    def __init__(self, user: str, token: Secret | None = None) -> None:
        """Take the name that actions are recorded by, and the token that allows them."""
        self._user = user
        self._token = token

    @property
    def view(self) -> Callable[..., Viewer]:
        """Return the check of host and token."""
        return self._admitted

    def _admitted(self, request: Request) -> Viewer:
        if request.headers.get("host", "").rsplit(":", 1)[0] not in _HERE:
            raise HTTPException(403, "this page answers on 127.0.0.1 and localhost alone")
        if self._token is not None and not self.has_token(request.cookies.get(COOKIE, "")):
            raise HTTPException(401, "the token is missing: open the address that was printed")
        return Viewer(name=self._user, authenticated=self._token is not None)

    def has_token(self, given: str) -> bool:
        """Return whether a text is the token."""
        known = self._token.reveal() if self._token else ""
        return bool(known) and secrets.compare_digest(given.encode(), known.encode())

    def entrance(self, app: ASGIApp) -> ASGIApp:
        """Return the application, which takes the token of a printed address into a cookie."""

        async def entered(scope: Scope, receive: Receive, send: Send) -> None:
            asked = Request(scope) if scope["type"] == "http" else None
            given = asked.query_params.get("token", "") if asked else ""
            if not self.has_token(given):
                await app(scope, receive, send)
                return
            answer = RedirectResponse("./", 303)  # the token is in no address from now on
            answer.set_cookie(COOKIE, given, httponly=True, samesite="strict")
            await answer(scope, receive, send)

        return entered

    def refusal(
        self,
        viewer: Viewer,  # noqa: ARG002 - the arguments are the port's
        action: str,  # noqa: ARG002
        table: TablePlace,  # noqa: ARG002
        arguments: Mapping[str, Any],  # noqa: ARG002
    ) -> str:
        """Return why nothing can be changed: there is no token."""
        if self._token is not None:
            return ""
        return "this page is read-only: start it by `segtable ui --token` to change tables"

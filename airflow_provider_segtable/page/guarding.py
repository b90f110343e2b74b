"""What every request and every response of the page has, before any route.

1. A POST has the header ``X-Segtable-Page: 1`` and a JSON body: a foreign page can send neither
   without being asked first. If the browser says where it comes from, that is this page. Its body
   is short, as it is read whole.
2. Every response has a strict content policy: scripts and styles are files of the page, nothing is
   loaded from elsewhere, and only pages of the same origin show it in a frame.
3. An error is JSON (``Problem``), and a document where a browser opens an address, as in a frame of
   Airflow. An error that is not of segtable shows no text of its own.
"""

import logging
from collections.abc import Callable, Mapping
from html import escape
from types import MappingProxyType
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    InvalidInput,
    NotATable,
    RestoreRefused,
    SegtableError,
    VersionExpired,
)
from airflow_provider_segtable.page.action_kind import Changed
from airflow_provider_segtable.page.answer import Problem, Unanswered

_LOG = logging.getLogger(__name__)
HEADER = "X-Segtable-Page"
MOST_BODY = 256 * 1024
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
)
_STATUS: Mapping[type[Exception], int] = MappingProxyType(
    {
        NotATable: 404,
        VersionExpired: 404,
        InvalidInput: 400,
        Unanswered: 503,
        PermissionError: 403,
        Changed: 409,
        CommitConflict: 409,
        RestoreRefused: 409,
    }
)

_WAYS_OUT: Mapping[int, str] = MappingProxyType(
    {
        401: "log in again",
        403: "ask the one who runs this page for the right",
        409: "look at it again",
        500: "the server's log says why",
        503: "try again: it goes on being read meanwhile",
    }
)


class Guard:
    """The layer around all routes; see the module."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a forged request; add the headers to any response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        forged = _forged(scope["method"], Headers(scope=scope))
        app: ASGIApp = _problem(403, "Refused", forged) if forged else self._app
        await app(scope, receive, guarded)


def _forged(method: str, headers: Headers) -> str:
    """Return why a request is not one of this page; empty if it may be."""
    if method in ("GET", "HEAD"):
        return ""
    if headers.get(HEADER) != "1":
        return f"the header {HEADER} is missing"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "the body is not application/json"
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MOST_BODY:
        return f"the body has no length, or is longer than {MOST_BODY:,} bytes"
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return "" if site == "same-origin" else "it comes from another page"
    hosts = (headers.get("host"), headers.get("x-forwarded-host"))
    return "" if not origin or urlsplit(origin).netloc in hosts else "it comes from another page"


def _problem(status: int, error: str, message: str) -> JSONResponse:
    """Return an error; segtable's messages name the way out themselves."""
    body = Problem(error=error, message=message, way_out=_WAYS_OUT.get(status, ""))
    return JSONResponse(body.model_dump(), status)


def _document(status: int, message: str) -> HTMLResponse:
    """Return an error for people; it needs no other file, since these may be refused, too."""
    sentences = (escape(each) for each in (f"{message}.", _WAYS_OUT.get(status, "")) if each)
    body = "".join(f"<p>{each[0].upper()}{each[1:]}</p>" for each in sentences)
    head = "<meta name=color-scheme content='light dark'><title>Lake</title>"
    return HTMLResponse(
        f"<!doctype html><html lang=en>{head}<h1>Lake</h1>{body}</html>", status_code=status
    )


def answer_errors(app: FastAPI, safe: Callable[[str], str]) -> None:
    """Let an app answer each error by a ``Problem``; ``safe`` hides credentials in its text."""

    @app.exception_handler(SegtableError)
    @app.exception_handler(OSError)
    async def known(_: Request, error: Exception) -> JSONResponse:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 503)
        return _problem(status, type(error).__name__, safe(str(error)))

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        message = safe(str(error.detail))
        if request.headers.get("sec-fetch-dest") in ("document", "iframe", "frame"):
            return _document(error.status_code, message)
        return _problem(error.status_code, "Refused", message)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        wrong = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()]
        return _problem(400, "InvalidInput", "; ".join(wrong))

    @app.exception_handler(Exception)
    async def unknown(_: Request, error: Exception) -> JSONResponse:
        _LOG.error("the page could not answer", exc_info=error)
        return _problem(500, "Failed", "the page could not answer")

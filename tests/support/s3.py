"""A pytest fixture with an S3 server: ``pytest_plugins = ["tests.support.s3"]``.

The server (moto's) starts on first use, once per session, on a free loopback port. Tests are
isolated by their own prefixes.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self
from urllib.request import Request, urlopen

import pytest

BUCKET = "segtable-tests"


class OneConditionAtATime:
    """A WSGI application that answers conditional requests one after another.

    Moto looks whether an object exists, and stores it later: of two creations at once, both would
    succeed. S3 promises that one does.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        """Wrap an application."""
        self._application = application
        self._mutex = Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        conditional = "HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ
        with self._mutex if conditional else nullcontext():
            return self._application(environ, start)


class LoopbackS3:
    """An S3 server in this process, with one bucket."""

    def __enter__(self) -> Self:
        """Start the server and make the bucket."""
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        moto = OneConditionAtATime(DomainDispatcherApplication(create_backend_app))
        self._server = make_server(
            "127.0.0.1", 0, moto, threaded=True, request_handler=MotoRequestHandler
        )
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.host, self.port = self._server.host, self._server.port
        made = Request(f"http://{self.host}:{self.port}/{BUCKET}", method="PUT")
        urlopen(made, timeout=30).close()  # noqa: S310  # loopback
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server and drop its objects."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def uri(self, prefix: str) -> str:
        """Return the URI of a folder in the bucket."""
        return f"s3://{BUCKET}/{prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Return the storage options for this server, for log and data files."""
        return options_for(f"http://{self.host}:{self.port}")


def options_for(endpoint: str) -> dict[str, str]:
    """Return storage options for an S3 endpoint that accepts any credentials."""
    return {
        "endpoint": endpoint,
        "allow_http": "true",
        "region": "us-east-1",
        "access_key_id": "testing",
        "secret_access_key": "testing",
        "virtual_hosted_style_request": "false",
    }


@pytest.fixture(scope="session")
def s3() -> Iterator[LoopbackS3]:
    """Yield a running server."""
    with LoopbackS3() as server:
        yield server

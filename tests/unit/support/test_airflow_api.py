"""The client of an API server, over a server that does not answer at first."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.support.airflow_api import AirflowApi


@contextmanager
def silent_at_first(asked: list[str]) -> Iterator[AirflowApi]:
    """Yield a client of a server that breaks off its first answer, and notes what it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(self.command)
            if len(asked) == 1:
                return
            body = b'{"dag_runs": []}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = do_POST = answer  # noqa: N815 - the server's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        api = AirflowApi()
        api.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield api
        finally:
            server.shutdown()


def test_a_read_without_an_answer_is_repeated_once() -> None:
    """A busy server breaks off an answer now and then."""
    asked: list[str] = []
    with silent_at_first(asked) as api:
        assert api.runs("load") == []
    assert asked == ["GET", "GET"]


def test_a_request_that_makes_a_run_is_never_repeated() -> None:
    """It may have been carried out: the caller decides."""
    asked: list[str] = []
    with silent_at_first(asked) as api, pytest.raises(ConnectionError):
        api.backfill("load", first := datetime(2026, 1, 1, tzinfo=UTC), first)
    assert asked == ["POST"]

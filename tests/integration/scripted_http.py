"""An HTTP server that answers as a script says, or hangs up; and one that loses a real answer."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

HANG_UP = "hang up"


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and an S3 error code."""

    status: int
    code: str = ""

    @property
    def body(self) -> bytes:
        """Return the error document."""
        return f"<Error><Code>{self.code}</Code></Error>".encode() if self.code else b""


Step = Answer | str
Serve = Callable[[BaseHTTPRequestHandler], None]


class ScriptedServer:
    """Serves each request with the script's next step; the last one is repeated.

    ``requests`` lists what was asked, as ``METHOD path``.
    """

    def __init__(self, *script: Step) -> None:
        """Listen on a free loopback port."""
        self.requests: list[str] = []
        self._script = list(script)
        self._mutex = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self._serve))
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body_of(request)
        with self._mutex:
            self.requests.append(f"{request.command} {request.path}")
            step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(step, Answer):
            reply(request, step.status, {"ETag": '"x"'}, step.body)
        else:
            request.close_connection = True


class AnswerLosingProxy(ScriptedServer):
    """Forwards to a real server, and loses the answers to the first ``losses`` PUTs."""

    def __init__(self, host: str, port: int, *, losses: int = 1) -> None:
        """Stand in front of ``host:port``."""
        super().__init__(HANG_UP)
        self._target = (host, port)
        self.losses = losses

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = body_of(request)
        connection = HTTPConnection(*self._target, timeout=30)
        connection.request(request.command, request.path, body, dict(request.headers.items()))
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        with self._mutex:
            self.requests.append(f"{request.command} {request.path}")
            lost = request.command == "PUT" and self.losses > 0
            self.losses -= lost
        if lost:
            request.close_connection = True
            return
        kept = {n: v for n, v in answer.getheaders() if n.lower() not in _HOP_BY_HOP}
        reply(request, answer.status, kept, data)


_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "server", "date"}


def handler(serve: Serve) -> type[BaseHTTPRequestHandler]:
    """Return a request handler that does ``serve`` for every method."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            serve(self)

        do_GET = do_POST = do_DELETE = do_HEAD = do_PUT  # noqa: N815  # http.server's names

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    return Handler


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    """Read a request's body."""
    return request.rfile.read(int(request.headers.get("content-length", 0)))


def reply(
    request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Send an answer."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("content-length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)

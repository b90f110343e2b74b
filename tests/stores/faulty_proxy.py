"""An HTTP proxy in front of an object store that answers wrongly, loses answers or shifts time.

1. A fault looks at each request, and takes part in those that it is for, a number of times.
2. ``Answered`` replies without asking the server. ``AnswerLost`` asks it, and hangs up.
3. ``ConditionIgnored`` removes the condition of a put, as a store without conditional writes does.
   A request whose signature covers the condition is signed again (S3).
4. ``TimeShifted`` changes the modification times in the server's answers.
5. ``Killed`` kills the client, whose request has reached the server or not. ``Traced`` writes
   down which requests there were.
6. The proxy is a process of its own: pyarrow keeps all threads of Python waiting while it reads
   from Google Cloud Storage, so a proxy in the reader's process would never answer.
"""

import multiprocessing
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.integration.scripted_http import handler, reply

_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "server", "date"}
_ROOMS = {
    "event": "/timeline/",
    "data": "/data/",
    "checkpoint": "/checkpoints/",
    "index": "/indexes/",
    "published": "/_delta_log/",
    "hint": "/_segtable/",
}
_CONDITIONS = {"if-none-match", "x-goog-if-generation-match"}
_ISO = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_HTTP_DATE = re.compile(rb"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")


@dataclass(slots=True)
class Asked:
    """A request as it is forwarded."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def conditional(self) -> bool:
        """Return whether it is a put-if-absent."""
        return any(name.lower() in _CONDITIONS for name in self.headers)


Chosen = Callable[[Asked], bool]


def anything(_: Asked) -> bool:
    """Choose all requests."""
    return True


def creates(asked: Asked) -> bool:
    """Choose each put-if-absent."""
    return asked.method == "PUT" and asked.conditional


def events(asked: Asked) -> bool:
    """Choose each put-if-absent of an event of a log."""
    return creates(asked) and "/timeline/" in unquote(asked.path)


def kind_of(asked: Asked) -> str:
    """Return the method and the room of the table that a request is about."""
    path, _, query = unquote(asked.path).partition("?")
    method = "LIST" if "list-type" in query else asked.method
    where = unquote(query) if method == "LIST" else path
    room = next((word for word, part in _ROOMS.items() if part in where), "other")
    return f"{method} {room}"


_FORK = multiprocessing.get_context("fork")


def _counter() -> Any:
    return _FORK.Value("i", 0)


@dataclass(slots=True, kw_only=True)
class Fault:
    """A fault of the first ``times`` requests that are chosen; ``seen`` counts them."""

    chosen: Chosen = anything
    times: int = 1 << 30
    counter: Any = field(default_factory=_counter)

    @property
    def seen(self) -> int:
        """Return how many requests it took part in."""
        return int(self.counter.value)


@dataclass(slots=True, kw_only=True)
class Answered(Fault):
    """The server is not asked."""

    status: int
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return the error document."""
        message = f"<Message>{self.code}.</Message>"
        return f"<Error><Code>{self.code}</Code>{message}</Error>".encode() if self.code else b""


@dataclass(slots=True, kw_only=True)
class AnswerLost(Fault):
    """The server has done it, and its answer is lost."""

    @property
    def due(self) -> bool:
        """Return that each of its answers is lost."""
        return True


@dataclass(slots=True, kw_only=True)
class ConditionIgnored(Fault):
    """The server does not see the condition of a put."""

    keys: tuple[str, str] | None = None


@dataclass(slots=True, kw_only=True)
class TimeShifted(Fault):
    """The server's clock is off."""

    by: timedelta


@dataclass(slots=True, kw_only=True)
class Killed(Fault):
    """The client is killed at the last request that is chosen, before it is sent or after it.

    ``victim`` is the client's process id, which is known when the client has started.
    """

    after: bool
    victim: Any = field(default_factory=_counter)

    @property
    def due(self) -> bool:
        """Return whether this is the request."""
        return self.seen == self.times

    def kill(self) -> None:
        """Kill the client, once its process id is known; 0 would be this process's group."""
        while not self.victim.value:
            time.sleep(0.01)
        os.kill(self.victim.value, signal.SIGKILL)


@dataclass(slots=True, kw_only=True)
class Traced(Fault):
    """Each request is a line of a file."""

    file: Path

    def write(self, text: str) -> None:
        """Append a line."""
        with self.file.open("a") as file:
            file.write(f"{text}\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone; they were killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class FaultyProxy:
    """Forwards from ``port`` on loopback to another one there."""

    def __init__(self, to: int, *faults: Fault) -> None:
        """Stand in front of the server at port ``to``."""
        self._to = to
        self._faults = faults
        self._server = _Server(("127.0.0.1", 0), handler(self._serve))
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        """Begin to serve."""
        with warnings.catch_warnings():  # the child calls no library that has threads
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = _FORK.Process(target=self._server.serve_forever, daemon=True)
            self._process.start()
        self._server.server_close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._process.terminate()
        self._process.join()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        asked = Asked(
            request.command, request.path, dict(request.headers.items()), body_of(request)
        )
        faults = [each for each in self._faults if _takes_part(each, asked)]
        for fault in faults:
            if isinstance(fault, Answered):
                reply(request, fault.status, fault.headers, fault.body)
                return
            if isinstance(fault, ConditionIgnored):
                self._unconditional(asked, fault)
            if isinstance(fault, Traced):
                fault.write(kind_of(asked))
            if isinstance(fault, Killed) and fault.due and not fault.after:
                fault.kill()
                request.close_connection = True
                return
        status, headers, body = self._forward(asked)
        for fault in faults:
            if isinstance(fault, Killed) and fault.due:
                fault.kill()
            if isinstance(fault, AnswerLost | Killed) and fault.due:
                request.close_connection = True
                return
            if isinstance(fault, TimeShifted):
                headers, body = _shifted(headers, body, fault.by)
        send_on(request, status, headers, body)

    def send_on(self, request: BaseHTTPRequestHandler, asked: Asked) -> None:
        """Ask the server, and send its answer on."""
        send_on(request, *self._forward(asked))

    def _unconditional(self, asked: Asked, fault: ConditionIgnored) -> None:
        kept = {n: v for n, v in asked.headers.items() if n.lower() not in _CONDITIONS}
        if fault.keys is not None and len(kept) < len(asked.headers):
            host = next(value for name, value in kept.items() if name.lower() == "host")
            kept = {
                name: value
                for name, value in kept.items()
                if name.lower() not in {"authorization", "host", "content-length"}
            }
            again = AWSRequest(asked.method, f"http://{host}{asked.path}", kept, asked.body)
            S3SigV4Auth(Credentials(*fault.keys), "s3", "us-east-1").add_auth(again)
            kept = {**dict(again.headers.items()), "Host": host}
        asked.headers = kept

    def _forward(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        dropped = {"transfer-encoding", "content-length", "connection", "expect"}
        headers = {n: v for n, v in asked.headers.items() if n.lower() not in dropped}
        if asked.body or asked.method in {"PUT", "POST"}:
            headers["Content-Length"] = str(len(asked.body))
        connection = HTTPConnection("127.0.0.1", self._to, timeout=60)
        connection.putrequest(asked.method, asked.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(asked.body or None)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body


def _takes_part(fault: Fault, asked: Asked) -> bool:
    with fault.counter.get_lock():
        if fault.seen >= fault.times or not fault.chosen(asked):
            return False
        fault.counter.value += 1
        return True


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    """Read a request's body, of known length or in chunks."""
    if request.headers.get("transfer-encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("content-length", 0)))
    body = b""
    while size := int(request.rfile.readline().split(b";")[0], 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    while request.rfile.readline().strip():
        pass
    return body


def send_on(
    request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Send an answer; a HEAD's keeps the length that the server named."""
    kept = {n: v for n, v in headers.items() if n.lower() not in _HOP_BY_HOP}
    if request.command != "HEAD":
        reply(request, status, kept, body)
        return
    request.send_response(status)
    length = {n: v for n, v in headers.items() if n.lower() == "content-length"}
    for name, value in {**kept, **length}.items():
        request.send_header(name, value)
    request.end_headers()


def _shifted(headers: dict[str, str], body: bytes, by: timedelta) -> tuple[dict[str, str], bytes]:
    """Return an answer whose times are moved; only listings have times in their body."""

    def iso(found: re.Match[bytes]) -> bytes:
        when = datetime.fromisoformat(found[0].decode())
        return (when + by).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()

    def http(found: re.Match[bytes]) -> bytes:
        return format_datetime(parsedate_to_datetime(found[0].decode()) + by, usegmt=True).encode()

    moved = {
        name: http(match).decode()
        for name, value in headers.items()
        if name.lower() == "last-modified" and (match := _HTTP_DATE.match(value.encode()))
    }
    if body.lstrip().startswith((b"<", b"\xef\xbb\xbf<")):
        body = _HTTP_DATE.sub(http, _ISO.sub(iso, body))
    return {**headers, **moved}, body

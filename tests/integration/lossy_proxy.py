"""A TCP proxy in front of ZooKeeper that loses exactly one transaction, or its reply."""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

MULTI = 14


class LossyProxy:
    """Forwards connections to ``port``; ``lose`` arms one loss at the next transaction.

    ``open`` may be set to False to refuse further connections.
    """

    def __init__(self, port: int) -> None:
        """Listen on a free loopback port."""
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.open = True
        self.losses = 0
        self._armed = ""
        self._stay_shut = False

    def __enter__(self) -> Self:
        """Begin to accept."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self.open = False
        self._listener.close()

    def lose(self, what: str, *, stay_shut: bool = False) -> None:
        """Lose the next transaction's ``request`` or ``reply``, and the connection with it."""
        self._armed, self._stay_shut = what, stay_shut

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self.open:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._port))
                multis: set[int] = set()
                for run in (self._requests, self._replies):
                    threading.Thread(target=run, args=(client, server, multis), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, multis: set[int]) -> None:
        with suppress(OSError):
            while frame := _frame(client):
                xid, kind = struct.unpack_from(">ii", frame, 4)
                if kind == MULTI and self._armed == "request":
                    self._lost()
                    break
                if kind == MULTI and self._armed == "reply":
                    multis.add(xid)
                server.sendall(frame)
        _shut(client, server)

    def _replies(self, client: socket.socket, server: socket.socket, multis: set[int]) -> None:
        with suppress(OSError):
            while frame := _frame(server):
                if struct.unpack_from(">i", frame, 4)[0] in multis:
                    self._lost()
                    break
                client.sendall(frame)
        _shut(client, server)

    def _lost(self) -> None:
        self._armed = ""
        self.open = not self._stay_shut
        self.losses += 1


def _frame(source: socket.socket) -> bytes:
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">i", head)[0]) if head else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()

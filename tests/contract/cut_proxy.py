"""A TCP proxy that cuts connections just as the server answers, so that the answer is lost."""

import socket
import threading
from contextlib import suppress


class CutProxy:
    """Forwards connections to a port on loopback."""

    def __init__(self, port: int) -> None:
        """Listen on a free port."""
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        self._doomed: set[socket.socket] = set()
        self._servers: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Lose the next answer on each present connection, and the connection with it."""
        self._doomed |= self._servers

    def close(self) -> None:
        """Stop listening, and end all connections."""
        self._listener.close()
        for server in tuple(self._servers):
            _end(server)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    _end(client)
                    continue
                self._servers.add(server)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if source in self._doomed:
                    self.cuts += 1
                    break
                target.sendall(data)
        for each in (source, target):
            self._servers.discard(each)
            self._doomed.discard(each)
            _end(each)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

"""Free ports of this machine for servers that are started a moment later.

1. A server binds its port some time after the port was found free, and again when it restarts.
   Meanwhile the system may give that port to any outgoing connection, if it is an ephemeral one.
   So a port below the ephemeral ports of Linux and macOS is drawn: only a server takes such a port.
2. The draw is random, so that two processes that draw at the same time hardly ever meet.
"""

import secrets
import socket

LOOPBACK = "127.0.0.1"
FIRST = 10_000
PAST = 32_768
"""The first ephemeral port of Linux; those of macOS are higher."""
DRAWS = 100


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    for _ in range(DRAWS):
        port = FIRST + secrets.randbelow(PAST - FIRST)
        if is_free(port):
            return port
    return _any_port()


def is_free(port: int) -> bool:
    """Return whether a server could bind the port of the loopback interface now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port

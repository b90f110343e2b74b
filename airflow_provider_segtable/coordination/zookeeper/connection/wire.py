"""Make the kazoo client of a link: with bounded waits, private nodes, and no secrets in logs.

1. The identity (``access``) becomes kazoo's arguments. Nodes are made for that user alone, also in
   transactions, where kazoo's default would make them open.
2. kazoo logs requests, and so passwords: those records are dropped. The last problem of the
   connection is kept for the error about a server without an answer. What it tells of a connection
   without a problem is for debugging: each task's log would begin and end with it.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import SASL, Auth
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL

from airflow_provider_segtable.coordination.zookeeper.connection.access import Access
from airflow_provider_segtable.core.errors import InvalidInput

CONNECT_REPLY_S = 3.0

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # kazoo warns of each reconnection: silent by default


class Voice(logging.LoggerAdapter[logging.Logger]):
    """Logger of one kazoo connection that hides credentials."""

    trouble = ""

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Pass a record on, unless it shows a request that authenticates."""
        if any(isinstance(each, Auth | SASL) for each in args):
            return
        if level >= logging.WARNING and args:  # without args: only that kazoo gave up
            self.trouble = str(msg) % args
        if level == logging.INFO and not self.trouble:
            level = logging.DEBUG
        super().log(level, msg, *args, **options)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Reconnect when a server accepts a connection but does not reply.

    A starting server may do that, and kazoo would wait as long as a session lasts, long enough to
    lose it. TLS is set up here, because kazoo leaves sockets open after a failed handshake.
    """

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        """Store the longest wait for a reply to a connection."""
        super().__init__()
        self.is_connected: Callable[[], bool] = lambda: False
        self._timeout_s = timeout_s
        self._tls = tls

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Connect, encrypted if requested."""
        if self._tls is None:
            return super().create_connection(*arguments, **options)
        plain = socket.create_connection(options["address"], options["timeout"])
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._tls.wrap_socket(plain, server_hostname=options["hostname"])

    def select(self, read: Any, write: Any, other: Any, timeout: float | None = None) -> Any:
        """Select, with a short timeout while disconnected."""
        if not self.is_connected():
            timeout = min(self._timeout_s if timeout is None else timeout, self._timeout_s)
        return super().select(read, write, other, timeout)


class Transaction(TransactionRequest):  # type: ignore[misc]  # kazoo has no types
    """A transaction whose nodes belong to the client's user, like single creations."""

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: Sequence[ACL] | None = None,
        ephemeral: bool = False,  # noqa: FBT001, FBT002 - kazoo's own signature
        sequence: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Add a creation."""
        super().create(path, value, acl or self.client.default_acl, ephemeral, sequence)


def client_of(hosts: str, access: Access, *, session_timeout_s: float) -> tuple[KazooClient, Voice]:
    """Return an unconnected client, and its logger."""
    voice = Voice(_log, {})
    handler = Handler(min(CONNECT_REPLY_S, session_timeout_s / 3), _encryption(access))
    client = KazooClient(
        hosts=hosts,
        timeout=session_timeout_s,
        logger=voice,
        handler=handler,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
        default_acl=CREATOR_ALL_ACL if access.user else None,
        use_ssl=access.tls,
        **_authentication(access),
    )
    handler.is_connected = lambda: bool(client.connected)
    return client, voice


def _authentication(access: Access) -> dict[str, Any]:
    if not access.user:
        return {}
    password = access.password.reveal()
    if access.scheme == "digest":
        return {"auth_data": [("digest", f"{access.user}:{password}")]}
    user = {"username": access.user, "password": password}
    return {"sasl_options": {"mechanism": "DIGEST-MD5", **user}}


def _encryption(access: Access) -> ssl.SSLContext | None:
    if not access.tls:
        return None
    try:
        return _context(access)
    except OSError as error:  # also what ssl raises
        raise InvalidInput(
            f"ca {access.ca}, certificate {access.certificate} or key {access.key} of the "
            f"ZooKeeper options cannot be used ({error}): give matching PEM files"
        ) from None


def _context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca)
    context.check_hostname = access.check_hostname
    if access.certificate:
        context.load_cert_chain(access.certificate, access.key, access.key_password.reveal)
    return context

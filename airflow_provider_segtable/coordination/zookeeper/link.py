"""Connect to ZooKeeper by one kazoo client: its connection, its sessions, and their known state.

1. A call returns, fails with kazoo's own error, or is *interrupted*: the connection dropped and it
   is unknown whether the call took effect. ``call`` raises one exception for all interruptions.
2. Nothing is sent while disconnected: kazoo would queue it and send it under a later session.
3. ``generation`` grows whenever the connection drops. A node verified in an earlier generation is
   in doubt until verified again.
4. A link may have several sessions, one after another; an ended session never returns.
5. A cleanup that fails while disconnected runs again after the reconnection.
6. The identity (``access``) becomes kazoo's arguments. Nodes are made for that user alone, also in
   transactions, where kazoo's default would make them open.
7. kazoo logs requests, and so passwords: those records are dropped.
8. kazoo's last problem with the connection is kept for the error about a server without an answer.
   Its other messages are logged for debugging only: each task's log would begin and end with them.
9. All waits of the kazoo client are bounded.
"""

import logging
import os
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import SASL, Auth
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL

from airflow_provider_segtable.coordination.zookeeper.access import Access
from airflow_provider_segtable.core.errors import (
    AccessRefused,
    CoordinatorUnavailable,
    InvalidInput,
)

CONNECT_REPLY_S = 3.0

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # kazoo warns of each reconnection: silent by default


# The kazoo client: bounded waits, private nodes, no secrets in logs
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


class Handler(SequentialThreadingHandler):
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


class Transaction(TransactionRequest):
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
    except OSError as error:  # also of ssl
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


INTERRUPTIONS = (
    ConnectionLoss,
    SessionExpiredError,  # also kazoo's ConnectionClosedError
    SessionMovedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
MAX_REQUEST_BYTES = 1_000_000
"""Just under ``jute.maxbuffer``: for larger requests a server drops the connection."""


# The link: calls, sessions and generations
class Interrupted(Exception):
    """The connection dropped; the call may or may not have taken effect."""


class Link:
    """A connected kazoo client of this process."""

    def __init__(
        self, hosts: str, root: str, *, session_timeout_s: float, address: str, access: Access
    ) -> None:
        """Prepare the link; ``open`` connects it."""
        self.root = root
        self.pid = os.getpid()
        self.generation = 0
        self.abandoned = False
        self.reads_together = True
        self._address = address
        self._access = access
        self._refused = False
        self._patience_s = max(5.0, session_timeout_s)
        self._changed = threading.Condition()
        self._up = False
        self._session: int | None = None
        self._epoch: tuple[int | None, str] = (None, "")
        self._leftovers: list[Callable[[], None]] = []
        self.client, self._voice = client_of(hosts, access, session_timeout_s=session_timeout_s)
        self.client.add_listener(self._listen)

    def open(self, timeout_s: float) -> "Link":
        """Connect.

        Raises:
            CoordinatorUnavailable: if no server answers.
        """
        try:
            self.client.start(timeout=timeout_s)
        except (KazooException, KazooTimeoutError, OSError) as error:
            self.refuse_if_unknown()
            raise self.unavailable(f"for {timeout_s:g} s") from error
        self.await_connected(timeout_s)  # until the listener has noted the session, too
        return self

    def unavailable(self, why: str) -> CoordinatorUnavailable:
        """Return the error for an address without an answer."""
        last = f"; last error: {self._voice.trouble}" if self._voice.trouble else ""
        tls = ", or the certificates of its ZooKeeper options" if self._access.tls else ""
        return CoordinatorUnavailable(
            f"no ZooKeeper answers at {self._address} ({why}{last}): start one with "
            f"`segtable zookeeper start`, or correct the address{tls}"
        )

    def refuse_if_unknown(self) -> None:
        """Raise ``AccessRefused`` if the server refused the client's identity."""
        if self._refused:
            raise AccessRefused(
                f"ZooKeeper at {self._address} refuses {self._access}: correct user and password "
                "in the ZooKeeper options, or the users of its SASL configuration"
            )

    def transaction(self) -> Transaction:
        """Return an empty transaction."""
        return Transaction(self.client)

    @property
    def connected(self) -> bool:
        """Return whether the link is connected, as far as known."""
        return self._up and not self.abandoned and bool(self.client.connected)

    @property
    def session(self) -> int | None:
        """Return the session, also while suspended; None between sessions."""
        return None if self.abandoned or self.pid != os.getpid() else self._session

    def call(self, start: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a kazoo ``*_async`` call and return its result."""
        return self.wait(self.begin(start, *arguments, **options))

    def begin(self, start: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Start a kazoo ``*_async`` call; calls started together share one round trip."""
        if not self.connected:
            self.refuse_if_unknown()
            raise Interrupted
        return start(*arguments, **options)

    def wait(self, pending: Any) -> Any:
        """Return the result of a started call."""
        try:
            return pending.get(timeout=self._patience_s)
        except INTERRUPTIONS as error:
            raise Interrupted from error

    def epoch(self) -> str:
        """Return the coordinator's epoch: made by the first client, deleted by a wipe."""
        session = self._session
        if self._epoch[0] != session or session is None:
            self._epoch = (session, self._read_epoch())
        return self._epoch[1]

    def _read_epoch(self) -> str:
        while True:
            with suppress(BadVersionError, NodeExistsError, NoNodeError):  # a rival, or a wipe
                self.call(self.client.ensure_path_async, self.root)
                data, stat = self.call(self.client.get_async, self.root)
                if data:
                    return str(data.decode(errors="backslashreplace"))  # any data identifies it
                drawn = uuid.uuid4().hex.encode()
                self.call(self.client.set_async, self.root, drawn, version=stat.version)

    def await_connected(self, timeout_s: float) -> bool:
        """Wait for the reconnection; an abandoned link never reconnects."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.connected or self.abandoned or self._refused, timeout_s
            )
        self.refuse_if_unknown()
        return self.connected

    def delete(self, paths: Iterable[str]) -> None:
        """Delete nodes, now or after the reconnection; no error if they are absent."""
        paths = tuple(paths)

        def remove() -> None:
            pending = [self.begin(self.client.delete_async, path) for path in paths]
            for each in pending:
                with suppress(KazooException):
                    self.wait(each)

        self.clean(remove)

    def clean(self, remove: Callable[[], None]) -> None:
        """Run ``remove`` now, or again after the reconnection if it is interrupted."""
        try:
            remove()
        except Interrupted:
            self._leftovers.append(remove)
            if self.connected:
                self._clean_leftovers()

    def abandon(self) -> None:
        """End the session and lose its leases. Only the first call closes the connection."""
        with self._changed:
            first, self.abandoned = not self.abandoned, True
            self.generation += 1
            self._changed.notify_all()
        if not first or self.pid != os.getpid():
            return  # a forked child: the connection is the parent's, and so is closing it
        try:
            self.client.stop()
            self.client.close()
        except (KazooException, OSError) as error:
            _log.warning("closing the connection to %s failed: %s", self._address, error)

    def _listen(self, state: str) -> None:
        """Record a state change; runs in kazoo's thread and must not wait."""
        with self._changed:
            self._up = state == KazooState.CONNECTED
            if self._up:
                self._session = self.client.client_id[0]
            else:
                self.generation += 1
                if state == KazooState.LOST:
                    self._session = None
                    self._refused |= self.client.client_state == KeeperState.AUTH_FAILED
            self._changed.notify_all()
        if state == KazooState.CONNECTED and self._leftovers:
            self.client.handler.spawn(self._clean_leftovers)

    def _clean_leftovers(self) -> None:
        leftovers, self._leftovers = self._leftovers, []
        for remove in leftovers:
            try:
                remove()
            except Interrupted:
                self._leftovers.append(remove)

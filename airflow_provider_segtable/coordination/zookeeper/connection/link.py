"""One kazoo client: its connection, its sessions, and their known state.

1. A call returns, fails with kazoo's own error, or is *interrupted*: the connection dropped and it
   is unknown whether the call took effect. ``call`` raises one exception for all interruptions.
2. Nothing is sent while disconnected: kazoo would queue it and send it under a later session.
3. ``generation`` grows whenever the connection drops. A node verified in an earlier generation is
   in doubt until verified again.
4. A link may have several sessions, one after another; an ended session never returns.
5. A cleanup that fails while disconnected runs again after the reconnection.
"""

import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

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
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState

from airflow_provider_segtable.coordination.zookeeper.connection.access import Access
from airflow_provider_segtable.coordination.zookeeper.connection.wire import Transaction, client_of
from airflow_provider_segtable.core.errors import AccessRefused, CoordinatorUnavailable

INTERRUPTIONS = (
    ConnectionLoss,
    SessionExpiredError,  # also kazoo's ConnectionClosedError
    SessionMovedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
MAX_REQUEST_BYTES = 1_000_000
"""Just under ``jute.maxbuffer``: for larger requests a server drops the connection."""

_log = logging.getLogger(__name__)


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

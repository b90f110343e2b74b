"""Raise the head of a table to the newest event, without delay for the committer.

1. Each call begins in the callback of the one before, in kazoo's thread; nobody waits for it. At
   most one call per table is under way. Events announced meanwhile are announced by the next call,
   the newest one only.
2. The head is set at the version that this client saw last. If another client has changed it, it
   is read first, so it never goes back.
3. An announcement is a hint: if the connection drops, it is lost.
4. ``settle`` waits for the calls under way: before this client reads the head, and before it or
   its process ends.
"""

import threading
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from airflow_provider_segtable.coordination.zookeeper.connection.link import Interrupted, Link

SETTLED_S = 1.0
"""Longest wait for announcements under way."""


class Head:
    """The head of one table, as one link raises it."""

    def __init__(self, link: Link, path: str) -> None:
        """Raise the node at ``path``, which need not exist."""
        self.link = link
        self._path = path
        self._changed = threading.Condition()
        self._wanted = self._told = -1
        self._version: int | None = None
        self._busy = False

    def raise_to(self, n: int) -> None:
        """Announce event ``n`` unless a later event is announced."""
        with self._changed:
            self._wanted = max(self._wanted, n)
            if self._busy or self._told >= self._wanted:
                return
            self._busy = True
        self._next()

    def settle(self) -> None:
        """Wait until no call is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy or self.link.session is None, SETTLED_S)

    def _next(self) -> None:
        """Begin the next call, or end if the newest event is announced."""
        with self._changed:
            n, version = self._wanted, self._version
            if self._told >= n:
                self._end()
                return
        client, data = self.link.client, str(n).encode()
        try:
            if version is None:
                call = self.link.begin(client.get_async, self._path)
                call.rawlink(self._read)
            else:
                call = self.link.begin(client.set_async, self._path, data, version=version)
                call.rawlink(lambda done: self._raised(n, done))
        except Interrupted:
            self._fail()

    def _read(self, done: Any) -> None:
        if isinstance(done.exception, NoNodeError):
            self._create()
        elif done.exception:
            self._fail()
        else:
            data, stat = done.value
            self._known(int(data) if data.isdigit() else -1, stat.version)

    def _create(self) -> None:
        n = self._wanted
        try:
            call = self.link.begin(
                self.link.client.create_async, self._path, str(n).encode(), makepath=True
            )
            call.rawlink(lambda done: self._raised(n, done))
        except Interrupted:
            self._fail()

    def _raised(self, n: int, done: Any) -> None:
        if isinstance(done.exception, BadVersionError | NodeExistsError | NoNodeError):
            self._known(-1, None)
        elif done.exception:
            self._fail()
        else:
            self._known(n, getattr(done.value, "version", 0))  # a new node has version 0

    def _known(self, told: int, version: int | None) -> None:
        with self._changed:
            self._told, self._version = told, version
        self._next()

    def _fail(self) -> None:
        with self._changed:
            self._version = None
            self._end()

    def _end(self) -> None:
        self._busy = False
        self._changed.notify_all()


def settle(heads: dict[str, Head]) -> None:
    """Wait for all announcements under way."""
    for head in tuple(heads.values()):
        head.settle()

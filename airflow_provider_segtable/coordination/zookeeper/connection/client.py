"""A ZooKeeper client and its links: a new link after a fork, a wipe or an outage.

1. A link is opened at first use, one per process: a forked child opens its own.
2. No lock outlives its client. ``close`` first sets the closed flag, then ends the present link. A
   thread that opens a link first stores it, then checks the flag. So one of the two ends the
   link, in any interleaving.
3. ``_border`` translates kazoo's exceptions to segtable's errors.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TypeAlias, TypeVar

from kazoo.exceptions import AuthFailedError, InvalidACLError, KazooException, NoAuthError

from airflow_provider_segtable.coordination.zookeeper.commits.announcing import Head, settle
from airflow_provider_segtable.coordination.zookeeper.connection.access import Access
from airflow_provider_segtable.coordination.zookeeper.connection.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.locks.acquisition import Bell
from airflow_provider_segtable.coordination.zookeeper.locks.kept_locks import AppendLocks
from airflow_provider_segtable.coordination.zookeeper.locks.kept_locks import settle as release
from airflow_provider_segtable.coordination.zookeeper.nodes import Cache
from airflow_provider_segtable.core.errors import AccessRefused, CoordinatorUnavailable

T = TypeVar("T")
Ring: TypeAlias = Callable[[object], None]
"""Called when a watched node changes."""

FRESH_PROBE_S = 3.0
MOST_INTERRUPTIONS = 8


class ZooKeeperClient:
    """A client of ZooKeeper, with one link at a time.

    Args:
        hosts: ``host:port,host:port``.
        chroot: the root node of segtable's nodes.
        session_timeout_s: how long the ensemble keeps the locks of a silent holder.
        connect_timeout_s: how long to wait for a connection before it counts as unavailable.
        access: the client's identity; none by default.
    """

    def __init__(
        self,
        hosts: str,
        chroot: str = "/segtable",
        *,
        session_timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        access: Access | None = None,
    ) -> None:
        """Store the arguments; the first call connects."""
        self._access = access or Access()
        self._hosts = hosts
        self._root = "/" + chroot.strip("/")
        self._session_timeout_s = session_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._closed = False
        self._forget_parent()

    def _forget_parent(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._link: Link | None = None
        self._prepared: set[tuple[Link, str]] = set()
        self._cache = Cache()
        self._bells: dict[str, Bell] = {}
        self._heads: dict[str, Head] = {}
        self._append_locks: dict[str, AppendLocks] = {}
        weakref.finalize(self, settle, self._heads)  # also when the process ends
        weakref.finalize(self, release, self._append_locks)

    @property
    def address(self) -> str:
        """Return ``zk://host:port,host:port/chroot``."""
        return f"zk://{self._hosts}{self._root}"

    def close(self) -> None:
        """End the session and with it all its leases.

        If another thread is opening a link now, that thread ends it: it stores the link first and
        checks ``_closed`` afterwards; here the order is reversed.
        """
        self._closed = True
        if self._pid == os.getpid() and self._link:
            settle(self._heads)
            release(self._append_locks)
            self._link.abandon()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            self.close()
            raise CoordinatorUnavailable(f"the client of {self.address} was closed: open a new one")

    def _live(self) -> Link:
        """Return the connected link of this process; open it if necessary."""
        if self._pid != os.getpid():
            self._forget_parent()
        with self._mutex:
            self._refuse_if_closed()
            if self._link is None or self._link.abandoned:
                self._link = self._open(self._connect_timeout_s)
            self._refuse_if_closed()
            return self._link

    def _open(self, timeout_s: float) -> Link:
        link = Link(
            self._hosts,
            self._root,
            session_timeout_s=self._session_timeout_s,
            address=self.address,
            access=self._access,
        )
        return link.open(timeout_s)

    def _recover(self, link: Link, times: int) -> Link:
        """Return a connected link after an interruption.

        A wiped server silently refuses a client that has seen a later transaction, for ever. A
        fresh client distinguishes that case from an outage.
        """
        if times > MOST_INTERRUPTIONS:
            raise link.unavailable(f"interrupted {times} times in a row")
        if link.await_connected(self._connect_timeout_s):
            return self._live()
        with self._mutex:
            if self._link is link and not self._closed:
                self._link = self._open(FRESH_PROBE_S)
                link.abandon()
        return self._live()

    def _retrying(self, ask: Callable[[Link], T]) -> T:
        """Run a read, and repeat it after interruptions."""
        with self._border():
            link = self._live()
            for times in count(1):
                try:
                    return ask(link)
                except Interrupted:
                    link = self._recover(link, times)
        raise AssertionError  # count does not end

    def _awaited(
        self,
        path: str,
        read: Callable[[Link, Ring], T],
        is_there: Callable[[T], bool],
        wait_s: float,
    ) -> T:
        """Read what watches of a node ring for, until it is there or the time is over."""
        deadline = time.monotonic() + wait_s
        with self._border():
            self._live()  # in a forked child this also drops the parent's bells
        bell = self._bells.setdefault(path, Bell())
        while True:
            rung = bell.rung
            found = self._retrying(lambda link: read(link, bell.ring))
            left_s = deadline - time.monotonic()
            if is_there(found) or left_s <= 0:
                return found
            bell.wait(rung, left_s)

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except (NoAuthError, InvalidACLError, AuthFailedError) as error:
            raise AccessRefused(
                f"ZooKeeper at {self.address} denies {self._access} access to {self._root} "
                f"({type(error).__name__}): its nodes belong to another user, or the password is "
                "wrong; correct the ZooKeeper options (SEGTABLE_ZOOKEEPER_OPTIONS_FILE), or use "
                "another chroot"
            ) from error
        except KazooException as error:
            raise CoordinatorUnavailable(
                f"ZooKeeper at {self.address} refused the request: {type(error).__name__} {error}; "
                "check its access rights and quotas"
            ) from error

"""A ZooKeeper client: its links after a fork, a wipe or an outage, and append locks that it keeps.

Links:

1. A link is opened at first use, one per process: a forked child opens its own.
2. No lock outlives its client. ``close`` first sets the closed flag, then ends the present link. A
   thread that opens a link first stores it, then checks the flag. So one of the two ends the
   link, in any interleaving.
3. ``_border`` translates kazoo's exceptions to segtable's errors.

Kept append locks, so that appends in a loop need no round trip for their locks:

4. An append that soon follows an alike one acquires a lock with a block of ids
   (``core.locks``). Its portion is the first; the lock stays when the append releases
   it, and later alike appends of this client take the other portions without asking the server.
5. A kept lock *ends* when its ids are used up, when no append has used it for ``KEPT_S``, when the
   connection drops, and as soon as a time chunk request of the table queues up: the lock watches
   the table's gate, which each of them moves. An ended lock gives no ids. It is released, with its
   unused ids, when the last append that uses it has ended.
6. The watch is set after the grant, so the queue and the lock's state are read then, too.
7. A lease of a kept lock asks the server only if something has happened: the lock ended, or its
   node is gone (a person broke the lock). In between, the log decides, as always.
8. Each kept lock has a thread, which waits for its end and releases it: no append waits for that.
"""

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import TypeAlias, TypeVar

from kazoo.exceptions import AuthFailedError, InvalidACLError, KazooException, NoAuthError

from airflow_provider_segtable.coordination.zookeeper.access import Access
from airflow_provider_segtable.coordination.zookeeper.commits import Head, WatchedHeads, drain
from airflow_provider_segtable.coordination.zookeeper.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.locks import Bell, ZooKeeperLease
from airflow_provider_segtable.coordination.zookeeper.nodes import (
    OF_TIME_CHUNK,
    Cache,
    Nodes,
    named,
    number_in,
)
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    AccessRefused,
    CoordinatorUnavailable,
    UnreadableNode,
)
from airflow_provider_segtable.core.locks import (
    FencingToken,
    Generation,
    LockRequest,
    Portion,
    block_size,
    gone_back,
    likeness,
    portions,
)
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.ports.coordination import LeaseState

KEPT_S = 1.0
"""How long an unused lock is kept, and how soon the next append has to follow."""
RELEASED_S = 1.0
"""Longest wait for the release of kept locks before a client closes."""


# Append locks that a client keeps
class KeptLock:
    """One lock with a block of ids, and the appends that use it."""

    def __init__(self, lease: ZooKeeperLease, nodes: Nodes, left: Iterable[Portion]) -> None:
        """Keep the lock of a lease; ``left`` are the portions of its ids."""
        self.lease = lease
        self.granted_s = time.monotonic()
        self._nodes = nodes
        self._left = deque(left)
        self._changed = threading.Condition()
        self._users = 0
        self._used_s = self.granted_s
        self._ended = False
        self._tender = threading.Thread(target=self._tend, name="segtable-kept-lock", daemon=True)

    @property
    def ended(self) -> bool:
        """Return whether the lock gives no more ids: it may be contested or lost."""
        return self._ended or not self.lease.undisturbed

    @property
    def released(self) -> bool:
        """Return whether the lock has been released."""
        return not self._tender.is_alive()

    def take(self) -> "KeptLease | None":
        """Return a lease with the next portion; None if there is none."""
        with self._changed:
            return self.give() if self._left and not self.ended else None

    def give(self) -> "KeptLease":
        """Return a lease with the next portion."""
        self._users += 1
        return KeptLease(self, self._left.popleft())

    def end(self, _event: object = None) -> None:
        """Give no more ids; kazoo calls this, too, when the lock's node is gone."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def leave(self) -> None:
        """Note that an append has released its lease."""
        with self._changed:
            self._users -= 1
            self._used_s = time.monotonic()
            if self._ended or not self._left:
                self._changed.notify_all()

    def watch(self, bell: "AppendLocks") -> None:
        """Watch the gate and the lock; end the lock if it is awaited already (rule 6)."""
        link, client = self.lease.link, self.lease.link.client
        self._tender.start()
        try:
            link.begin(client.get_async, self._nodes.gate, bell.ring)
            waiters = link.begin(client.get_children_async, self._nodes.waiters)
            node = link.begin(client.get_children_async, self.lease.path, self.end)
            state = link.begin(client.exists_async, self.lease.state_path)
            link.wait(node)
            awaited = any(OF_TIME_CHUNK + "-" in name for name in named(link, waiters))
            if awaited or link.wait(state):
                self.end()
        except (Interrupted, KazooException):
            self.end()

    def release_idle(self) -> None:
        """End the lock and wait for its release, unless appends use it."""
        self.end()
        if not self._users and self._tender is not threading.current_thread():
            self._tender.join(RELEASED_S)

    def _tend(self) -> None:
        """Wait for the end of the lock, and release it."""
        with self._changed:
            while (left_s := self._left_s()) > 0:
                self._changed.wait(left_s)
            self._ended = True
            unused = [each for portion in self._left for each in portion]
        with suppress(Interrupted, KazooException, UnreadableNode):
            self._give_back(unused)
        self.lease.release()

    def _left_s(self) -> float:
        """Return how long to keep the lock before looking again; 0 at its end."""
        if self._users:
            return KEPT_S
        if self._ended or not self._left:
            return 0.0
        return self._used_s + KEPT_S - time.monotonic()

    def _give_back(self, unused: list[SegmentId]) -> None:
        link, client = self.lease.link, self.lease.link.client
        keys = {(each.chunk, Generation.of(each)) for each in unused}
        begun = {key: link.begin(client.get_async, self._nodes.counter(*key)) for key in keys}
        found = {
            key: number
            for key, call in begun.items()
            if (number := number_in(link, call, self._nodes.counter(*key)))
        }
        back = gone_back(unused, {key: following for key, (following, _) in found.items()})
        for key, following in back.items():
            path, data = self._nodes.counter(*key), str(following).encode()
            with suppress(KazooException):  # another writer was first: the ids are holes
                link.call(client.set_async, path, data, version=found[key][1])


@dataclass(slots=True)
class _Series:
    """Alike appends that follow each other."""

    asked_s: float
    count: int = 0
    kept: KeptLock | None = None

    def over(self, now_s: float) -> bool:
        """Return whether the next append does not follow soon."""
        idle = now_s - self.asked_s > KEPT_S
        return idle and (self.kept is None or self.kept.released)


class AppendLocks:
    """The append locks that one client keeps of one table."""

    def __init__(self) -> None:
        """Start without locks."""
        self._mutex = threading.Lock()
        self._series: dict[Hashable, _Series] = {}

    def take(self, request: LockRequest) -> "KeptLease | int":
        """Return a lease of a kept lock, or how many portions the append should ask for."""
        now_s, key = time.monotonic(), likeness(request)
        with self._mutex:
            for old in [k for k, s in self._series.items() if s.over(now_s)]:
                del self._series[old]
            series = self._series.setdefault(key, _Series(now_s))
            lease = series.kept.take() if series.kept else None
            size = block_size(request, series.count)
            series.asked_s, series.count = now_s, series.count + 1
        return lease or size

    def keep(
        self, lease: ZooKeeperLease, nodes: Nodes, request: LockRequest, size: int
    ) -> "KeptLease":
        """Keep the lock of a block; return the lease of the append that asked for it."""
        kept = KeptLock(lease, nodes, portions(request, lease.allocated, size))
        first = kept.give()
        kept.watch(self)
        with self._mutex:
            series = self._series.setdefault(likeness(request), _Series(time.monotonic()))
            before, series.kept = series.kept, kept
        if before:
            before.end()
        return first

    def ring(self, _event: object) -> None:
        """End all kept locks: a time chunk request queued up. kazoo calls this."""
        for kept in self._all():
            kept.end()

    def release_idle(self) -> None:
        """End all kept locks, and wait for their release."""
        for kept in self._all():
            kept.release_idle()

    def _all(self) -> list[KeptLock]:
        with self._mutex:
            return [series.kept for series in self._series.values() if series.kept]


class KeptLease:
    """The lease of one append that uses a kept lock."""

    def __init__(self, kept: KeptLock, allocated: Portion) -> None:
        """Hold a portion of the lock's ids."""
        self._kept = kept
        self._allocated = allocated
        self._taken_s = time.monotonic()
        self._released = False

    @property
    def token(self) -> FencingToken:
        """Return the fencing token of the kept lock."""
        return self._kept.lease.token

    @property
    def allocated(self) -> Portion:
        """Return the append's own ids, in the order of its allocations."""
        return self._allocated

    @property
    def granted_at(self) -> Instant:
        """Return the server's wall clock now: at the lock's grant, and the time since."""
        since_us = int((self._taken_s - self._kept.granted_s) * SECOND_US)
        return self._kept.lease.granted_at + since_us

    @property
    def version(self) -> None:
        """Return None: an append requests no version."""
        return

    @property
    def state(self) -> LeaseState:
        """Return the known state of the lease."""
        return LeaseState.LOST if self._released else self._kept.lease.state

    def check(self) -> None:
        """Ask the server if the lock has ended; raise ``LockLost`` unless it is held."""
        if self._released or self._kept.ended:
            self._kept.lease.check()

    def make_irrevocable(self) -> None:
        """Check: an append publishes in the log alone."""
        self.check()

    def report(self, progress: Mapping[str, str]) -> None:
        """Publish the holder's progress beside the lock, best effort."""
        self._kept.lease.report(progress)

    def release(self) -> None:
        """Leave the lock to later appends."""
        if not self._released:
            self._released = True
            self._kept.leave()


def release(locks: dict[str, AppendLocks]) -> None:
    """End all kept locks of a client."""
    for each in tuple(locks.values()):
        each.release_idle()


T = TypeVar("T")
Ring: TypeAlias = Callable[[object], None]
"""Called when a watched node changes."""

FRESH_PROBE_S = 3.0
MOST_INTERRUPTIONS = 8


# The client and its links
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
        self._watched = WatchedHeads()
        self._append_locks: dict[str, AppendLocks] = {}
        weakref.finalize(self, drain, self._heads)  # also when the process ends
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
            drain(self._heads)
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
        """Read a watched value, until it is there or the time is over."""
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

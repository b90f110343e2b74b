"""Coordination by ZooKeeper: one transaction grants locks and allocates ids.

::

    <chroot>                          epoch, drawn by whoever first finds none
    <chroot>/tables/<table>/
        lockbox                       its version orders the grants that lock existing segments
        locks/<group>-<guid>          ephemeral; one granted request (``records``)
        waiters/<guid>-<sequence>     ephemeral; one waiting request, in order of arrival
        counters/<chunk>-<generation> the next id to hand out
        progress/<group>-<guid>       ephemeral; what the holder reported
        head                          the newest event announced

1. A request reads the lockbox version, the locks, the queue and its counters; decides by
   ``core.lockbox.decide``; and sends one multi: lockbox set at the version read, counters set at
   the versions read, lock node created, own waiter deleted. A version conflict: round again.
2. A request that only allocates (an append) cannot contest anything that exists. It leaves the
   lockbox version and the queue alone, so appends neither wait for compactions nor starve them;
   the versions of its counters order it among appends.
3. Whoever must wait makes a waiter node and watches one node in its way: no polling, no herd.
   A place in the queue counts as a lock for those behind it (``waiting``).
4. A reply may be lost. The lock node's name carries a guid, so the next round recognises it; who
   gives up deletes what it may have made, after the reconnection if need be.
5. The fencing token is the lock node's creation transaction (czxid), the grant's time its ctime.
6. A connection is opened at first use, one a process: a forked child opens its own.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import TypeVar

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import Transaction

from airflow_provider_segtable.coordination.claim import Bell, Blocked, Claim, View
from airflow_provider_segtable.coordination.lease import ZooKeeperLease
from airflow_provider_segtable.coordination.link import MAX_REQUEST_BYTES, Interrupted, Link
from airflow_provider_segtable.coordination.nodes import Nodes, Seen, read_locks
from airflow_provider_segtable.coordination.records import encode_lock
from airflow_provider_segtable.coordination.waiting import timed_out
from airflow_provider_segtable.core.errors import (
    CoordinatorUnavailable,
    InvalidInput,
    LimitReached,
    SegtableError,
)
from airflow_provider_segtable.core.lockbox import (
    AlreadyGranted,
    Granted,
    Lock,
    LockRequest,
    Waits,
    decide,
)

T = TypeVar("T")

OVERTAKEN = (BadVersionError, NodeExistsError, NoNodeError)
FRESH_PROBE_S = 3.0
MOST_INTERRUPTIONS = 8
PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.1


class ZooKeeperCoordinator:
    """A client of a ZooKeeper ensemble.

    Args:
        hosts: ``host:port,host:port``.
        chroot: the node that everything of segtable lies under.
        session_timeout_s: how long the ensemble keeps the locks of a holder that is silent.
        connect_timeout_s: how long to wait for a connection before it counts as unavailable.
    """

    def __init__(
        self,
        hosts: str,
        chroot: str = "/segtable",
        *,
        session_timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
    ) -> None:
        """Store the arguments; the first call connects."""
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
        self._seen: dict[str, Seen] = {}
        self._bells: dict[str, Bell] = {}

    @property
    def address(self) -> str:
        """Return ``zk://host:port,host:port/chroot``."""
        return f"zk://{self._hosts}{self._root}"

    def acquire(self, request: LockRequest, *, wait_s: float) -> ZooKeeperLease:
        """Grant ``request`` or raise ``LockTimeout``."""
        start = time.monotonic()
        claim = Claim(request, self._nodes(request.table))
        with self._border():
            link = self._live()
            try:
                while True:
                    try:
                        outcome = self._round(link, claim)
                        if isinstance(outcome, ZooKeeperLease):
                            return self._settled(link, claim, outcome)
                        claim.interrupted = 0
                        if isinstance(outcome, Blocked):
                            self._wait(link, claim, outcome, start=start, wait_s=wait_s)
                    except Interrupted:
                        claim.interrupted += 1
                        link = self._recover(link, claim.interrupted)
            except BaseException:
                self._give_up(link, claim)
                raise

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks of a table, oldest first."""
        nodes = self._nodes(table)
        return self._retrying(
            lambda link: tuple(seen.lock for seen in read_locks(link, nodes.locks, self._seen))
        )

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return what live holders last reported, by lock group."""
        nodes = self._nodes(table)
        return self._retrying(nodes.read_progress)

    def announce(self, table: str, n: int) -> None:
        """Tell watchers that event ``n`` is in the log; best effort, never raises."""
        with suppress(Interrupted, KazooException, SegtableError):
            self._nodes(table).raise_head(self._live(), n)

    def wait_head(self, table: str, *, beyond: int, wait_s: float) -> int | None:
        """Wait until an event number above ``beyond`` is announced; None at the deadline."""
        deadline = time.monotonic() + wait_s
        nodes = self._nodes(table)
        with self._border():
            self._live()  # in a forked child this also drops the parent's bells
        bell = self._bells.setdefault(table, Bell())
        while True:
            rung = bell.rung
            head = self._retrying(lambda link: nodes.read_head(link, bell.ring))
            left_s = deadline - time.monotonic()
            if head > beyond:
                return head
            if left_s <= 0:
                return None
            bell.wait(rung, left_s)

    def close(self) -> None:
        """End the session: every lease of it is gone."""
        self._closed = True
        if self._pid == os.getpid() and self._link:
            self._link.abandon()

    def _nodes(self, table: str) -> Nodes:
        if not table or "/" in table or table in {".", ".."}:
            raise InvalidInput(f"{table!r} is no table id: it must do as a node name")
        return Nodes(f"{self._root}/tables/{table}")

    def _live(self) -> Link:
        """Return the connected link of this process, opening it if need be."""
        if self._pid != os.getpid():
            self._forget_parent()
        with self._mutex:
            if self._closed:
                raise CoordinatorUnavailable(f"{self.address} was closed here: connect again")
            if self._link is None or self._link.abandoned:
                self._link = self._open(self._connect_timeout_s)
            return self._link

    def _open(self, timeout_s: float) -> Link:
        link = Link(
            self._hosts,
            self._root,
            session_timeout_s=self._session_timeout_s,
            address=self.address,
        )
        return link.open(timeout_s)

    def _recover(self, link: Link, times: int) -> Link:
        """Return a connected link after an interruption.

        A server that was wiped refuses a client that has seen a later transaction, for ever and
        without saying so; a fresh client tells that case from an outage.
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
        """Run a read again after interruptions."""
        with self._border():
            link = self._live()
            for times in count(1):
                try:
                    return ask(link)
                except Interrupted:
                    link = self._recover(link, times)
        raise AssertionError  # count does not end

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except KazooException as error:
            raise CoordinatorUnavailable(
                f"ZooKeeper at {self.address} refuses: {type(error).__name__} {error}; check its "
                "access rights and quotas"
            ) from error

    def _round(self, link: Link, claim: Claim) -> ZooKeeperLease | Blocked | None:
        """Read, decide, send; None means go round again."""
        request = claim.request
        view = self._view(link, claim)
        places = view.locks + view.waiters
        counters = {key: following for key, (following, _) in view.counters.items()}
        match decide(request, (seen.lock for seen in places), counters):
            case Granted() as granted:
                return self._send(link, claim, view, granted)
            case AlreadyGranted(lock=lock):
                seen = next(seen for seen in places if seen.lock is lock)
                if seen in view.locks and seen.owner == link.session:
                    return self._lease(link, claim.nodes, seen.name)
                return Blocked((lock,), seen.path)
            case Waits(on=on):
                last = next(seen for seen in reversed(places) if seen.lock is on[-1])
                return Blocked(on, last.path)

    def _view(self, link: Link, claim: Claim) -> View:
        nodes, client = claim.nodes, link.client
        if (link, claim.request.table) not in self._prepared:
            nodes.prepare(link)
            self._prepared.add((link, claim.request.table))
        keys = {(ask.chunk, ask.generation) for ask in claim.request.allocate}
        lockbox = link.begin(client.get_async, nodes.lockbox)  # first: all else is newer
        counters = {key: link.begin(client.get_async, nodes.counter(*key)) for key in sorted(keys)}
        try:
            if claim.contests:
                locks = read_locks(link, nodes.locks, self._seen)
                waiters, own = nodes.read_queue(link, claim.guid, self._seen)
            else:
                locks = read_locks(link, nodes.locks, self._seen, prefix=claim.group_prefix)
                waiters, own = (), ()
            version = link.wait(lockbox)[1].version
        except NoNodeError:  # wiped under our feet
            self._prepared.discard((link, claim.request.table))
            raise Interrupted from None
        found = {}
        for key, pending in counters.items():
            with suppress(NoNodeError):
                data, stat = link.wait(pending)
                found[key] = (int(data), stat.version)
        return View(version, locks, waiters, own, found)

    def _send(
        self, link: Link, claim: Claim, view: View, granted: Granted
    ) -> ZooKeeperLease | None:
        nodes, multi = claim.nodes, link.client.transaction()
        if claim.contests:
            multi.set_data(nodes.lockbox, b"", view.lockbox_version)
        for key, following in granted.counters.items():
            data = str(following).encode()
            if key in view.counters:
                multi.set_data(nodes.counter(*key), data, view.counters[key][1])
            else:
                multi.create(nodes.counter(*key), data)
        record = encode_lock(claim.request, granted.allocated)
        name = claim.draw_lock_name()
        multi.create(f"{nodes.locks}/{name}", record, ephemeral=True)
        for waiter in view.own_waiters:
            multi.delete(f"{nodes.waiters}/{waiter}")
        _refuse_oversize(claim.request, len(Transaction(multi.operations).serialize()))
        results = link.call(multi.commit_async)
        failed = [each for each in results if isinstance(each, Exception)]
        if not failed:
            return self._lease(link, nodes, name)
        for error in failed:
            if not isinstance(error, (*OVERTAKEN, RolledBackError, RuntimeInconsistency)):
                raise error
        if any(isinstance(error, NoNodeError) for error in failed):
            self._prepared.discard((link, claim.request.table))
        self._pause(claim)
        return None

    def _pause(self, claim: Claim) -> None:
        """Step aside after losing a race, longer each time, so that many rivals thin out."""
        claim.overtaken += 1
        longest = min(PAUSE_S * 2**claim.overtaken, LONGEST_PAUSE_S)
        time.sleep(random.uniform(0, longest))  # noqa: S311 - not a secret

    def _lease(self, link: Link, nodes: Nodes, name: str) -> ZooKeeperLease | None:
        """Return the lease of a lock node, unless its session has ended already."""
        generation, epoch = link.generation, link.epoch()
        seen = next(iter(read_locks(link, nodes.locks, self._seen, only=name)), None)
        if seen is None or seen.owner != link.session:
            return None
        return ZooKeeperLease(
            link,
            seen.owner,
            seen.lock_of(epoch),
            path=seen.path,
            progress_path=nodes.progress_of(name),
            generation=generation,
        )

    def _settled(self, link: Link, claim: Claim, lease: ZooKeeperLease) -> ZooKeeperLease:
        if claim.queued:  # the multi deletes it, except when the group held its lock already
            link.clean(lambda: claim.nodes.leave_queue(link, claim.guid))
        return lease

    def _wait(
        self, link: Link, claim: Claim, blocked: Blocked, *, start: float, wait_s: float
    ) -> None:
        """Queue up and wait until the node in the way changes; raise at the deadline."""
        waited_s = time.monotonic() - start
        if waited_s >= wait_s:
            raise timed_out(
                claim.request,
                blocked.on,
                address=self.address,
                now=time.time_ns() // 1000,
                waited_s=waited_s,
            )
        if claim.contests and not claim.nodes.is_queued(link, claim.guid):
            claim.queued = True
            record = encode_lock(claim.request)
            _refuse_oversize(claim.request, len(record))
            claim.nodes.queue_up(link, claim.guid, record)
            return  # whoever came in between is seen in the next round
        changed = threading.Event()
        with suppress(NoNodeError):
            # A lock node has no children: this fires at its end, and leaves no watch if it is gone.
            link.call(link.client.get_children_async, blocked.path, lambda _: changed.set())
            changed.wait(wait_s - waited_s)

    def _give_up(self, link: Link, claim: Claim) -> None:
        """Leave nothing behind, whatever was lost on the way."""
        if claim.queued:
            link.clean(lambda: claim.nodes.leave_queue(link, claim.guid))
        if claim.sent:
            link.delete(f"{claim.nodes.locks}/{name}" for name in claim.sent)


def _refuse_oversize(request: LockRequest, size: int) -> None:
    if size > MAX_REQUEST_BYTES:
        raise LimitReached(
            f"locking {len(request.segments)} segments and allocating for "
            f"{len(request.allocate)} chunks takes a request of {size} bytes, and ZooKeeper "
            f"accepts {MAX_REQUEST_BYTES}: split the plan into smaller ones"
        )

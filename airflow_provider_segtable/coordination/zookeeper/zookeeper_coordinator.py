"""Coordination by ZooKeeper: one transaction grants locks, revokes others and allocates ids.

::

    <chroot>                          epoch, made by the first client
    <chroot>/tables/<table>/
        lockbox                       its version orders the grants that contest locks
        gate                          its version counts the time chunk requests that queued up
        locks/<group>-<guid>[-T]      ephemeral; one granted request (``records``); T: time chunk
        states/<name of a lock>       publishing (ephemeral) or revoked (stays): the creator won
        waiters/<guid>[-T]-<sequence> ephemeral; one waiting request, in order of arrival
        waiters/<guid>-firm           ephemeral; that request is overtaken no more
        counters/<chunk>-<generation> the next id to allocate
        version                       the highest allocated version
        clock                         written to learn the server's time
        progress/<group>-<guid>       ephemeral; the holder's reported progress
        commits/<guid>-<sequence>     ephemeral; a committer that waits for its turn, or has it
        head                          the newest announced event
        claims/<group>/<name>         ephemeral; a claimed name with its content (``claims``)

1. A request reads the lockbox version, locks, states, queue and counters (``locks``); decides by
   ``core.locks.decide``; and sends one multi: lockbox set at the version read, counters set
   at the versions read, states of revoked locks made, lock node created, own waiter deleted. On a
   version conflict it starts again.
2. A time chunk request queues up first, in a multi that also bumps the gate. An append reads the
   gate before the time chunk locks and places, and checks it in its multi, so it has seen every
   time chunk request, or tries again. If it revokes or overtakes one, it contests and sets the
   lockbox, too. All other appends leave lockbox and queue alone: they neither wait for
   compactions of segments, nor starve them, nor make each other try again.
3. A holder that publishes and a rival that revokes both *create* the lock's state: one of them
   wins. The holder's state ends with its session; the rival's stays until the lock ends.
4. A blocked request makes a waiter node and watches one blocking node and the state of that lock,
   because the lock may yield the wanted segments: no polling, no herd.
5. A reply may be lost. The lock node's name carries a guid, so the next round recognises it. A
   request that gives up deletes every node it may have made, after the reconnection if necessary.
6. The fencing token is the lock node's creation transaction (czxid), the grant's time its ctime.
7. An unreadable node is skipped or blocks the request, and is named (``nodes``).
"""

import random
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from airflow_provider_segtable.coordination.waiting import (
    WaitLog,
    overtakers,
    refuse_paths,
    timed_out,
)
from airflow_provider_segtable.coordination.zookeeper.claims import (
    ClaimRequest,
    ZooKeeperClaim,
    read_claims,
)
from airflow_provider_segtable.coordination.zookeeper.client import (
    AppendLocks,
    KeptLease,
    ZooKeeperClient,
)
from airflow_provider_segtable.coordination.zookeeper.commits import Head, queued
from airflow_provider_segtable.coordination.zookeeper.link import Interrupted, Link
from airflow_provider_segtable.coordination.zookeeper.locks import (
    Acquisition,
    Blocked,
    View,
    ZooKeeperLease,
    grant_of,
    prefix_of,
    read_locks,
    read_places,
    read_view,
    refuse_oversize,
)
from airflow_provider_segtable.coordination.zookeeper.nodes import (
    Nodes,
    children,
    delete_tree,
    encode_lock,
    read_heads,
    read_present,
    read_strays,
)
from airflow_provider_segtable.core.errors import InvalidInput, LimitReached, SegtableError
from airflow_provider_segtable.core.locks import (
    AlreadyGranted,
    Granted,
    Lock,
    LockRequest,
    Refused,
    Revokes,
    Waits,
    ahead,
    block_request,
    decide,
    gives_way,
)
from airflow_provider_segtable.ports.coordination import Claimed, Overtaken, StrayNode

OVERTAKEN = (BadVersionError, NodeExistsError, NoNodeError)
PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.1


class ZooKeeperCoordinator(ZooKeeperClient):
    """``Coordinator`` that uses a ZooKeeper ensemble.

    Args:
        hosts: ``host:port,host:port``.
        chroot: the root node of segtable's nodes.
        session_timeout_s: how long the ensemble keeps the locks of a silent holder.
        connect_timeout_s: how long to wait for a connection before it counts as unavailable.
        access: the client's identity; none by default.
    """

    def acquire(self, request: LockRequest, *, wait_s: float) -> ZooKeeperLease:
        """Grant ``request`` or raise ``LockTimeout``."""
        start = time.monotonic()
        said = WaitLog(request, wait_s, self._session_timeout_s)
        call = Acquisition(request, self._nodes(request.table), said)
        with self._border():
            link = self._live()
            try:
                while True:
                    try:
                        outcome = self._round(link, call)
                        if isinstance(outcome, ZooKeeperLease):
                            return self._dequeued(link, call, outcome)
                        call.interrupted = 0
                        if isinstance(outcome, Blocked):
                            self._wait(link, call, outcome, start=start)
                    except Interrupted:
                        call.interrupted += 1
                        link = self._recover(link, call.interrupted)
            except BaseException:
                self._give_up(link, call)
                raise

    def acquire_for_append(
        self, request: LockRequest, *, wait_s: float
    ) -> ZooKeeperLease | KeptLease:
        """Grant an append from a kept lock, or acquire one and keep it if appends follow soon."""
        with self._border():
            self._live()  # in a forked child this also drops the parent's kept locks
        kept = self._append_locks.setdefault(request.table, AppendLocks())
        found = kept.take(request)
        if isinstance(found, KeptLease):
            return found
        if found > 1:
            with suppress(LimitReached):  # the chunk has no ids left for a block
                lease = self.acquire(block_request(request, found), wait_s=wait_s)
                return kept.keep(lease, self._nodes(request.table), request, found)
        return self.acquire(request, wait_s=wait_s)

    def locks(self, table: str) -> tuple[Lock, ...]:
        """Return the live locks of a table, oldest first."""
        nodes = self._nodes(table)
        return self._retrying(lambda link: read_locks(link, nodes, self._cache))

    def waiters(self, table: str) -> tuple[Lock, ...]:
        """Return the waiting requests, in the order in which they are served."""
        nodes = self._nodes(table)
        return self._retrying(lambda link: read_places(link, nodes, self._cache))

    def break_lock(self, table: str, group: str) -> bool:
        """Take a group's lock away from its holder; return False if it has none."""
        nodes, prefix = self._nodes(table), prefix_of(group)

        def take(link: Link) -> bool:
            names = [n for n in children(link, nodes.locks) if n.startswith(prefix)]
            strays = [] if names else [s for s in read_strays(link, nodes) if s.name == group]
            link.delete(path for name in names for path in nodes.belongings(name))
            link.delete(f"{nodes.table}/{stray.name}" for stray in strays)
            return bool(names or strays)

        return self._retrying(take)

    def strays(self, table: str) -> tuple[StrayNode, ...]:
        """Return the table's unreadable nodes."""
        nodes = self._nodes(table)
        return self._retrying(lambda link: read_strays(link, nodes))

    def progress(self, table: str) -> Mapping[str, Mapping[str, str]]:
        """Return the last reported progress of live holders, by lock group."""
        nodes = self._nodes(table)
        return self._retrying(nodes.read_progress)

    def announce(self, table: str, n: int, overtaken: Overtaken | None = None, /) -> None:
        """Announce to watchers that event ``n`` is in the log; best effort, never raises."""
        with suppress(Interrupted, KazooException, SegtableError):
            link = self._live()
            head = self._heads.get(table)
            if head is None or head.link is not link:
                head = self._heads[table] = Head(link, self._nodes(table).head)
            head.raise_to(n, overtaken)

    @contextmanager
    def commit_turn(self, table: str, *, wait_s: float) -> Iterator[None]:
        """Wait for this committer's turn, and hold it; best effort, never raises."""
        with ExitStack() as stack:
            with suppress(Interrupted, KazooException, SegtableError):
                link, nodes = self._live(), self._nodes(table)
                self._prepare(link, nodes)
                stack.enter_context(queued(link, nodes.commits, wait_s))
            yield

    def wait_head(self, table: str, *, beyond: int, wait_s: float) -> int | None:
        """Wait until an event number above ``beyond`` is announced; None at the deadline."""
        nodes = self._nodes(table)
        with self._border():
            self._live()  # in a forked child this also drops the parent's heads
        if table in self._heads:
            self._heads[table].drain()
        head = self._awaited(nodes.head, nodes.read_head, lambda head: head > beyond, wait_s)
        return head if head > beyond else None

    def wait_heads(
        self, tables: Collection[str], *, seen: Mapping[str, int], wait_s: float
    ) -> Mapping[str, int]:
        """Wait until announced events of tables differ from ``seen``, and return these events."""
        paths = {self._nodes(table).head: table for table in tables}
        known = {path: seen.get(table) for path, table in paths.items()}
        deadline = time.monotonic() + wait_s
        with self._border():
            self._live()  # in a forked child this also drops the parent's watches
        watched = self._watched
        while True:
            rung = watched.bell.rung
            heads = self._retrying(partial(watched.read, paths=known))
            found = {paths[path]: n for path, n in heads.items() if known[path] != n}
            left_s = deadline - time.monotonic()
            if found or left_s <= 0:
                return found
            watched.bell.wait(rung, left_s)

    def heads(self, tables: Collection[str]) -> Mapping[str, int]:
        """Return the newest announced event of each table that has one, by one request."""
        nodes = {table: self._nodes(table) for table in tables}
        for own in [self._heads[table] for table in tables if table in self._heads]:
            own.drain()
        return self._retrying(lambda link: read_heads(link, nodes))

    def claim(
        self, table: str, group: str, name: str, content: Mapping[str, str]
    ) -> ZooKeeperClaim | None:
        """Claim a name of a group; None while another claim has it."""
        refuse_paths(group, name)
        parent = self._nodes(table).claims(group)
        asked = ClaimRequest(path=f"{parent}/{name}", content=content)
        try:
            return self._retrying(asked.take)
        except BaseException:
            if link := self._link:
                link.clean(lambda: asked.undo(link))
            raise

    def claims(self, table: str, group: str) -> Mapping[str, Claimed]:
        """Return the live claims of a group, by name."""
        parent = self._nodes(table).claims(group)
        return self._retrying(partial(read_claims, group=parent))

    def tables_with_claims(self, tables: Collection[str], group: str) -> Collection[str]:
        """Return the tables in which a name of a group is claimed, or was, by one request."""
        parents = {table: self._nodes(table).claims(group) for table in tables}
        return self._retrying(lambda link: read_present(link, parents))

    def wait_claims(
        self, table: str, group: str, *, seen: Mapping[str, Claimed], wait_s: float
    ) -> Mapping[str, Claimed]:
        """Wait until the claims of a group differ from ``seen``, and return them."""
        parent = self._nodes(table).claims(group)
        return self._awaited(
            parent, partial(read_claims, group=parent), lambda found: found != seen, wait_s
        )

    def forget(self, table: str) -> None:
        """Delete all nodes of a table, with nodes that other clients make meanwhile."""
        nodes = self._nodes(table)
        head = self._heads.pop(table, None)
        if head is not None:
            head.drain()  # an announcement under way would make its node anew
        self._bells.pop(nodes.head, None)
        self._retrying(lambda link: delete_tree(link, nodes.table))

    def _nodes(self, table: str) -> Nodes:
        if not table or "/" in table or table in {".", ".."}:
            raise InvalidInput(f"{table!r} is not a table id: use a name without '/', '.' and '..'")
        return Nodes(f"{self._root}/tables/{table}")

    def _round(self, link: Link, call: Acquisition) -> ZooKeeperLease | Blocked | None:
        """Read, decide, send; return None to try again."""
        view, request = self._view(link, call), call.request
        if call.of_time_chunk and view.place is None and not self._holds(view, call):
            self._queue_up(link, call)  # before the reads: appends see the place from now on
            return None
        locks, places = [seen.lock for seen in view.locks], [seen.lock for seen in view.places]
        decision = decide(
            request,
            locks + ahead(request, places, view.mine),
            {key: following for key, (following, _) in view.counters.items()},
            now=view.now,
            last_version=view.last_version[0],
        )
        match decision:
            case Granted() | Revokes():
                return self._send(link, call, view, decision)
            case AlreadyGranted(lock=lock):
                seen = next(seen for seen in view.locks if seen.lock is lock)
                if seen.owner == link.session:
                    return self._lease(link, call.nodes, seen.name, known=lock)
                return self._blocked(view, (lock,), lock)
            case Refused(why=why):
                raise InvalidInput(why)
            case Waits(on=on):
                last = [lock for lock in on if not gives_way(lock, request)][-1]
                return self._blocked(view, on, last)

    @staticmethod
    def _blocked(view: View, on: tuple[Lock, ...], by: Lock) -> Blocked:
        seen = next(each for each in view.places + view.locks if each.lock is by)
        return Blocked(on, seen, view.states.get(seen.name), view.place)

    @staticmethod
    def _holds(view: View, call: Acquisition) -> bool:
        return any(seen.lock.group == call.asked.group for seen in view.locks)

    def _view(self, link: Link, call: Acquisition) -> View:
        try:
            self._prepare(link, call.nodes)
            return read_view(link, call, self._cache)
        except NoNodeError:  # the table was forgotten or wiped meanwhile
            self._prepared.discard((link, call.nodes.table))
            raise Interrupted from None

    def _prepare(self, link: Link, nodes: Nodes) -> None:
        if (link, nodes.table) not in self._prepared:
            nodes.prepare(link)
            self._prepared.add((link, nodes.table))

    def _send(
        self, link: Link, call: Acquisition, view: View, decision: Granted | Revokes
    ) -> ZooKeeperLease | None:
        name = call.draw_lock_name()
        multi = grant_of(link.transaction(), call, view, decision, name=name)
        sent = link.begin(multi.commit_async)
        seen = link.begin(link.client.get_async, f"{call.nodes.locks}/{name}")  # same round trip
        failed = [each for each in link.wait(sent) if isinstance(each, Exception)]
        if not failed:
            return self._lease(link, call.nodes, name, seen)
        for error in failed:
            if not isinstance(error, (*OVERTAKEN, RolledBackError, RuntimeInconsistency)):
                raise error
        if any(isinstance(error, NoNodeError) for error in failed):
            self._prepared.discard((link, call.nodes.table))
        self._pause(call)
        return None

    def _pause(self, call: Acquisition) -> None:
        """Pause after losing a race, longer each time, so that rivals spread out."""
        call.overtaken += 1
        longest = min(PAUSE_S * 2**call.overtaken, LONGEST_PAUSE_S)
        time.sleep(random.uniform(0, longest))  # noqa: S311 - not a secret

    def _lease(
        self, link: Link, nodes: Nodes, name: str, read: Any = None, *, known: Lock | None = None
    ) -> ZooKeeperLease | None:
        """Return the lease of a lock node; None if its session has ended already.

        ``known`` is the lock with its state, if it was granted earlier: it may be revoked by now.
        """
        generation, epoch = link.generation, link.epoch()
        read = read or link.begin(link.client.get_async, f"{nodes.locks}/{name}")
        try:
            seen = self._cache.learn(link, nodes.locks, name, read)
        except NoNodeError:
            return None
        if seen is None or seen.owner != link.session:
            return None
        lock = seen.lock_of(epoch)
        if known:
            lock = replace(lock, revoked=known.revoked, irrevocable=known.irrevocable)
        return ZooKeeperLease(link, seen.owner, lock, nodes.belongings(name), generation=generation)

    def _dequeued(self, link: Link, call: Acquisition, lease: ZooKeeperLease) -> ZooKeeperLease:
        if call.queued:  # the multi deletes the place, unless the group held its lock already
            link.clean(lambda: call.nodes.leave_queue(link, call.guid))
        return lease

    def _wait(self, link: Link, call: Acquisition, blocked: Blocked, *, start: float) -> None:
        """Queue up and wait until the blocking node changes; raise at the deadline."""
        waited_s, now = time.monotonic() - start, time.time_ns() // 1000
        if waited_s >= call.said.wait_s:
            raise timed_out(
                call.asked, blocked.on, address=self.address, now=now, waited_s=waited_s
            )
        call.said.blocked(blocked.on, now=now, waited_s=waited_s)
        if blocked.place is None:
            self._queue_up(link, call)
            return  # the next round sees requests made in between
        call.overtaken_by |= overtakers(blocked.place.lock, blocked.on)
        if call.firm and not blocked.place.lock.firm:
            call.nodes.make_firm(link, call.guid)
            return
        pause_s = call.said.pause_s(waited_s)
        call.nodes.await_change(link, blocked.by, blocked.state_version, pause_s)

    def _queue_up(self, link: Link, call: Acquisition) -> None:
        record = encode_lock(call.request)
        refuse_oversize(call.asked, len(record))
        call.queued = True
        try:
            call.nodes.queue_up(link, call.place_prefix, record)
        except NoNodeError:  # the table was wiped meanwhile
            self._prepared.discard((link, call.nodes.table))
            raise Interrupted from None

    def _give_up(self, link: Link, call: Acquisition) -> None:
        """Delete every node that the request may have made."""
        if call.queued:
            link.clean(lambda: call.nodes.leave_queue(link, call.guid))
        if call.sent:
            link.delete(f"{call.nodes.locks}/{name}" for name in call.sent)

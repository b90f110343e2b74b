"""Paths of one table's nodes in ZooKeeper, and their reads.

1. Lock and waiter nodes never change, so each is read once and cached by its name; ``Cache.keep``
   drops deleted names.
2. Related reads start together and share a round trip; ZooKeeper answers one client's requests in
   order.
3. Names hold what an append needs without reading the nodes: locks and places of time chunks end
   in ``-T`` (before the sequence of a place), and ``<guid>-firm`` beside a place makes it firm.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from airflow_provider_segtable.coordination.zookeeper.connection.link import Link
from airflow_provider_segtable.coordination.zookeeper.records import decode_lock
from airflow_provider_segtable.core.errors import UnreadableNode, UnsupportedFormat
from airflow_provider_segtable.core.locks import FencingToken, Generation, Lock
from airflow_provider_segtable.core.segment import ChunkKey

MILLISECOND_US = 1000
OF_TIME_CHUNK = "-T"
FIRM = "-firm"
ABANDONED_S = 1.0
"""How often a waiter looks whether its own link was abandoned."""
TOGETHER = 1000
"""Number of deletions that are sent without waiting for an answer."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A lock or waiter node; ``owner`` is its session."""

    name: str
    path: str
    owner: int
    lock: Lock

    @property
    def of_time_chunk(self) -> bool:
        """Return whether the lock is on intervals."""
        return bool(self.lock.intervals)

    def lock_of(self, epoch: str) -> Lock:
        """Return the lock with its token in an epoch."""
        return replace(self.lock, token=FencingToken(epoch, self.lock.token.number))


@dataclass(slots=True)
class Cache:
    """Lock and waiter nodes read before, by path."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def keep(self, parent: str, names: Iterable[str]) -> None:
        """Drop nodes that are no longer under ``parent``."""
        present = {f"{parent}/{name}" for name in names}
        for path in [p for p in tuple(self.seen) if p.startswith(f"{parent}/")]:
            if path not in present:
                self.seen.pop(path, None)

    def read(
        self, link: Link, parent: str, names: Iterable[str], *, all_known: bool = True
    ) -> tuple[Seen, ...]:
        """Return the named nodes, oldest first, without nodes deleted meanwhile.

        Raises:
            UnreadableNode, UnsupportedFormat: a node cannot be read. With ``all_known=False`` it
                is left out, which suffices to show locks, but not to grant any.
        """
        found: list[Seen] = []
        pending: list[tuple[str, Any]] = []
        for name in names:
            if known := self.seen.get(f"{parent}/{name}"):
                found.append(known)
            else:
                pending.append((name, link.begin(link.client.get_async, f"{parent}/{name}")))
        for name, call in pending:
            try:
                with suppress(NoNodeError):
                    if seen := self.learn(link, parent, name, call):
                        found.append(seen)
            except (UnreadableNode, UnsupportedFormat):
                if all_known:
                    raise
        return tuple(sorted(found, key=lambda each: each.lock.token.number))

    def learn(self, link: Link, parent: str, name: str, call: Any) -> Seen | None:
        """Return the node from the answer to its ``get``; None if no session made the node.

        Raises:
            NoNodeError: if the node does not exist.
            UnreadableNode: if a session made the node, but it is not a lock.
            UnsupportedFormat: if a newer segtable wrote it.
        """
        data, stat = link.wait(call)
        if not stat.ephemeralOwner:
            return None
        path = f"{parent}/{name}"
        try:
            lock = decode_lock(
                data,
                since=stat.ctime * MILLISECOND_US,
                token=FencingToken(link.epoch(), stat.czxid),
                waiting=parent.endswith("/waiters"),
            )
        except UnsupportedFormat as error:
            raise UnsupportedFormat(f"{path}: {error}") from None
        except ValueError as error:
            raise UnreadableNode(
                f"ZooKeeper node {path} of session {stat.ephemeralOwner:#x} is not a readable "
                f"lock ({error}), so its extent is unknown and no other lock is granted. It ends "
                "with its session, or remove it: segtable locks TABLE --release "
                f"{parent.rpartition('/')[2]}/{name}"
            ) from None
        seen = Seen(name, path, stat.ephemeralOwner, lock)
        self.seen[seen.path] = seen
        return seen


def children(link: Link, parent: str) -> list[str]:
    """Return the names under a node; empty if the node is absent."""
    return named(link, link.begin(link.client.get_children_async, parent))


def number_in(link: Link, call: Any, path: str) -> tuple[int, int] | None:
    """Return the number in a node and the node's version; None if it is absent.

    Raises:
        UnreadableNode: if the data is not a number.
    """
    try:
        data, stat = link.wait(call)
    except NoNodeError:
        return None
    try:
        return int(data), stat.version
    except ValueError:
        short = "/".join(path.split("/")[-2:]) if "/counters/" in path else path.rpartition("/")[2]
        raise UnreadableNode(
            f"ZooKeeper node {path} has {data[:40]!r} instead of a number, so no ids can be "
            f"allocated. Remove it: segtable locks TABLE --release {short}; ids continue above "
            "the log's"
        ) from None


def named(link: Link, call: Any) -> list[str]:
    """Return the names from a ``get_children`` answer; empty if the node is absent."""
    try:
        return list(link.wait(call))
    except NoNodeError:
        return []


def delete_tree(link: Link, path: str) -> None:
    """Delete a node and all below it, also those made meanwhile; no error if it is absent."""
    while True:
        below = [f"{path}/{name}" for name in children(link, path)]
        for start in range(0, len(below), TOGETHER):
            batch = below[start : start + TOGETHER]
            begun = [link.begin(link.client.delete_async, each) for each in batch]
            for each, call in zip(batch, begun, strict=True):
                if not _deleted(link, call):
                    delete_tree(link, each)
        if _deleted(link, link.begin(link.client.delete_async, path)):
            return


def _deleted(link: Link, call: Any) -> bool:
    """Return whether a node is gone after a ``delete``; False if there are nodes below it."""
    try:
        link.wait(call)
    except NoNodeError:
        return True
    except NotEmptyError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes under ``<chroot>/tables/<table>``."""

    table: str

    @property
    def lockbox(self) -> str:
        """Return the node whose version orders grants."""
        return f"{self.table}/lockbox"

    @property
    def locks(self) -> str:
        """Return the parent of the lock nodes."""
        return f"{self.table}/locks"

    @property
    def waiters(self) -> str:
        """Return the parent of the queue."""
        return f"{self.table}/waiters"

    @property
    def gate(self) -> str:
        """Return the node whose version counts the time chunk requests, for appends."""
        return f"{self.table}/gate"

    @property
    def states(self) -> str:
        """Return the parent of the states of locks: publishing or revoked."""
        return f"{self.table}/states"

    @property
    def clock(self) -> str:
        """Return the node that is written to learn the server's time."""
        return f"{self.table}/clock"

    @property
    def last_version(self) -> str:
        """Return the node of the highest allocated version."""
        return f"{self.table}/version"

    @property
    def commits(self) -> str:
        """Return the parent of the queue in front of the commit."""
        return f"{self.table}/commits"

    @property
    def head(self) -> str:
        """Return the node of the newest announced event."""
        return f"{self.table}/head"

    def claims(self, group: str) -> str:
        """Return the parent of a group's claims."""
        return f"{self.table}/claims/{group}"

    def counter(self, chunk: ChunkKey, generation: Generation) -> str:
        """Return the node of the next id of a chunk."""
        return f"{self.table}/counters/{chunk}-{generation}"

    def progress_of(self, lock_name: str) -> str:
        """Return the node for the progress of a lock's holder."""
        return f"{self.table}/progress/{lock_name}"

    def prepare(self, link: Link) -> None:
        """Make the table's persistent nodes if they are absent."""
        lasting = (
            *("lockbox", "gate", "clock", "locks", "waiters", "states"),
            *("counters", "progress", "commits"),
        )
        begun = [
            link.begin(link.client.ensure_path_async, f"{self.table}/{name}") for name in lasting
        ]
        for each in begun:
            link.wait(each)

    def belongings(self, lock_name: str) -> tuple[str, str, str]:
        """Return all nodes of a lock, the lock node first."""
        return (
            f"{self.locks}/{lock_name}",
            f"{self.states}/{lock_name}",
            self.progress_of(lock_name),
        )

    def queue_up(self, link: Link, prefix: str, record: bytes) -> None:
        """Take a place at the end of the queue; a time chunk request also bumps the gate."""
        multi = link.transaction()
        if OF_TIME_CHUNK in prefix:
            multi.set_data(self.gate, b"")
        multi.create(f"{self.waiters}/{prefix}", record, ephemeral=True, sequence=True)
        for each in link.call(multi.commit_async):
            if isinstance(each, Exception):
                raise each

    def await_change(
        self, link: Link, seen: Seen, state_version: int | None, wait_s: float
    ) -> None:
        """Wait until a lock or place ends, or the lock's state changes.

        If the lock ends without a state, the watch on the state remains: a few bytes until the
        connection ends. ZooKeeper has no other way to watch one lock alone. Watches of a link that
        is abandoned while they are set may never fire, so the link is looked at, too.
        """
        changed, client = threading.Event(), link.client

        def ring(_: object) -> None:
            changed.set()

        # A lock node has no children: this fires when it ends, and sets no watch if it is absent.
        node = link.begin(client.get_children_async, seen.path, ring)
        state = link.begin(client.exists_async, f"{self.states}/{seen.name}", ring)
        with suppress(NoNodeError):
            link.wait(node)
            found = link.wait(state)
            if (found.version if found else None) == state_version:
                deadline = time.monotonic() + wait_s
                while not link.abandoned and (left_s := deadline - time.monotonic()) > 0:
                    if changed.wait(min(left_s, ABANDONED_S)):
                        break

    def make_firm(self, link: Link, guid: str) -> None:
        """Make the place firm: no request overtakes it any more; no error if it is gone."""
        with suppress(NodeExistsError, NoNodeError):
            path = f"{self.waiters}/{guid}{FIRM}"
            link.call(link.client.create_async, path, ephemeral=True)

    def leave_queue(self, link: Link, guid: str) -> None:
        """Delete the request's place, even if its creation was never confirmed."""
        for name in children(link, self.waiters):
            if name.startswith(guid):
                with suppress(NoNodeError):
                    link.call(link.client.delete_async, f"{self.waiters}/{name}")

    def read_progress(self, link: Link) -> dict[str, dict[str, str]]:
        """Return the last reported progress of live holders, by lock group."""
        live = set(children(link, self.locks))
        begun = [
            link.begin(link.client.get_async, self.progress_of(name))
            for name in children(link, f"{self.table}/progress")
            if name in live
        ]
        found: dict[str, dict[str, str]] = {}
        for each in begun:
            with suppress(NoNodeError, ValueError, KeyError, TypeError):  # only a hint
                record = json.loads(link.wait(each)[0])
                found[str(record["group"])] = dict(record["progress"])
        return found

    def read_head(self, link: Link, ring: Callable[[object], None]) -> int:
        """Return the newest announced event (-1: none); ``ring`` is called when it changes."""
        client = link.client
        with suppress(NoNodeError, ValueError):  # the next announcement overwrites bad data
            if link.call(client.exists_async, self.head, watch=ring):
                return int(link.call(client.get_async, self.head)[0])
        return -1

"""The nodes of one table in ZooKeeper, and how to read them.

1. Lock and waiter nodes never change, so what was read once under a name is kept by that name
   and costs nothing again; ``Cache.keep`` forgets names that are gone.
2. Reads that belong together are begun together and share a round trip; ZooKeeper answers one
   client's requests in order.
3. Names say what an append must know without reading: locks and places of time chunks end in
   ``-T`` (before the sequence of a place), and ``<guid>-firm`` beside a place makes it firm.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from airflow_provider_segtable.coordination.link import Link
from airflow_provider_segtable.coordination.records import decode_lock
from airflow_provider_segtable.core.lockbox import FencingToken, Generation, Lock
from airflow_provider_segtable.core.segment import ChunkKey

MILLISECOND_US = 1000
OF_TIME_CHUNK = "-T"
FIRM = "-firm"


@dataclass(frozen=True, slots=True)
class Seen:
    """A lock or waiter node as read once; ``owner`` is its session."""

    name: str
    path: str
    owner: int
    lock: Lock

    @property
    def of_time_chunk(self) -> bool:
        """Tell whether it is on intervals."""
        return bool(self.lock.intervals)

    def lock_of(self, epoch: str) -> Lock:
        """Return the lock with its token in an epoch."""
        return replace(self.lock, token=FencingToken(epoch, self.lock.token.number))


@dataclass(slots=True)
class Cache:
    """What was read before, by path."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def keep(self, parent: str, names: Iterable[str]) -> None:
        """Forget what is no longer under ``parent``."""
        present = {f"{parent}/{name}" for name in names}
        for path in [p for p in tuple(self.seen) if p.startswith(f"{parent}/")]:
            if path not in present:
                self.seen.pop(path, None)

    def read(self, link: Link, parent: str, names: Iterable[str]) -> tuple[Seen, ...]:
        """Return what these nodes say, oldest first, without those that have just gone."""
        found: list[Seen] = []
        pending: list[tuple[str, Any]] = []
        for name in names:
            if known := self.seen.get(f"{parent}/{name}"):
                found.append(known)
            else:
                pending.append((name, link.begin(link.client.get_async, f"{parent}/{name}")))
        for name, call in pending:
            with suppress(NoNodeError):
                found.append(self.learn(link, parent, name, call))
        return tuple(sorted(found, key=lambda each: each.lock.token.number))

    def learn(self, link: Link, parent: str, name: str, call: Any) -> Seen:
        """Return what the answer to a ``get`` of the node says.

        Raises:
            NoNodeError: if it is not there.
        """
        data, stat = link.wait(call)
        lock = decode_lock(
            data,
            since=stat.ctime * MILLISECOND_US,
            token=FencingToken(link.epoch(), stat.czxid),
            waiting=parent.endswith("/waiters"),
        )
        seen = Seen(name, f"{parent}/{name}", stat.ephemeralOwner, lock)
        self.seen[seen.path] = seen
        return seen


def children(link: Link, parent: str) -> list[str]:
    """Return the names under a node; none if the node is absent."""
    return named(link, link.begin(link.client.get_children_async, parent))


def named(link: Link, call: Any) -> list[str]:
    """Return the names that a ``get_children`` answers; none if the node is absent."""
    try:
        return list(link.wait(call))
    except NoNodeError:
        return []


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
        """Return the node whose version says which time chunk requests an append knows of."""
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
        """Return the node of the highest version handed out."""
        return f"{self.table}/version"

    @property
    def head(self) -> str:
        """Return the node of the newest event announced."""
        return f"{self.table}/head"

    def counter(self, chunk: ChunkKey, generation: Generation) -> str:
        """Return the node of the next id of a chunk."""
        return f"{self.table}/counters/{chunk}-{generation}"

    def progress_of(self, lock_name: str) -> str:
        """Return the node where the holder of a lock reports."""
        return f"{self.table}/progress/{lock_name}"

    def prepare(self, link: Link) -> None:
        """Make the lasting nodes of the table where they are absent."""
        lasting = ("lockbox", "gate", "clock", "locks", "waiters", "states", "counters", "progress")
        begun = [
            link.begin(link.client.ensure_path_async, f"{self.table}/{name}") for name in lasting
        ]
        for each in begun:
            link.wait(each)

    def belongings(self, lock_name: str) -> tuple[str, str, str]:
        """Return all nodes of a lock, itself first."""
        return (
            f"{self.locks}/{lock_name}",
            f"{self.states}/{lock_name}",
            self.progress_of(lock_name),
        )

    def queue_up(self, link: Link, prefix: str, record: bytes) -> None:
        """Take a place at the end of the queue; a time chunk's shuts the gate on appends."""
        multi = link.client.transaction()
        if OF_TIME_CHUNK in prefix:
            multi.set_data(self.gate, b"")
        multi.create(f"{self.waiters}/{prefix}", record, ephemeral=True, sequence=True)
        for each in link.call(multi.commit_async):
            if isinstance(each, Exception):
                raise each

    def make_firm(self, link: Link, guid: str) -> None:
        """Let nobody overtake one's place any more."""
        with suppress(NodeExistsError):
            path = f"{self.waiters}/{guid}{FIRM}"
            link.call(link.client.create_async, path, ephemeral=True)

    def leave_queue(self, link: Link, guid: str) -> None:
        """Give up one's place, whether or not one knows of it."""
        for name in children(link, self.waiters):
            if name.startswith(guid):
                with suppress(NoNodeError):
                    link.call(link.client.delete_async, f"{self.waiters}/{name}")

    def read_progress(self, link: Link) -> dict[str, dict[str, str]]:
        """Return what live holders last reported, by lock group."""
        live = set(children(link, self.locks))
        begun = [
            link.begin(link.client.get_async, self.progress_of(name))
            for name in children(link, f"{self.table}/progress")
            if name in live
        ]
        found: dict[str, dict[str, str]] = {}
        for each in begun:
            with suppress(NoNodeError):
                record = json.loads(link.wait(each)[0])
                found[record["group"]] = record["progress"]
        return found

    def read_head(self, link: Link, ring: Callable[[object], None]) -> int:
        """Return the newest event announced (-1: none); ``ring`` is called when it changes."""
        client = link.client
        with suppress(NoNodeError):
            if link.call(client.exists_async, self.head, watch=ring):
                return int(link.call(client.get_async, self.head)[0])
        return -1

    def raise_head(self, link: Link, n: int) -> None:
        """Announce event ``n`` unless a later one is."""
        client, data = link.client, str(n).encode()
        while True:
            with suppress(BadVersionError, NodeExistsError, NoNodeError):
                if stat := link.call(client.exists_async, self.head):
                    told, stat = link.call(client.get_async, self.head)
                    if int(told) < n:
                        link.call(client.set_async, self.head, data, version=stat.version)
                else:
                    link.call(client.create_async, self.head, data, makepath=True)
                return

"""The nodes of one table in ZooKeeper, and how to read them.

1. Lock and waiter nodes never change, so what was read once under a name is kept by that name
   and costs nothing again; ``read_locks`` forgets names that are gone.
2. Reads that belong together are begun together and share a round trip.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from airflow_provider_segtable.coordination.link import Link
from airflow_provider_segtable.coordination.records import decode_lock
from airflow_provider_segtable.core.lockbox import FencingToken, Generation, Lock
from airflow_provider_segtable.core.segment import ChunkKey

MILLISECOND_US = 1000


@dataclass(frozen=True, slots=True)
class Seen:
    """A lock or waiter node as read once; ``owner`` is its session."""

    name: str
    path: str
    owner: int
    lock: Lock

    def lock_of(self, epoch: str) -> Lock:
        """Return the lock with its token in an epoch."""
        return replace(self.lock, token=FencingToken(epoch, self.lock.token.number))


def read_locks(
    link: Link, parent: str, seen: dict[str, Seen], *, prefix: str = "", only: str = ""
) -> tuple[Seen, ...]:
    """Return the locks (or places in the queue) under a node, oldest first.

    Args:
        link: the connection.
        parent: the node of all locks or all waiters.
        seen: what was read before, by path; updated.
        prefix: look only at names that begin so.
        only: look only at this name.
    """
    names = [only] if only else children(link, parent)
    if not only:
        present = {f"{parent}/{name}" for name in names}
        for path in [p for p in tuple(seen) if p.startswith(f"{parent}/") and p not in present]:
            seen.pop(path, None)
    return read_named(link, parent, (n for n in names if n.startswith(prefix)), seen)


def children(link: Link, parent: str) -> list[str]:
    """Return the names under a node; none if the node is absent."""
    try:
        return list(link.call(link.client.get_children_async, parent))
    except NoNodeError:
        return []


def read_named(
    link: Link, parent: str, names: Iterable[str], seen: dict[str, Seen]
) -> tuple[Seen, ...]:
    """Return the locks of these names, oldest first, without those that have just gone."""
    found: list[Seen] = []
    pending: list[tuple[str, Any]] = []
    for name in names:
        if known := seen.get(f"{parent}/{name}"):
            found.append(known)
        else:
            pending.append((name, link.begin(link.client.get_async, f"{parent}/{name}")))
    epoch = link.epoch() if pending else ""
    for name, call in pending:
        with suppress(NoNodeError):
            data, stat = link.wait(call)
            token = FencingToken(epoch, stat.czxid)
            lock = decode_lock(data, since=stat.ctime * MILLISECOND_US, token=token)
            path = f"{parent}/{name}"
            seen[path] = Seen(name, path, stat.ephemeralOwner, lock)
            found.append(seen[path])
    return tuple(sorted(found, key=lambda each: each.lock.token.number))


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
        lasting = ("lockbox", "locks", "waiters", "counters", "progress")
        begun = [
            link.begin(link.client.ensure_path_async, f"{self.table}/{name}") for name in lasting
        ]
        for each in begun:
            link.wait(each)

    def read_queue(
        self, link: Link, guid: str, seen: dict[str, Seen]
    ) -> tuple[tuple[Seen, ...], tuple[str, ...]]:
        """Return the places ahead of one's own, in order, and one's own names."""
        names = sorted(children(link, self.waiters), key=_sequence)
        own = tuple(name for name in names if name.startswith(guid))
        ahead = names[: names.index(own[0])] if own else names
        return read_named(link, self.waiters, ahead, seen), own

    def is_queued(self, link: Link, guid: str) -> bool:
        """Tell whether one has a place in the queue."""
        return any(name.startswith(guid) for name in children(link, self.waiters))

    def queue_up(self, link: Link, guid: str, record: bytes) -> None:
        """Take a place at the end of the queue."""
        path = f"{self.waiters}/{guid}-"
        link.call(link.client.create_async, path, record, ephemeral=True, sequence=True)

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


def _sequence(waiter: str) -> int:
    return int(waiter.rpartition("-")[2])

"""ZooKeeper nodes that segtable cannot read: damaged, made by hand, or by a newer segtable.

1. Locks and places are ephemeral. A node without a session was not made by a worker, and no
   session will ever end it, so it is ignored, whatever its data.
2. An unreadable node with a session may be the lock of a live writer, so nothing is granted over
   it. Requests that depend on it are refused with its path. It ends with its session, or by
   ``segtable locks TABLE --release NAME``.
3. A lock with an unreadable state is revoked and yields nothing: its holder does not commit.
4. An unreadable counter allocates no ids. Once released, it restarts above the log.
5. Heads and progress are hints: unreadable ones are ignored.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoNodeError

from airflow_provider_segtable.coordination.zookeeper.connection.link import Link
from airflow_provider_segtable.coordination.zookeeper.nodes import (
    FIRM,
    Cache,
    Nodes,
    children,
    number_in,
)
from airflow_provider_segtable.core.errors import UnreadableNode, UnsupportedFormat
from airflow_provider_segtable.ports.coordination import StrayNode


def read_strays(link: Link, nodes: Nodes) -> tuple[StrayNode, ...]:
    """Return the nodes of a table that cannot be read, by name."""
    fresh = Cache()
    found = [*_records(link, nodes, fresh), *_numbers(link, nodes)]
    return tuple(sorted(found, key=lambda stray: stray.name))


def _records(link: Link, nodes: Nodes, fresh: Cache) -> Iterator[StrayNode]:
    for parent in (nodes.locks, nodes.waiters):
        names = [name for name in children(link, parent) if not name.endswith(FIRM)]
        begun = [(n, link.begin(link.client.get_async, f"{parent}/{n}")) for n in names]
        for name, call in begun:
            short = f"{parent.rpartition('/')[2]}/{name}"
            try:
                with suppress(NoNodeError):
                    if fresh.learn(link, parent, name, call) is None:
                        yield StrayNode(name=short, why="it belongs to no session", blocks=False)
            except (UnreadableNode, UnsupportedFormat) as error:
                yield StrayNode(name=short, why=str(error), blocks=True)


def _numbers(link: Link, nodes: Nodes) -> Iterator[StrayNode]:
    names = [f"counters/{name}" for name in children(link, f"{nodes.table}/counters")]
    begun: list[tuple[str, Any]] = [
        (name, link.begin(link.client.get_async, f"{nodes.table}/{name}"))
        for name in (*names, "version")
    ]
    for name, call in begun:
        try:
            number_in(link, call, f"{nodes.table}/{name}")
        except UnreadableNode as error:
            yield StrayNode(name=name, why=str(error), blocks=True)

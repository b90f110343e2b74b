"""Read a consistent view of a table's locks, with as few round trips as the request needs.

1. All reads start together. They are not one snapshot, so their order matters: versions first, so
   that any later change fails the multi; states before locks, so that a state without a lock
   belongs to an ended lock; places before locks, so that a place which becomes a lock meanwhile is
   seen at least once.
2. A request that contests reads every lock and place. An append reads only the locks and places of
   time chunks, recognised by their names.
3. Every reader removes the states of ended locks that it sees.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from kazoo.exceptions import NoNodeError

from airflow_provider_segtable.coordination.zookeeper.connection.link import Link
from airflow_provider_segtable.coordination.zookeeper.locks.acquisition import Acquisition, View
from airflow_provider_segtable.coordination.zookeeper.nodes import (
    FIRM,
    MILLISECOND_US,
    OF_TIME_CHUNK,
    Cache,
    Nodes,
    Seen,
    named,
    number_in,
)
from airflow_provider_segtable.coordination.zookeeper.records import with_state
from airflow_provider_segtable.core.locks import MAX_YIELDS, Lock, in_turn


def read_view(link: Link, call: Acquisition, cache: Cache) -> View:
    """Read the nodes that the decision of a call depends on.

    Raises:
        NoNodeError: if the table's persistent nodes do not exist.
        UnreadableNode, UnsupportedFormat: if a lock, place or counter cannot be read.
    """
    nodes, client = call.nodes, link.client
    keys = sorted({(ask.chunk, ask.generation) for ask in call.asked.allocate})
    wants_version = call.asked.version_above is not None
    lockbox = link.begin(client.get_async, nodes.lockbox)
    gate = link.begin(client.get_async, nodes.gate)
    counters = {key: link.begin(client.get_async, nodes.counter(*key)) for key in keys}
    clock = link.begin(client.set_async, nodes.clock, b"") if wants_version else None
    last = link.begin(client.get_async, nodes.last_version) if wants_version else None
    states = link.begin(client.get_children_async, nodes.states) if call.contests else None
    waiters = link.begin(client.get_children_async, nodes.waiters)
    locks = link.begin(client.get_children_async, nodes.locks)
    lockbox_version, gate_version = link.wait(lockbox)[1].version, link.wait(gate)[1].version
    with_states = None if states is None else named(link, states)
    places, own = _places(link, call, cache, named(link, waiters))
    found, state_versions = _locks(link, call, cache, named(link, locks), with_states)
    return View(
        lockbox_version=lockbox_version,
        gate_version=gate_version,
        locks=found,
        places=places,
        mine=next((n for n, seen in enumerate(places) if seen.name in own), None),
        own_nodes=own,
        states=state_versions,
        counters={
            key: number
            for key, call in counters.items()
            if (number := number_in(link, call, nodes.counter(*key)))
        },
        last_version=(last and number_in(link, last, nodes.last_version)) or (0, None),
        now=link.wait(clock).mtime * MILLISECOND_US if clock else 0,
    )


def read_locks(link: Link, nodes: Nodes, cache: Cache) -> tuple[Lock, ...]:
    """Return the live locks of a table with their states, oldest first."""
    states = link.begin(link.client.get_children_async, nodes.states)
    locks = link.begin(link.client.get_children_async, nodes.locks)
    with_states, names = named(link, states), named(link, locks)
    cache.keep(nodes.locks, names)
    merged, _ = _merge(link, nodes, cache, names, with_states, all_known=False)
    return tuple(seen.lock for seen in merged)


def read_places(link: Link, nodes: Nodes, cache: Cache) -> tuple[Lock, ...]:
    """Return the waiting requests, in the order in which they are served."""
    names = named(link, link.begin(link.client.get_children_async, nodes.waiters))
    cache.keep(nodes.waiters, names)
    return in_turn(seen.lock for seen in _queue(link, nodes, cache, names, all_known=False))


def _places(
    link: Link, call: Acquisition, cache: Cache, names: list[str]
) -> tuple[tuple[Seen, ...], tuple[str, ...]]:
    cache.keep(call.nodes.waiters, names)
    own = tuple(name for name in names if name.startswith(call.guid))
    if not call.contests:
        names = [
            name
            for name in names
            if OF_TIME_CHUNK + "-" in name or name.endswith(FIRM) or name in own
        ]
    return _queue(link, call.nodes, cache, names), own


def _queue(
    link: Link, nodes: Nodes, cache: Cache, names: Iterable[str], *, all_known: bool = True
) -> tuple[Seen, ...]:
    """Return places in the order of arrival, with firm places marked."""
    names = tuple(names)
    firm = {name.removesuffix(FIRM) for name in names if name.endswith(FIRM)}
    asked = (name for name in names if not name.endswith(FIRM))
    places = cache.read(link, nodes.waiters, asked, all_known=all_known)
    return tuple(
        replace(seen, lock=replace(seen.lock, yields=max(seen.lock.yields, MAX_YIELDS)))
        if seen.name.partition("-")[0] in firm
        else seen
        for seen in places
    )


def _locks(
    link: Link, call: Acquisition, cache: Cache, names: list[str], with_states: list[str] | None
) -> tuple[tuple[Seen, ...], dict[str, int]]:
    nodes = call.nodes
    cache.keep(nodes.locks, names)
    if with_states is None:
        mine = call.group_prefix
        names = [n for n in names if n.endswith(OF_TIME_CHUNK) or n.startswith(mine)]
        return _merge(link, nodes, cache, names, names)
    dead = set(with_states) - set(names)
    for name in dead:
        link.begin(link.client.delete_async, f"{nodes.states}/{name}")
    live = [name for name in with_states if name not in dead]
    return _merge(link, nodes, cache, names, live)


def _merge(
    link: Link,
    nodes: Nodes,
    cache: Cache,
    names: Iterable[str],
    with_states: Iterable[str],
    *,
    all_known: bool = True,
) -> tuple[tuple[Seen, ...], dict[str, int]]:
    """Return the locks with their states applied, and the versions of those states."""
    begun = {
        name: link.begin(link.client.get_async, f"{nodes.states}/{name}") for name in with_states
    }
    versions: dict[str, int] = {}
    merged: list[Seen] = []
    for seen in cache.read(link, nodes.locks, names, all_known=all_known):
        lock = seen.lock
        if call := begun.get(seen.name):
            with suppress(NoNodeError):
                data, stat = link.wait(call)
                lock, versions[seen.name] = with_state(lock, data), stat.version
        merged.append(seen if lock is seen.lock else replace(seen, lock=lock))
    return tuple(merged), versions

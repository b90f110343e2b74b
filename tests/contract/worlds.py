"""One coordination service with several clients, in memory or in a real ZooKeeper.

What a test does to the service (expire, wipe, look at the queue) differs by adapter; what it may
expect does not.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from kazoo.client import KazooClient

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService, Session
from airflow_provider_segtable.coordination.zookeeper.link import Link
from airflow_provider_segtable.coordination.zookeeper.nodes import FIRM
from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
    ZooKeeperCoordinator,
)
from airflow_provider_segtable.core.locks import Allocation, Generation, LockRequest, Mode
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.storage.local import SystemClock
from tests.support.builders import CHUNK

T = TypeVar("T")
TABLE = "11111111-2222-3333-4444-555555555555"
PATIENCE_S = 60.0
"""Longest wait for what has to come, on a machine with much else to do."""
LIFE_S = 4 * PATIENCE_S
"""A session that ends in no test by itself: whatever is cleaned, its client or the test cleaned."""


class World(Protocol):
    """A service as a test sees it."""

    def client(self) -> Coordinator:
        """Return another client."""
        ...

    def closing_client(self) -> Coordinator:
        """Return a client that is closed just as its session has been opened."""
        ...

    def expire(self, client: Any) -> None:
        """End a client's session against its will."""
        ...

    def wipe(self) -> None:
        """Lose all that the service knows."""
        ...

    def queued(self, table: str = TABLE) -> int:
        """Return how many wait for locks of a table."""
        ...

    def states(self, table: str = TABLE) -> int:
        """Return how many locks are remembered as publishing or revoked."""
        ...

    def turns(self, table: str = TABLE) -> int:
        """Return how many committers are in the queue."""
        ...

    def knows(self, table: str = TABLE) -> bool:
        """Return whether anything is stored about a table."""
        ...

    def end(self) -> None:
        """Close what the test opened."""
        ...


class _ClosingMemory(MemoryCoordinator):
    """Loses its session once, and is closed while it opens the next."""

    def _contact(self) -> Session:
        if self.session.alive:
            self._service.expire(self.session, notice=False)
            opened = self._service.open

            def open_and_close() -> Session:
                session = opened()
                self.close()
                return session

            self._service.open = open_and_close  # type: ignore[method-assign]
        return super()._contact()


class _ClosingZooKeeper(ZooKeeperCoordinator):
    """Is closed between the opening of its connection and the note of it."""

    def _open(self, timeout_s: float) -> Link:
        link = super()._open(timeout_s)
        self.close()
        return link


class MemoryWorld:
    """Clients of one ``MemoryService``."""

    def __init__(self) -> None:
        self.service = MemoryService()

    def client(self) -> MemoryCoordinator:
        """Return another client."""
        return MemoryCoordinator(SystemClock(), self.service)

    def closing_client(self) -> MemoryCoordinator:
        """Return a client that is closed just as its session has been opened."""
        return _ClosingMemory(SystemClock(), self.service)

    def expire(self, client: MemoryCoordinator) -> None:
        """End a client's session against its will."""
        self.service.expire(client.session)

    def wipe(self) -> None:
        """Lose all that the service knows."""
        self.service.wipe()

    def queued(self, table: str = TABLE) -> int:
        """Return how many wait for locks of a table."""
        with self.service.box(table) as box:
            return len(box.queue)

    def states(self, table: str = TABLE) -> int:
        """Return how many locks are remembered as publishing or revoked."""
        with self.service.box(table) as box:
            return sum(bool(h.lock.irrevocable or h.lock.revoked) for h in box.held.values())

    def turns(self, table: str = TABLE) -> int:
        """Return how many committers are in the queue."""
        with self.service.box(table) as box:
            return len(box.turns)

    def knows(self, table: str = TABLE) -> bool:
        """Return whether anything is stored about a table."""
        return table in self.service.tables

    def end(self) -> None:
        """Nothing outlives the test."""


class ZooKeeperWorld:
    """Clients of one chroot of a real server."""

    def __init__(self, hosts: str, chroot: str) -> None:
        self.hosts, self.chroot = hosts, chroot
        self.clients: list[ZooKeeperCoordinator] = []
        self.admin = KazooClient(hosts)
        self.admin.start()

    def client(self) -> ZooKeeperCoordinator:
        """Return another client."""
        made = ZooKeeperCoordinator(
            self.hosts, self.chroot, session_timeout_s=LIFE_S, connect_timeout_s=PATIENCE_S
        )
        self.clients.append(made)
        return made

    def closing_client(self) -> ZooKeeperCoordinator:
        """Return a client that is closed just as its session has been opened."""
        made = _ClosingZooKeeper(self.hosts, self.chroot, session_timeout_s=LIFE_S)
        self.clients.append(made)
        return made

    def expire(self, client: ZooKeeperCoordinator) -> None:
        """End a session as ZooKeeper's own tests do: a twin with its id says goodbye.

        The client may reconnect in between, which cuts off its twin: then the session goes on.
        """
        assert client._link
        session = client._link.client.client_id
        while self._say_goodbye(session):
            pass

    def _say_goodbye(self, session: tuple[int, bytes]) -> bool:
        """End a session, unless it had ended; return whether it had not."""
        twin = KazooClient(self.hosts, client_id=session)
        twin.start(PATIENCE_S)
        went_on = bool(twin.client_id[0] == session[0])
        twin.stop()
        twin.close()
        return went_on

    def wipe(self) -> None:
        """Lose all that the service knows."""
        self.admin.delete(self.chroot, recursive=True)

    def queued(self, table: str = TABLE) -> int:
        """Return how many wait for locks of a table."""
        path = f"{self.chroot}/tables/{table}/waiters"
        names = self.admin.get_children(path) if self.admin.exists(path) else ()
        return sum(not name.endswith(FIRM) for name in names)

    def states(self, table: str = TABLE) -> int:
        """Return how many locks are remembered as publishing or revoked."""
        path = f"{self.chroot}/tables/{table}/states"
        return len(self.admin.get_children(path)) if self.admin.exists(path) else 0

    def turns(self, table: str = TABLE) -> int:
        """Return how many committers are in the queue."""
        path = f"{self.chroot}/tables/{table}/commits"
        return len(self.admin.get_children(path)) if self.admin.exists(path) else 0

    def knows(self, table: str = TABLE) -> bool:
        """Return whether anything is stored about a table."""
        return bool(self.admin.exists(f"{self.chroot}/tables/{table}"))

    def end(self) -> None:
        """Close what the test opened."""
        for client in self.clients:
            client.close()
        self.admin.stop()
        self.admin.close()


def request(
    group: str,
    *segments: int,
    new: int = 0,
    generation: Generation = Generation.LATER,
    at_least: int = 0,
    holder: str = "host-a pid 1",
    table: str = TABLE,
) -> LockRequest:
    """Return a request for partitions of one chunk and ``new`` ids in it."""
    ask = Allocation(chunk=CHUNK, generation=generation, count=new, at_least=at_least)
    return LockRequest(
        table=table,
        group=group,
        purpose=f"plan-of-{group}",
        holder=holder,
        segments=frozenset(CHUNK.segment(p) for p in segments),
        allocate=(ask,) if new else (),
    )


def append(group: str, new: int = 1, at_least: int = 0) -> LockRequest:
    """Return the request of an append: new first-generation ids only."""
    return request(group, new=new, generation=Generation.FIRST, at_least=at_least)


def appending(group: str, new: int = 1, *, priority: int = 50, yields: int = 0) -> LockRequest:
    """Return an append that goes on beside a REPLACE."""
    return replace(append(group, new), mode=Mode.APPEND, priority=priority, yields=yields)


def time_chunk(
    group: str,
    *intervals: Interval,
    mode: Mode = Mode.EXCLUSIVE,
    above: int | None = None,
    priority: int = 25,
    yields: int = 0,
) -> LockRequest:
    """Return a request for intervals, by default the one of ``CHUNK``."""
    return LockRequest(
        table=TABLE,
        group=group,
        purpose=f"plan-of-{group}",
        holder="host-a pid 1",
        intervals=intervals or (CHUNK.interval,),
        mode=mode,
        version_above=above,
        priority=priority,
        yields=yields,
    )


def eventually(claim: Callable[[], object]) -> None:
    """Wait until ``claim`` holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


class Running:
    """A call in another thread; ``result`` is what it returned or raises what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._value: object = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - handed to who asks
            self._error = error

    @property
    def done(self) -> bool:
        """Tell whether the call has ended."""
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the call, or until the time is over."""
        self._thread.join(timeout_s)

    def result(self) -> Any:
        """Wait for the end of the call."""
        self.join(PATIENCE_S)
        assert self.done, "still running"
        if self._error:
            raise self._error
        return self._value

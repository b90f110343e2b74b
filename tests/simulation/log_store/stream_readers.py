"""Followers of buckets, as users have them: each record once and in order, wherever it came from.

1. A reader takes what a ``BucketTail`` finds, which goes from files to streams of services and back
   by itself. Streams break, services are replaced, and now and then a reader takes nothing for so
   long that its next records are in files alone.
2. The reader's copy (``LogCopy``) and position outlive its process; another follower goes on from
   there. After each result the copy has exactly the records that the position stands for.
3. Services are found by their claims, as clients do. The stores of a crowd have none: there one of
   the last two is found, so a reader may be at one that was replaced.
4. In the end the follower itself gets to the end of what is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.log_store.reading import Expired, Reset
from airflow_provider_segtable.services.log_directory import addresses
from airflow_provider_segtable.table.log_store.checkpointing import DELETED
from airflow_provider_segtable.table.log_store.tail import BucketTail, LogRecords
from tests.simulation.caretakers import tolerate
from tests.simulation.log_store.log_book import contents
from tests.simulation.log_store.log_readers import LogCopy
from tests.simulation.log_store.streams import StreamClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.context import TableContext
    from airflow_provider_segtable.table.log_store.tail import Found
    from tests.simulation.log_store.log_crowd import LogCrowd
    from tests.simulation.simulator import Actor

READS = 4
WAIT_S = 1.0
LATE, LATE_S = 0.1, 8.0
"""How often a reader takes nothing for long, and how long at most."""
MOVED = 0.3
"""How often another of the last stores is found."""


@dataclass(eq=False)
class StoreFinder:
    """Finds the service of a bucket; one client for each address, as ``BucketFinder`` has."""

    crowd: LogCrowd
    actor: Actor
    ports: TableContext
    table: str
    clients: dict[str, StreamClient] = field(default_factory=dict)
    last: str = ""

    def __call__(self, bucket: int) -> Any:
        """Return the client of the bucket's service, if one is known."""
        claimed = addresses(self.ports.coordinator, self.table).get(bucket)
        address = claimed.address if claimed else self._of_crowd()
        return self._client(address) if address else None

    def _of_crowd(self) -> str:
        recent = self.crowd.addresses[-2:]
        if recent and (self.last not in recent or self.actor.uniform() < MOVED):
            self.last = recent[int(self.actor.uniform() * len(recent))]
        return self.last

    def _client(self, address: str) -> StreamClient:
        if address not in self.clients:
            connect = partial(self.crowd.provider.connect, address)
            self.clients[address] = StreamClient(connect, self.actor, self.crowd.world.faults)
        return self.clients[address]


class StreamReader:
    """Takes what a follower finds into a copy."""

    def __init__(self, copy: LogCopy, ports: TableContext, actor: Actor) -> None:
        self._copy, self._ports = copy, ports
        table = copy.crowd.world.raw_ports(actor).log.load().table.table_id
        find = StoreFinder(copy.crowd, actor, ports, table)
        self._tail = BucketTail(ports, copy.bucket, copy.position, find)

    def read(self) -> None:
        """Read a little."""
        for _ in range(READS):
            try:
                found = self._tail.read(WAIT_S)
            except NotFound:
                self._copy.check_expired(self._ports.log.known(), "a file is missing")
                raise
            if found is not None:
                self._take(found)
            at, has = self._tail.position, self._copy.position
            assert at == has, f"bucket {self._copy.bucket}: the follower is at {at}, not at {has}"

    def _take(self, found: Found) -> None:
        match found:
            case LogRecords():
                self._add(found)
            case Reset():
                self._copy.reset(found)
            case Expired(position=position):
                self._copy.check_expired(self._ports.log.known(), f"expired up to {position}")
                self._copy.jump(position)

    def _add(self, found: LogRecords) -> None:
        """Add records; a range of a primary-key table in files may begin before the position."""
        copy, made = self._copy, self._copy.crowd.made
        seen = copy.position.offset
        right = copy.crowd.book.at(copy.bucket, found.after, found.first)
        told = made.names(found.rows) if found.committed else contents(_as_sent(found))
        wanted = made.names(right) if found.committed else right
        where = "files" if found.committed else "a stream"
        assert told == wanted, f"{found.first} to {found.after} of {where}: {wanted}, not {told}"
        merged = found.committed and made.deleted is not None
        first = max(seen, found.first) if merged else found.first
        copy.add(first, right[first - found.first :], found.after)


def _as_sent(found: LogRecords) -> pa.Table:
    """Return records of a stream with the column of their flags, if they have any."""
    if found.deleted is None:
        return found.rows
    return found.rows.append_column(DELETED, pa.array(found.deleted, pa.bool_()))


def stream_reader(crowd: LogCrowd, number: int) -> Callable[[Actor], None]:
    """A follower of a bucket."""
    copy = LogCopy(crowd, number % len(crowd.buckets))

    def run(actor: Actor) -> None:
        reader = StreamReader(copy, crowd.world.ports(actor), actor)
        while not (crowd.world.settled() and copy.has(copy.committed())):
            tolerate(actor, "follow the log", reader.read)
            late = actor.uniform() < LATE
            actor.sleep(actor.uniform() * (LATE_S if late else 0.5))
        copy.check_end()

    return run

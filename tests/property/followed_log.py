"""A table, the log stores of its writers, and followers of a bucket, beside lists of records.

1. Each record is a number of its own. ``content`` has, for each epoch, the records of the bucket as
   they were in that epoch: what was committed when it began, and what its writer appended.
2. Services replace each other; a replaced one may go on, and its writer append, as zombies. News of
   a commit may be lost, and clients may find a service late, not at all, or one that was replaced.
3. A follower has read what its position says: all records below the offset, of that epoch. This is
   checked after each read, record by record. Records come at the next offset, unless ``Reset`` or
   ``Expired`` says from where they go on.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    Fenced,
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    RestoreRefused,
)
from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Expired, Reset, Source
from airflow_provider_segtable.log_store.memory_store import (
    MemoryLogStore,
    MemoryLogStoreProvider,
    MemoryLogWriter,
)
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.log_store import LogClient, LogContext
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch, commit_cut
from airflow_provider_segtable.table.log_store.file_reader import first_available
from airflow_provider_segtable.table.log_store.tail import BucketTail, LogRecords
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA, new_table
from tests.unit.table.logged import rows_of
from tests.unit.table.test_windows import compacted

ROW = rows_of([0]).nbytes
LIMITS = Limits(bucket_bytes=24 * ROW, kept_checkpoints=1)
KEEP_LITTLE = Retention(hours=0, versions=1, orphan_hours=1)


@dataclass
class Running:
    """A service of the bucket, and the writer at it."""

    store: MemoryLogStore
    client: LogClient
    writer: MemoryLogWriter | None = None


@dataclass
class Follower:
    """A follower, and the records that it has, by offset."""

    tail: BucketTail
    table: Table
    seen: dict[int, int] = field(default_factory=dict)
    next: int = 0
    sources: list[Source] = field(default_factory=list)
    events: list[Reset | Expired] = field(default_factory=list)

    def step(self) -> bool:
        """Read once, without waiting; return whether something came."""
        found = self.tail.read(0)
        match found:
            case LogRecords(first=first, rows=rows):
                assert first == self.next, f"records from {first} on, not from {self.next}"
                self.seen |= dict(enumerate(rows.column("row").to_pylist(), first))
                self.next = first + rows.num_rows
                assert self.next == found.after.offset
                self.sources.append(Source.FILES if found.committed else Source.SERVICE)
            case Reset(offset=offset):
                self.seen = {at: n for at, n in self.seen.items() if at < offset}
                self.next = offset
                self.events.append(found)
            case Expired(position=position):
                assert self.next < first_available(self.table.ports, 0).offset
                assert position.offset > self.next
                self.next = position.offset
                self.events.append(found)
        assert self.tail.position.offset == self.next
        return found is not None


@dataclass
class World:
    """The table, and everybody at it."""

    draw: Random
    table: Table = field(default_factory=lambda: new_table(MemoryService()))
    provider: MemoryLogStoreProvider = field(default_factory=MemoryLogStoreProvider)
    services: list[Running] = field(default_factory=list)
    found: Running | None = None
    epoch: int = 0
    written: int = 0
    committed: list[int] = field(default_factory=list)
    content: dict[int, list[int]] = field(default_factory=lambda: {0: []})
    versions: dict[int, list[int]] = field(default_factory=lambda: {0: []})
    followers: list[Follower] = field(default_factory=list)

    def follow(self) -> None:
        """Let another follower begin at the first record, or at the committed end."""
        known = self.table.log_positions().get(0)
        start = known.committed if known and self.draw.random() < 0.5 else Position()
        tail = BucketTail(self.table.ports, 0, start, self.find)
        self.followers.append(Follower(tail, self.table, next=start.offset))

    def find(self, bucket: int) -> LogClient | None:
        """Return the service that clients find at present."""
        assert bucket == 0
        return self.found.client if self.found else None

    def serve(self) -> None:
        """Start another service; the others go on."""
        context = LogContext(table="t", schema=SCHEMA, buckets=(0,), limits=LIMITS)
        store = self.provider.create(context)
        store.start()
        self.services.append(Running(store, self.provider.connect(store.address)))

    def begin(self) -> None:
        """Let a writer begin an epoch at the newest service, which clients find then, or later."""
        if not self.services:
            self.serve()
        service = self.services[-1]
        begun = begin_epoch(self.table.ports, [0], owner="w")
        self.epoch = begun.epoch
        self.content[self.epoch] = [*self.committed]
        writer = service.client.writer(0, epoch=begun.epoch, committed=begun.ends[0])
        assert isinstance(writer, MemoryLogWriter)
        service.writer = writer
        if self.draw.random() < 0.8:
            self.found = service

    def append(self) -> None:
        """Append at some service, which may have been replaced."""
        service = self.some()
        if service is None or service.writer is None:
            return
        numbers = [*range(self.written, self.written + self.draw.randint(1, 5))]
        self.written += len(numbers)
        batch = batch_of(numbers)
        with suppress(LogStoreFull, LogStoreUnavailable, Fenced):
            service.writer.append(batch, wait_s=0)
            self.content[service.writer.epoch] += numbers

    def checkpoint(self) -> None:
        """Commit a cut of some service; its news may be lost."""
        service = self.some()
        if service is None:
            return
        with suppress(LogStoreUnavailable, Fenced, CheckpointPending):
            cut = service.store.checkpoint()
            try:
                done = commit_cut(self.table.ports, cut)
            except Fenced:
                service.store.abandon(cut)
                raise
            if done is not None:
                self._committed(cut.buckets[0].epoch, cut.buckets[0].end)
            if self.draw.random() < 0.9:
                service.store.committed(cut)
            else:
                self.begin()

    def _committed(self, epoch: int, end: int) -> None:
        self.committed = self.content[epoch][:end]
        self.versions[self.table.state().n] = self.committed

    def some(self) -> Running | None:
        """Return the newest service, seldom another one."""
        if not self.services:
            return None
        return self.draw.choice(self.services) if self.draw.random() < 0.2 else self.services[-1]

    def lose(self) -> None:
        """Let clients find another service, or none; or let one end."""
        match self.draw.randrange(3):
            case 0:
                self.found = None
            case 1:
                self.found = self.some()
            case 2 if self.services:
                ended = self.services.pop(self.draw.randrange(len(self.services)))
                ended.store.shutdown()
                self.found = None if self.found is ended else self.found

    def restore(self) -> None:
        """Restore an earlier version, or one that a restore has undone."""
        if not self.versions:
            return
        version = self.draw.choice([*self.versions])
        with suppress(RestoreRefused, InvalidInput):
            self.table.restore(version=version)
            manifest = self.table.log_positions()[0]
            if manifest.epoch > self.epoch:
                self.committed = self.versions[version]
                self.content[manifest.epoch] = [*self.committed]
            self.epoch = manifest.epoch
            assert manifest.end == len(self.committed)

    def clean(self) -> None:
        """Let old versions expire, and with them the records of their checkpoints."""
        with suppress(InvalidInput):  # without rows
            compacted(self.table, "semi-major")
        self.table.ports.clock.sleep(86_400)
        clean(self.table.ports, retention=KEEP_LITTLE)
        kept = self.table.state().retained_from
        self.versions = {n: each for n, each in self.versions.items() if n >= kept}

    def read(self) -> None:
        """Let a follower read a few times."""
        if self.followers:
            follower = self.draw.choice(self.followers)
            for _ in range(self.draw.randint(1, 8)):
                follower.step()
                self.check(follower)

    def check(self, follower: Follower) -> None:
        """Compare what a follower has with what its position says."""
        at = follower.tail.position
        as_it_was = self.content[at.epoch]
        assert at.offset <= len(as_it_was), f"{at} is beyond the end of its epoch"
        for offset, number in follower.seen.items():
            assert as_it_was[offset] == number, f"record {offset} of {at} is {number}"

    def settle(self) -> None:
        """Let one writer go on at a service that is found; all followers get all records."""
        self.serve()
        self.begin()
        self.found = self.services[-1]
        for _ in range(3):
            self.append_here(self.services[-1])
            for follower in self.followers:
                self.catch_up(follower)

    def append_here(self, service: Running) -> None:
        """Append one record at a service."""
        assert service.writer is not None
        batch = batch_of([self.written])
        service.writer.append(batch, wait_s=0)
        self.content[self.epoch].append(self.written)
        self.written += 1

    def catch_up(self, follower: Follower) -> None:
        """Read until the end of the newest epoch."""
        for _ in range(5_000):
            came = follower.step()
            self.check(follower)
            at = follower.tail.position
            if at == Position(epoch=self.epoch, offset=len(self.content[self.epoch])) and not came:
                return
        raise AssertionError(f"a follower stays at {follower.tail.position}")


def batch_of(numbers: list[int]) -> pa.RecordBatch:
    """Return a batch of records."""
    return rows_of(numbers).combine_chunks().to_batches()[0]

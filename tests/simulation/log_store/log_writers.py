"""Actors of the log store that write: stores with their checkpoints, and writers of buckets.

1. A store holds all buckets in its process's memory. Every second one is in the care of the code
   that services use (``Checkpointer``). Nothing but a newer epoch may take a bucket from it.
   The others are hasty: they take each error for a failure, and sometimes a success, and cut again
   from there, which the table refuses. Then such a process starts another store.
2. A writer begins an epoch of its bucket, then appends to one of the last two stores. What it sends
   is done when the table's log has it as committed in its epoch. If it is fenced, if its store is
   gone, or if it has waited for long, it begins a new epoch, and sends new records.
3. Stores may pause for long, with everything that they hold; readers still find them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import (
    Fenced,
    LogStoreUnavailable,
    OffsetGap,
    SegtableError,
    TableGone,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.services.log_store import Checkpointer
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch, commit_cut
from tests.simulation.log_store.log_book import contents
from tests.simulation.world import failed, send_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.core.log_store.manifest import Offset
    from airflow_provider_segtable.log_store.memory_store import MemoryLogStore
    from airflow_provider_segtable.ports.log_store import LogWriter
    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.log_store.log_crowd import LogCrowd
    from tests.simulation.simulator import Actor

MOST_RECORDS = 3
BATCHES = 3
EVERY_S = 2.0
"""Time between checkpoints of a store, at most."""
LOST = 0.2
"""How often a hasty store does not hear of a commit."""
PATIENCE = 4
"""How often a writer looks for its commit before it begins a new epoch."""


def store_keeper(crowd: LogCrowd, number: int) -> Callable[[Actor], None]:
    """A process with a store, and another one when that has ended."""

    def run(actor: Actor) -> None:
        ports = crowd.world.ports(actor)
        while not crowd.world.settled():
            store = crowd.started(actor)
            try:
                _serve(crowd, actor, _keeper(crowd, actor, ports, store, hasty=number % 2 == 1))
            except SegtableError as error:
                failed(actor, "serve", error)
            finally:
                store.shutdown()

    return run


def _keeper(
    crowd: LogCrowd, actor: Actor, ports: TableContext, store: MemoryLogStore, *, hasty: bool
) -> Callable[[], object]:
    """Return what makes a checkpoint."""
    if hasty:
        return lambda: _hasty(crowd, actor, ports, store)
    service = Checkpointer(ports, store, ports.log.load())
    return lambda: _careful(service)


def _serve(crowd: LogCrowd, actor: Actor, checkpoint: Callable[[], object]) -> None:
    while not crowd.world.settled():
        actor.sleep(actor.uniform() * EVERY_S)
        try:
            checkpoint()
        except (Fenced, OffsetGap, TableGone):
            raise
        except SegtableError as error:
            failed(actor, "checkpoint", error)


def _careful(service: Checkpointer) -> None:
    """Make a checkpoint as services do."""
    for bucket, refusal in service.run().lost.items():
        gap = isinstance(refusal, OffsetGap)
        assert not gap, f"a repeated checkpoint of bucket {bucket} is refused: {refusal}"


def _hasty(crowd: LogCrowd, actor: Actor, ports: TableContext, store: MemoryLogStore) -> None:
    """Make a checkpoint; take every error, and sometimes a success, for a failure.

    Raises:
        Fenced, OffsetGap: the store is at its end.
    """
    cut = store.checkpoint()
    try:
        commit_cut(ports, cut, deleted=crowd.made.deleted)
    except Fenced:
        newest = all(each.epoch == crowd.book.newest[n] for n, each in cut.buckets.items())
        assert not newest, "fenced in the newest epochs"
        raise
    except SegtableError:
        store.abandon(cut)
        raise
    crowd.world.faults.boundary(actor, "tell the store")
    if actor.uniform() < LOST:
        store.abandon(cut)
    else:
        with suppress(Fenced):  # a newer epoch has begun in this store
            store.committed(cut)


class Sender:
    """A writer of one bucket, in one epoch after another."""

    def __init__(self, crowd: LogCrowd, actor: Actor, bucket: int) -> None:
        self._crowd, self._actor, self._bucket = crowd, actor, bucket
        self._ports = crowd.world.ports(actor)
        self._writer: LogWriter | None = None

    def send(self) -> None:
        """Append new records; return when they are committed.

        Raises:
            SegtableError: they may be committed or not; the next call begins a new epoch.
        """
        writer = self._writer or self._begun()
        self._writer = None
        for _ in range(1 + int(self._actor.uniform() * BATCHES)):
            self._append(writer)
        self._wait(writer, writer.end)
        self._writer = writer

    def _begun(self) -> LogWriter:
        begun = begin_epoch(self._ports, [self._bucket], owner=self._actor.name)
        self._crowd.world.faults.boundary(self._actor, "begun")
        client = self._crowd.client(self._actor)
        if client is None:
            raise LogStoreUnavailable("no store has started yet: wait")
        end = begun.ends[self._bucket]
        writer = client.writer(self._bucket, epoch=begun.epoch, committed=end)
        self._crowd.book.stores[self._bucket, begun.epoch] = client
        return writer

    def _append(self, writer: LogWriter) -> None:
        many = 1 + int(self._actor.uniform() * MOST_RECORDS)
        batch = self._crowd.made.batch(self._actor, self._crowd.world.shape, many)
        first = writer.append(batch, wait_s=0)
        self._crowd.book.appended(self._bucket, writer.epoch, first, contents(batch))
        told, right = writer.committed, self._crowd.book.ends[self._bucket, writer.epoch]
        assert told <= right, f"the store says that {told} are committed, but {right} are"
        self._crowd.world.faults.boundary(self._actor, "appended")

    def _wait(self, writer: LogWriter, end: Offset) -> None:
        for _ in range(PATIENCE):
            self._actor.sleep(self._actor.uniform())
            known = bucket_of(self._ports.log.load(), self._bucket)
            if known.epoch > writer.epoch:
                raise Fenced(f"epoch {known.epoch} has begun")
            if known.committed.epoch == writer.epoch and known.end >= end:
                return
            self._append(writer)  # a writer does not wait for its commits
        raise LogStoreUnavailable(f"nothing was committed for long in epoch {writer.epoch}")


def log_writer(crowd: LogCrowd, number: int) -> Callable[[Actor], None]:
    """A writer of a bucket; if there are more writers than buckets, some are rivals."""

    def run(actor: Actor) -> None:
        sender = Sender(crowd, actor, number % len(crowd.buckets))
        for turn in range(crowd.world.shape.sends_each):
            name = send_id(number, turn)
            while name not in crowd.world.ledger.finished:
                try:
                    sender.send()
                except SegtableError as error:
                    failed(actor, name, error)
                    actor.sleep(actor.uniform() * 3)
                else:
                    crowd.world.ledger.finish(name, landed=False)

    return run

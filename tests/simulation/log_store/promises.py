"""What the calls of log writers promised, kept outside of them, and held against the table's log.

Owners are processes that use ``TableLogWriter`` with a store of their own, as users do: several of
one bucket, each of which takes it from the one before, while that lives, sleeps, or has lost its
storage. What their threads do in a real process is done here between their calls, at moments that
the seed chooses. Promises:

1. ``append`` returned: no epoch was answered for that ended longer ago than the lease.
2. From then on, until a later epoch begins, a read with the live tail has the records; whatever
   became of the writers before it. (If no session with the coordinator ends in this world.)
3. ``checkpoint`` or ``close`` returned: all records that were answered have been committed.
4. ``Fenced``, and then ``close``, which commits what is left of buckets that nobody took: the
   records that were answered and never committed are among those that the writer names.

The clocks of owners are ten minutes apart.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import Fenced, SegtableError
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log_store.bucket import ON_REQUEST, CheckpointPolicy
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.library.log_records import RecordSplitter
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.library.open_log_writer import EmbeddedLog
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.services.log_directory import BucketFinder
from airflow_provider_segtable.table.log_store.union_scan import union_scan
from tests.every_reader import Rows, differences, rows_of
from tests.simulation.caretakers import tolerate
from tests.simulation.log_store.log_book import Content, contents
from tests.simulation.world import failed, own_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_segtable.core.log.events import Event
    from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset
    from airflow_provider_segtable.core.time import Instant
    from airflow_provider_segtable.ports.log_store import LogClient, LogWriter
    from airflow_provider_segtable.table.context import TableContext
    from airflow_provider_segtable.table.log_store.tail import LiveTail
    from airflow_provider_segtable.table.log_store.union_scan import UnionScan
    from tests.simulation.log_store.log_book import LogBook
    from tests.simulation.log_store.log_crowd import LogCrowd
    from tests.simulation.simulator import Actor

LEASE_S = 1.0
APART_US = 300_000_000
"""How far the clock of an owner is from the right time, one way or the other."""
POLICY = CheckpointPolicy(seconds=2.0)
APPENDS = 8
STEPS = 4
AUTOMATIC, CHECKPOINTS, PAUSES, CLOSED = 0.3, 0.1, 0.3, 0.8
MOST_RECORDS = 3
CALM = ("expiry", "wipe", "suspension")
"""Faults that end or cut sessions with the coordinator."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Records whose append returned."""

    bucket: int
    first: Offset
    records: tuple[Content, ...]

    @property
    def end(self) -> Offset:
        """Return the offset after the last record."""
        return self.first + len(self.records)


@dataclass(eq=False, slots=True)
class Life:
    """One opening of the log store by an owner, until its end."""

    name: str
    answers: list[Answer] = field(default_factory=list)
    epochs: dict[int, Epoch] = field(default_factory=dict)
    open: bool = True


@dataclass
class Promises:
    """All that was promised; none of it is known to the writers."""

    crowd: LogCrowd
    lives: list[Life] = field(default_factory=list)

    def __post_init__(self) -> None:
        faults, shape = self.crowd.world.faults, self.crowd.world.shape
        self.calm = not any(getattr(faults, name) for name in CALM)
        if shape.log_owners:
            self.crowd.world.most_skew_s = max(self.crowd.world.most_skew_s, APART_US / 1e6 + 1)

    @property
    def book(self) -> LogBook:
        """Return what the stores were given."""
        return self.crowd.book

    def answered(self, life: Life, epoch: Epoch, first: Mapping[int, Offset], count: int) -> None:
        """Note that an append returned, in an epoch, at this moment.

        Raises:
            AssertionError: the epoch ended too long ago.
        """
        now: Instant = self.book.now()
        for bucket, offset in first.items():
            late_s = (now - self.book.ended.get((bucket, epoch), now)) / 1e6
            assert late_s <= LEASE_S, (
                f"{life.name}: an append of epoch {epoch} returned {late_s} s after its end"
            )
            records = tuple(self.book.written[bucket, epoch][offset : offset + count])
            assert len(records) == count, f"{life.name}: an answer for records that no store has"
            life.answers.append(Answer(bucket, offset, records))
            life.epochs[bucket] = epoch

    def committed(self, life: Life, call: str) -> None:
        """Check that what was answered has been committed: a call says so.

        Raises:
            AssertionError: it was not.
        """
        for each in life.answers:
            assert self._was_committed(each), (
                f"{life.name}: {call} returned, but {each.first} to {each.end} of bucket "
                f"{each.bucket} were never committed"
            )

    def fenced(self, life: Life, lost: Mapping[int, range]) -> None:
        """Check that what is lost is named.

        Raises:
            AssertionError: it is not.
        """
        life.open = False
        for each in life.answers:
            named = lost.get(each.bucket, range(0))
            assert self._was_committed(each) or each.first in named, (
                f"{life.name}: {each.first} to {each.end} of bucket {each.bucket} are lost, and "
                f"{named} is named"
            )

    def visible(self) -> Mapping[int, tuple[Life, Epoch, Offset]]:
        """Return by bucket who writes in its newest epoch, and the end of what was answered."""
        found = {}
        for life in self.lives if self.calm else ():
            for bucket, epoch in life.epochs.items():
                if life.open and epoch == self.book.newest[bucket]:
                    end = max(each.end for each in life.answers if each.bucket == bucket)
                    found[bucket] = (life, epoch, end)
        return found

    def seen(self, before: Mapping[int, tuple[Life, Epoch, Offset]], tail: LiveTail) -> None:
        """Check a read with the live tail, by what was visible before it.

        Raises:
            AssertionError: it lacks records, or has others.
        """
        for bucket, (life, epoch, end) in before.items():
            cut = tail.cut.buckets.get(bucket)
            reached = max(bucket_of(tail.state, bucket).end, cut.end if cut else 0)
            if life.open and epoch == self.book.newest[bucket]:
                assert reached >= end, f"{life.name}: bucket {bucket} is read to {reached} of {end}"
        for bucket, cut in tail.cut.buckets.items():
            found = [record for each in cut.batches for record in contents(each.content)]
            right = self.book.written[bucket, cut.epoch][cut.start : cut.end]
            assert found == right, f"the tail of bucket {bucket} is {found}, not {right}"

    def _was_committed(self, answer: Answer) -> bool:
        here = slice(answer.first, answer.end)
        return any(
            tuple(each.content for each in buckets.get(answer.bucket, ())[here]) == answer.records
            for buckets in tuple(self.book.versions.values())
        )


class BookedClient:
    """A client of a store whose writers note in the book what the store takes."""

    def __init__(self, inner: LogClient, book: LogBook) -> None:
        self._inner, self._book = inner, book

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def writer(self, bucket: int, *, epoch: Epoch, committed: CommittedEnd) -> Any:
        """Begin an epoch."""
        made = self._inner.writer(bucket, epoch=epoch, committed=committed)
        self._book.stores[bucket, epoch] = self._inner
        return BookedWriter(made, bucket, self._book)


class BookedWriter:
    """A writer that notes what the store takes."""

    def __init__(self, inner: LogWriter, bucket: int, book: LogBook) -> None:
        self._inner, self._bucket, self._book = inner, bucket, book

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def send(self, batch: Any, *, wait_s: float) -> Offset:
        """Append records, and note them."""
        first = self._inner.send(batch, wait_s=wait_s)
        self._book.appended(self._bucket, self._inner.epoch, first, contents(batch))
        return first


class SteppedLog(EmbeddedLog):
    """The store beside a writer, without threads: ``step`` does what one of them would do."""

    book: LogBook

    def start(self, on_moved: Callable[[int], None]) -> None:  # noqa: ARG002 - the log's form
        """Serve."""
        self.service._lease_s = LEASE_S
        self.service.store.start()
        with self.service.store.confirming(LEASE_S):
            pass

    def announce(self, epoch: Epoch) -> None:
        """Announce the address, without waiting."""
        self._announce(epoch)

    def client(self, bucket: int) -> Any:
        """Return the client of the store."""
        return BookedClient(super().client(bucket), self.book)

    def step(self, actor: Actor) -> None:
        """Do what a thread does, or nothing."""
        act = (self.service.look, self.service.step, self._claim, lambda: None)
        act[int(actor.uniform() * len(act))]()

    def _end(self, end: Callable[[], None]) -> None:
        try:
            super()._end(end)
        finally:
            self._wanted = frozenset()
            self._claim()


def log_owner(promises: Promises, number: int) -> Callable[[Actor], None]:
    """A process that opens the log store again and again, and takes it from whoever has it."""
    crowd = promises.crowd

    def run(actor: Actor) -> None:
        ports = crowd.world.ports(actor)
        for turn in range(crowd.world.shape.sends_each):
            name = own_id(number, turn)
            while name not in crowd.world.ledger.finished:
                life = Life(f"{actor.name}.{actor.incarnation} in turn {turn}")
                promises.lives.append(life)
                actor.on_crash.append(lambda life=life: setattr(life, "open", False))
                try:
                    _live(promises, life, actor, ports)
                except SegtableError as error:
                    failed(actor, name, error)
                    actor.sleep(actor.uniform() * 3)
                else:
                    crowd.world.ledger.finish(name, landed=False)
                finally:
                    life.open = False

    return run


def _live(promises: Promises, life: Life, actor: Actor, ports: TableContext) -> None:
    log, writer = _opened(promises.crowd, actor, ports)
    try:
        writer.open()
        for _ in range(1 + int(actor.uniform() * APPENDS)):
            _act(promises, life, actor, log, writer)
        _wait(actor, log)
        closed = actor.uniform() < CLOSED
        life.open = not closed
        (writer.close if closed else writer.checkpoint)()
        promises.committed(life, "close" if closed else "checkpoint")
    except Fenced:
        life.open = False
        with suppress(Fenced):
            writer.close()  # commits what it has of buckets that nobody took
        promises.fenced(life, writer.lost)
        raise
    finally:
        life.open = False
        writer.discard()


def _opened(
    crowd: LogCrowd, actor: Actor, ports: TableContext
) -> tuple[SteppedLog, TableLogWriter]:
    state, buckets = ports.log.load(), crowd.buckets
    name = f"{actor.name}.{actor.token()}"
    policy = POLICY if actor.uniform() < AUTOMATIC else ON_REQUEST
    log = SteppedLog(ports, state, buckets, provider=crowd.provider, policy=policy, name=name)
    log.book = crowd.book
    actor.on_crash.append(log.service.store.shutdown)
    settings = LogStoreSettings(buckets=len(buckets))
    splitter = RecordSplitter(state, ports.uri, settings, buckets)
    return log, TableLogWriter(ports, log, splitter, buckets, owner=name, wait_s=0)


def _act(
    promises: Promises, life: Life, actor: Actor, log: SteppedLog, writer: TableLogWriter
) -> None:
    """Append, or make a checkpoint."""
    _wait(actor, log)
    if actor.uniform() < CHECKPOINTS:
        writer.checkpoint()
        promises.committed(life, "checkpoint")
        return
    many = 1 + int(actor.uniform() * MOST_RECORDS)
    batch = promises.crowd.made.batch(actor, promises.crowd.world.shape, many)
    first = writer.append(pa.Table.from_batches([batch]))
    promises.answered(life, writer.epoch, first, batch.num_rows)


def _wait(actor: Actor, log: SteppedLog) -> None:
    """Let threads run, or let the whole process stand still."""
    for _ in range(int(actor.uniform() * STEPS)):
        tolerate(actor, "keep up", lambda: log.step(actor))
        actor.sleep(actor.uniform() * LEASE_S)
    if actor.uniform() < PAUSES:
        actor.sleep(actor.uniform() * 4 * LEASE_S)


def live_reader(promises: Promises) -> Callable[[Actor], None]:
    """A reader of the newest version and the live tail, again and again.

    It finds the rows of the version, and what its tail holds in place of a checkpoint.
    """
    crowd = promises.crowd

    def run(actor: Actor) -> None:
        ports, ledger = crowd.world.ports(actor), crowd.ledger
        table = crowd.world.raw_ports(actor).log.load().table.table_id
        names = crowd.made.columns
        request = read_request(columns=names, include_log=True)
        find = BucketFinder(ports.coordinator, table, crowd.provider.connect)
        while not crowd.world.settled():
            before = promises.visible()
            found: list[tuple[UnionScan, Rows, Event | None]] = []

            def read(found: list[tuple[UnionScan, Rows, Event | None]] = found) -> None:
                scan = union_scan(ports, find, request)
                found.append((scan, rows_of(scan.to_arrow()), ledger.rehearsal(scan)))

            tolerate(actor, "read with the log", read)
            for scan, rows, event in found:
                promises.seen(before, scan.tail)
                wrong = [*differences("include_log", rows, ledger.with_tail(scan, event, names))]
                assert not wrong, f"{actor.name}: {wrong}"
            actor.sleep(actor.uniform() * 0.5)

    return run

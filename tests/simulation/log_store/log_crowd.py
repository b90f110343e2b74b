"""What the actors of a log store share: where stores run, and how records are made.

Records of an append table are rows with numbers of their own. Records of a primary-key table are
upserts and deletes of few keys.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.log_store.memory_store import MemoryLogStore, MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import LogContext
from airflow_provider_segtable.table.log_store.checkpointing import DELETED
from tests.every_reader import Live, with_log
from tests.simulation.authors import SCHEMA, plain, times_of
from tests.simulation.keyed import records as keyed
from tests.simulation.keyed.keyed_ledger import KeyedLedger
from tests.simulation.keyed.writers import made_records
from tests.simulation.ledger import Ledger
from tests.simulation.log_store.log_book import Content, LogBook, contents
from tests.simulation.model import Append, Known, Landing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_segtable.core.log.events import Event
    from airflow_provider_segtable.ports.log_store import LogClient
    from airflow_provider_segtable.table.log_store.union_scan import UnionScan
    from tests.every_reader import Reader, Rows
    from tests.simulation.model import Intention
    from tests.simulation.simulator import Actor
    from tests.simulation.world import Shape, World

OF_LOGS = 3_000_000
"""Row numbers from here on are of the log store."""
OF_KEYED_LOGS = 700
"""Numbers of authors from here on are writers of the log store."""
LIMITS = Limits(bucket_bytes=400, kept_checkpoints=1)
"""So little that appends wait for room, and readers fall behind."""


_NO_MORE = (frozenset[Known](),)
"""Writers of the log store give none of the columns that come and go."""


class BookedLedger(Ledger):
    """The ledger of an append table with a log store.

    A checkpoint is to append the records that writers appended to its ranges.
    """

    def __init__(self) -> None:
        super().__init__()
        self.book = LogBook()
        self.means: Callable[[Sequence[Content]], Intention]

    @property
    def idle(self) -> bool:
        """Tell whether no store has anything to commit: its last checkpoint comes after writers."""
        return not self.book.awaited

    def _move(self, event: Event) -> None:
        ranges = event.action.log if isinstance(event.action, Appended) else ()
        if ranges:
            records = [record for each in ranges for record in self.book.in_range(each)]
            self.intended.setdefault(event.commit, self.means(records))
        super()._move(event)
        assert self.checked is not None
        self.book.follow(event, self.checked)

    def _asked(self, event: Event) -> Iterator[Reader]:
        """Yield which readers are asked after an event: also the one with the tail, if any is."""
        yield from super()._asked(event)
        if self.book.uncommitted:
            yield with_log

    def _live(self, names: Sequence[str]) -> Live:
        """Return the log stores that run, and what reads of these columns find with them."""

        def shown(scan: UnionScan) -> Rows:
            self.book.check_whole(scan.tail)
            return self.with_tail(scan, self.rehearsal(scan), names)

        return Live(find=self.book.find, shown=shown)

    @staticmethod
    def rehearsal(scan: UnionScan) -> Event | None:
        """Return the event that a read made of its tail; None if that is empty."""
        return scan.ports.log.event(scan.state.n) if scan.state.n > scan.version else None

    def with_tail(self, scan: UnionScan, event: Event | None, names: Sequence[str]) -> Rows:
        """Return the rows of a read's version, and of what its tail holds as if it were committed.

        The read's event, which nobody else sees, tells how records of one key are ordered.
        """
        model = self.models[scan.version]
        if event is not None:
            cuts = scan.tail.cut.buckets.values()
            ranges = [self.book.written[c.bucket, c.epoch][c.start : c.end] for c in cuts]
            records = [record for each in ranges for record in each]
            before = self.models.__getitem__
            landing = Landing(n=event.n, action=event.action, before=before, given=_NO_MORE)
            model = self.means(records).done(model, landing)
        return Counter(model.shown(names))


class BookedKeyedLedger(BookedLedger, KeyedLedger):
    """The ledger of a primary-key table with a log store."""


@dataclass(slots=True)
class RowsMade:
    """Records of an append table."""

    schema = SCHEMA
    columns = tuple(SCHEMA.names)
    deleted = None
    _numbers: count[int] = field(default_factory=lambda: count(OF_LOGS))

    def batch(self, _: Actor, shape: Shape, many: int) -> pa.RecordBatch:
        """Return new records."""
        numbers = [next(self._numbers) for _ in range(many)]
        return plain(numbers, times_of(shape, numbers)).to_batches()[0]

    def intention(self, shape: Shape, records: Sequence[Content]) -> Intention:
        """Return what the commit of records is to do."""
        rows = tuple(int(str(record[1])) for record in records)
        return Append(rows=rows, times=times_of(shape, rows))

    def names(self, rows: pa.Table | Sequence[Content]) -> list[Any]:
        """Return the numbers of the rows."""
        return rows["row"].to_pylist() if isinstance(rows, pa.Table) else [r[1] for r in rows]


@dataclass(slots=True)
class UpsertsMade:
    """Records of a primary-key table."""

    schema = keyed.SCHEMA.append(pa.field(DELETED, pa.bool_()))
    columns = tuple(keyed.SCHEMA.names)
    deleted = DELETED
    _turns: count[int] = field(default_factory=lambda: count(OF_KEYED_LOGS * 1000))
    _made: dict[Content, keyed.Record] = field(default_factory=dict)

    def batch(self, actor: Actor, shape: Shape, many: int) -> pa.RecordBatch:
        """Return new records."""
        records = made_records(actor, next(self._turns), shape)[:many]
        rows = keyed.batch(records, shape.chunks)
        batch = rows.rename_columns(self.schema.names).to_batches()[0]
        self._made |= zip(contents(batch), records, strict=True)
        return batch

    def intention(self, _: Shape, records: Sequence[Content]) -> Intention:
        """Return what the commit of records is to do."""
        return keyed.Upsert(records=tuple(self._made[each] for each in records))

    def names(self, rows: pa.Table | Sequence[Content]) -> list[Any]:
        """Return the keys, each once: a range of a primary-key table is merged."""
        found = rows["row"].to_pylist() if isinstance(rows, pa.Table) else [r[1] for r in rows]
        return sorted(set(found))


@dataclass
class LogCrowd:
    """The stores of a world, in the order in which they started, and how its records are made."""

    world: World
    made: RowsMade | UpsertsMade
    provider: MemoryLogStoreProvider = field(init=False)
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Let the ledger know what records mean."""
        assert isinstance(self.world.ledger, BookedLedger)
        self.world.ledger.means = partial(self.made.intention, self.world.shape)
        simulation = self.world.simulation
        self.provider = MemoryLogStoreProvider(monotonic=lambda: simulation.now / 1e6)
        self.book.now = lambda: simulation.now

    @property
    def ledger(self) -> BookedLedger:
        """Return the world's ledger."""
        assert isinstance(self.world.ledger, BookedLedger)
        return self.world.ledger

    @cached_property
    def book(self) -> LogBook:
        """Return the book that the world's ledger holds the log against."""
        return self.ledger.book

    @property
    def buckets(self) -> tuple[int, ...]:
        """Return the buckets of the log store."""
        return tuple(range(self.world.shape.log_buckets))

    def started(self, actor: Actor) -> MemoryLogStore:
        """Start a store, which ends with its process."""
        context = LogContext(
            table="simulated", schema=self.made.schema, buckets=self.buckets, limits=LIMITS
        )
        store = self.provider.create(context)
        store.start()
        actor.on_crash.append(store.shutdown)
        self.addresses.append(store.address)
        return store

    def client(self, actor: Actor) -> LogClient | None:
        """Connect to one of the last two stores that started: the older one may be replaced."""
        recent = self.addresses[-2:]
        return self.provider.connect(recent[int(actor.uniform() * len(recent))]) if recent else None

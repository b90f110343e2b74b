"""The world of the simulation: what happens in it, and what all actors share.

A world is the life of one table. If the table is dropped and another one is created in its place,
that one has a world of its own (``after``), with the same simulation, storage and coordination.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotATable,
    RowsOutOfBalance,
    SegtableError,
    TableGone,
)
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.commit_queue import CommitQueue
from airflow_provider_segtable.table.context import MOST_SKEW_S, TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.simulation.faults.faulty_coordinator import FaultyCoordinator
from tests.simulation.faults.faulty_storage import (
    Faults,
    FaultyFiles,
    FaultyStorage,
)
from tests.simulation.faults.host_turns import Host
from tests.simulation.indexes.index_oracle import IndexOracle
from tests.simulation.ledger import Ledger
from tests.simulation.process_threads import in_background, publish_in_background
from tests.simulation.simulator import Actor, Process, Signal, Simulation
from tests.support.rooted import RootedFiles

SESSION_TIMEOUT_S = 10.0
WRITERS = ("appender", "changer", "overwriter", "upserter", "stream")
"""The beginnings of the names of actors that may be threads of one process."""
HOUR_US = 3_600_000_000
NEVER = (RowsOutOfBalance, CorruptTable, NotATable)
"""What no fault of the world explains, but for ``TableGone``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much happens.

    ``drops`` is how many tables in a row the droppers drop. ``hours`` is the number of time chunks
    that keys move among, beside an index of records; 0 if keys stay where they are. ``deleting`` is
    the share of records that delete their key. ``asked_kinds`` are the kinds of compactions that
    the asker of a primary-key table draws from; empty for all of them. With ``threads``, writers
    are threads of one process, so that they put their events together. With ``host``, all processes
    are on one host, and offer their changes while they wait for their turns.
    """

    appenders: int = 3
    appends_each: int = 4
    compactors: int = 2
    planners: int = 1
    chunks: int = 2
    asks: int = 0
    cleaners: int = 0
    readers: int = 0
    taggers: int = 0
    changers: int = 0
    changes_each: int = 2
    alterers: int = 0
    alterations_each: int = 6
    overwriters: int = 0
    overwrites_each: int = 3
    restorers: int = 0
    restores_each: int = 2
    repairers: int = 0
    droppers: int = 0
    drops: int = 1
    followers: int = 0
    upserters: int = 0
    upserts_each: int = 3
    streams: int = 0
    batches_each: int = 3
    requesters: int = 0
    wishes_each: int = 3
    builders: int = 0
    tenders: int = 0
    hours: int = 0
    deleting: float = 0.25
    asked_kinds: tuple[str, ...] = ()
    log_buckets: int = 0
    log_stores: int = 0
    log_writers: int = 0
    sends_each: int = 3
    log_readers: int = 0
    stream_readers: int = 0
    log_owners: int = 0
    live_readers: int = 0
    settlers: int = 0
    threads: bool = False
    host: bool = False
    background: bool = False


EVERYBODY = Shape(
    appenders=2,
    appends_each=2,
    compactors=1,
    asks=3,
    cleaners=1,
    readers=1,
    changers=1,
    overwriters=1,
    overwrites_each=2,
    restorers=1,
    restores_each=2,
)
"""A few of those that any table has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Founding:
    """How a table begins: its definition by its id, the ledger that checks it, and its crowd.

    ``kinds`` are the kinds of indexes that are asked for.
    """

    define: Callable[[str], TableDefinition]
    ledger: type[Ledger]
    populate: Callable[["World"], None]
    kinds: tuple[IndexKind, ...]


@dataclass(slots=True)
class World:
    """The storage, the coordination service and the model that all actors share."""

    simulation: Simulation
    faults: Faults
    shape: Shape
    storage: MemoryStorage
    founding: Founding
    service: MemoryService = field(default_factory=MemoryService)
    ledger: Ledger = field(default_factory=Ledger)
    indexes: IndexOracle = field(default_factory=IndexOracle)
    orphans: list[tuple[int, MemoryCoordinator]] = field(default_factory=list)
    asked: int = 0
    planned: int = 0
    life: int = 0
    dropped: bool = False
    had: frozenset[str] = frozenset()
    process: Process | None = None
    turns: Host = field(default_factory=Host)
    looked: Sequence[str] = ()
    after: "World | None" = None
    most_skew_s: float = MOST_SKEW_S

    @property
    def newest(self) -> "World":
        """Return the world of the last table in this place."""
        return self.after.newest if self.after else self

    @property
    def ended(self) -> bool:
        """Tell whether the table's log has ended; ``dropped`` tells whether a drop returned."""
        return self.ledger.checked is not None and self.ledger.checked.dropped

    def head(self, ports: TableContext) -> State:
        """Return the newest state as a process finds it that opens the place again.

        Raises:
            TableGone: the table was dropped, and maybe another one is in its place.
        """
        state = EventLog(ports.storage).load()
        known = self.ledger.checked
        if known is None or state.table.table_id != known.table.table_id:
            raise TableGone(f"{ports.uri} holds another table")
        return state

    def named(self, name: str) -> str:
        """Return the name of an actor of this world."""
        return f"{name}{self.ledger.crowd}"

    @property
    def files(self) -> RootedFiles:
        """Return the data files, below the same root as the log."""
        return RootedFiles(self.storage)

    def raw_ports(self, actor: Actor) -> TableContext:
        """Return ports without faults, for set-up and checks."""
        return TableContext(
            uri="memory://simulation",
            storage=self.storage,
            files=self.files,
            clock=actor,
            randomness=actor,
            author=self.named("checker"),
            most_skew_s=self.most_skew_s,
        )

    def ports(self, actor: Actor) -> TableContext:
        """Return one incarnation's ports.

        Where tables are dropped, they had this one open: so they never take the next one for it.
        """
        if self.shape.threads and actor.name.startswith(WRITERS):
            ports = self._shared(actor)
        elif self.shape.background:
            ports = in_background(actor, self.connected)
        else:
            ports = self.connected(actor)
        if self.ledger.checked is not None and (self.shape.droppers or self.life):
            ports.log.remember(self.ledger.checked)
        return ports

    def _shared(self, actor: Actor) -> TableContext:
        """Return the ports of the process of all writers, made by its first thread."""
        process = self.process = self.process or Process(self.simulation, "writers")
        if process.shared is None:
            process.shared = self.connected(process)
            queue = CommitQueue(partial(Signal, process))
            object.__setattr__(process.shared, "commits", queue)
            if self.shape.background:
                publish_in_background(process.shared, process, skew_us=actor.skew_us)
        actor.process = process
        process.threads.append(actor)
        return process.shared  # type: ignore[no-any-return]

    def connected(self, actor: Any) -> TableContext:
        """Return ports that have read nothing yet: a fresh session, faults everywhere."""
        client = MemoryCoordinator(actor, self.service)
        actor.on_crash.append(lambda: self.orphans.append((self.simulation.now, client)))
        return TableContext(
            uri="memory://simulation",
            storage=FaultyStorage(
                self.storage, actor, self.faults, self.turns if self.shape.host else None
            ),
            files=FaultyFiles(self.files, actor, self.faults),
            clock=actor,
            randomness=actor,
            author=f"{actor.name}.{actor.incarnation}",
            most_skew_s=self.most_skew_s,
            optional_coordinator=FaultyCoordinator(
                client,
                actor,
                self.faults,
                expire=lambda told: self.service.expire(client.session, notice=told),
                wipe=lambda told: self.service.wipe(notice=told),
                cut=lambda off: (self.service.suspend if off else self.service.resume)(
                    client.session
                ),
            ),
        )

    def reap(self) -> None:
        """Expire the sessions of processes that died a while ago."""
        late = self.simulation.now - int(SESSION_TIMEOUT_S * 1e6)
        for died_at, client in tuple(self.orphans):
            if died_at < late:
                client.close()
                self.orphans.remove((died_at, client))

    def settled(self) -> bool:
        """Tell whether everything that was begun has come to its end."""
        return self.asked >= self.shape.asks and self.settled_but_for_wishes()

    def settled_but_for_wishes(self) -> bool:
        """Tell whether all is appended and compacted: there may be nothing left to wish for."""
        if self.ledger.checked is None or self.ledger.finished != set(commit_ids(self.shape)):
            return False
        if not self.ledger.idle:
            return False
        state = self.ledger.checked
        open_ids = any(
            space.holes
            for (_, generation), space in state.ids.items()
            if generation is Generation.FIRST
        )
        return (
            not open_ids
            and not state.pending_plans()
            and self._compact()
            and not any(_corrects(index) for index in state.indexes.values())
        )

    def _compact(self) -> bool:
        """Tell whether each chunk has one group; one whose rows are all deleted may stay beside."""
        timeline = self.ledger.checked.timeline if self.ledger.checked else Timeline.empty()
        return all(
            sum(any(s.rows for s in group.segments) for group in timeline.visible_groups(chunk)) < 2
            for chunk in timeline.visible_chunks()
        )


def _corrects(index: IndexState) -> bool:
    """Tell whether a run of an index is yet to come that may write to the table."""
    return not (index.current or index.definition.kind.about_files)


def commit_ids(shape: Shape) -> Iterator[str]:
    """Yield the ids of all commits that somebody repeats until they are done."""
    for name, authors, turns in (
        (commit_id, shape.appenders, shape.appends_each),
        (change_id, shape.changers, shape.changes_each),
        (overwrite_id, shape.overwriters, shape.overwrites_each),
        (alter_id, shape.alterers, shape.alterations_each),
        (restore_id, shape.restorers, shape.restores_each),
        (upsert_id, shape.upserters, shape.upserts_each),
        (batch_id, shape.streams, shape.batches_each),
        (wish_id, shape.requesters, shape.wishes_each),
        (send_id, shape.log_writers, shape.sends_each),
        (own_id, shape.log_owners, shape.sends_each),
    ):
        yield from (name(number, turn) for number in range(authors) for turn in range(turns))


def commit_id(appender: int, turn: int) -> str:
    """Return the id of an appender's append number ``turn``."""
    return f"append-{appender}-{turn}"


def change_id(changer: int, turn: int) -> str:
    """Return the id of a changer's change number ``turn``."""
    return f"change-{changer}-{turn}"


def overwrite_id(overwriter: int, turn: int) -> str:
    """Return the id of an overwriter's overwrite number ``turn``."""
    return f"overwrite-{overwriter}-{turn}"


def alter_id(alterer: int, turn: int) -> str:
    """Return the id of an alterer's alteration number ``turn``."""
    return f"alter-{alterer}-{turn}"


def restore_id(restorer: int, turn: int) -> str:
    """Return the id of a restorer's restore number ``turn``."""
    return f"restore-{restorer}-{turn}"


def upsert_id(upserter: int, turn: int) -> str:
    """Return the id of an upserter's upsert number ``turn``."""
    return f"upsert-{upserter}-{turn}"


def batch_id(stream: int, turn: int) -> str:
    """Return the id of a stream's micro-batch number ``turn``."""
    return f"stream{stream}-{turn}"


def wish_id(requester: int, turn: int) -> str:
    """Return the id of a requester's wish number ``turn``."""
    return f"wish-{requester}-{turn}"


def send_id(writer: int, turn: int) -> str:
    """Return the name of the records that a writer of the log store sends as its ``turn``-th."""
    return f"send-{writer}-{turn}"


def own_id(owner: int, turn: int) -> str:
    """Return the name of the ``turn``-th time that an owner of a log store opens it."""
    return f"own-{owner}-{turn}"


def failed(actor: Actor, what: str, error: SegtableError) -> None:
    """Note that faults defeated an actor, and let the others go on.

    Raises:
        TableGone: the error is that one: this actor's work is over.
        AssertionError: no fault of the world explains the error.
    """
    if isinstance(error, TableGone):
        raise error
    assert not isinstance(error, NEVER), f"{actor.name}: {what}: {type(error).__name__}: {error}"
    actor.point(f"{what} failed: {type(error).__name__}")

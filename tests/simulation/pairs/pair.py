"""A pair: one action held before one of its effects, and another that runs meanwhile.

1. *Tables*: an append table, a rollup, and two with a primary key, each young and old. The old ones
   were compacted and published, and are written since then. The append table has adopted files.
2. *Play*: the first action runs until the effect, then the second one as a whole, then the first
   one goes on. Then somebody carries out what is left, compacts all, builds the indexes, publishes
   and cleans: a fault that no reader sees at once is seen then.
3. *Checks*: while the first action is held, after both, and at the end, every reader is asked, and
   the log and the files are verified. An action that returned has its event; one that was refused
   has none, and says why by an error that others' work explains.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    InvalidInput,
    LockLost,
    LockTimeout,
    LogStoreError,
    NotFound,
    PublishingRefused,
    RestoreRefused,
    TableExists,
    TableGone,
    VersionExpired,
)
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.schema import Column as Stored
from airflow_provider_segtable.core.schema import Metric, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publishing.publisher import AlreadyPublished, PublishedNow
from airflow_provider_segtable.table.table import Table, create_table
from tests.every_reader import (
    READERS,
    Reader,
    Shown,
    base_files,
    disagreements,
    published,
    rows_of,
    whole,
)
from tests.simulation.ledger import Rows
from tests.simulation.pairs.actions import (
    ACTIONS,
    BEFORE,
    COMPACTED,
    FORMATS,
    FOUNDER,
    GONE,
    INPUT,
    LATE,
    TAGGED,
    Action,
    PlanFailed,
    Read,
    adopt_landed,
    landed_files,
    told,
    values_of,
    with_landed,
    written,
)
from tests.simulation.pairs.plain_model import Column, History, Plain
from tests.simulation.pairs.stage import HeldStorage, Stage, points
from tests.simulation.shared_reading import shared_reading

KINDS: Mapping[str, TableKind | None] = {
    "append": None,
    "rollup": Rollup(
        dimensions=("id",), metrics=(Metric.parse("many=count"), Metric.parse("total=sum(n)"))
    ),
    "latest": PrimaryKey(key=("id",), buckets=1),
    "partial_update": PrimaryKey(key=("id",), buckets=1, merge=MergeEngine.PARTIAL_UPDATE),
}
AGES = ("young", "old")
TABLE_ID = "one"
EXPLAINED = (
    CommitConflict,
    InvalidInput,
    LockLost,
    LockTimeout,
    LogStoreError,
    PublishingRefused,
    RestoreRefused,
    TableExists,
    TableGone,
    VersionExpired,
)
"""Errors by which an action says that another one was there first."""
SCHEMA = Schema(
    (
        Stored(name="at", type="timestamp[us, tz=UTC]", nullable=False),
        Stored(name="id", type="int64", nullable=False),
        Stored(name="n", type="int32"),
        Stored(name="z", type="string"),
    )
)


@dataclass(frozen=True, slots=True)
class Base:
    """A table before a pair: its objects, and its model after each event."""

    kind: str
    stage: Stage
    history: Mapping[int, Plain]

    @property
    def newest(self) -> Plain:
        """Return the model of the newest version."""
        return self.history[max(self.history)]


@cache
def base(kind: str, age: str) -> Base:
    """Return a table; it is made once."""
    stage = Stage.empty()
    ports = stage.ports("founder")
    founder = _Founder(ports, kind)
    founder.write({number: number for number in range(1, GONE[-1] + 1)})
    founder.alter()
    founder.write({number: 10 * number for number in (50, 51, 52)})
    if kind == "append":
        founder.adopt()
    if kind == "rollup":
        founder.write({1: 1, 2: 2, 50: 1})  # again, so that groups have parts
    Table(ports).tag(TAGGED)
    founder.note()
    Table(ports).advance_consumer(BEFORE, 2)
    founder.note()
    founder.delete(*GONE)
    Table(ports).create_index("stats", "column_stats", ["id"])
    run_index(ports, "stats", in_process(ports.files))
    founder.note()
    if age == "old":
        founder.grow_old()
    for number in (53, 55):  # of the second day: the first one has nothing beside what was made
        founder.write({number: 20 * number})
    Table(ports).create_index(LATE, "bloom_filter", ["id"])
    founder.note()
    return Base(kind, stage, founder.history)


class _Founder:
    """Whoever makes a table, and keeps its model."""

    def __init__(self, ports: TableContext, kind: str) -> None:
        self.ports, self.kind = ports, kind
        keeps = KINDS[kind]
        table = TableDefinition(
            table_id=TABLE_ID,
            name="pairs",
            schema=from_arrow(INPUT) if kind == "rollup" else SCHEMA,
            time_column="at",
            granularity=Granularity.DAY,
            properties={"compaction.min_segments": "2"},
        )
        create_table(ports, of_kind(table, keeps) if keeps else table)
        stored = ports.log.load().table.schema.numbered
        self.model = Plain(
            schemas=(tuple(Column(id=c.id, name=c.name) for c in stored),),
            keyed=isinstance(keeps, PrimaryKey),
            partial_update=kind == "partial_update",
        )
        self.history: dict[int, Plain] = {}
        self.note()

    def note(self) -> None:
        """Note that the events since the last note left the model as it is now."""
        for n in range(len(self.history), self.ports.log.load().n + 1):
            self.history[n] = self.model

    def write(self, numbers: Mapping[int, int | None]) -> None:
        """Append or upsert rows."""
        rows, table = values_of(self.ports, numbers), Table(self.ports)
        (table.upsert if self.model.keyed else table.append)(rows)
        self.model = written(self.model, numbers)
        self.note()

    def adopt(self) -> None:
        """Adopt files: compactions replace them, a tag keeps them."""
        adopt_landed(self.ports, FOUNDER)
        self.model = with_landed(self.model, landed_files(FOUNDER))
        self.note()

    def alter(self) -> None:
        """Add a column; rollup tables have none to add."""
        if self.kind != "rollup":
            default = None if self.model.partial_update else 7  # what is unset is not published
            change = AddColumn(name="d", type="int32", default=default and str(default))
            Table(self.ports).alter(columns=[change])
            column = Column(id=5, name="d", default=default)
            columns = (*self.model.columns, column)
            self.model = replace(self.model, schemas=(*self.model.schemas, columns))
            self.note()

    def delete(self, *numbers: int) -> None:
        """Delete rows."""
        Table(self.ports).delete(f"id in ({', '.join(map(str, numbers))})")
        self.model = self.model.without(lambda each: each in numbers)
        self.note()

    def grow_old(self) -> None:
        """Compact, publish, and index the keys."""
        kind = "semi-major" if self.model.keyed else "major"
        compacted(self.ports, kind)
        for outcome in Table(self.ports).publish(formats=FORMATS):
            assert isinstance(outcome, PublishedNow), outcome
        if self.kind == "latest":
            Table(self.ports).create_index("keys", "record_index")
            run_index(self.ports, "keys", in_process(self.ports.files))
        Table(self.ports).tag(COMPACTED)
        self.note()


def compacted(ports: TableContext, kind: str) -> None:
    """Compact the whole table, if there is anything to compact."""
    with suppress(InvalidInput):
        asked = request(ports, kind)
        told(compact(ports, [known.plan.id for known in asked], in_process(ports.files)))


UNCOMPARED = ("at", "z", "zz")
"""Columns of which no action writes a value; and the time, which says nothing more."""


@dataclass(slots=True)
class Cell:
    """A pair that is played."""

    base: Base
    stage: Stage
    actions: Mapping[str, Action]
    history: History
    readers: Sequence[Reader] = READERS
    outcomes: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    created: int = 0

    def act(self, author: str, who: int, held: HeldStorage | None = None) -> None:
        """Do an actor's action; note how it ended."""
        action, ports = self.actions[author], self.stage.ports(author, held)
        if self.actions["first"].reads:
            self.follow()  # what was there before a drop is among what may be read
        try:
            found = action.go(ports, who)
        except EXPLAINED as error:
            self.outcomes[author] = type(error).__name__
        except NotFound as error:
            self.follow()
            if not (action.reads and self.removed):
                raise AssertionError(f"{author}: {error}") from error
            self.outcomes[author] = "NotFound"
        except PlanFailed as failed:
            why = failed.args[0].split(":")[0]
            self.follow()
            dropped = why == "NotFound" and (self.ended or self.created)
            known = {"coordination", *(error.__name__ for error in EXPLAINED)}
            if not dropped and why not in known:
                raise AssertionError(f"{author}: {failed}") from failed
            self.outcomes[author] = why
        else:
            self.outcomes[author] = "done"
            if action.reads:
                self._check(author, found if isinstance(found, list) else [])

    @property
    def removed(self) -> bool:
        """Return whether files may be gone that a reader began with."""
        return bool(self.ended or self.created or self._doer("clean"))

    def _doer(self, name: str) -> bool:
        return any(ACTIONS[name] is self.actions[author] for author in self.outcomes)

    def _check(self, author: str, reads: Sequence[Read]) -> None:
        """Compare what was read with the versions that there were meanwhile: it is one of them."""
        self.follow()
        for read in reads:
            names = tuple(name for name in read.rows.column_names if name not in UNCOMPARED)
            found = rows_of(read.rows.select(names))
            versions = [m for n, m in self.history.items() if n >= self.history.begun]
            assert any(
                found == read.of(model).shown(names)
                for model in versions
                if {*names} == {c.name for c in model.columns} - {*UNCOMPARED}
            ), f"{author} read rows of no version: {sorted(map(str, found.elements()))}"

    def follow(self) -> None:
        """Move the model by the new events.

        Raises:
            AssertionError: somebody wrote to a table that was not there when they began.
        """
        log = EventLog(self.stage.storage)
        try:
            state = log.load()
        except TableGone:
            self.ended = True
            return
        another = state.table.table_id != TABLE_ID
        for event in log.events(max(log.first() if another else 0, max(self.history) + 1)):
            self.history[event.n] = self._after(event)

    def _after(self, event: Event) -> Plain:
        if isinstance(event.action, TableDefinition):
            self.created = event.n
            columns = (Column(id=c.id, name=c.name) for c in event.action.schema.numbered)
            return replace(self.base.newest, schemas=(tuple(columns),), rows={}, loaded={})
        model = self.history[event.n - 1]
        action = self.actions.get(event.author)
        assert action is None or not self.created, f"{event} is of an earlier table's writer"
        effect = action.effects.get(type(event.action)) if action else None
        if effect is None:
            return model
        return effect(self.history, event, [*self.actions].index(event.author))

    def problems(
        self, readers: Sequence[Reader] = READERS, *, settled: bool = False
    ) -> Iterator[str]:
        """Yield what readers find that the model does not."""
        self.follow()
        ports = self.stage.ports("checker")
        if self.ended:
            return
        yield from disagreements(ports, self._shown(), readers, settled=settled)
        if settled:
            found = verify(ports, deep=True)
            yield from (f"verify: {each}" for each in found.findings if not found.sound)

    def _shown(self) -> Shown:
        """Return what is expected, in the columns of the newest version."""
        newest = self.history[max(self.history)]
        chosen = [c for c in newest.columns if c.name not in ("id", "z", "zz")]
        names = ("id", *(column.name for column in chosen))
        known = {
            n: m for n, m in self.history.items() if n >= self.created and {*chosen} <= {*m.columns}
        }
        return Shown(names=names, rows=Rows(known, names), key="id" if newest.keyed else "")


def play(base: Base, first: str, at: int, others: Sequence[str], turn: int = 0) -> Cell:
    """Play an action that is held before effect ``at`` while others run, one after the other.

    Args:
        base: the table.
        first: the action that is held.
        at: before which of its effects.
        others: the actions that run meanwhile.
        turn: which readers are asked, besides the cheapest.

    Raises:
        AssertionError: saying what is wrong.
    """
    stage = base.stage.copied()
    names = {"first": first, **{f"other{n}": each for n, each in enumerate(others, 1)}}
    cell = Cell(
        base=base,
        stage=stage,
        actions={author: ACTIONS[name] for author, name in names.items()},
        history=History(base.history),
        readers=chosen(turn),
    )

    cell.history.begun = max(cell.history)
    seen: list[Exception] = []

    def meanwhile() -> None:
        try:
            for who, author in enumerate([*names][1:], 1):
                cell.act(author, who)
            _refuse(cell.problems((whole,)), f"while {first!r} is held")
        except Exception as error:  # noqa: BLE001 - the held action would take it for its own
            seen.append(error)

    with shared_reading():
        reads = cell.actions["first"].reads
        cell.act("first", 0, HeldStorage(stage.storage, at, meanwhile, reads=reads))
        if seen:
            raise seen[0]
        _refuse(cell.problems(cell.readers), "after all")
        if not cell.ended:
            settle(cell)
    return cell


ALWAYS = (whole, base_files, published)


def chosen(turn: int) -> tuple[Reader, ...]:
    """Return the readers of a turn: the most telling ones, and two of the others."""
    others = [reader for reader in READERS if reader not in ALWAYS]
    return *ALWAYS, *(others[(turn + at) % len(others)] for at in (0, len(others) // 2))


def _refuse(problems: Iterator[str], when: str) -> None:
    found = [*problems]
    assert not found, f"{when}:\n  " + "\n  ".join(found)


def settle(cell: Cell) -> None:
    """Carry out what is left, compact, index, publish and clean; check in between."""
    ports = cell.stage.ports("later")
    Table(ports).publish(formats=FORMATS)  # it may be refused, but never be wrong
    _refuse(cell.problems((published,)), "published")
    _finish(ports)
    if cell.base.newest.keyed:
        compacted(ports, "semi-major")
        _refuse(cell.problems((whole, base_files), settled=True), "after a semi-major")
    compacted(ports, "major")
    for name in ports.log.load().indexes:
        run_index(ports, name, in_process(ports.files))
    for outcome in Table(ports).publish(formats=FORMATS):
        unset = cell.base.newest.partial_update and "has the default" in str(outcome)
        assert unset or isinstance(outcome, PublishedNow | AlreadyPublished), outcome
    clean(ports, retention=Retention(hours=0, versions=1))
    _refuse(cell.problems(cell.readers, settled=True), "in the end")


def _finish(ports: TableContext) -> None:
    """Carry out the plans that are pending, those last that wait for others."""
    for _ in range(3):
        ids = [known.plan.id for known in ports.log.load().pending_plans()]
        told(compact(ports, ids, in_process(ports.files)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What an action does when nobody else does anything."""

    points: Mapping[str, int]
    events: tuple[Event, ...]


@cache
def _alone(kind: str, age: str, first: str) -> Alone | None:
    stage = base(kind, age).stage.copied()
    held = HeldStorage(stage.storage, reads=ACTIONS[first].reads)
    try:
        ACTIONS[first].go(stage.ports("first", held), 0)
    except InvalidInput:
        return None
    return Alone(points=points(held.effects), events=tuple(held.events))


def fits(kind: str, age: str, first: str) -> bool:
    """Return whether a table does an action when nobody else does anything."""
    return _alone(kind, age, first) is not None


def stages_of(kind: str, age: str, first: str) -> Mapping[str, int]:
    """Return before which effects an action can be held: by name, their numbers."""
    alone = _alone(kind, age, first)
    return alone.points if alone else {}


def solo(kind: str, age: str, first: str) -> tuple[Event, ...]:
    """Return the events of an action, those of the indexes' own tables included."""
    alone = _alone(kind, age, first)
    return alone.events if alone else ()


_OF_KEYS = ("upsert", "major to more buckets", "move a key", "settle")
_OF_PLAIN_ROWS = ("adopt",)
_OF_COLUMNS = ("update", "merge", "merge away", "write by the log store")
UNFIT: Mapping[str, Sequence[str]] = {
    "append": _OF_KEYS,
    "young append": ("publish", "restore what was compacted"),
    "rollup": (
        *_OF_KEYS,
        *_OF_COLUMNS,
        *_OF_PLAIN_ROWS,
        "semi-major by an order",
        *(name for name in ACTIONS if "column" in name and "restore" not in name),
    ),
    "young rollup": ("restore what was compacted",),
    "latest": (*_OF_PLAIN_ROWS, "overwrite", "semi-major by an order"),
    "young latest": ("move a key", "restore what was compacted"),
    "partial_update": (*_OF_PLAIN_ROWS, "overwrite", "move a key", "semi-major by an order"),
    "young partial_update": ("restore what was compacted",),
}
"""Actions that a kind of table refuses, by its kind, and by its age and kind."""


def fitting(kind: str, age: str) -> list[str]:
    """Return the actions that a kind of table does: all but those that are listed above."""
    unfit = {*UNFIT[kind], *UNFIT.get(f"{age} {kind}", ())}
    return [name for name in ACTIONS if name not in unfit]

"""The kinds of tables that are published beside everybody, and what each promises to readers.

1. An append table: the rows of the event.
2. A primary-key table: its base files. In each bucket these are the rows of some version, none
   older than the last base compaction's request, and none later than the event. They are also what
   a scan of base files finds in the event's version.
3. A rollup table: the groups of the event, each in one row. While a chunk is not rolled up
   perfectly, nothing is published. Writers bring rows of few groups, so that these have parts; they
   delete groups, and replace those of an hour.

A ledger says what is wrong with the rows that a version shows (``unkept``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.schema import Metric
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.table.context import MOST_SKEW_S
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.scan import Scan
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from tests.every_reader import READERS, BasePromises, Rows, published, rows_of, rows_of_place
from tests.simulation import scenario
from tests.simulation.authors import SCHEMA, durably
from tests.simulation.definers import restorer
from tests.simulation.droppers import creator, definition, dropper, spawn_each
from tests.simulation.keyed import scenario as keyed
from tests.simulation.keyed.keyed_ledger import KeyedLedger
from tests.simulation.keyed.records import CHUNKS
from tests.simulation.keyed.records import SCHEMA as KEYED_SCHEMA
from tests.simulation.ledger import Ledger
from tests.simulation.model import COUNT, Alter, Landing, Model, Row
from tests.simulation.scenario import asking, compactor, planner
from tests.simulation.world import (
    HOUR_US,
    Shape,
    World,
    alter_id,
    change_id,
    commit_id,
    overwrite_id,
)

if TYPE_CHECKING:
    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor

OTHERS = tuple(each for each in READERS if each is not published)
"""What is published is left to its oracle, which knows of removals."""
MANY, TOTAL = COUNT, COUNT + 1
"""The ids of a rollup table's metrics."""
GROUPS = 12
LASTING_FROM = 6
"""Groups from here on are deleted by nobody."""
LATE_S = 5.0
"""How long a delete waits at most, so that some find a table that is rolled up."""


@dataclass
class PublishedLedger(Ledger):
    """A ledger that also says what a published version has to show; ``names`` are compared.

    ``has_bases`` says that only compactions bring what is published up to date.
    """

    has_bases: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("at", "row", "count")
    readers = OTHERS
    states: dict[int, State] = field(default_factory=dict)

    def replay(self, event: Event) -> Model:
        """Move the model by the next event; keep the state."""
        model = super().replay(event)
        assert self.checked is not None
        self.states[event.n] = self.checked
        return model

    def unkept(self, ports: TableContext, event: int, found: Rows) -> Iterator[str]:
        """Yield in what the rows of a published version differ from what its event promises."""
        del ports
        yield from differing(found, Counter(self.models[event].shown(self.names)))


def differing(found: Rows, right: Rows) -> Iterator[str]:
    """Yield which rows are lost, and which are too many."""
    if found != right:
        lost, extra = (sorted(map(str, some)) for some in (right - found, found - right))
        yield f"rows lost: {lost[:5]}; extra: {extra[:5]}"


@dataclass
class PublishedKeyedLedger(KeyedLedger, PublishedLedger):
    """The ledger of a primary-key table, of which base files are published."""

    has_bases: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = tuple(KEYED_SCHEMA.names)
    promises: BasePromises = field(default_factory=BasePromises)
    least: dict[int, Mapping[object, int]] = field(default_factory=dict)

    def replay(self, event: Event) -> Model:
        """Move the model by the next event; keep the versions that its base files may show."""
        model = super().replay(event)
        self.promises.follow(event)
        self.least[event.n] = self.promises.least(self.states[event.n])
        return model

    def unkept(self, ports: TableContext, event: int, found: Rows) -> Iterator[str]:
        """Yield where base files are as of no promised version, or not those of the event."""
        state, left = self.states[event], found
        for chunk, least in self.least[event].items():
            here = self._of(state, found, chunk)
            left = left - here
            if not here and not least:
                continue  # it was never compacted
            versions = range(max(least, self.first), event + 1)
            if not any(here == self._of(state, self._rows(n), chunk) for n in versions):
                yield f"{chunk} is as of no version from {least} on: {here}"
        if left:
            yield f"{left} is in no visible chunk"
        wanted = read_request(columns=self.names, base_only=True)
        try:
            base = rows_of(Scan(ports=ports, state=state, request=wanted).to_arrow())
        except NotFound:
            return  # the event is kept no longer
        yield from (f"not as base_only: {each}" for each in differing(found, base))

    def _rows(self, n: int) -> Rows:
        return Counter(self.models[n].shown(self.names))

    def _of(self, state: State, rows: Rows, chunk: object) -> Rows:
        return rows_of_place(state, self.names, self.key, rows, chunk)


@dataclass
class PublishedRollupLedger(PublishedLedger):
    """The ledger of a rollup table; its model has a row for each group."""

    has_bases: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = ("at", "row", "many", "total")

    def differences(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield in what the groups of a version differ from the model's, their parts added up."""
        groups: dict[tuple[int, int], list[int]] = {}
        table = snapshot.to_arrow(columns=self.names)
        for at, row, many, total in rows_of(table).elements():
            known = groups.setdefault((at, row), [0, 0])
            groups[at, row] = [known[0] + many, known[1] + total]
        found = Counter((*group, *metrics) for group, metrics in groups.items())
        yield from differing(found, Counter(self.models[snapshot.state.n].shown(self.names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table, with its crowd."""

    name: str
    define: Callable[[str, int], TableDefinition]
    ledger: type[PublishedLedger]
    crowd: Callable[[World], None]
    shape_of: Callable[[int], Shape]
    most_skew_s: float = MOST_SKEW_S


# ---- append -------------------------------------------------------------------------------------


def shape_of(seed: int) -> Shape:
    """Return the shape of an append table."""
    random = Random(seed)
    changers = random.choice((0, 1, 2))
    return Shape(
        appenders=random.randint(1, 3),
        appends_each=random.randint(2, 4),
        compactors=random.randint(1, 2),
        planners=1,
        chunks=random.randint(1, 2),
        asks=random.choice((0, 2, 4)),
        changers=changers,
        changes_each=random.randint(1, 3),
        overwriters=random.choice((0, 1)),
        overwrites_each=random.randint(1, 3),
        restorers=random.choice((0, 0, 1)),
        restores_each=random.randint(1, 2),
        repairers=random.choice((0, 0, 1)),
        alterers=0 if changers else random.choice((0, 1)),
        alterations_each=random.randint(1, 3),
        droppers=random.choice((0, 0, 1)),
    )


# ---- primary key --------------------------------------------------------------------------------


def keyed_shape_of(seed: int) -> Shape:
    """Return the shape of a primary-key table."""
    shape = keyed.shape_of(seed)
    return replace(
        shape,
        chunks=CHUNKS,
        upserters=min(shape.upserters, 3),
        upserts_each=min(shape.upserts_each, 4),
        asks=Random(seed).choice((3, 5, 7)),
        cleaners=0,
        readers=0,
        followers=0,
        requesters=0,
        builders=0,
        tenders=0,
    )


# ---- rollup -------------------------------------------------------------------------------------


def rollup_definition(table_id: str, seed: int) -> TableDefinition:
    """Return the definition of a rollup table; cold chunks are rolled up by the planner."""
    del seed
    table = definition(table_id)
    properties = {**table.properties, "compaction.major_after_minutes": "0"}
    metrics = (Metric.parse("many=count"), Metric.parse("total=sum(count)"))
    table = replace(table, schema=from_arrow(SCHEMA), properties=properties)
    return of_kind(table, Rollup(dimensions=("row",), metrics=metrics))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """Rows of groups, each with a value; with an interval, they replace its groups."""

    kind: ClassVar[str] = "rolled"
    values: tuple[tuple[int, int], ...]
    chunks: int
    interval: Interval | None = None

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        assert isinstance(landing.action, RowsChanged if self.interval else Appended)
        rows = dict(model.rows)
        if self.interval:
            rows = {n: row for n, row in rows.items() if not self.interval.holds(row.at)}
        for group, value in self.values:
            known = rows[group].values if group in rows else {MANY: 0, TOTAL: 0}
            values = {MANY: (known[MANY] or 0) + 1, TOTAL: (known[TOTAL] or 0) + value}
            rows[group] = Row(time_of(group, self.chunks), values)
        return replace(model, rows=rows)

    def rows(self) -> pa.Table:
        """Return the rows."""
        at = [time_of(group, self.chunks) for group, _ in self.values]
        groups, values = zip(*self.values, strict=True)
        arrays = [
            pa.array(some, f.type) for some, f in zip((at, groups, values), SCHEMA, strict=True)
        ]
        return pa.table(arrays, SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsGone:
    """These groups go."""

    kind: ClassVar[str] = "groups gone"
    groups: tuple[int, ...]

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        assert isinstance(landing.action, RowsChanged)
        return replace(model, rows={n: r for n, r in model.rows.items() if n not in self.groups})


def time_of(group: int, chunks: int) -> int:
    """Return the time of a group."""
    return group % chunks * HOUR_US + group


def _roller(
    world: World, number: int, name_of: Callable[[int, int], str], turns: int
) -> Callable[[Actor], None]:
    """Return a writer of rows; the ids of its commits say whether it replaces an hour."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(turns):
            name = name_of(number, turn)
            if name not in world.ledger.intended:
                hour = int(actor.uniform() * world.shape.chunks)
                here = Interval(hour * HOUR_US, (hour + 1) * HOUR_US)
                wanted = _rolled(world, actor, here if name_of is overwrite_id else None)
                world.ledger.intend(name, wanted)
            intended = world.ledger.intended[name]
            assert isinstance(intended, Rolled)
            durably(world, actor, name, partial(_roll, ports, name, intended))
            actor.sleep(actor.uniform())

    return run


def _rolled(world: World, actor: Actor, interval: Interval | None) -> Rolled:
    chunks = world.shape.chunks
    groups = [g for g in range(GROUPS) if not interval or interval.holds(time_of(g, chunks))]
    values = [
        (groups[int(actor.uniform() * len(groups))], int(actor.uniform() * 100)) for _ in range(4)
    ]
    return Rolled(values=tuple(values), chunks=chunks, interval=interval)


def _roll(ports: TableContext, name: str, wanted: Rolled) -> bool:
    if wanted.interval is None:
        Table(ports).append(wanted.rows(), commit_id=name)
        return True
    done = Table(ports).overwrite(wanted.rows(), interval=wanted.interval, commit_id=name)
    return done.n is not None


def roller(world: World, number: int) -> Callable[[Actor], None]:
    """A client that appends."""
    return _roller(world, number, commit_id, world.shape.appends_each)


def replacer(world: World, number: int) -> Callable[[Actor], None]:
    """A client that replaces the groups of an hour."""
    return _roller(world, number, overwrite_id, world.shape.overwrites_each)


def eraser(world: World, number: int) -> Callable[[Actor], None]:
    """A client that deletes groups."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.changes_each):
            name = change_id(number, turn)
            actor.sleep(actor.uniform() * LATE_S)
            if name not in world.ledger.intended:
                groups = tuple(sorted({int(actor.uniform() * LASTING_FROM) for _ in range(2)}))
                world.ledger.intend(name, GroupsGone(groups=groups))
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, GroupsGone)
            where = f"row IN ({', '.join(map(str, wanted.groups))})"
            durably(world, actor, name, partial(_erase, ports, name, where))

    return run


def _erase(ports: TableContext, name: str, where: str) -> bool:
    return Table(ports).delete(where, commit_id=name).n is not None


def setter(world: World, number: int) -> Callable[[Actor], None]:
    """Somebody who sets a property: columns of a rollup table stay as they are."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.alterations_each):
            name = alter_id(number, turn)
            actor.sleep(actor.uniform())
            wanted = Alter(set={"compaction.target_size": str(1_000_000 + number * 100 + turn)})
            if name not in world.ledger.intended:
                world.ledger.intend(name, wanted)
            durably(world, actor, name, partial(_set, ports, name, wanted.set))

    return run


def _set(ports: TableContext, name: str, properties: Mapping[str, str]) -> bool:
    Table(ports).alter(set=properties, commit_id=name)
    return True


def major_asker(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who wants chunks rolled up perfectly, some of them cut otherwise."""
    cuts = (None, None, Granularity.DAY, Granularity.HOUR)
    return asking(world, [(MajorPlan.kind, {"granularity": cut}) for cut in cuts])


def spawn_rollup(world: World) -> None:
    """Add the actors of a rollup table."""
    shape = world.shape
    for many, count, skew_us in (
        (roller, shape.appenders, 1000),
        (planner, shape.planners, 0),
        (major_asker, min(shape.asks, 1), 0),
        (compactor, shape.compactors, 9_000_000),
        (eraser, shape.changers, 500),
        (replacer, shape.overwriters, 700),
        (setter, shape.alterers, 1_000_000),
        (restorer, shape.restorers, 300),
        (dropper, shape.droppers, 2_000_000),
        (creator, min(shape.droppers, 1), 0),
    ):
        spawn_each(world, many.__name__, count, partial(many, world), skew_us.__mul__)


def rollup_shape_of(seed: int) -> Shape:
    """Return the shape of a rollup table."""
    return replace(
        shape_of(seed),
        asks=Random(seed).choice((3, 5, 7)),
        alterers=Random(seed).choice((0, 0, 1)),
        repairers=0,
    )


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="append",
            define=lambda table_id, _: definition(table_id),
            ledger=PublishedLedger,
            crowd=scenario.populate,
            shape_of=shape_of,
        ),
        Kind(
            name="keyed",
            define=lambda table_id, seed: keyed.defined(table_id, seed=seed, moving=False),
            ledger=PublishedKeyedLedger,
            crowd=keyed.spawn,
            shape_of=keyed_shape_of,
            most_skew_s=keyed.APART_S / 2 + 1,
        ),
        Kind(
            name="rollup",
            define=rollup_definition,
            ledger=PublishedRollupLedger,
            crowd=spawn_rollup,
            shape_of=rollup_shape_of,
        ),
    )
}

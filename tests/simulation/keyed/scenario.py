"""The standing disaster of a primary-key table: many writers, no locks, clocks far apart.

Upserters, streams, changers, and alterers of columns (``writers``); planners and askers (log and
base compactions, and major ones with other time chunks and buckets); compactors, cleaners, taggers,
readers of the past, by version and as of a time; followers of the change feed; restorers and
repairers; requesters, builders and tenders of indexes; droppers, and who creates the next table.
Clocks are up to five minutes apart. Every third seed has partial updates, with a group; every
fourth no ordering column.
Where keys move, every second table has another index, too, which has to know the corrections.

    python -m tests.simulation.keyed.scenario --seeds 100

The ledger replays all records in record order (``records``). Beyond what it checks of any table:
no upsert and no change ever conflicts, and none fails unless a fault struck its own requests.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.simulation.caretakers import cleaner, reader, settler, tagger, tolerate
from tests.simulation.definers import repairer, restorer
from tests.simulation.droppers import creator, dropper, spawn_each
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.followers import follower
from tests.simulation.indexes.index_actors import KINDS, builder, requester, tender
from tests.simulation.keyed.keyed_ledger import KeyedLedger
from tests.simulation.keyed.moving_ledger import MovingLedger
from tests.simulation.keyed.records import BUCKETS, CHUNKS, KEY, SCHEMA
from tests.simulation.keyed.writers import alterer, changer, streamer, upserter
from tests.simulation.scenario import asking, compactor, founded, planner, run
from tests.simulation.seeds import main
from tests.simulation.simulator import Actor
from tests.simulation.world import Founding, Shape, World

APART_S = 300.0
"""How far the clocks of upserters are apart: the slowest to the fastest."""
PROPERTIES = {
    "compaction.min_segments": "2",
    "compaction.tier_ratio": "1e9",  # so that one group a file group is the end
    "compaction.max_attempts": "50",
    "compaction.semi_major_unclustered": "0.001",
    "compaction.semi_major_interval_minutes": "0",
}
WISHES: tuple[tuple[str, dict[str, Any]], ...] = (
    (MinorPlan.kind, {}),
    (SemiMajorPlan.kind, {}),
    (MajorPlan.kind, {"buckets": 3}),
    (MajorPlan.kind, {"buckets": 1}),
    (MajorPlan.kind, {"granularity": "day", "buckets": 4}),
    (MajorPlan.kind, {"granularity": "hour"}),
)
MOVING = (*WISHES, *WISHES[-2:], *WISHES[-2:])
"""Wishes where keys move: mostly other time chunks, which join and part the records of a key."""


def asker(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who wants log files merged, base files made, or chunks divided anew, at any time."""
    wishes, kinds = MOVING if world.shape.hours else WISHES, world.shape.asked_kinds
    return asking(world, [each for each in wishes if not kinds or each[0] in kinds])


def traveller(world: World, _: int) -> Callable[[Actor], None]:
    """A reader as of the completion times of versions that are kept."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            tolerate(actor, "travel", lambda: _travel(world, ports, actor.uniform()))
            actor.sleep(actor.uniform())

    return run


def _travel(world: World, ports: TableContext, randomness: float) -> None:
    log = EventLog(ports.storage)
    head = world.head(ports)
    n = head.retained_from + int(randomness * (head.n - head.retained_from + 1))
    try:
        then = log.version(n, head).time
        snapshot = Table(ports).snapshot(as_of=then)
        wrong = next(world.ledger.differences(snapshot), None)
    except NotFound:
        assert not EventLog(world.storage).load().keeps(n), f"version {n} is kept, but not whole"
        return
    assert snapshot.state.n == n, f"as of {then} it is version {snapshot.state.n}, not {n}"
    assert wrong is None, f"version {n}, as of its time: {wrong}"


def copier(world: World, number: int) -> Callable[[Actor], None]:
    """A follower of all columns."""
    return follower(world, number, tuple(SCHEMA.names))


def build(seed: int, shape: Shape, faults: Faults | None = None) -> World:
    """Make a world with its table and all actors; seeds differ in how records are merged, too."""
    founding = Founding(
        define=partial(defined, seed=seed, moving=shape.hours > 0),
        ledger=MovingLedger if shape.hours else KeyedLedger,
        populate=spawn,
        kinds=(RecordIndex(columns=(KEY,)),) if shape.hours else KINDS,
    )
    world, ports = founded(
        *(seed, replace(shape, chunks=CHUNKS), founding, faults),
        table_id="keyed",
        most_skew_s=APART_S / 2 + 1,
    )
    if shape.hours and seed % 2 == 0:
        _with_files(world, ports)
    if shape.hours and not shape.requesters:
        request_index(ports, "keys", RecordIndex(columns=(KEY,)))
    spawn(world)
    return world


def _with_files(world: World, ports: TableContext) -> None:
    """Add an index of files before anybody acts; the oracle follows from there."""
    begun = request_index(ports, "files", FileList())
    event = ports.log.event(begun.n)
    assert event is not None
    world.ledger.check(ports)
    world.indexes.follow(event, begun.state, world.ledger.newest, ports)


def defined(table_id: str, *, seed: int, moving: bool) -> TableDefinition:
    """Return the definition of a table; seeds differ in how records are merged.

    Where keys move, every second table begins with whole days, which wishes cut into hours.
    """
    definition = TableDefinition(
        table_id=table_id,
        name="simulated",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.DAY if moving and seed % 2 else Granularity.HOUR,
        properties=PROPERTIES,
    )
    partial_update = seed % 3 == 0 and not moving
    kind = PrimaryKey(
        key=("row",),
        buckets=BUCKETS,
        ordering="count" if seed % 4 else "",
        merge=MergeEngine.PARTIAL_UPDATE if partial_update else MergeEngine.LATEST,
        groups=(ColumnGroup(columns=("spot",), ordering="seen"),) if partial_update else (),
    )
    return of_kind(definition, kind)


def spawn(world: World) -> None:
    """Add the actors, those who write with clocks as far apart as allowed."""
    shape = world.shape
    for many, count, apart_s in (
        (upserter, shape.upserters, APART_S),
        (streamer, shape.streams, APART_S),
        (changer, shape.changers, APART_S),
        (alterer, shape.alterers, 0.0),
        (planner, shape.planners, 0.0),
        (asker, min(shape.asks, 1), 0.0),
        (compactor, shape.compactors, 10.0),
        (cleaner, shape.cleaners, 0.0),
        (reader, shape.readers, 0.0),
        (traveller, shape.readers, 0.0),
        (tagger, shape.taggers, 0.0),
        (settler, shape.settlers, 0.0),
        (restorer, shape.restorers, 0.0),
        (copier, shape.followers, 0.0),
        (repairer, shape.repairers, 0.0),
        (requester, shape.requesters, 0.0),
        (builder, shape.builders, 0.0),
        (tender, shape.tenders, 0.0),
        (dropper, shape.droppers, 0.0),
        (creator, min(shape.droppers, 1), 0.0),
    ):
        skew = partial(_skew_us, apart_s, count)
        spawn_each(world, many.__name__, count, partial(many, world), skew)


def _skew_us(apart_s: float, count: int, number: int) -> int:
    """Return where a clock is among those of a role, of which half are behind."""
    return round((number / max(count - 1, 1) - 0.5) * apart_s * 1e6)


def shape_of(seed: int) -> Shape:
    """Return the shape that a seed has."""
    random = Random(seed)
    return Shape(
        appenders=0,
        upserters=random.randint(2, 5),
        upserts_each=random.randint(2, 6),
        changers=random.choice((0, 1, 2)),
        changes_each=random.randint(1, 3),
        compactors=random.randint(1, 2),
        planners=random.randint(1, 2),
        asks=random.choice((0, 2, 4)),
        cleaners=random.choice((0, 1)),
        readers=random.choice((0, 1)),
        taggers=random.choice((0, 1)),
        streams=random.choice((0, 1, 2)),
        batches_each=random.randint(1, 4),
        restorers=random.choice((0, 0, 1)),
        restores_each=random.randint(1, 2),
        followers=random.choice((0, 1)),
        repairers=random.choice((0, 0, 0, 1)),
        droppers=random.choice((0, 0, 0, 1)),
        requesters=(wanting := random.choice((0, 0, 1, 2))),
        builders=wanting,
        tenders=min(wanting, 1),
        alterers=random.choice((0, 1)),
        alterations_each=random.randint(1, 4),
        settlers=random.choice((0, 1)),
    )


def simulate(seed: int) -> World:
    """Build and run one seed."""
    world = build(seed, shape_of(seed))
    run(world)
    return world


if __name__ == "__main__":
    sys.exit(main("Simulate disasters of a primary-key table.", simulate, None))

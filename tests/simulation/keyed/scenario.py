"""The standing disaster of a primary-key table: many writers, no locks, clocks far apart.

Upserters, of which every second has no coordinator; changers, who delete and update by a condition;
planners and askers (log and base compactions); compactors, cleaners, taggers, readers of the past,
by version and as of a time. Clocks are up to five minutes apart.

    python -m tests.simulation.keyed.scenario --seeds 100

The ledger replays all records in record order (``records``). Beyond what it checks of any table:
no upsert and no change ever conflicts, and none fails unless a fault struck its own requests.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.coordination.memory.memory_coordinator import MemoryService
from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    CoordinatorUnavailable,
    NotFound,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.plans.minor_plan import MinorPlan
from airflow_provider_segtable.core.plans.semi_major_plan import SemiMajorPlan
from airflow_provider_segtable.core.tables.keyed.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeEngine
from airflow_provider_segtable.core.time.interval import Granularity
from airflow_provider_segtable.data.arrow.arrow_schema import from_arrow
from airflow_provider_segtable.services.compaction.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.lifetime.definition import of_kind
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from airflow_provider_segtable.testing.faulty import Faults
from tests.simulation.authors import durably
from tests.simulation.caretakers import cleaner, reader, tagger, tolerate
from tests.simulation.keyed.keyed_ledger import KeyedLedger, written_records
from tests.simulation.keyed.records import (
    BUCKETS,
    CHUNKS,
    GONE,
    SCHEMA,
    KeyChange,
    Record,
    Upsert,
    batch,
)
from tests.simulation.scenario import WISHES_EVERY_S, compactor, planner, run
from tests.simulation.simulator import Actor, Simulation
from tests.simulation.world import Shape, World, change_id, upsert_id

KEYS = 8
MOST_RECORDS = 5
APART_S = 300.0
"""How far the clocks of upserters are apart: the slowest to the fastest."""
PROPERTIES = {
    "compaction.min_segments": "2",
    "compaction.tier_ratio": "1e9",  # so that one group a file group is the end
    "compaction.max_attempts": "50",
    "compaction.semi_major_unclustered": "0.001",
    "compaction.semi_major_interval_minutes": "0",
}
_EXCUSES = ("error", "lost_reply", "late", "false_exists")


def upserter(world: World, number: int) -> Callable[[Actor], None]:
    """A writer of records of few keys, which all others write, too."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        if number % 2:
            ports = replace(ports, optional_coordinator=None)
        for turn in range(world.shape.upserts_each):
            name = upsert_id(number, turn)
            if name not in world.ledger.intended:
                world.ledger.intend(name, Upsert(records=_records(actor, number * 1000 + turn)))
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, Upsert)
            durably(world, actor, name, partial(_upsert, world, ports, wanted, name))
            actor.sleep(actor.uniform() * 0.5)

    return run


def _records(actor: Actor, number: int) -> tuple[Record, ...]:
    """Make up records; their values are no other record's."""

    def one(place: int) -> Record:
        value = number * MOST_RECORDS + place
        return Record(
            key=int(actor.uniform() * KEYS),
            seq=None if actor.uniform() < 0.1 else int(actor.uniform() * 4),
            text=value if actor.uniform() < 0.7 else None,
            note=value if actor.uniform() < 0.5 else None,
            deletes=actor.uniform() < 0.25,
        )

    return tuple(one(place) for place in range(1 + int(actor.uniform() * MOST_RECORDS)))


def _upsert(world: World, ports: TableContext, wanted: Upsert, name: str) -> bool:
    rows = batch(wanted.records, world.shape.chunks)
    return _unhindered(
        world, lambda: Table(ports).upsert(rows, deleted=GONE, commit_id=name).n is not None
    )


def _unhindered(world: World, action: Callable[[], bool]) -> bool:
    """Do what nothing but a fault of its own requests may keep from being done."""
    try:
        return action()
    except SegtableError as error:
        excusable = isinstance(error, (StorageError, CommitUnknown, CoordinatorUnavailable))
        if excusable and any(name in world.faults.injected for name in _EXCUSES):
            raise
        raise AssertionError(f"a writer was aborted: {type(error).__name__}: {error}") from error


def changer(world: World, number: int) -> Callable[[Actor], None]:
    """A writer who deletes or updates the rows that it finds under some keys."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.changes_each):
            name = change_id(number, turn)
            if name not in world.ledger.intended:
                actor.sleep(actor.uniform() * 2)
                text = None if actor.uniform() < 0.5 else -1 - number * 1000 - turn
                keys = tuple({int(actor.uniform() * KEYS) for _ in range(3)})
                begun = max(world.ledger.models)
                assert world.ledger.checked is not None
                written = partial(written_records, world.files, world.ledger.checked.table.kind)
                wish = KeyChange(keys=keys, text=text, begun=begun, written=written)
                world.ledger.intend(name, wish)
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, KeyChange)
            durably(world, actor, name, partial(_change, world, ports, wanted, name))

    return run


def _change(world: World, ports: TableContext, wanted: KeyChange, name: str) -> bool:
    def once() -> bool:
        where = pc.field("row").isin(list(wanted.keys))
        if wanted.text is None:
            return Table(ports).delete(where, commit_id=name).n is not None
        text = pc.scalar(pa.scalar(wanted.text, pa.int64()))
        return Table(ports).update({"text": text}, where, commit_id=name).n is not None

    return _unhindered(world, once)


def asker(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who wants log files merged, or base files made, at any time."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while world.asked < world.shape.asks:
            actor.sleep(actor.uniform() * WISHES_EVERY_S)
            kind = (MinorPlan.kind, SemiMajorPlan.kind)[int(actor.uniform() * 2)]
            wish = partial(request, ports, kind)
            if tolerate(actor, f"ask for {kind}", wish) or world.settled_but_for_wishes():
                world.asked += 1

    return run


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


def build(seed: int, shape: Shape, faults: Faults | None = None) -> World:
    """Make a world with its table and all actors; seeds differ in how records are merged, too."""
    simulation = Simulation(seed)
    faults = faults or Faults.swarm(simulation.random)
    outside = Actor(name="outside", run=lambda _: None, simulation=simulation)
    world = World(
        simulation=simulation,
        faults=faults,
        shape=replace(shape, chunks=CHUNKS),
        storage=MemoryStorage(clock=outside),
        service=MemoryService(outside),
        ledger=KeyedLedger(),
        most_skew_s=APART_S / 2 + 1,
    )
    definition = TableCreated(
        table_id="keyed",
        name="simulated",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.HOUR,
        properties=PROPERTIES,
    )
    kind = PrimaryKey(
        key=("row",),
        buckets=BUCKETS,
        ordering="count" if seed % 4 else "",
        merge=MergeEngine.PARTIAL_UPDATE if seed % 3 == 0 else MergeEngine.LATEST,
    )
    create_table(world.raw_ports(outside), of_kind(definition, kind))
    _spawn(world)
    return world


def _spawn(world: World) -> None:
    """Add the actors, those who write with clocks as far apart as allowed."""
    shape = world.shape
    for many, count, apart_s in (
        (upserter, shape.upserters, APART_S),
        (changer, shape.changers, APART_S),
        (planner, shape.planners, 0.0),
        (asker, int(shape.asks > 0), 0.0),
        (compactor, shape.compactors, 10.0),
        (cleaner, shape.cleaners, 0.0),
        (reader, shape.readers, 0.0),
        (traveller, shape.readers, 0.0),
        (tagger, shape.taggers, 0.0),
    ):
        for number in range(count):
            skew_s = (number / max(count - 1, 1) - 0.5) * apart_s
            name = world.named(f"{many.__name__}{number}")
            world.simulation.spawn(name, many(world, number), skew_us=round(skew_s * 1e6))


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
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run seeds; print which failed, and why."""
    parser = argparse.ArgumentParser(description="Simulate disasters of a primary-key table.")
    parser.add_argument("--seeds", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first (default 0)")
    given = parser.parse_args(argv)
    failed = 0
    for seed in range(given.first, given.first + given.seeds):
        try:
            run(build(seed, shape_of(seed)))
        except Exception as wrong:  # noqa: BLE001 - an actor may raise anything; the next seed is run
            failed += 1
            sys.stdout.write(f"seed {seed}: {type(wrong).__name__}: {wrong}\n")
    sys.stdout.write(f"{given.seeds - failed} seeds passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The standing disaster: everybody over one table, with faults.

Appenders; changers, who delete, update and merge; overwriters (``authors``); alterers of columns
and properties, restorers, repairers (``definers``); planners (minor); askers, who want semi-major
and major compactions, some of which cut time anew; compactors, who carry out whatever is pending;
cleaners, taggers and readers of old versions (``caretakers``); followers, who keep a copy by the
changes that they read (``followers``); requesters, builders and tenders of indexes
(``indexes.index_actors``); droppers, and who creates another
table in the same place, which then has a crowd of its own (``droppers``).

    python -m tests.simulation.scenario --seed 42      # one, with its trace
    python -m tests.simulation.scenario --seeds 1000   # many

The code under test is the real append, commit, planner, lock and compaction code and real Parquet;
the clock, the storage's and the coordinator's faults are the simulation's. After every event the
``Ledger`` holds the table against a plain model (safety). Then the faults stop, and the actors
must finish: every append acknowledged, no plan pending, no id left open (convergence).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import chosen_files, committer
from airflow_provider_segtable.table.context import MOST_SKEW_S, TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import create_table
from tests.simulation.authors import appender, changer, overwriter
from tests.simulation.caretakers import (
    cleaner,
    reader,
    tagger,
    tidied,
    tolerate,
)
from tests.simulation.definers import alterer, repairer, restorer
from tests.simulation.disasters import faults_of
from tests.simulation.droppers import (
    check_gone,
    creator,
    definition,
    dropper,
    spawn_each,
    successor,
)
from tests.simulation.faults.faulty_storage import (
    Faults,
)
from tests.simulation.followers import follower
from tests.simulation.indexes.index_actors import KINDS, builder, requester, tender
from tests.simulation.ledger import Ledger
from tests.simulation.seeds import command, failing, say, wanted
from tests.simulation.shared_reading import shared_reading
from tests.simulation.simulator import Actor, Simulation
from tests.simulation.world import NEVER, Founding, Shape, World

OFTEN = 4
"""Events between checkpoints where they are frequent."""
WISHES_EVERY_S = 0.2
FAULTY_STEPS = 6_000
MAX_STEPS = 100_000
VERSIONS_READ = 10


def planner(world: World, _: int) -> Callable[[Actor], None]:
    """A planner that runs again and again."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            tolerate(actor, "plan", lambda: plan_table(ports))
            actor.sleep(0.5 + actor.uniform())
        world.planned += 1

    return run


def asker(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who wants whole chunks sorted, replaced, or cut otherwise."""
    wishes = (
        (SemiMajorPlan.kind, None),
        (MajorPlan.kind, None),
        (MajorPlan.kind, Granularity.DAY),
        (MajorPlan.kind, Granularity.HOUR),
    )

    return asking(world, [(kind, {"granularity": cut}) for kind, cut in wishes])


def asking(
    world: World, wishes: Sequence[tuple[str, Mapping[str, Any]]]
) -> Callable[[Actor], None]:
    """Return an actor that asks for compactions, drawn from kinds and options, now and then."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while world.asked < world.shape.asks:
            actor.sleep(actor.uniform() * WISHES_EVERY_S)
            kind, options = wishes[int(actor.uniform() * len(wishes))]
            wish = partial(request, ports, kind, **options)
            if tolerate(actor, f"ask for {kind}", wish) or world.settled_but_for_wishes():
                world.asked += 1

    return run


def compactor(world: World, _: int) -> Callable[[Actor], None]:
    """A worker that carries out whatever is pending, like any number of DAG runs."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not (world.settled() and world.planned >= world.shape.planners):
            tolerate(actor, "compact", lambda: _compact_pending(world, ports, actor))
            actor.sleep(actor.uniform())

    return run


def _compact_pending(world: World, ports: TableContext, actor: Actor) -> None:
    wait_s = round(actor.uniform())
    plans = [known.plan.id for known in world.head(ports).pending_plans()]
    for result in compact(ports, plans, in_process(ports.files), wait_s=wait_s):
        wrong = [one for one in NEVER if result.message.startswith(one.__name__)]
        assert not wrong, f"{result.plan_id}: {result.message}"


def founded(
    seed: int,
    shape: Shape,
    founding: Founding,
    faults: Faults | None = None,
    *,
    make_storage: type[MemoryStorage] = MemoryStorage,
    table_id: str = "table",
    most_skew_s: float = MOST_SKEW_S,
) -> tuple[World, TableContext]:
    """Return a world with its table, and nobody in it; and the ports that made the table."""
    simulation = Simulation(seed)
    faults = faults or Faults.swarm(simulation.random)
    outside = Actor(name="outside", run=lambda _: None, simulation=simulation)
    world = World(
        simulation=simulation,
        faults=faults,
        shape=shape,
        storage=make_storage(clock=outside),
        founding=founding,
        service=MemoryService(outside),
        ledger=founding.ledger(),
        most_skew_s=most_skew_s,
    )
    ports = world.raw_ports(outside)
    create_table(ports, founding.define(table_id))
    return world, ports


def build(
    seed: int,
    shape: Shape,
    faults: Faults | None = None,
    make_storage: type[MemoryStorage] = MemoryStorage,
) -> World:
    """Make a world with its table and all actors, not started yet."""
    founding = Founding(define=definition, ledger=Ledger, populate=populate, kinds=KINDS)
    world, _ = founded(seed, shape, founding, faults, make_storage=make_storage)
    populate(world)
    return world


def populate(world: World) -> None:
    """Add the actors of a table to its simulation."""
    shape = world.shape
    for many, count, skew_us in (
        (appender, shape.appenders, 1000),
        (planner, shape.planners, 0),
        (asker, min(shape.asks, 1), 0),
        (compactor, shape.compactors, 9_000_000),
        (changer, shape.changers, 500),
        (overwriter, shape.overwriters, 700),
        (alterer, shape.alterers, 1_000_000),
        (restorer, shape.restorers, 300),
        (cleaner, shape.cleaners, 1_000_000),
        (reader, shape.readers, 1_000_000),
        (tagger, shape.taggers, 1_000_000),
        (repairer, shape.repairers, 1_000_000),
        (follower, shape.followers, 1_000_000),
        (requester, shape.requesters, 400),
        (builder, shape.builders, 3_000_000),
        (tender, shape.tenders, 1_000_000),
        (dropper, shape.droppers, 2_000_000),
        (creator, min(shape.droppers, 1), 0),
    ):
        skew = partial(_skew_us, _SKEW_US.get(many, 0), skew_us)
        spawn_each(world, many.__name__, count, partial(many, world), skew)


def _skew_us(first_us: int, apart_us: int, number: int) -> int:
    return first_us + number * apart_us


_SKEW_US: Mapping[Callable[..., object], int] = {planner: -5_000_000, asker: 2_000_000}


def run(world: World) -> None:
    """Run a world to its end, checking after every event.

    Raises:
        AssertionError: naming the event after which something was wrong, or who never finished.
    """
    outside = Actor(name="outside", run=lambda _: None, simulation=world.simulation)
    ports = world.raw_ports(outside)

    def after_step() -> None:
        world.reap()
        if world.simulation.steps == FAULTY_STEPS:
            world.faults.stop()
        _look(world.newest, ports)

    world.ledger.check(ports)
    _check_indexes(world, _newest(world), ports)
    small = patch.object(
        chosen_files, "LEAST_FILES", 1
    )  # indexes are used for tables as small as these
    with small, shared_reading():
        world.simulation.run(max_steps=MAX_STEPS, after_step=after_step)
        _conclude(world, outside)


def _newest(world: World) -> Event:
    assert world.ledger.checked is not None
    event = EventLog(world.storage).event(world.ledger.checked.n)
    assert event is not None
    return event


def _look(world: World, ports: TableContext) -> None:
    """Check what the last step did to the newest table; begin the life of one after it."""
    checked = world.ledger.checked
    event = EventLog(ports.storage).event(checked.n + 1 if checked else world.ledger.first)
    if world.ended and event is None:
        check_gone(world)
    elif event is not None and world.ended:
        world.after = successor(world, event)
        world.after.ledger.check(ports)
        world.founding.populate(world.after)
    elif event is not None:
        world.ledger.check(ports, stepwise=True)
        _check_indexes(world, event, ports)
        _check_time(world)


def _conclude(world: World, outside: Actor) -> None:
    """Check the end: of a table that was dropped, of the one after it, of the last one."""
    ports = world.raw_ports(outside)
    world.ledger.check(ports)
    if world.after:
        return _conclude(world.after, outside)
    world.ledger.check_versions(ports, most=VERSIONS_READ)
    if world.shape.builders and world.ledger.checked:
        world.indexes.conclude(world.ledger.checked, world.ledger.models, ports)
    if world.shape.cleaners:
        tidied(world, ports)
        world.ledger.check(ports)
    return None


def _check_indexes(world: World, event: Event, ports: TableContext) -> None:
    state = world.ledger.checked
    if state is not None and not state.dropped:
        world.indexes.follow(event, state, world.ledger.newest, ports)


def _check_time(world: World) -> None:
    """Refuse a log whose time was set by a clock that is off."""
    state = world.ledger.checked
    ahead_us = state.time - world.simulation.now if state else 0
    assert ahead_us <= world.most_skew_s * 1e6, f"the log is {ahead_us / 1e6:.0f} s ahead of time"


def simulate(seed: int, shape: Shape | None = None) -> World:
    """Build and run one seed; returns its world for a look at what happened."""
    world = build(seed, shape or shape_of(seed), faults_of(seed))
    with checkpoints_of(seed):
        run(world)
    return world


def checkpoints_of(seed: int) -> AbstractContextManager[object]:
    """Checkpoint often for two seeds of three, so that short logs expire."""
    every = committer.CHECKPOINT_EVERY if seed % 3 == 0 else OFTEN
    return patch.object(committer, "CHECKPOINT_EVERY", every)


def shape_of(seed: int) -> Shape:
    """Return the shape a seed has, so that seeds differ in more than luck."""
    random = Random(seed)
    return Shape(
        appenders=random.randint(1, 4),
        appends_each=random.randint(1, 5),
        compactors=random.randint(1, 3),
        planners=random.randint(1, 2),
        chunks=random.randint(1, 3),
        asks=random.choice((0, 1, 3, 5)),
        cleaners=random.choice((0, 1, 3)),
        readers=random.choice((0, 1)),
        taggers=random.choice((0, 1)),
        changers=random.choice((0, 1, 2, 3)),
        changes_each=random.randint(1, 3),
        overwriters=random.choice((0, 0, 1, 2)),
        overwrites_each=random.randint(1, 4),
        alterers=random.choice((0, 0, 1, 2)),
        alterations_each=random.randint(1, 5),
        restorers=random.choice((0, 0, 1)),
        restores_each=random.randint(1, 3),
        repairers=random.choice((0, 0, 1)),
        droppers=random.choice((0, 0, 0, 1, 2)),
        drops=random.choice((1, 1, 2)),
        followers=random.choice((0, 0, 1)),
        requesters=(wanting := random.choice((0, 0, 0, 0, 0, 1, 2))),
        builders=wanting,
        tenders=wanting,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run seeds; print what went wrong and how to see it again."""
    parser = command(__doc__, seeds=200)
    parser.add_argument("--seed", type=int, help="run this one and print its trace")
    given = parser.parse_args(argv)
    failed = failing(wanted(given), simulate) if given.seed is None else _traced(given.seed)
    for seed in failed:
        say(f"again: make sim SEED={seed}")
    return 1 if failed else 0


def _traced(seed: int) -> list[int]:
    """Run a seed, and print its trace; return it if it failed."""
    world = build(seed, shape_of(seed), faults_of(seed))

    def live(_: int) -> None:
        with checkpoints_of(seed):
            run(world)

    failed = failing([seed], live)
    say("\n".join(world.simulation.trace))
    say(f"{world.simulation.steps} steps, faults {world.faults.injected}")
    say(f"trace {world.simulation.digest()}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""A rollup table in the standing disaster: everybody over it, with faults; nobody publishes.

Rollers, who bring rows of few groups, so that these have parts; replacers, erasers, setters,
restorers and major compactions as where such a table is published (``publishing.kinds``); beside
them cleaners, taggers, readers of old versions, repairers, droppers. After events the ledger adds
the parts of each group up, and asks other readers by turns.

    python -m tests.simulation.rollup --seeds 100
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from airflow_provider_segtable.coordination.memory.memory_coordinator import MemoryService
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.table import create_table
from tests.every_reader import READERS
from tests.simulation.caretakers import cleaner, reader, tagger
from tests.simulation.definers import repairer
from tests.simulation.disasters import faults_of
from tests.simulation.droppers import until_gone
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.publishing.kinds import (
    PublishedRollupLedger,
    rollup_definition,
    rollup_shape_of,
    spawn_rollup,
)
from tests.simulation.scenario import checkpoints_of, run
from tests.simulation.simulator import Actor, Simulation
from tests.simulation.world import Founding, Shape, World


@dataclass
class RollupLedger(PublishedRollupLedger):
    """The ledger of a rollup table, with all readers."""

    readers = READERS


def build(seed: int, shape: Shape, faults: Faults | None = None) -> World:
    """Make a world with its table and all actors, not started yet."""
    simulation = Simulation(seed)
    outside = Actor(name="outside", run=lambda _: None, simulation=simulation)
    world = World(
        simulation=simulation,
        faults=faults or Faults.swarm(simulation.random),
        shape=shape,
        storage=MemoryStorage(clock=outside),
        service=MemoryService(outside),
        founding=Founding(
            define=partial(rollup_definition, seed=seed),
            ledger=RollupLedger,
            populate=spawn,
            kinds=(),
        ),
        ledger=RollupLedger(),
    )
    create_table(world.raw_ports(outside), world.founding.define("rollup"))
    spawn(world)
    return world


def spawn(world: World) -> None:
    """Add the actors: those of a rollup table, and those who take care of any."""
    spawn_rollup(world)
    shape = world.shape
    many: tuple[tuple[Callable[[World, int], Callable[[Actor], None]], int], ...] = (
        (cleaner, shape.cleaners),
        (reader, shape.readers),
        (tagger, shape.taggers),
        (repairer, shape.repairers),
    )
    for one, count in many:
        for number in range(count):
            act = until_gone(world, one(world, number))
            world.simulation.spawn(world.named(f"{one.__name__}{number}"), act, skew_us=1_000_000)


def shape_of(seed: int) -> Shape:
    """Return the shape that a seed has."""
    random = Random(-seed)
    return replace(
        rollup_shape_of(seed),
        cleaners=random.choice((0, 1, 2)),
        readers=random.choice((0, 1)),
        taggers=random.choice((0, 1)),
        repairers=random.choice((0, 0, 1)),
        restorers=random.choice((0, 1)),
        restores_each=random.randint(1, 3),
    )


def simulate(seed: int, shape: Shape | None = None) -> World:
    """Build and run one seed."""
    world = build(seed, shape or shape_of(seed), faults_of(seed))
    with checkpoints_of(seed):
        run(world)
    return world


def main(argv: Sequence[str] | None = None) -> int:
    """Run seeds; print which failed, and why."""
    parser = argparse.ArgumentParser(description="Simulate disasters of a rollup table.")
    parser.add_argument("--seeds", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first (default 0)")
    given = parser.parse_args(argv)
    failed = 0
    for seed in range(given.first, given.first + given.seeds):
        try:
            simulate(seed)
        except Exception as wrong:  # noqa: BLE001 - an actor may raise anything; the next seed is run
            failed += 1
            sys.stdout.write(f"seed {seed}: {type(wrong).__name__}: {wrong}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{given.seeds - failed} seeds passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

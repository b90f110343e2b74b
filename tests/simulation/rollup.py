"""A rollup table in the standing disaster: everybody over it, with faults; nobody publishes.

Rollers, who bring rows of few groups, so that these have parts; replacers, erasers, setters,
restorers and major compactions as where such a table is published (``publishing.kinds``); beside
them cleaners, taggers, readers of old versions, repairers, droppers. After events the ledger adds
the parts of each group up, and asks other readers by turns.

    python -m tests.simulation.rollup --seeds 100
"""

import sys
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tests.every_reader import READERS
from tests.simulation.caretakers import cleaner, reader, tagger
from tests.simulation.definers import repairer
from tests.simulation.disasters import faults_of
from tests.simulation.droppers import spawn_each
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.publishing.kinds import (
    PublishedRollupLedger,
    rollup_definition,
    rollup_shape_of,
    spawn_rollup,
)
from tests.simulation.scenario import checkpoints_of, founded, run
from tests.simulation.seeds import main
from tests.simulation.world import Founding, Shape, World


@dataclass
class RollupLedger(PublishedRollupLedger):
    """The ledger of a rollup table, with all readers."""

    readers = READERS


def build(seed: int, shape: Shape, faults: Faults | None = None) -> World:
    """Make a world with its table and all actors, not started yet."""
    founding = Founding(
        define=partial(rollup_definition, seed=seed),
        ledger=RollupLedger,
        populate=spawn,
        kinds=(),
    )
    world, _ = founded(seed, shape, founding, faults, table_id="rollup")
    spawn(world)
    return world


def spawn(world: World) -> None:
    """Add the actors: those of a rollup table, and those who take care of any."""
    spawn_rollup(world)
    shape = world.shape
    for many, count in (
        (cleaner, shape.cleaners),
        (reader, shape.readers),
        (tagger, shape.taggers),
        (repairer, shape.repairers),
    ):
        spawn_each(world, many.__name__, count, partial(many, world), lambda _: 1_000_000)


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


if __name__ == "__main__":
    sys.exit(main("Simulate disasters of a rollup table.", simulate, None))

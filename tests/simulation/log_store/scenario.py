"""The standing disaster with a log store: its stores, writers and readers beside everybody else.

    python -m tests.simulation.log_store.scenario --seeds 100

Every third seed has a primary-key table. Beyond what its ledger checks of any table, the
``LogBook`` says what each offset holds, and readers hold what they were told against it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from unittest.mock import patch

from airflow_provider_segtable.core.log_store import manifest
from tests.simulation import scenario
from tests.simulation.disasters import faults_of
from tests.simulation.droppers import spawn_each
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.keyed import scenario as keyed_scenario
from tests.simulation.log_store.log_crowd import (
    BookedKeyedLedger,
    BookedLedger,
    LogCrowd,
    RowsMade,
    UpsertsMade,
)
from tests.simulation.log_store.log_readers import log_reader
from tests.simulation.log_store.log_writers import log_writer, store_keeper
from tests.simulation.log_store.promises import APART_US, Promises, live_reader, log_owner
from tests.simulation.log_store.stream_readers import stream_reader
from tests.simulation.scenario import checkpoints_of, run
from tests.simulation.seeds import main
from tests.simulation.world import Shape, World

MOST_WAYPOINTS = 3


def build(seed: int, shape: Shape, faults: Faults | None = None) -> World:
    """Make a world of an append table with a log store."""
    world = scenario.build(seed, shape, faults)
    world.ledger = BookedLedger()
    populate(LogCrowd(world, RowsMade()))
    return world


def build_keyed(seed: int, shape: Shape, faults: Faults | None = None) -> World:
    """Make a world of a primary-key table with a log store."""
    world = keyed_scenario.build(seed, shape, faults)
    world.ledger = BookedKeyedLedger()
    populate(LogCrowd(world, UpsertsMade()))
    return world


def populate(crowd: LogCrowd) -> None:
    """Add the actors of the log store."""
    world, shape = crowd.world, crowd.world.shape
    for many, count in (
        (store_keeper, shape.log_stores),
        (log_writer, shape.log_writers),
        (log_reader, shape.log_readers),
        (stream_reader, shape.stream_readers),
    ):
        spawn_each(world, many.__name__, count, partial(many, crowd))
    promises = Promises(crowd)

    def apart_us(number: int) -> int:
        return (number % 2 * 2 - 1) * APART_US

    owner = partial(log_owner, promises)
    spawn_each(world, "log_owner", shape.log_owners, owner, apart_us)
    spawn_each(world, "live_reader", shape.live_readers, lambda _: live_reader(promises))


def shape_of(seed: int) -> Shape:
    """Return the shape that a seed has."""
    random = Random(seed)
    keyed = seed % 3 == 2
    buckets = 1 if keyed else random.randint(1, 2)
    shape = Shape(
        appenders=0 if keyed else random.choice((0, 1)),
        appends_each=2,
        upserters=random.choice((0, 1)) if keyed else 0,
        compactors=random.choice((1, 2)),
        chunks=random.randint(1, 2),
        asks=random.choice((0, 1)),
        cleaners=random.choice((0, 1)),
        taggers=random.choice((0, 0, 1)),
        changers=random.choice((0, 1)),
        changes_each=2,
        alterers=0 if keyed else random.choice((0, 1)),
        alterations_each=2,
        restorers=random.choice((0, 1)),
        restores_each=random.randint(1, 3),
        log_buckets=buckets,
        log_stores=random.randint(1, 3),
        log_writers=random.randint(buckets, buckets + 1),
        sends_each=random.randint(2, 6),
        log_readers=2 * buckets,
        stream_readers=buckets,
    )
    owners = 0 if seed % 3 == 1 else random.randint(1, 2)
    if not owners:
        return shape
    return replace(shape, log_owners=owners, live_readers=1, alterers=0)


@contextmanager
def small(seed: int) -> Iterator[None]:
    """Keep few waypoints, and checkpoint the table's log often for two seeds of three."""
    with patch.object(manifest, "MOST", MOST_WAYPOINTS), checkpoints_of(seed):
        yield


def simulate(seed: int, shape: Shape | None = None) -> World:
    """Build and run one seed; clocks of a primary-key table are apart, but never wrong."""
    keyed, shape = seed % 3 == 2, shape or shape_of(seed)
    world = build_keyed(seed, shape) if keyed else build(seed, shape, faults_of(seed))
    with small(seed):
        run(world)
    return world


if __name__ == "__main__":
    sys.exit(main("Simulate disasters of a log store.", simulate, None))

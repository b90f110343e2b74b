"""Primary-key tables under disasters: many writers, no locks, clocks five minutes apart."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.simulation.disasters import mixed
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.keyed.scenario import build
from tests.simulation.scenario import run
from tests.simulation.world import Shape, World

EVERYBODY = Shape(
    appenders=0,
    upserters=2,
    upserts_each=3,
    streams=1,
    batches_each=3,
    changers=1,
    changes_each=2,
    compactors=2,
    planners=1,
    asks=4,
    cleaners=1,
    readers=1,
    taggers=1,
    settlers=1,
    restorers=1,
    restores_each=1,
    followers=1,
    repairers=1,
    requesters=2,
    wishes_each=2,
    builders=1,
    tenders=1,
)


def without_excuse(seed: int) -> Faults:
    """Whatever strikes others: delays, kills, sessions that end, a coordinator that is wiped."""
    return Faults(
        random=Random(seed), delay=0.05, crash=0.005, expiry=0.1, wipe=0.02, deaf=0.3, blind=0.3
    )


MOVERS = Shape(
    appenders=0,
    upserters=3,
    upserts_each=3,
    streams=1,
    batches_each=2,
    changers=1,
    changes_each=2,
    compactors=1,
    asks=3,
    cleaners=1,
    builders=1,
    tenders=1,
    hours=3,
)
FEW = Shape(
    appenders=0,
    upserters=2,
    upserts_each=2,
    streams=1,
    batches_each=2,
    changers=1,
    changes_each=1,
    compactors=2,
    planners=1,
    asks=2,
    cleaners=1,
)
"""As many as play in a few seconds."""
GUESSED = frozenset({"upsert", "batch", "semi-major", "major"})
MOVED = frozenset(
    {"crash", "upsert", "batch", "divided", "by hour", "IndexForwarded", "Cleaned", "fed"}
)
LATE = replace(
    MOVERS,
    requesters=1,
    wishes_each=3,
    restorers=1,
    restores_each=1,
    readers=1,
)
"""An index of records that comes, is dropped, and comes again, beside upserts and deletes."""
SETTLED = frozenset({"IndexBuilt", "IndexDropped", "restore", "settled"})
SEEDS = (3, 4, *range(3))
"""The first has partial updates and a group, the next no ordering column."""
WANTED = frozenset(
    {"crash", "expiry", "wipe", "semi-major", "major", "divided"}
    | {"upsert", "batch", "key change", "restore"}
    | {"IndexBuilt", "IndexForwarded", "rebuilt", "fed", "unfed", "GroupsSettled"}
)


def happened(world: World) -> Iterator[str]:
    """Yield which faults struck, what became of indexes, plans and commits."""
    assert world.ledger.checked is not None
    yield from world.faults.injected
    yield from world.indexes.happened
    if world.ledger.checked.settled:
        yield "GroupsSettled"
    yield "settled" if world.ledger.newest.settled else "unsettled"
    for known in world.ledger.checked.plans.values():
        if known.completed:
            yield known.plan.kind
            yield "divided" if known.plan.facts().get("buckets") else known.plan.kind
            yield f"by {known.plan.facts().get('granularity')}"
    for name in world.ledger.acknowledged:
        yield "batch" if name.startswith("stream") else world.ledger.intended[name].kind


def survives(
    shape: Shape,
    faults: Callable[[int], Faults],
    seeds: Sequence[int],
    wanted: frozenset[str],
) -> None:
    """Run seeds of a shape until everything wanted has happened."""
    seen: set[str] = set()
    for seed in seeds:
        world = build(seed, shape, faults(seed))
        run(world)
        seen.update(happened(world))
        if seen >= wanted:
            return
    raise AssertionError(f"never seen: {sorted(wanted - seen)}")


def test_everybody_at_once() -> None:
    """Every version at every time is what the records replayed in order give; no writer fails.

    And every scan with a condition, through indexes that are built, fed, rebuilt and dropped.
    """
    survives(EVERYBODY, without_excuse, SEEDS, WANTED)


@pytest.mark.usefixtures("round_trips")
def test_writers_of_keys_guess() -> None:
    """The same where a request is a round trip, so that commits put before they look."""
    survives(FEW, without_excuse, (3, *range(3)), GUESSED)


def test_keys_move() -> None:
    """With an index of records a key has one row in the whole table: that of its highest record.

    Whichever time chunks its records are in, and whoever writes, compacts or divides these.
    """
    survives(MOVERS, without_excuse, (9, 3, *range(6)), MOVED)


def test_a_late_index_settles_keys() -> None:
    """From the end of its run on each key has one row, whatever was dropped, restored, or failed.

    No row is compared before.
    """
    survives(LATE, mixed, (2, *range(6)), SETTLED)

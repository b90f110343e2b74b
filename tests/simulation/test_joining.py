"""Writers that are threads of one process put their events together: seeded, with all faults."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.table import committer
from tests.simulation.disasters import faults_of, slow, unheard
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.keyed import scenario as keyed
from tests.simulation.scenario import build, checkpoints_of, run
from tests.simulation.world import Shape, World

THREADS = Shape(
    appenders=4,
    appends_each=2,
    changers=1,
    compactors=1,
    planners=1,
    chunks=1,
    asks=1,
    cleaners=1,
    taggers=1,
    threads=True,
)
CROWD = replace(
    THREADS,
    appenders=5,
    appends_each=3,
    changers=2,
    compactors=2,
    chunks=2,
    asks=2,
    readers=1,
    restorers=1,
    followers=1,
)
KEYED = Shape(
    appenders=0, upserters=4, upserts_each=3, compactors=1, asks=2, cleaners=1, threads=True
)


def joined(world: World) -> int:
    """Return how many events shared a file."""
    return world.newest.ledger.joined


@pytest.mark.parametrize("seed", range(3))
def test_seeds_survive_where_writers_are_threads(seed: int) -> None:
    """Nothing is lost or doubled, every version is right, and all are done once faults stop."""
    world = build(seed, THREADS, faults_of(seed))
    with checkpoints_of(seed):
        run(world)


@pytest.mark.long
def test_many_seeds_survive_where_writers_are_threads() -> None:
    """The same, longer, and files of several events and crashes were really there."""
    seen: Counter[str] = Counter()
    for seed in range(100, 160):
        world = build(seed, CROWD, faults_of(seed))
        with checkpoints_of(seed):
            run(world)
        seen.update(world.faults.injected)
        seen["joined"] += joined(world)
    assert seen["joined"] > 50
    assert min(seen[kind] for kind in ("crash", "lost_reply", "late", "expiry")) > 0


@pytest.mark.usefixtures("round_trips")
def test_threads_that_guess_survive() -> None:
    """On an object store the leader puts before it looks."""
    found = 0
    for seed in range(3):
        world = build(seed, replace(THREADS, cleaners=0), unheard(seed))
        run(world)
        found += joined(world)
    assert found


def test_threads_of_upserts_survive() -> None:
    """Log files of a primary-key table get their ids in the order of the events in the file."""
    found = 0
    for seed in (2, 3, 4):
        world = keyed.build(seed, KEYED, slow(seed))
        run(world)
        found += joined(world)
    assert found


@pytest.mark.parametrize("step", [29, pytest.param(3, marks=pytest.mark.long)])
def test_a_crash_of_the_process_at_every_boundary(step: int) -> None:
    """Before or after the put, or while the others wait for it: their appends land once each."""
    shape = Shape(appenders=4, appends_each=1, compactors=1, planners=1, chunks=1, threads=True)
    world = build(3, shape, Faults(random=Random(1)))
    run(world)
    assert joined(world)
    for boundary in range(1, world.faults.boundaries + 1, step):
        crashed = build(3, shape, Faults(random=Random(1), crash_at=boundary))
        run(crashed)
        assert len(crashed.ledger.acknowledged) == 4


HOST = replace(THREADS, threads=False, host=True)
HOST_CROWD = replace(CROWD, threads=False, host=True)


@pytest.mark.parametrize("seed", range(3))
def test_seeds_survive_where_writers_offer_their_changes(seed: int) -> None:
    """Processes of one host: holders and authors die, pause and lose replies."""
    world = build(seed, HOST, faults_of(seed))
    with checkpoints_of(seed):
        run(world)


@pytest.mark.long
def test_many_seeds_survive_where_writers_offer_their_changes() -> None:
    """The same, longer; offers were claimed, authors waited in vain, and processes died."""
    seen: Counter[str] = Counter()
    for seed in range(200, 280):
        world = build(seed, replace(HOST_CROWD, threads=seed % 4 == 0), faults_of(seed))
        with checkpoints_of(seed):
            run(world)
        seen.update(world.faults.injected)
        seen.update(made=world.turns.made, claimed=world.turns.claimed, paused=world.turns.paused)
        seen["joined"] += joined(world)
    assert min(seen[kind] for kind in ("made", "claimed", "paused", "joined")) > 20, seen
    assert min(seen[kind] for kind in ("crash", "lost_reply", "late", "expiry")) > 0


@pytest.mark.parametrize("step", [29, pytest.param(3, marks=pytest.mark.long)])
def test_a_crash_of_a_holder_or_an_author_at_every_boundary(step: int) -> None:
    """Before and after offer, claim, put, end of claims and withdrawal: each append lands once."""
    shape = Shape(appenders=4, appends_each=1, compactors=1, planners=1, chunks=1, host=True)
    world = build(3, shape, Faults(random=Random(1)))
    run(world)
    assert world.turns.claimed
    for boundary in range(1, world.faults.boundaries + 1, step):
        crashed = build(3, shape, Faults(random=Random(1), crash_at=boundary))
        run(crashed)
        assert len(crashed.ledger.acknowledged) == 4


def test_admitting_members_on_the_state_before_the_file_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Log files would get the same ids: seeds fail."""
    stamped = committer._Loop.stamped

    def unaware(loop: committer._Loop, state: object, *, guess: bool) -> object:
        del state
        return stamped(loop, loop.state, guess=guess)

    monkeypatch.setattr(committer._Loop, "stamped", unaware)
    world = keyed.build(0, KEYED, slow(0))
    with pytest.raises((AssertionError, SegtableError)):
        run(world)

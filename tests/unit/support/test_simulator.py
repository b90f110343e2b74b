"""The simulator itself, on a toy: writers who race to own the next number of a log.

A sound writer that was left in the dark about a number tries the *same* number again. The planted
bugs are a store that ignores conditions, and a writer that gives up a number too early.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from tests.simulation.faults.faulty_storage import Faults, FaultyStorage
from tests.simulation.simulator import Actor, Crash, Simulation

WRITERS = 2
EACH = 3
MAX_STEPS = 20_000


class CarelessStorage(MemoryStorage):
    """A store that ignores the condition of a conditional put."""

    def create(self, path: str, data: bytes) -> None:
        """Overwrite."""
        self.replace(path, data)


def put(storage: Storage, value: str, *, hasty: bool) -> None:
    """Add ``value`` to the log once, whatever happened before."""
    n = 0
    while True:
        try:
            found = storage.read(f"log/{n}").decode()
        except NotFound:
            found = None
        if found == value:
            return
        if found is not None:
            n += 1
            continue
        try:
            storage.create(f"log/{n}", value.encode())
        except AlreadyExists:
            continue
        except OutcomeUnknown:
            if hasty:
                fill(storage, n)  # the bug: it may still land there, or have landed
                n += 1
            continue
        return


def fill(storage: Storage, n: int) -> None:
    """Void a number, as a writer that takes an unknown outcome for a failure would."""
    try:
        storage.create(f"log/{n}", b"void")
    except StorageError:
        return


def writer(
    storage: Storage, faults: Faults, name: str, *, hasty: bool = False
) -> Callable[[Actor], None]:
    """A process that starts anew after a crash, and does all its work again."""

    def run(actor: Actor) -> None:
        faulty = FaultyStorage(storage, actor, faults)
        for number in range(EACH):
            while True:
                try:
                    put(faulty, f"{name}:{number}", hasty=hasty)
                except StorageError:
                    actor.sleep(actor.uniform())
                else:
                    break

    return run


def check(storage: Storage) -> None:
    """Every value is there exactly once, and nothing was overwritten or left out."""
    values = Counter(storage.read(e.path).decode() for e in storage.list("log"))
    values.pop("void", None)
    wanted = {f"w{w}:{number}" for w in range(WRITERS) for number in range(EACH)}
    assert values == Counter(wanted)


def race(
    seed: int,
    storage: Storage | None = None,
    faults: Faults | None = None,
    *,
    hasty: bool = False,
) -> tuple[Simulation, Faults]:
    """Run one seed and check its end."""
    simulation, storage = Simulation(seed), storage or MemoryStorage()
    faults = faults or Faults.swarm(simulation.random)
    for w in range(WRITERS):
        simulation.spawn(f"w{w}", writer(storage, faults, f"w{w}", hasty=hasty))
    simulation.run(max_steps=MAX_STEPS)
    check(storage)
    return simulation, faults


def calm(**rates: Any) -> Faults:
    return Faults(random=Random(0), **rates)


def first_failure(run: Callable[[int], object], seeds: int = 200) -> tuple[int, str]:
    """Return the first seed that fails, and how."""
    for seed in range(seeds):
        try:
            run(seed)
        except AssertionError as error:
            return seed, str(error)
    raise AssertionError("no seed saw it")


def test_a_sound_writer_survives_all_seeds() -> None:
    """Put-if-absent and trying the same number again are enough, whatever fails."""
    injected: Counter[str] = Counter()
    for seed in range(150):
        injected.update(race(seed)[1].injected)
    assert {"delay", "error", "lost_reply", "late", "false_exists", "crash"} <= set(injected)


def test_a_store_without_conditions_is_found_and_reproduced() -> None:
    """The planted bug shows within 200 seeds without any fault, and its seed shows it again."""

    def run(seed: int) -> object:
        return race(seed, CarelessStorage(), calm())

    seed, how = first_failure(run)
    with pytest.raises(AssertionError) as again:
        run(seed)
    assert str(again.value) == how


def test_a_hasty_writer_is_found() -> None:
    """A writer that takes a lost reply for a failure doubles a value when the put lands late."""
    first_failure(lambda seed: race(seed, faults=calm(late=0.2), hasty=True))


def test_the_same_seed_gives_the_same_trace() -> None:
    """Trace, time and faults repeat; another seed differs."""
    (one, faults), (two, same), (other, _) = race(7), race(7), race(8)
    assert one.trace == two.trace
    assert (one.digest(), one.now, faults.injected) == (two.digest(), two.now, same.injected)
    assert one.digest() != other.digest()


def test_a_crash_at_each_boundary_is_survived() -> None:
    """Boundaries are numbered: one crash before and after every single effect."""
    boundaries = race(1, faults=calm())[1].boundaries
    assert boundaries > 2 * WRITERS * EACH
    for k in range(1, boundaries + 1):
        simulation, _ = race(1, faults=calm(crash_at=k))
        assert sum("crashed" in line for line in simulation.trace) == 1


@pytest.mark.parametrize("k", [1, 2])
def test_the_dead_have_no_effect(k: int) -> None:
    """Clean-up of a crashed process reaches nothing, even if it swallows the crash."""
    simulation, storage, faults = Simulation(0), MemoryStorage(), calm(crash_at=k)
    lives: list[int] = []

    def run(actor: Actor) -> None:
        lives.append(actor.incarnation)
        faulty = FaultyStorage(storage, actor, faults)
        if actor.incarnation:
            return
        try:
            faulty.create("first", b"")
        except Crash:
            for _ in range(3):
                with pytest.raises(Crash):
                    faulty.create("clean-up", b"")
        finally:
            with pytest.raises(Crash):
                faulty.delete("first")

    simulation.spawn("process", run)
    simulation.run(max_steps=100)
    assert lives == [0, 1]
    assert [e.path for e in storage.list("")] == (["first"] if k == 2 else [])


def test_time_is_virtual() -> None:
    """Hours pass in no time, in the order of awakening; a skewed clock shows its own."""
    simulation = Simulation(3)
    woken: list[tuple[str, float]] = []
    start = simulation.now

    def sleeper(hours: float) -> Callable[[Actor], None]:
        def run(actor: Actor) -> None:
            begun = actor.monotonic()
            actor.sleep(hours * 3600)
            woken.append((actor.name, round((actor.monotonic() - begun) / 3600, 3)))

        return run

    simulation.spawn("long", sleeper(5))
    skewed = simulation.spawn("short", sleeper(2), skew_us=-7_000_000)
    simulation.run(max_steps=10)
    assert woken == [("short", 2.0), ("long", 5.0)]
    assert skewed.now() == simulation.now - 7_000_000
    assert 5 * 3_600_000_000 <= simulation.now - start < 5.1 * 3_600_000_000


def test_a_livelock_is_named() -> None:
    """Who never comes to an end is told by name, with the seed and the trace's end."""
    simulation = Simulation(11)

    def run(actor: Actor) -> None:
        while True:
            actor.point("once more")

    simulation.spawn("spinner", run)
    with pytest.raises(AssertionError, match="spinner still at it after 50 steps") as caught:
        simulation.run(max_steps=50)
    (story,) = caught.value.__notes__
    assert "seed 11" in story
    assert simulation.digest() in story
    assert "spinner.0 once more" in story


def test_an_actor_that_fails_fails_the_run_and_ends_the_others() -> None:
    """A bug in one actor is not lost, and nobody goes on behind the scenes."""
    simulation, left = Simulation(0), list[str]()

    def waits(actor: Actor) -> None:
        try:
            actor.sleep(1000)
        finally:
            left.append(actor.name)

    def fails(actor: Actor) -> None:
        actor.sleep(1)
        raise KeyError("a bug")

    simulation.spawn("waits", waits)
    simulation.spawn("fails", fails)
    with pytest.raises(KeyError, match="a bug") as caught:
        simulation.run(max_steps=100)
    assert "seed 0" in caught.value.__notes__[0]
    assert left == ["waits"]


def test_a_run_stops_where_told_and_goes_on() -> None:
    """``until`` pauses the world between two steps; the next run continues it."""
    simulation, seen = Simulation(0), list[int]()

    def run(actor: Actor) -> None:
        for n in range(5):
            seen.append(n)
            actor.point(f"{n}")

    simulation.spawn("counter", run)
    simulation.run(max_steps=100, until=lambda: len(seen) == 2)
    assert seen == [0, 1]
    simulation.run(max_steps=100)
    assert seen == [0, 1, 2, 3, 4]

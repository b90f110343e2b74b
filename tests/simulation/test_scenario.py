"""Seeded disasters over the real code, and proof that the checkers can see."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core import rebase
from airflow_provider_segtable.core.errors import AlreadyExists, SegtableError
from airflow_provider_segtable.core.rebase import Conflict
from airflow_provider_segtable.storage.memory import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.testing.faulty import Faults
from airflow_provider_segtable.testing.scenario import Shape, build, run, shape_of, simulate

SEEDS = 200
CROWD = Shape(appenders=3, appends_each=2, compactors=3, planners=1, chunks=1)
SMALL = Shape(appenders=2, appends_each=1, compactors=2, planners=1, chunks=1)


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_seeds_survive(first: int) -> None:
    """Every seed keeps all invariants after every event, and converges once faults stop."""
    for seed in range(first, first + 25):
        simulate(seed)


def test_same_seed_same_trace() -> None:
    """A seed reproduces a run step by step."""
    assert simulate(7).simulation.digest() == simulate(7).simulation.digest()
    assert simulate(7).simulation.digest() != simulate(8).simulation.digest()


def calm(**changes: Any) -> Faults:
    return Faults(random=Random(1), **changes)


def test_crash_at_every_boundary() -> None:
    """One crash before and after each single effect of a whole run: nothing is lost."""
    world = build(3, SMALL, calm())
    run(world)
    for boundary in range(1, world.faults.boundaries + 1):
        crashed = build(3, SMALL, calm(crash_at=boundary))
        run(crashed)
        assert crashed.ledger.acknowledged == {"append-0-0", "append-1-0"}


class Careless(MemoryStorage):
    """A store that ignores the condition of a conditional put."""

    def create(self, path: str, data: bytes) -> None:
        """Overwrite what is there."""
        try:
            super().create(path, data)
        except AlreadyExists:
            super().replace(path, data)


def test_interesting_states_are_reached() -> None:
    """The faults really strike, and leave what recovery is for: dead plans, abandoned ids."""
    seen: Counter[str] = Counter()
    for seed in range(10):
        world = build(seed, shape_of(seed), harsh(seed))
        run(world)
        seen.update(world.faults.injected)
        state = world.ledger.checked
        assert state is not None
        seen["merged"] += len(state.plans)
        seen["retried plan"] += sum(1 for plan in state.plans.values() if plan.attempts > 1)
        seen["voided"] += sum(len(parts) for parts in state.voided.values())
    expected = {"delay", "error", "lost_reply", "false_exists", "crash", "expiry", "wipe"}
    assert not expected - set(seen)
    assert seen["merged"] > 10
    assert seen["retried plan"] > 0
    assert seen["voided"] > 0


def harsh(seed: int) -> Faults:
    return Faults(
        random=Random(seed),
        delay=0.1,
        error=0.02,
        lost_reply=0.1,
        false_exists=0.1,
        crash=0.01,
        expiry=0.1,
        wipe=0.02,
        deaf=0.3,
    )


def paused(seed: int) -> Faults:
    """Processes that sleep through the loss of their session, often."""
    return Faults(random=Random(seed), delay=0.3, expiry=0.3, deaf=0.5)


def wiped(seed: int) -> Faults:
    """A coordinator that forgets everything, again and again."""
    return Faults(random=Random(seed), delay=0.3, expiry=0.1, wipe=0.2, deaf=0.5)


def unheard(seed: int) -> Faults:
    """Replies that get lost, and reads that fail afterwards."""
    return Faults(random=Random(seed), delay=0.1, error=0.05, lost_reply=0.3, late=0.1, expiry=0.1)


def caught(
    make_storage: Callable[[], MemoryStorage] = MemoryStorage,
    faults: Callable[[int], Faults] = paused,
) -> bool:
    """Tell whether any seed shows the planted bug."""
    for seed in range(60):
        try:
            run(build(seed, CROWD, faults(seed), make_storage()))
        except (AssertionError, SegtableError):
            return True
    return False


def test_a_store_without_put_if_absent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin model: without the one guarantee that everything rests on, seeds fail."""
    monkeypatch.setattr("airflow_provider_segtable.table.table.probe", lambda *_: None)
    assert caught(make_storage=Careless)


def test_dropping_the_rebase_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were completions admitted unseen, rows would be doubled or lost: seeds fail."""
    monkeypatch.setattr(rebase, "_complete", lambda *_: None)
    assert caught()


def test_reusing_ids_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check that an id is unsettled, a revived writer overwrites: seeds fail."""
    monkeypatch.setattr(rebase, "_settled", lambda *_: None)
    assert caught(faults=wiped)


def test_deleting_after_unknown_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a lost reply taken for a failure, files of committed appends would go: seeds fail."""

    def hasty(loop: Any) -> Conflict:
        return Conflict(reason=f"event {loop.unresolved} did not land (wrong)")

    monkeypatch.setattr(committer._Loop, "unknown", hasty)
    assert caught(faults=unheard)

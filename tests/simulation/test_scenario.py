"""Seeded disasters over the real code, and proof that the checkers can see."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import AlreadyExists, SegtableError
from airflow_provider_segtable.core.log import major_plan
from airflow_provider_segtable.core.log.families import append_events, plan_events
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanRequested
from airflow_provider_segtable.core.log.fold import Conflict
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import Plan, PlanStatus
from airflow_provider_segtable.core.log.state import IdSpace
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.services.attempt import Attempt
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.planted_kinds import answer_otherwise
from tests.simulation.disasters import harsh, lawless, slow, unheard, wiped
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.scenario import build, run, shape_of, simulate
from tests.simulation.seeds import beginning_with
from tests.simulation.world import Shape

SEED, LONG_SEEDS = 1, 24
INPUTS: Any = Attempt.inputs.fget  # type: ignore[attr-defined]
CROWD = Shape(appenders=3, appends_each=2, compactors=3, planners=1, chunks=1, asks=3)
BUSY = Shape(appenders=4, appends_each=3, compactors=2, planners=1, chunks=1, asks=4)
SMALL = Shape(appenders=2, appends_each=1, compactors=2, planners=1, chunks=1)
ALL_KINDS = Shape(appenders=2, appends_each=2, compactors=2, planners=1, chunks=2, asks=4)


@pytest.mark.parametrize(
    "seed",
    [
        SEED,
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(LONG_SEEDS) if seed != SEED),
    ],
)
def test_seeds_survive(seed: int) -> None:
    """Every seed keeps all invariants after every event, and converges once faults stop."""
    simulate(seed)


def test_same_seed_same_trace() -> None:
    """A seed reproduces a run step by step."""
    first, again, other = (simulate(seed).simulation.digest() for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.usefixtures("round_trips")
def test_seeds_survive_where_commits_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """A put after an outdated state is refused or taken back, so nothing is lost or doubled."""
    guesses: list[bool] = []
    put_all = committer._put_all

    def noted(loops: Any, state: Any, turn: Any, *, guess: bool = False) -> None:
        put_all(loops, state, turn, guess=guess)
        if guess:
            guesses.append(loops[0].over)

    monkeypatch.setattr(committer, "_put_all", noted)
    for seed in range(3):
        run(build(seed, BUSY))
    assert {True, False} == {*guesses}


def test_seeds_survive_without_locks() -> None:
    """The log alone decides: were no lock ever kept, nothing would be lost either."""
    for seed in range(5):
        run(build(seed, CROWD, lawless(seed)))


def calm(**changes: Any) -> Faults:
    return Faults(random=Random(1), **changes)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_crash_at_every_boundary(step: int) -> None:
    """One crash before or after each single effect of a whole run, or both: nothing is lost."""
    world = build(3, SMALL, calm())
    run(world)
    for boundary in range(1, world.faults.boundaries + 1, step):
        crashed = build(3, SMALL, calm(crash_at=boundary))
        run(crashed)
        assert crashed.ledger.acknowledged == {"append-0-0", "append-1-0"}


def test_crash_at_every_boundary_of_all_kinds() -> None:
    """The same with semi-major and major compactions and cuts of time; every 83rd boundary."""
    world = build(5, ALL_KINDS, calm())
    run(world)
    for boundary in range(1, world.faults.boundaries + 1, 83):
        run(build(5, ALL_KINDS, calm(crash_at=boundary)))


class Careless(MemoryStorage):
    """A store that ignores the condition of a conditional put."""

    def create(self, path: str, data: bytes) -> None:
        """Overwrite what is there."""
        try:
            super().create(path, data)
        except AlreadyExists:
            super().replace(path, data)


@pytest.mark.long
def test_interesting_states_are_reached() -> None:
    """The faults really strike, and leave what recovery is for: dead plans, abandoned ids."""
    seen: Counter[str] = Counter()
    for seed in range(24):
        world = build(seed, ALL_KINDS if seed % 2 else shape_of(seed), harsh(seed))
        run(world)
        seen.update(world.faults.injected)
        state = world.ledger.checked
        assert state is not None
        seen["merged"] += len(state.plans)
        seen["retried plan"] += sum(1 for plan in state.plans.values() if plan.attempts > 1)
        seen["voided"] += sum(len(parts) for parts in state.voided.values())
        seen["carried over"] += sum(1 for s in state.timeline.segments() if s.origin)
        completed = [p.plan for p in state.plans.values() if p.status is PlanStatus.COMPLETED]
        seen.update(
            f"{p.kind}{' cut' if isinstance(p, MajorPlan) and p.granularity else ''}"
            for p in completed
        )
    expected = {"delay", "error", "lost_reply", "false_exists", "crash", "expiry", "wipe"}
    assert not expected - set(seen)
    assert seen["merged"] > 10
    assert seen["retried plan"] > 0
    assert seen["voided"] > 0
    assert seen["carried over"] > 0
    assert min(seen[kind] for kind in ("minor", "semi-major", "major", "major cut")) > 0, seen


def test_appends_beside_a_coarsening_compaction_are_carried_over() -> None:
    """While hours become a day appends go on; the model finds each row once in every version."""
    crowd = Shape(appenders=4, appends_each=8, compactors=2, planners=1, chunks=1, asks=12)
    carried = 0
    for seed in beginning_with(5, 20):  # as many as it takes until it has happened often enough
        world = build(seed, crowd, calm(delay=0.2))
        run(world)
        carried += carried_by_a_coarser_cut(world.storage)
        if carried >= 5:
            break
    assert carried >= 5


def carried_by_a_coarser_cut(storage: MemoryStorage) -> int:
    """Return how many segments a compaction from hours to days took over from appends."""
    days: set[str] = set()
    carried = 0
    for event in EventLog(storage).events(0):
        action = event.action
        plan = action.plan if isinstance(action, PlanRequested) else None
        if isinstance(plan, MajorPlan) and plan.granularity is Granularity.DAY:
            days.add(plan.id)
        if isinstance(action, PlanCompleted) and action.plan_id in days:
            carried += sum(s.file_id.chunk != s.id.chunk for s in action.segments)
    return carried


def caught(
    make_storage: type[MemoryStorage] = MemoryStorage,
    faults: Callable[[int], Faults] = lawless,
    shape: Shape = CROWD,
    first: int = 0,
) -> bool:
    """Tell whether any seed shows the planted bug; ``first`` is one that did."""
    for seed in beginning_with(first, 60):
        world = build(seed, shape, faults(seed), make_storage)
        try:
            run(world)
        except (AssertionError, SegtableError):
            return True
    return False


def test_a_store_without_put_if_absent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin model: without the one guarantee that everything rests on, seeds fail."""
    monkeypatch.setattr("airflow_provider_segtable.table.definition.probe", lambda *_: None)
    assert caught(make_storage=Careless)


def test_dropping_the_rebase_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were completions admitted unseen, rows would be doubled or lost: seeds fail."""
    answer_otherwise(monkeypatch, PlanCompleted, admit=lambda action, _: action)
    assert caught()


def test_skipping_the_fencing_check_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Could an older attempt end its plan, its outputs would meet the books: seeds fail."""
    monkeypatch.setattr(plan_events, "_newest", lambda *_: True)
    assert caught()


def test_reusing_ids_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check that an id is unsettled, a revived writer overwrites: seeds fail."""
    monkeypatch.setattr(IdSpace, "free", lambda *_: True)
    assert caught(faults=wiped)


def test_forgetting_late_appends_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were nothing carried over to a new version, what came meanwhile would be hidden."""
    monkeypatch.setattr(major_plan, "carried_over", lambda *_: ())
    assert caught(first=3)


def test_appending_to_the_old_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a late append left where it was written, nobody would ever see it."""
    monkeypatch.setattr(append_events, "moved", lambda segment, _: segment.id.chunk)
    assert caught(shape=BUSY, faults=slow, first=24)


def test_books_unchecked_and_rows_dropped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that loses a segment is stopped by the books, and without them by the checkers."""
    monkeypatch.setattr(Plan, "check_balance", lambda *_: None)
    monkeypatch.setattr(
        Attempt, "inputs", property(lambda attempt: INPUTS(attempt)[1:] or INPUTS(attempt))
    )
    assert caught()


def test_deleting_after_unknown_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a lost reply taken for a failure, files of committed appends would go: seeds fail."""

    def hasty(loop: Any) -> Conflict:
        return Conflict(reason=f"event {loop.unresolved} did not land (wrong)")

    monkeypatch.setattr(committer._Loop, "unknown", hasty)
    assert caught(faults=unheard, first=13)

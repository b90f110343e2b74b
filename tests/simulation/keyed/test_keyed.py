"""Primary-key tables under disasters: many writers, no locks, clocks five minutes apart."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.locks.lock_types import Generation
from airflow_provider_segtable.core.plans.group_plan import GroupPlan
from airflow_provider_segtable.data.table_kinds import keyed_arrow
from airflow_provider_segtable.table.reads import merged_scan
from airflow_provider_segtable.table.writes import upsert
from airflow_provider_segtable.testing.faulty import Faults
from tests.simulation.keyed.scenario import build, shape_of
from tests.simulation.scenario import run
from tests.simulation.world import Shape

SEEDS = (0, 2)
CROWD = Shape(
    appenders=0,
    upserters=4,
    upserts_each=4,
    changers=2,
    changes_each=2,
    compactors=2,
    planners=1,
    asks=4,
    cleaners=1,
    readers=1,
)
WRITERS = Shape(appenders=0, upserters=4, upserts_each=4, compactors=1, planners=1, asks=3)
CHANGERS = Shape(appenders=0, upserters=2, changers=3, changes_each=3, compactors=1, planners=1)


def without_excuse(seed: int) -> Faults:
    """Whatever strikes others: delays, kills, sessions that end, a coordinator that is wiped."""
    return Faults(
        random=Random(seed), delay=0.05, crash=0.005, expiry=0.1, wipe=0.02, deaf=0.3, blind=0.3
    )


def slow(seed: int) -> Faults:
    """Nothing but delays, so that writers complete long after they began."""
    return Faults(random=Random(seed), delay=0.1)


def test_seeds_survive() -> None:
    """Under all faults, every version at every time is what the records replayed in order give."""
    for seed in SEEDS:
        run(build(seed, shape_of(seed)))


def test_no_writer_is_aborted_that_was_not_killed() -> None:
    """Without faults of its own requests no write ever fails, whoever is killed or fenced."""
    seen: Counter[str] = Counter()
    for seed in (1,):
        world = build(seed, CROWD, without_excuse(seed))
        run(world)
        seen.update(world.faults.injected)
        state = world.ledger.checked
        assert state is not None
        seen.update(known.plan.kind for known in state.plans.values() if known.completed)
        seen.update(world.ledger.intended[name].kind for name in world.ledger.acknowledged)
    wanted = ("crash", "expiry", "wipe", "minor", "semi-major", "upsert", "key change")
    assert min(seen[each] for each in wanted) > 0, seen


def slices_by_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file belongs to the slice in whose time its writer began, not in which it completed."""
    right = merged_scan.groups_to_read

    def by_instant(*args: Any, **named: Any) -> Iterator[Any]:
        for group in right(*args, **named):
            bases = [s.created for s in group.segments if s.clustering]
            since = max(bases, default=0)
            kept = [s for s in group.segments if s.clustering or s.created > since]
            yield replace(group, segments=tuple(kept))

    monkeypatch.setattr(merged_scan, "groups_to_read", by_instant)


def tombstones_go_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tombstones are dropped although older files, and late records, may have the key."""
    monkeypatch.setattr(keyed_arrow, "_drop_before", lambda *_: 2**62)


def tombstones_go_above_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log compaction drops tombstones of keys that the base file still has."""
    right = keyed_arrow._drop_before
    monkeypatch.setattr(
        keyed_arrow,
        "_drop_before",
        lambda spec, inputs: 2**62 if inputs[0].shard.root_start else right(spec, inputs),
    )


def late_logs_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base file claims the roots of logs that completed after its plan, without their records."""

    def named(plan: GroupPlan, found: Any, counts: Any, state: Any) -> Any:
        end = state.id_space(plan.chunk, Generation.FIRST).next
        wider = replace(plan, root_end=max(plan.root_end, end))
        return right(wider, found, counts, state)

    right = GroupPlan.name_outputs
    monkeypatch.setattr(GroupPlan, "name_outputs", named)
    monkeypatch.setattr(GroupPlan, "imbalance", lambda *_: ())


def instants_of_wall_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer's instant is its own clock's, however far that is behind what it has read."""
    monkeypatch.setattr(upsert, "instant_after", lambda ports, _: ports.checked_now())


@pytest.mark.parametrize(
    ("plant", "shape", "seed"),
    [
        (slices_by_instant, WRITERS, 1),
        (tombstones_go_early, WRITERS, 6),
        (tombstones_go_above_others, WRITERS, 6),
        (late_logs_are_covered, WRITERS, 1),
        (instants_of_wall_clocks, CHANGERS, 5),
    ],
)
def test_planted_errors_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    shape: Shape,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each error shows as rows that differ from the model's, in a seed that survives without it."""
    run(build(seed, shape, slow(seed)))
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="rows"):
        run(build(seed, shape, slow(seed)))

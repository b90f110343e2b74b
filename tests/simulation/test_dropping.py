"""A table that is dropped while everybody works, another one in its place, and planted errors."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from airflow_provider_segtable.table.log import committer
from airflow_provider_segtable.testing.faulty import Faults
from tests.simulation.disasters import harsh, mixed, slow
from tests.simulation.scenario import build, run
from tests.simulation.world import Shape

EVERYBODY = Shape(
    appenders=2,
    appends_each=2,
    compactors=2,
    chunks=1,
    asks=2,
    cleaners=1,
    readers=1,
    taggers=1,
    changers=1,
    overwriters=1,
    overwrites_each=1,
    alterers=1,
    alterations_each=2,
    restorers=1,
    restores_each=1,
    repairers=1,
    droppers=2,
    drops=2,
)
FEW = Shape(
    appenders=2, appends_each=3, compactors=1, chunks=1, asks=1, changers=1, droppers=2, drops=2
)


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short logs expire."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 4)


@pytest.mark.parametrize(
    ("faults", "seeds"), [(slow, range(4)), (mixed, range(4)), (harsh, range(3))]
)
def test_a_dropped_table_is_gone_and_the_next_one_untouched(
    faults: Callable[[int], Faults], seeds: Sequence[int]
) -> None:
    """Twice in a row: nobody commits after it, everybody is told, and the next table is exact."""
    told: Counter[str] = Counter()
    for seed in seeds:
        world = build(seed, EVERYBODY, faults(seed))
        run(world)
        assert world.newest.life == 2
        told.update(line for line in world.simulation.trace if "TableInUse" in line)
    assert told or faults is not slow  # some drops wait for others, and are refused


FOUND: Sequence[tuple[Callable[[int], Faults], int, str]] = ()

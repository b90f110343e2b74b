"""Clocks that are set while everybody works: the log keeps the time, and all is done in the end."""

import pytest

from airflow_provider_segtable.table.context import TableContext
from tests.simulation.disasters import wrong_clocks
from tests.simulation.scenario import build, run
from tests.simulation.world import Shape

EVERYBODY = Shape(
    appenders=1,
    appends_each=2,
    compactors=1,
    planners=1,
    chunks=1,
    asks=1,
    cleaners=1,
    taggers=1,
    changers=1,
    changes_each=2,
)


def test_clocks_that_jump_set_no_time() -> None:
    """After each event the log is at most the bound ahead; when the clocks are right, all ends."""
    refused = 0
    for seed in range(2):
        world = build(seed, EVERYBODY, wrong_clocks(seed))
        run(world)
        refused += sum(": ClockSkew" in line for line in world.simulation.trace)
    assert refused > 10


def test_an_unchecked_clock_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is worth something: without the comparison the log gets ahead of time."""
    monkeypatch.setattr(TableContext, "checked_now", lambda ports: ports.clock.now())
    with pytest.raises(AssertionError, match="s ahead of time"):
        run(build(0, EVERYBODY, wrong_clocks(0)))

"""Small worlds of every scenario, of which ``make sim-swarm`` plays thousands."""

import pytest

from tests.simulation.swarm import SCENARIOS, play
from tests.simulation.world import World

FOUND = (
    ("log-store", 1009),  # did not end: the store's last checkpoint came when all seemed settled
    ("log-store", 3042),  # a close that found its bucket taken did not name the rows
)


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_a_small_world_survives(name: str, seed: int) -> None:
    """What was found in small worlds stays mended."""
    _, _, wrong = play(name, [seed])
    assert not wrong


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_gives_the_same_trace_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is random comes from the seed: also the names of published files."""
    traces: list[str] = []
    right = SCENARIOS[name]

    def noted(seed: int) -> World:
        world = right(seed)
        traces.append(world.simulation.digest())
        return world

    monkeypatch.setitem(SCENARIOS, name, noted)  # type: ignore[arg-type]
    _, total, wrong = play(name, [12001, 12001])
    assert not wrong
    assert total.events
    first, again = traces
    assert first == again

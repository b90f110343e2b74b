"""Small worlds of every scenario, of which ``make sim-swarm`` plays thousands."""

import pytest

from tests.simulation.swarm import SCENARIOS, play


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_small_world_survives(name: str) -> None:
    """Each scenario is played with fewer roles."""
    _, total, wrong = play(name, [1])
    assert not wrong
    assert total.events

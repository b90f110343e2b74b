"""Small worlds of every scenario, of which ``make sim-swarm`` plays thousands."""

import pytest

from tests.simulation.swarm import SCENARIOS, play

SEEDS = {"log-store": 1009}
"""A world that did not end: its store's last checkpoint came when all seemed settled."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_small_world_survives(name: str) -> None:
    """Each scenario is played with fewer roles."""
    _, total, wrong = play(name, [SEEDS.get(name, 1)])
    assert not wrong
    assert total.events

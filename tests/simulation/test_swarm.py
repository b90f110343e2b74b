"""Small worlds of every scenario, of which ``make sim-swarm`` plays thousands."""

import pytest

from tests.simulation.swarm import SCENARIOS, play

FOUND = (
    ("log-store", 1009),  # did not end: the store's last checkpoint came when all seemed settled
    ("log-store", 3042),  # a close that found its bucket taken did not name the rows
)


@pytest.mark.parametrize(("name", "seed"), [*((name, 1) for name in SCENARIOS), *FOUND])
def test_a_small_world_survives(name: str, seed: int) -> None:
    """Each scenario is played with fewer roles, and what was found so stays mended."""
    _, total, wrong = play(name, [seed])
    assert not wrong
    assert total.events


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_gives_the_same_trace_twice(name: str) -> None:
    """What is random comes from the seed: also the names of published files."""
    first, again = (SCENARIOS[name](12001).simulation.digest() for _ in "12")
    assert first == again

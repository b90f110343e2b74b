"""Followers of a bucket switch between files and services, at random moments, and miss nothing."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log_store.reading import Expired, Reset, Source
from tests.examples import examples
from tests.property.followed_log import World

STEPS = {
    World.append: 30,
    World.read: 40,
    World.checkpoint: 14,
    World.begin: 4,
    World.serve: 2,
    World.lose: 4,
    World.restore: 2,
    World.clean: 2,
    World.follow: 4,
}


def play(seed: int, steps: int) -> World:
    """Play random steps, and let all followers catch up."""
    world = World(Random(seed))
    world.follow()
    world.begin()
    kinds = [kind for kind, weight in STEPS.items() for _ in range(weight)]
    for _ in range(steps):
        world.draw.choice(kinds)(world)
    world.settle()
    return world


@examples(6)
@given(st.integers(0, 2**32))
def test_a_follower_has_read_what_its_position_says(seed: int) -> None:
    """Whatever services, restores and cleanings do: checked record by record."""
    play(seed, 120)


def test_the_moves_of_followers_are_all_played() -> None:
    """Followers read files and sockets, and go back, are reset, and lose records to cleaning."""
    followers = [each for seed in range(3) for each in play(seed, 120).followers]
    events = {type(event) for each in followers for event in each.events}
    switches = {pair for each in followers for pair in pairwise(each.sources)}
    assert events == {Reset, Expired}
    assert switches >= {(Source.FILES, Source.SERVICE), (Source.SERVICE, Source.FILES)}

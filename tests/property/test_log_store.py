"""A bucket's rules against lists, over histories with zombies, lost news and slow readers."""

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.property.log_store_model import World

whose = st.integers(0, 1)
OFTEN = "append " * 6 + "read " * 6 + "checkpoint " * 4 + "begin " * 2 + "hear " * 2
names = st.sampled_from([*OFTEN.split(), "repeat", "intrude", "restart"])
steps = st.tuples(names, whose, st.integers(0, 7))
"""What happens, at which store, and a number: how many, which one, or how it ends."""


def take(world: World, step: tuple[str, int, int]) -> None:
    """Take one step of a history."""
    name, which, number = step
    store = world.stores[which]
    match name:
        case "begin":
            world.begin(store)
        case "append":
            world.append(store, 1 + number % 4)
        case "repeat":
            world.repeat(store, number)
        case "intrude":
            world.intrude(store)
        case "checkpoint":
            world.checkpoint(store, commits=number > 0, heard=number % 2 > 0)
        case "hear":
            world.hear(store, number)
        case "restart":
            world.restart(store)
        case _:
            for _ in range(1 + number % 4):
                world.read(world.readers[number // 4], store)


@examples(150)
@given(st.lists(steps, min_size=20, max_size=80))
def test_readers_see_what_the_stores_hold(history: list[tuple[str, int, int]]) -> None:
    """Whatever is lost or fenced, a reader's records are the store's, or it was reset before."""
    world = World()
    world.begin(world.stores[0])
    for step in history:
        take(world, step)


@examples(60)
@given(st.lists(steps, min_size=10, max_size=40), whose)
def test_everybody_ends_with_the_same(history: list[tuple[str, int, int]], last: int) -> None:
    """One writer and one checkpoint after any history, all readers have the table's records."""
    world = World()
    for step in history:
        take(world, step)
    store = world.stores[last]
    world.begin(store)
    world.append(store, 3)
    world.checkpoint(store, commits=True, heard=True)
    for reader in world.readers:
        for _ in range(len(world.table) + 2):
            world.read(reader, store)
        assert reader.seen == world.table == store.current

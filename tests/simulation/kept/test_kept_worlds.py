"""Tables that stay open show what a table shows that is opened anew, whatever became of the log."""

from collections.abc import Iterator

import pytest

from airflow_provider_segtable.table import chosen_files
from airflow_provider_segtable.table.indexes import key_entries
from tests.simulation.kept.kept_worlds import KeptWorld
from tests.simulation.pairs.pair import KINDS
from tests.simulation.shared_reading import shared_reading

STEPS = 14
SEEDS = {"append": 0, "rollup": 2, "latest": 4, "partial_update": 1}
"""By kind; with that of ``latest`` entries of another log were looked up."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use indexes, and entries in memory, from the first file and look-up on."""
    monkeypatch.setattr(chosen_files, "LEAST_FILES", 1)
    monkeypatch.setattr(key_entries, "LOADED_AFTER", 0)
    with shared_reading():
        yield


@pytest.mark.parametrize(("kind", "seed"), SEEDS.items())
def test_open_tables_say_what_new_ones_say(kind: str, seed: int) -> None:
    """After actions, copies that are put back, repairs, and another table in the place."""
    play(kind, seed)


@pytest.mark.usefixtures("round_trips")
def test_open_tables_where_requests_are_round_trips() -> None:
    """Likewise, where a writer does not look before it puts."""
    play("append", 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_more_open_tables(kind: str, seed: int) -> None:
    """Likewise, of more seeds."""
    play(kind, seed)


def play(kind: str, seed: int) -> None:
    """Play one world; a failure has its steps."""
    world = KeptWorld.of(kind, seed)
    try:
        world.play(STEPS)
    except Exception as error:
        error.add_note(f"{kind}, seed {seed}: {'; '.join(world.steps)}")
        raise

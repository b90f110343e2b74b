"""A table that is dropped while everybody works, another one in its place, and planted errors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.table import dropping
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from tests.simulation.disasters import harsh, mixed, slow
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.scenario import build, run
from tests.simulation.seeds import beginning_with
from tests.simulation.world import EVERYBODY, Shape

pytestmark = pytest.mark.usefixtures("frequent_checkpoints")

ALL = replace(
    EVERYBODY,
    compactors=2,
    chunks=1,
    asks=2,
    taggers=1,
    overwrites_each=1,
    alterers=1,
    alterations_each=2,
    restores_each=1,
    repairers=1,
    droppers=2,
    drops=2,
)
SEEDS = 12
FEW = Shape(
    appenders=2, appends_each=3, compactors=1, chunks=1, asks=1, changers=1, droppers=2, drops=2
)


@pytest.mark.parametrize(
    ("faults", "seeds"), [(slow, range(2)), (mixed, range(2)), (harsh, range(1))]
)
def test_a_dropped_table_is_gone_and_the_next_one_untouched(
    faults: Callable[[int], Faults], seeds: Sequence[int]
) -> None:
    """Twice in a row: nobody commits after it, everybody is told, and the next table is exact."""
    for seed in seeds:
        world = build(seed, ALL, faults(seed))
        run(world)
        assert world.newest.life == 2


def no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log goes without a trace: the place looks as if no table had ever been there."""
    monkeypatch.setattr(dropping, "mark_end", lambda *_: None)


def files_before_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data files go first: until the event readers see a table that lacks rows."""
    right = dropping.end_log

    def hasty(ports: TableContext, *guard: Any) -> Event:
        for entry in [*ports.storage.list("data")]:
            ports.storage.delete(entry.path)
        return right(ports, *guard)

    monkeypatch.setattr(dropping, "end_log", hasty)


def files_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drop returns while data files are there."""
    right = dropping._delete

    def lazy(ports: TableContext, end: Event, own: Sequence[str]) -> None:
        right(ports, end, [path for path in own if not path.startswith("data/")])

    monkeypatch.setattr(dropping, "_delete", lazy)


def records_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody deletes the records of a table in the coordinator."""
    monkeypatch.setattr(MemoryCoordinator, "forget", lambda *_: None)


def one_table_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Authors go on with the table that is in the place of theirs."""
    right = EventLog._present
    monkeypatch.setattr(EventLog, "_present", lambda log, state, _: right(log, state, None))


@pytest.mark.parametrize(
    ("plant", "faults", "first", "seen"),
    [
        (no_marker, slow, 0, "NotATable"),
        (files_before_the_event, slow, 0, "are gone"),
        (files_left, slow, 0, "a drop returned, but left"),
        (records_left, slow, 0, "the coordinator remembers"),
        (one_table_for_another, mixed, 0, "who works on an earlier table"),
    ],
)
def test_planted_errors_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    faults: Callable[[int], Faults],
    first: int,
    seen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each error of a drop shows, in words of its own."""
    plant(monkeypatch)
    assert any(seen in each for each in wrong(faults, first)), "no seed shows it"


def wrong(faults: Callable[[int], Faults], first: int) -> Iterator[str]:
    """Yield what is found wrong, seed by seed, beginning with one that shows something."""
    for seed in beginning_with(first, 3 * SEEDS):
        try:
            run(build(seed, FEW, faults(seed)))
        except (AssertionError, SegtableError) as error:
            yield f"{type(error).__name__}: {error}"

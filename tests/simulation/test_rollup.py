"""Rollup tables under disasters, with every reader asked; and planted errors that are seen."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.log.families import restore_events
from airflow_provider_segtable.data.vector_file import row_filters
from airflow_provider_segtable.services import compaction
from tests.simulation.rollup import simulate
from tests.simulation.seeds import beginning_with
from tests.simulation.world import EVERYBODY, Shape

ROLLERS = replace(EVERYBODY, changes_each=3)
ERASERS = Shape(
    appenders=2,
    appends_each=2,
    compactors=1,
    chunks=1,
    asks=5,
    changers=2,
    changes_each=3,
    restorers=2,
    restores_each=4,
)
"""Compactions apply deletes between a version and its restore, in every second seed or so."""


def test_everybody_at_once() -> None:
    """Each version has the groups of its commits, whole, whoever reads it."""
    worlds = [simulate(seed, ROLLERS) for seed in (1, 2)]
    kinds = {w.ledger.intended[name].kind for w in worlds for name in w.ledger.acknowledged}
    assert kinds >= {"rolled", "groups gone", "restore"}
    assert sum(world.ledger.looks for world in worlds) > 10


def deletes_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction applies no predicate delete, and says that it did."""

    def unerased(files: Any, state: Any, segments: Iterable[Any]) -> Any:
        return row_filters(files, replace(state, predicate_deletes=()), segments)

    monkeypatch.setattr(compaction, "row_filters", unerased)


def deletes_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore has only those of a version's deletes that are left."""
    right = restore_events._erased
    monkeypatch.setattr(
        restore_events, "_erased", lambda action, state: right(replace(action, erased=None), state)
    )


@pytest.mark.parametrize(
    ("plant", "shape", "first"),
    [(deletes_left_out, ROLLERS, 1), (deletes_forgotten, ERASERS, 15)],
)
def test_planted_errors_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    shape: Shape,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups come back that were deleted, and a reader sees them."""
    plant(monkeypatch)
    assert any(fails(seed, shape) for seed in beginning_with(first, 20))


def fails(seed: int, shape: Shape) -> bool:
    """Return whether a seed shows the planted error."""
    try:
        simulate(seed, shape)
    except AssertionError as error:
        return "rows" in str(error) or "lost" in str(error)
    return False

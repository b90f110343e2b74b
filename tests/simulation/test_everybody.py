"""Everybody at once: columns, overwrites and restores beside all the others, and planted errors."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.log.families import (
    change_events,
    restore_events,
)
from airflow_provider_segtable.core.log.families.table_events import TableAltered
from airflow_provider_segtable.data.parquet import table_file
from airflow_provider_segtable.health import repair
from airflow_provider_segtable.table.changes import run_change
from tests.planted_kinds import admission, answer_otherwise
from tests.simulation.disasters import mixed
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
    overwriters=2,
    alterers=1,
    alterations_each=5,
    repairers=1,
)
DEFINERS = Shape(appenders=1, appends_each=3, asks=1, alterers=2, alterations_each=4)
LOADERS = Shape(appenders=1, appends_each=1, overwriters=4, overwrites_each=1, chunks=1)
RESTORERS = Shape(appenders=2, overwriters=1, changers=2, restorers=1, restores_each=4)
REPAIRERS = Shape(appenders=1, appends_each=2, repairers=1)
SEEDS = 6


def test_everybody_at_once() -> None:
    """At every version each row is there, once, with the columns and properties of its time."""
    seen: Counter[str] = Counter()
    for seed in range(3):
        world = build(seed, ALL, mixed(seed))
        run(world)
        seen.update(world.ledger.intended[name].kind for name in world.ledger.acknowledged)
    kinds = ("append", "overwrite", "alter", "restore")
    assert min(seen[kind] for kind in kinds) > 0, seen


def names_for_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are found in old files by name: a dropped column comes back as another one."""

    def by_name(stored: Any, target: Any) -> dict[str, str | None]:
        return {name: name if name in stored.names else None for name in target.names}

    monkeypatch.setattr(table_file, "file_names", by_name)


def no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of before an addition have nulls."""
    right = table_file.default_of
    monkeypatch.setattr(table_file, "default_of", lambda field: right(field.remove_metadata()))


def alterations_of_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alteration is admitted over another one that its author had not read."""
    right = admission(TableAltered)
    answer_otherwise(
        monkeypatch,
        TableAltered,
        admit=lambda action, state: right(replace(action, after=state.table.altered), state),
    )


def loads_that_do_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has no memory of overwrites: an hour is there twice."""
    monkeypatch.setattr(change_events, "rival", lambda *_: 0)


def loads_without_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overwrite replaces only what one segment has."""
    right = run_change.rows_within
    monkeypatch.setattr(
        run_change, "rows_within", lambda *given: dict(list(right(*given).items())[:1])
    )


def deletes_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored segment applies the deletes of after its version, too."""
    monkeypatch.setattr(restore_events, "_undeleted", lambda carried, *_: carried)


def nothing_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore hides nothing of what came after its version."""
    monkeypatch.setattr(restore_events, "tombstones", lambda *_: iter(()))


def losses_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair takes a file for lost that is there."""

    def last(state: Any, _: Any) -> tuple[Any, ...]:
        return tuple(s for s in state.timeline.visible_segments() if s.path)[-1:]

    monkeypatch.setattr(repair, "lost_files", last)
    monkeypatch.setattr(repair.RepairPlan, "blocking", ())


@pytest.mark.parametrize(
    ("plant", "shape", "first"),
    [
        (names_for_ids, DEFINERS, 24),
        (no_defaults, DEFINERS, 0),
        (alterations_of_the_past, DEFINERS, 0),
        (loads_that_do_not_notice, LOADERS, 0),
        (loads_without_appends, LOADERS, 0),
        (deletes_come_back, RESTORERS, 1),
        (nothing_goes, RESTORERS, 9),
        (losses_unproven, REPAIRERS, 0),
    ],
)
def test_planted_errors_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    shape: Shape,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each author's fault shows in the ledger, by an assertion of its own."""
    plant(monkeypatch)
    assert any(wrong(shape, first)), f"{SEEDS} seeds do not show it"


def wrong(shape: Shape, first: int) -> Iterator[bool]:
    """Yield of each seed whether the ledger finds something wrong, beginning with one that did."""
    for seed in beginning_with(first, SEEDS):
        try:
            run(build(seed, shape, mixed(seed)))
        except AssertionError as error:
            yield "rows" in str(error) or "columns" in str(error)
        else:
            yield False

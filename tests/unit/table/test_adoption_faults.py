"""An adoption that is killed, or met by another one, at each of its steps on the storage."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    NotATable,
    SegtableError,
    StorageError,
    TableExists,
)
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Adopted, copy_commit
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.data.adoption.decision import Action
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage.local import SystemRandomness
from airflow_provider_segtable.table.adopted_files import listed_records, read_record
from airflow_provider_segtable.table.adoption import AdoptionRequest, plan_adoption
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.load import append_rows
from tests.unit.table.test_adoption import adopted, local_context, numbers, paths, put, rows

STEPS = {"create", "replace", "flush", "delete"}
MOST = 60


class Killed(BaseException):
    """The process ends here."""


class Watched:
    """A storage that calls ``act`` at one of the steps that change something: before or after."""

    def __init__(self, storage: Any, at: int, act: Callable[[], None], *, after: bool) -> None:
        self._storage, self._at, self._act, self._after = storage, at, act, after
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        return self._counted(found) if name in STEPS else found

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self.count += 1
            mine = self.count == self._at
            if mine and not self._after:
                self._act()
            found = call(*given, **named)
            if mine and self._after:
                self._act()
            return found

        return counted


def run(ports: TableContext, at: int, act: Callable[[], None], *, after: bool) -> bool:
    """Adopt, and act at a step; return whether there was such a step."""
    storage = Watched(ports.storage, at, act, after=after)
    try:
        adopted(replace(ports, storage=storage))  # type: ignore[arg-type]
    except TableExists:
        adopted(ports)  # the other run was first to create it
    return storage.count >= at


def another(ports: TableContext, service: MemoryService) -> TableContext:
    """Return the context of another process."""
    coordinator = MemoryCoordinator(ports.clock, service)
    return replace(
        ports, author="second", randomness=SystemRandomness(), optional_coordinator=coordinator
    )


def folder(ports: TableContext) -> dict[str, bytes]:
    """Put four files of two days; return their bytes."""
    for number in range(4):
        some = rows(number // 2, range(number * 10, number * 10 + 10))
        put(ports, f"day={number // 2}/part-{number}.parquet", some)
    return {path: ports.storage.read(path) for path in paths(ports)}


def check(ports: TableContext, files: dict[str, bytes], service: MemoryService) -> None:
    """Check that the table has each row once, now and after the loss of its log."""
    assert numbers(ports) == [*range(40)]
    assert verify(ports, deep=True).sound
    assert {path: ports.storage.read(path) for path in paths(ports)} == files
    recorded = [
        segment.path
        for n in listed_records(ports.storage)
        for segment in read_record(ports.storage, n).segments
    ]
    assert sorted(recorded) == sorted(files)
    for place in ("timeline", "checkpoints"):
        for entry in [*ports.storage.list(f"_segtable/{place}")]:
            ports.storage.delete(entry.path)
    fresh = another(ports, service)
    repair(fresh, plan_repair(fresh))
    assert numbers(fresh) == [*range(40)]
    assert verify(fresh, deep=True).sound


def kill() -> None:
    """End the process."""
    raise Killed


def fail() -> None:
    """Fail, as a storage does."""
    raise StorageError("the disk is gone")


@pytest.mark.parametrize(
    ("act", "after"), [(kill, False), (kill, True), (fail, False), (fail, True)]
)
def test_a_killed_adoption_is_finished_by_the_next_one(
    tmp_path: Path,
    act: Callable[[], None],
    after: bool,  # noqa: FBT001
) -> None:
    """Whatever the step, the user's files stay, and the next run completes the table."""
    for at in range(1, MOST):
        service = MemoryService()
        ports = local_context(tmp_path / f"{at}", service)
        files = folder(ports)
        try:
            if not run(ports, at, act, after=after):
                break
        except (Killed, SegtableError):
            assert {path: ports.storage.read(path) for path in paths(ports)} == files
            adopted(another(ports, service))
        check(another(ports, service), files, service)
    assert 5 < at < MOST - 1


@pytest.mark.parametrize("after", [False, True])
def test_two_adoptions_at_once_adopt_each_file_once(tmp_path: Path, after: bool) -> None:  # noqa: FBT001
    """A whole second run fits in between any two steps of the first one."""
    for at in range(1, MOST):
        service = MemoryService()
        ports = local_context(tmp_path / f"{at}", service)
        files = folder(ports)
        if not run(ports, at, partial(adopted, another(ports, service)), after=after):
            break
        check(another(ports, service), files, service)
    assert 5 < at < MOST - 1


def test_a_second_run_that_also_appends_and_compacts(tmp_path: Path) -> None:
    """Rows are neither lost nor doubled, whenever it comes."""
    for at in range(1, MOST):
        service = MemoryService()
        ports = local_context(tmp_path / f"{at}", service)
        folder(ports)
        other = another(ports, service)

        def meet(other: TableContext = other) -> None:
            adopted(other)
            Table(other).append(rows(0, range(40, 45)))
            Table(other).compact("major")

        if not run(ports, at, meet, after=True):
            break
        found = numbers(other)
        assert found in ([*range(45)], [*range(40)])  # a step whose call failed has no second run
        assert verify(other, deep=True).sound
    assert 5 < at < MOST - 1


@pytest.mark.parametrize(("act", "after"), [(kill, False), (kill, True), (fail, False)])
def test_a_killed_drop_is_finished_by_the_next_one(
    tmp_path: Path,
    act: Callable[[], None],
    after: bool,  # noqa: FBT001
) -> None:
    """Adopted files go first, while the log still says which they are; others stay."""
    for at in range(1, MOST):
        service = MemoryService()
        ports = local_context(tmp_path / f"{at}", service)
        folder(ports)
        adopted(ports)
        put(ports, "day=0/other.parquet", rows(0, range(3)))
        storage = Watched(ports.storage, at, act, after=after)
        with suppress(Killed, SegtableError):
            drop(replace(ports, storage=storage))  # type: ignore[arg-type]
        with suppress(NotATable):
            drop(another(ports, service))
        assert paths(ports) == ["day=0/other.parquet"]
        if storage.count < at:
            break
    assert 5 < at < MOST - 1


def test_rows_that_another_run_copied_are_not_adopted(tmp_path: Path) -> None:
    """It decided by other time chunks; killed before its mark, its commit still tells."""
    ports = local_context(tmp_path, MemoryService())
    put(ports, "day=0/a.parquet", rows(0, range(10)))
    adopted(ports)
    put(ports, "day=1/b.parquet", rows(1, range(10, 20)))
    (decision,) = plan_adoption(ports, AdoptionRequest(ignored=("day",))).those(Action.ADOPT)
    facts = decision.facts
    assert facts.footer is not None
    commit_id = copy_commit(facts.path, facts.size, facts.footer.crc)
    made = append_rows(ports, rows(1, range(10, 20)), commit_id=commit_id)
    segment = max(made.state.timeline.segments(), key=lambda each: each.time_min)
    foreign = replace(segment, path=facts.path, size=facts.size, footer=facts.footer)
    refused = admit(Adopted(segments=(foreign,)), ports.log.load())
    assert isinstance(refused, Conflict)
    assert refused.reason == "the rows of day=1/b.parquet were copied already"
    (left,) = adopted(ports).those(Action.SKIP)[-1:]
    assert left.reason == "its rows were copied already"
    assert numbers(ports) == [*range(20)]

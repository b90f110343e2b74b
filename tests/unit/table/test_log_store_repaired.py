"""What readers and services of a log store meet after a repair that has lost events."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import Fenced
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.table.log_store.file_reader import read_committed
from airflow_provider_segtable.table.table import Table
from tests.unit.services.repairing import ports_at
from tests.unit.table.conftest import SCHEMA
from tests.unit.table.logged import Logged, numbers_in, tail

NEW = 10**9
"""Epochs from here on are of repairs: no writer of before has reached them."""


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    """A service in its second epoch, with two checkpoints."""
    ports = ports_at(tmp_path)
    Table.create(ports.uri, schema=SCHEMA, time_column="at", granularity="hour")
    made = Logged(Table(ports))
    made.begin(0, 4)
    made.checkpoint(b0=3, b4=2)
    made.begin(0, 4)
    made.checkpoint(b0=4)
    return made


def repaired(table: Table, *, lost_from: int) -> Table:
    """Return the table after its log was lost from an event on, and repaired."""
    storage, newest = table.ports.storage, table.state().n
    gone = [event_path(n) for n in range(lost_from, newest)]
    checkpoints = [entry.path for entry in storage.list("_segtable/checkpoints")]
    for path in (*gone, *checkpoints):
        storage.delete(path)
    fresh = Table(replace(table.ports))
    assert repair(fresh.ports, plan_repair(fresh.ports)).state.n
    return fresh


def stored(table: Table) -> Position:
    """Return the position of a reader of bucket 0 that has read all."""
    return bucket_of(table.state(), 0).committed


@pytest.mark.parametrize("lost_from", [0, 3])
def test_old_positions_are_reset_and_old_services_fenced(logged: Logged, lost_from: int) -> None:
    """Whatever is left of the log: an old offset never stands for a new record."""
    position, old = stored(logged.table), logged.cut(b0=2)
    table = repaired(logged.table, lost_from=lost_from)
    (found,) = read_committed(table.ports, 0, position)
    assert isinstance(found, Reset)
    assert (found.offset, found.epoch > NEW) == (0, True)
    with pytest.raises(Fenced, match="begin a new epoch"):
        replace(logged, table=table).commit(old)
    assert verify(table.ports, all_versions=True, deep=True).sound


def test_writers_go_on_after_a_repair(logged: Logged) -> None:
    """From the committed end that the log still has, or from 0."""
    for lost_from, kept in ((3, 3), (0, 0)):
        table = repaired(logged.table, lost_from=lost_from)
        new = replace(logged, table=table)
        new.begin(0, 4)
        assert (new.epoch > NEW, new.ends[0]) == (True, kept)
        cut = new.cut(b0=2)
        new.commit(cut)
        start = Position(epoch=new.epoch, offset=kept)
        assert tail(table, 0, start) == numbers_in(cut, 0)
        logged = new


def test_a_repair_that_lost_no_event_resets_nobody(logged: Logged) -> None:
    """A lost data file is no reason to."""
    table, position = logged.table, stored(logged.table)
    (path, *_) = [each.path for each in table.state().timeline.segments()]
    table.ports.files.delete(path)
    plan = plan_repair(table.ports)
    assert plan.event is not None
    assert plan.event.log_buckets == ()
    assert not [*read_committed(table.ports, 0, position)]

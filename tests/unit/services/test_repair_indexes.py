"""Repair of a table with indexes: their own logs are no evidence of the table's."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.indexes.index_state import INDEXES, folder
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.recovery.claims import Reason
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.repair import Decisions, plan_repair, repair
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import contents, rows
from tests.unit.services.indexed import index, indexed_table, listed
from tests.unit.services.test_cleaning import pass_hours


@pytest.fixture
def ports() -> TableContext:
    """An index whose own table has its feeds."""
    made = indexed_table(MemoryService())
    clean(made)
    return made


def afresh(ports: TableContext) -> TableContext:
    """Return the ports of another process, which has read nothing."""
    return replace(ports, author="again")


def test_a_lost_log_loses_the_indexes(ports: TableContext) -> None:
    """The rows come back; the report names the indexes, and cleaning deletes their files."""
    before, old = contents(ports), index(ports).definition.id
    for entry in [*ports.storage.list("_segtable")]:
        if not entry.path.startswith(INDEXES):
            ports.storage.delete(entry.path)
    ports = afresh(ports)
    plan = plan_repair(ports, Decisions())
    (lost,) = (doubt for doubt in plan.doubts if doubt.reason is Reason.INDEXES)
    assert "files; create them again: segtable index create TABLE NAME" in lost.note
    assert lost.paths == (folder(old),)
    assert not lost.blocking
    state = repair(ports, plan).state
    assert not state.indexes
    assert state.table.name == "t"
    assert contents(ports) == before
    assert "lost-index" not in {each.code for each in examine(ports).findings}
    pass_hours(ports, 100)
    (told,) = (each for each in examine(ports).findings if each.code == "lost-index")
    assert told.do.startswith(f"segtable index create {ports.uri} files ")
    clean(ports)
    assert not [*ports.storage.list(folder(old))]
    request_index(ports, "files", FileList())


def test_a_log_that_lost_its_end_keeps_its_indexes(ports: TableContext) -> None:
    """They lack what the repair adopts; new feeds count, although numbers come again."""
    before, n = contents(ports), ports.log.load().n
    known = listed(ports)
    for lost in range(3, n + 1):
        ports.storage.delete(event_path(lost))
    for entry in [*ports.storage.list("_segtable/checkpoints")]:
        ports.storage.delete(entry.path)
    ports = afresh(ports)
    ports.storage.create(event_path(n), b"torn")
    plan = plan_repair(ports, Decisions())
    assert not [doubt for doubt in plan.doubts if doubt.reason is Reason.INDEXES]
    repair(ports, plan)
    assert contents(ports) == before
    assert index(ports).lacks
    assert listed(ports) == known
    old = {segment.path for segment in ports.log.load().timeline.segments()}
    state = Table(ports).append(rows(4)).state
    made = {segment.path for segment in state.timeline.segments()} - old
    assert set(listed(ports)) == made.union(known)

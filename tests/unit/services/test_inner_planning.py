"""The tables of indexes are planned and compacted with the table that they belong to."""

from collections.abc import Sequence

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats, FileList
from airflow_provider_segtable.core.indexes.index_state import folder
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import compact_all
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.planner import plan_inner_tables
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes import index_entries
from airflow_provider_segtable.table.indexes.index_entries import index_ports
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import rows
from tests.unit.services.indexed import index, indexed_table, listed


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> TableContext:
    """Eight events with feeds, each with a file."""
    monkeypatch.setattr(index_entries, "MOST_INLINE", 0)
    made = indexed_table(MemoryService())
    for turn in range(4, 8):
        Table(made).append(rows(turn))
    return made


def carry_out(own: TableContext, plans: Sequence[str]) -> tuple[PlanResult, ...]:
    """Carry out plans here, over files in memory."""
    return tuple(compact(own, plans, in_process(own.files)))


def test_the_table_of_an_index_is_planned_by_its_own_policy(ports: TableContext) -> None:
    """After its feeds are copied, which a dry run does not do; a reason for what is skipped."""
    where = folder(index(ports).definition.id)
    foreseen = dict(plan_inner_tables(ports, dry_run=True))
    assert not foreseen[where].launches
    assert len(index(ports).feeds) == 8
    found = dict(plan_inner_tables(ports, overrides={"semi_major": "off"}))
    assert [launch.kind for launch in found[where].launches] == ["minor"]
    assert not index(ports).feeds


def test_an_index_is_compacted_with_its_table(ports: TableContext) -> None:
    """Its entries stay, those of the new files are added, and it has fewer files."""
    before = listed(ports)
    results = compact_all(ports, carry_out, Policy(min_segments=2)).results
    assert {result.ended for result in results} == {Ended.COMPLETED}
    present = {s.path for s in ports.log.load().timeline.visible_segments()}
    assert set(listed(ports)) == present | set(before)
    own = index_ports(ports, index(ports).definition).log.load()
    assert len(own.timeline.visible_segments()) < own.n


def test_an_index_that_cannot_be_read_concerns_no_other(ports: TableContext) -> None:
    """It is left out, and named; its own build fails, and the run does not."""
    request_index(ports, "more", FileList())
    for entry in [*ports.storage.list(folder(index(ports).definition.id))]:
        ports.storage.delete(entry.path)
    more = ports.log.load().indexes["more"].definition.id
    assert [where for where, _ in plan_inner_tables(ports)] == [folder(more)]
    rounds = compact_all(ports, carry_out, Policy(min_segments=2))
    others = {each.ended for each in rounds.results if not each.plan_id.startswith("index-")}
    assert others == {Ended.COMPLETED}
    assert [*rounds.unreadable] == ["files"]
    assert rounds.failed == ()


def test_a_build_that_fails_for_another_reason_is_a_failure(ports: TableContext) -> None:
    """The index can be read; a file of the table cannot."""
    request_index(ports, "bounds", ColumnStats(columns=(2,)))
    lost = ports.log.load().timeline.visible_segments()[0].path
    ports.storage.delete(lost)
    ports.storage.create(lost, b"PAR1")
    rounds = compact_all(ports, carry_out, Policy(major="off", semi_major="off"))
    assert rounds.failed
    assert not rounds.unreadable

"""Changes beside compactions by the real kernels: before, between and after, on one table."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.core.log.group_plans import MinorPlan, SemiMajorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.tables.rollup_kind import (
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.services.attempt import Execute, in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.table import Table, create_table
from tests.unit.services.conftest import HOUR_US, contents, rows

KINDS = [MinorPlan.kind, SemiMajorPlan.kind, MajorPlan.kind]


def meanwhile(ports: TableContext, act: Callable[[], object]) -> Execute:
    """Run jobs in this process; somebody acts after the first one."""
    run, acts = in_process(ports.files), [act]

    def execute(jobs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        for done in run(jobs):
            if acts:
                acts.pop()()
            yield done

    return execute


def compacted(
    ports: TableContext, kind: str, act: Callable[[], object], clustering: str | None = "row"
) -> None:
    """Compact both hours, and let somebody act while it runs."""
    if kind == MinorPlan.kind:
        plans = [launch.plan_id for launch in plan_table(ports).launches]
    else:
        plans = [each.plan.id for each in request(ports, kind, clustering=clustering)]
    results = compact(ports, plans, meanwhile(ports, act))
    assert [
        (each.ended, each.message) for each in results if each.ended is not Ended.COMPLETED
    ] == []
    assert list(violations(Table(ports).state())) == []


@pytest.mark.parametrize("kind", KINDS)
def test_deletes_before_during_and_after_a_compaction_count_once(
    ports: TableContext, other: TableContext, kind: str
) -> None:
    """Rows that go at any time beside a compaction are gone, counted and shown nowhere."""
    table = Table(ports)
    old = pa.Table.from_batches(table.snapshot().addressed(columns=["row"]))
    table.delete("row = 0")
    compacted(ports, kind, lambda: Table(other).delete("row IN (1, 101)"))
    assert contents(ports) == [2, 3, 100, 102, 103]
    assert table.snapshot().count() == 5
    assert table.delete("row <= 2").deleted == 1
    given = old.filter(pc.field("row").isin([0, 3, 103]))
    done = table.delete(addresses=given)
    assert (done.matched, done.deleted) == (2, 2)
    assert contents(ports) == [100, 102]
    assert table.snapshot().count() == 2
    assert table.snapshot(version=4).count() == 8


@pytest.mark.parametrize("kind", KINDS)
def test_updates_beside_a_compaction_are_kept(
    ports: TableContext, other: TableContext, kind: str
) -> None:
    """What an update brings while a compaction runs is there once, and can be updated again."""
    table = Table(ports)
    table.update({"row": pc.field("row") + 1000}, "row < 2")
    compacted(
        ports, kind, lambda: Table(other).update({"row": pc.field("row") + 1000}, "row >= 1000")
    )
    assert contents(ports) == [2, 3, 100, 101, 102, 103, 2000, 2001]
    source = pa.table({"row": [2000, 101, 7], "at": pa.array([5, 6, HOUR_US], pa.timestamp("us"))})
    source = source.set_column(1, "at", source.column("at").cast(pa.timestamp("us", "UTC")))
    done = table.merge(source, on=["row"], matched="delete")
    assert (done.matched, done.deleted, done.inserted) == (2, 2, 1)
    assert contents(ports) == [2, 3, 7, 100, 102, 103, 2001]
    assert table.snapshot().count() == 7


@pytest.mark.parametrize("kind", KINDS)
def test_compacting_what_is_all_deleted_leaves_nothing(
    ports: TableContext, other: TableContext, kind: str
) -> None:
    """A table all of whose rows went before or while it was compacted is empty, and usable."""
    table = Table(ports)
    table.delete("row < 100")
    compacted(ports, kind, lambda: Table(other).delete("true"))
    assert (contents(ports), table.snapshot().count()) == ([], 0)
    assert table.delete("true").n is None


@pytest.mark.parametrize("kind", [MinorPlan.kind, MajorPlan.kind])
def test_erasures_beside_a_compaction_of_a_rollup_table(
    ports: TableContext, other: TableContext, kind: str
) -> None:
    """Groups that go while they are compacted are not shown; what comes later is."""
    rollup = Rollup(
        dimensions=("row",),
        metrics=(Metric(name="n", kind=MetricKind.COUNT),),
        query_granularity=QueryGranularity.HOUR,
    )
    definition = replace(Table(ports).state().table, table_id="r")
    storage, files = MemoryStorage(clock=ports.clock), MemoryFiles()
    mine, theirs = (replace(each, storage=storage, files=files) for each in (ports, other))
    table = create_table(mine, of_kind(definition, rollup))
    for _ in range(3):
        table.append(rows(1))
        table.append(rows(2))
    table.delete("row = 1")
    table.append(rows(1))
    compacted(mine, kind, lambda: Table(theirs).delete("at >= '1970-01-01 01:00:00'"), None)
    table.append(rows(3))
    found = table.snapshot().rolled_up(columns=["row", "n"]).sort_by("row")
    assert found.to_pylist() == [{"row": n, "n": c} for n, c in ((1, 1), (2, 3), (3, 1), (103, 1))]

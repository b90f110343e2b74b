"""A segment without rows has no file: no compaction, reader, cleaner or repair asks for one."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.local_files import LocalFiles
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.repair import plan_repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.files import Source
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done, in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import SCHEMA, contents, rows

KINDS = ("minor", "semi-major", "major")
DAY = Interval.parse("1970-01-01/1970-01-02")
ROLLUP = Rollup(dimensions=("row",), metrics=(Metric(name="n", kind=MetricKind.COUNT),))


class Files(LocalFiles):
    """Data files on disk, of which none may be asked for by no name."""

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file that has a name."""
        assert path
        return super().open(path)

    def delete(self, path: str) -> None:
        """Delete a file that has a name."""
        assert path
        super().delete(path)


def emptied(folder: Path, service: MemoryService, rollup: Rollup | None = None) -> TableContext:
    """Two hours of three segments; all rows of the first hour are deleted."""
    uri = str(folder / "table")
    Table.create(uri, schema=SCHEMA, time_column="at", granularity="hour", kind=rollup)
    made = open_context(uri, author="first")
    client = MemoryCoordinator(made.clock, service)
    ports = replace(made, files=Files(uri), optional_coordinator=client)
    for turn in range(3):
        Table(ports).append(rows(turn))
    Table(ports).delete("row < 100")
    return ports


def asked(ports: TableContext, kind: str) -> list[str]:
    wish = {"interval": DAY} if kind == "major" else {}
    return [one.plan.id for one in request(ports, kind, **wish)]


def compacted(ports: TableContext, kind: str) -> None:
    results = compact(ports, asked(ports, kind), in_process(ports.files))
    assert {
        (one.ended, one.message) for one in results if one.ended is not Ended.COMPLETED
    } == set()


@pytest.mark.parametrize(
    ("first", "rollup"), [*((kind, None) for kind in KINDS), (KINDS[0], ROLLUP)]
)
def test_emptied_groups_are_compacted_again(
    tmp_path: Path, service: MemoryService, first: str, rollup: Rollup | None
) -> None:
    """By each kind after each, with rows beside them, and everything else looks at them too."""
    ports = emptied(tmp_path, service, rollup)
    compacted(ports, first)
    for turn, kind in enumerate(KINDS, 3):
        Table(ports).append(rows(turn))
        compacted(ports, kind)
        Table(ports).delete("row < 100")
    assert contents(ports) == [100, 101, 102, 103, 104, 105]
    assert verify(ports, deep=True, all_versions=True).findings == ()
    assert not [each for each in examine(ports).findings if each.code == "unlisted"]
    clean(ports, retention=Retention(hours=0, versions=1, orphan_hours=0))
    assert plan_repair(ports).event is None
    assert list(violations(Table(ports).state())) == []


@pytest.mark.parametrize("kind", ["minor", "semi-major"])
def test_an_emptied_group_that_is_not_committed_ends_as_any_other(
    tmp_path: Path, service: MemoryService, kind: str
) -> None:
    """Aborted meanwhile, it is overtaken: it has no file to take back, and looks for none."""
    ports = emptied(tmp_path, service)
    plans = asked(ports, kind)

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        done = list(in_process(ports.files)(jobs))
        for plan in plans:
            state = Table(ports).state()
            abort = PlanAborted(
                plan_id=plan, attempt=state.plans[plan].attempt, reason="by its operator"
            )
            commit_or_raise(ports, state, Change(action=abort, commit_id=f"abort-{plan}"))
        yield from done

    results = compact(ports, plans, execute)
    assert [each.ended for each in results] == [Ended.OVERTAKEN] * len(plans), results
    assert contents(ports) == [100, 101, 102]

"""Carrying out plans: every way it can end, and what is left behind."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families import plan_events
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted, PlanCompleted
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import ALL_TIME, Granularity
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.operators.plans_operator import complete_report, outstanding
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done, in_process, run_one
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact, ending
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.builders import created
from tests.unit.services.conftest import HOUR_US, contents, rows
from tests.unit.table.conftest import SCHEMA, new_table

KEYED = PrimaryKey(key=("row",), buckets=2)
ROWS = [0, 1, 2, 3, 100, 101, 102, 103]


def planned(ports: TableContext) -> list[str]:
    return [launch.plan_id for launch in plan_table(ports).launches]


def endings(results: Sequence[PlanResult]) -> list[Ended]:
    return [result.ended for result in results]


def test_plans_are_completed_in_one_call(ports: TableContext) -> None:
    """Two chunks become one segment each, rows unchanged, books balanced, locks gone."""
    results = compact(ports, planned(ports), in_process(ports.files))
    assert endings(results) == [Ended.COMPLETED] * 2
    assert [(r.segments_in, r.segments_out, r.rows) for r in results] == [(4, 1, 4)] * 2
    assert len(Table(ports).snapshot().segments()) == 2
    assert contents(ports) == ROWS
    assert list(violations(Table(ports).state())) == []
    assert ports.coordinator.locks("t") == ()


def test_second_run_finds_it_done(ports: TableContext) -> None:
    """Run twice, a plan commits once; the second run says by whom and where."""
    plans = planned(ports)
    compact(ports, plans, in_process(ports.files))
    version = Table(ports).state().n
    results = compact(ports, plans, in_process(ports.files))
    assert endings(results) == [Ended.DONE_ALREADY] * 2
    assert "completed by first" in results[0].message
    assert Table(ports).state().n == version


def test_forgotten_plan_is_found_in_the_log(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was delayed past all remembered plans still learns how its plan ended."""
    monkeypatch.setattr(plan_events, "FINISHED_PLANS_KEPT", 0)
    plans = planned(ports)
    compact(ports, plans, in_process(ports.files))
    results = compact(ports, plans, in_process(ports.files))
    assert endings(results) == [Ended.DONE_ALREADY] * 2
    assert "ended long ago" in results[0].message


def test_operators_and_the_service_agree_on_a_forgotten_plan(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retried task finds a plan done, also one older than all that the state remembers."""
    monkeypatch.setattr(plan_events, "FINISHED_PLANS_KEPT", 0)
    plans = planned(ports)
    compact(ports, plans, in_process(ports.files))
    found = outstanding(ports, plans, wait_s=0)
    assert found.todo == ()
    assert list(found.settled) == list(compact(ports, plans, in_process(ports.files)))
    assert list(complete_report(ports, plans, (), "no report")) == list(found.settled)


def test_the_newest_end_of_a_plan_counts() -> None:
    """A plan that was aborted, and completed later, is done, though both are forgotten."""
    aborted = PlanAborted(plan_id="p", attempt=None, reason="its workers died")
    done = PlanCompleted(plan_id="p", attempt="a", segments=())
    events = [
        Event(n=n, time=n, commit=f"c{n}", author="a", action=action)
        for n, action in enumerate((aborted, done), start=1)
    ]
    over = ending("p", created(), events)
    assert over is not None
    assert (over.ended, "event 2" in over.message) == (Ended.DONE_ALREADY, True)


def test_unknown_plan_fails_by_name(ports: TableContext) -> None:
    """A plan that was never in the log is a mistake, and says how to find the right one."""
    (result,) = compact(ports, ["minor-x"], in_process(ports.files))
    assert result.ended is Ended.FAILED
    assert "no plan minor-x: `segtable plan` lists" in result.message


def test_second_worker_ends_while_the_first_works(ports: TableContext, other: TableContext) -> None:
    """Of two workers on one plan the second says who has it, and changes nothing."""
    plans = planned(ports)
    seen: list[PlanResult] = []

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        seen.extend(compact(other, plans, in_process(other.files)))
        yield from in_process(ports.files)(jobs)

    results = compact(ports, plans, execute)
    assert endings(results) == [Ended.COMPLETED] * 2
    assert endings(seen) == [Ended.RUNNING_ELSEWHERE] * 2
    assert "first" in seen[0].message


def test_one_failure_does_not_stop_the_others(ports: TableContext) -> None:
    """A kernel that dies costs its own plan only, which stays pending for the next run."""
    plans = planned(ports)

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        yield Done(index=0, error="CorruptTable: a.parquet is torn")
        yield run_one(1, jobs[1], ports.files)

    results = compact(ports, plans, execute)
    assert endings(results) == [Ended.FAILED, Ended.COMPLETED]
    assert "torn" in results[0].message
    assert [p.plan.id for p in Table(ports).state().pending_plans()] == [plans[0]]
    assert endings(compact(ports, plans[:1], in_process(ports.files))) == [Ended.COMPLETED]
    assert contents(ports) == ROWS


def test_job_without_a_result_is_a_failure(ports: TableContext) -> None:
    """An engine that swallows a job is noticed."""
    results = compact(ports, planned(ports), lambda _: iter(()))
    assert endings(results) == [Ended.FAILED] * 2
    assert "without a result" in results[0].message


def test_lost_session_stops_the_commit(ports: TableContext, service: MemoryService) -> None:
    """Whoever loses the lock while working commits nothing and removes its files."""
    plans = planned(ports)
    before = set(ports.files.store)  # type: ignore[attr-defined]

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        done = list(in_process(ports.files)(jobs))
        client = ports.coordinator
        assert isinstance(client, MemoryCoordinator)
        service.expire(client.session)
        yield from done

    results = compact(ports, plans, execute)
    assert endings(results) == [Ended.FAILED] * 2
    assert "coordination:" in results[0].message
    assert set(ports.files.store) == before  # type: ignore[attr-defined]
    assert endings(compact(ports, plans, in_process(ports.files))) == [Ended.COMPLETED] * 2


def test_superseded_worker_is_overtaken(
    ports: TableContext, other: TableContext, service: MemoryService
) -> None:
    """A worker that never heard of its lost session is refused by the log itself."""
    plans = planned(ports)[:1]

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        done = list(in_process(ports.files)(jobs))
        client = ports.coordinator
        assert isinstance(client, MemoryCoordinator)
        service.expire(client.session, notice=False)
        assert endings(compact(other, plans, in_process(other.files))) == [Ended.COMPLETED]
        yield from done

    (result,) = compact(ports, plans, execute)
    assert result.ended in (Ended.OVERTAKEN, Ended.FAILED)
    assert "second" in result.message or "lock" in result.message
    assert contents(ports) == ROWS


def test_appends_during_a_compaction_stay(ports: TableContext, other: TableContext) -> None:
    """What is appended while the kernel runs is visible before and after the commit."""
    plans = planned(ports)

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        Table(other).append(rows(4))
        yield from in_process(ports.files)(jobs)

    assert endings(compact(ports, plans, execute)) == [Ended.COMPLETED] * 2
    assert contents(ports) == sorted([*ROWS, 4, 104])
    log = EventLog(ports.storage)
    assert [sum(s.rows for s in log.at(n).timeline.visible_segments()) for n in (4, 6)] == [8, 8]


@pytest.mark.parametrize(
    ("cuts", "end", "carried"),
    [
        (["day"], Ended.COMPLETED, 2),
        (["day", "month"], Ended.COMPLETED, 1),
        (["day", "hour"], Ended.YIELDED, 0),
    ],
    ids=["hours to a day", "a day to a month", "a day to hours"],
)
def test_only_a_compaction_that_cuts_time_finer_keeps_appends_out(
    ports: TableContext, other: TableContext, cuts: list[str], end: Ended, carried: int
) -> None:
    """An append beside a coarsening compaction is carried over; a refining one yields to it."""
    for cut in cuts[:-1]:
        (asked,) = request(ports, "major", granularity=cut)
        compact(ports, [asked.plan.id], in_process(ports.files))
    late = [rows(4)]

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        while late:
            Table(other).append(late.pop())
        yield from in_process(ports.files)(jobs)

    (asked,) = request(ports, "major", granularity=cuts[-1])
    assert endings(compact(ports, [asked.plan.id], execute)) == [end]
    assert contents(ports) == sorted([*ROWS, 4, 104])
    state = Table(ports).state()
    assert state.plans[asked.plan.id].yields == (end is Ended.YIELDED)
    visible = state.timeline.visible_segments()
    assert sum(s.file_id.chunk != s.id.chunk for s in visible) == carried
    assert list(violations(state)) == []


def test_wrong_clock_is_refused(ports: TableContext) -> None:
    """A worker whose clock is far from the coordinator's does not begin."""
    plans = planned(ports)
    client = ports.coordinator
    assert isinstance(client, MemoryCoordinator)
    skewed = _hour_ahead(ports)
    results = compact(skewed, plans, in_process(ports.files))
    assert endings(results) == [Ended.FAILED] * 2
    assert "clock of first is +3600.0 s off" in results[0].message
    assert ports.coordinator.locks("t") == ()


def _hour_ahead(ports: TableContext) -> TableContext:
    from dataclasses import replace

    from tests.support.clock import FakeClock

    return replace(ports, clock=FakeClock(ports.clock.now() + HOUR_US))


@pytest.mark.parametrize("kind", [Append(), Rollup(dimensions=("row", "name", "price")), KEYED])
def test_a_major_compaction_to_hours_walks_no_hours_without_rows(kind: TableKind) -> None:
    """Ten rows between the first and the last year are ten chunks, found by reading their times."""
    step = (ALL_TIME.end - 1 - ALL_TIME.start) // 9
    empty = new_table(MemoryService())
    definition = replace(empty.state().table, granularity=Granularity.ALL)
    storage = MemoryStorage(clock=empty.ports.clock)
    ports = replace(empty.ports, storage=storage, files=MemoryFiles())
    table = create_table(ports, of_kind(definition, kind))
    times = [ALL_TIME.start + number * step for number in range(10)]
    given = [{"at": at, "row": at, "name": "a", "price": 1.0} for at in times]
    write = table.upsert if kind is KEYED else table.append
    write(pa.Table.from_pylist(given, SCHEMA))
    (known,) = request(ports, "major", granularity="hour")
    ran: list[str] = []

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        ran.extend(job.title for job in jobs)
        return in_process(ports.files)(jobs)

    (result,) = compact(ports, [known.plan.id], execute)
    assert result.ended is Ended.COMPLETED
    assert "-> about 10 in a new version" in result.message
    assert sum(title.startswith("find time chunks") for title in ran) == (2 if kind is KEYED else 1)
    chunks = {s.id.interval for s in table.state().timeline.visible_segments() if s.rows}
    assert chunks == {Granularity.HOUR.chunk(at) for at in times}
    read = table.scan().to_arrow().column("at").cast(pa.int64())
    assert sorted(read.to_pylist()) == times

"""Index plans: requested, run in pieces, paused, taken over, and left alone by everything else."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from airflow_provider_segtable.core import catch_up
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import FILE, FileList
from airflow_provider_segtable.core.indexes.index_state import IndexState, IndexStatus
from airflow_provider_segtable.core.log.events import decode, encode
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.services import indexing
from airflow_provider_segtable.services.attempt import Done, Execute, Job, in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.index_run import IndexRun, run_index
from airflow_provider_segtable.services.indexing import requested_plan
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import drop_index, rebuild_index, request_index
from airflow_provider_segtable.table.indexes import feeding
from airflow_provider_segtable.table.indexes.index_entries import entries_in, write_feed
from airflow_provider_segtable.table.table import Table
from tests.unit.services.conftest import rows


@pytest.fixture(autouse=True)
def _sound(ports: TableContext) -> Iterator[None]:
    yield
    assert list(violations(Table(ports).state())) == []


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is one time chunk, of the two that the table has."""
    monkeypatch.setattr(catch_up.next_piece, "__defaults__", (1,))


def index_of(ports: TableContext) -> IndexState:
    return Table(ports).state().indexes["files"]


def listed(ports: TableContext) -> list[str]:
    """Return the files that the index knows, in order."""
    return sorted(entries_in(ports, index_of(ports)).column(FILE).to_pylist())


def visible(ports: TableContext) -> list[str]:
    return sorted(segment.path for segment in Table(ports).snapshot().segments())


def run(ports: TableContext, execute: Execute | None = None, **how: float) -> IndexRun:
    return run_index(ports, "files", execute or in_process(ports.files), **how)


def meanwhile(ports: TableContext, work: list) -> Execute:  # type: ignore[type-arg]
    """Return an execute that does some work before the first jobs."""

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        while work:
            work.pop()()
        return in_process(ports.files)(jobs)

    return execute


def test_a_run_builds_what_was_there_before(ports: TableContext) -> None:
    """Piece by piece, each an event; then the index is available, and its plan is completed."""
    request_index(ports, "files", FileList())
    done = run(ports)
    assert (done.ended, done.pieces, done.files, done.left) == (Ended.COMPLETED, 2, 8, 0)
    assert listed(ports) == visible(ports)
    assert index_of(ports).status is IndexStatus.AVAILABLE
    (plan,) = Table(ports).state().plans.values()
    assert (plan.status, plan.outputs, plan.plan.inputs) == (PlanStatus.COMPLETED, (), ())
    again = run(ports)
    assert (again.ended, again.pieces) == (Ended.DONE_ALREADY, 0)


def test_a_plan_is_the_same_in_the_log(ports: TableContext) -> None:
    """Its event can be read again, with the time that it leaves apart."""
    request_index(ports, "files", FileList())
    known = requested_plan(ports, "files")
    assert known
    event = ports.log.event(known.last_n)
    assert event
    assert isinstance(event.action, PlanRequested)
    apart = replace(event.action.plan, apart=(known.plan.interval,))
    changed = replace(event, action=PlanRequested(plan=apart))
    assert decode(encode(event), "here") == event
    assert decode(encode(changed), "here") == changed


def test_equal_requests_are_one_plan(ports: TableContext, other: TableContext) -> None:
    """Whoever asks; what the index lacks later is another plan."""
    request_index(ports, "files", FileList())
    first, second = requested_plan(ports, "files"), requested_plan(other, "files")
    assert first
    assert second
    assert first.plan.id == second.plan.id
    run(ports)
    assert requested_plan(ports, "files") is None


def test_a_timeout_is_a_pause(ports: TableContext, other: TableContext) -> None:
    """What is built stays; the next run of the same plan builds the rest, and nothing twice."""
    request_index(ports, "files", FileList())
    paused = run(ports, timeout_s=0)
    assert (paused.ended, paused.pieces, paused.files, paused.left) == (Ended.YIELDED, 1, 4, 1)
    assert paused.message == "paused after 0 s: 1 time chunk of the index left"
    assert len(listed(ports)) == 4
    (plan,) = Table(ports).state().pending_plans()
    assert (plan.yields, plan.note) == (1, paused.message)
    rest = run(other)
    assert (rest.ended, rest.pieces, rest.files, rest.left) == (Ended.COMPLETED, 1, 4, 0)
    assert rest.plans == paused.plans
    assert listed(ports) == visible(ports)


def test_a_second_worker_leaves_the_plan_to_the_first(
    ports: TableContext, other: TableContext
) -> None:
    """As long as it lives: the lock of the plan keeps others away, and nobody else."""
    request_index(ports, "files", FileList())
    seen: list[IndexRun] = []
    work = [lambda: Table(other).append(rows(9)), lambda: seen.append(run(other))]
    assert run(ports, meanwhile(ports, work)).ended is Ended.COMPLETED
    assert [each.ended for each in seen] == [Ended.RUNNING_ELSEWHERE]
    assert listed(ports) == visible(ports)


def test_a_plan_is_taken_over_from_a_dead_worker(ports: TableContext, other: TableContext) -> None:
    """The log refuses the pieces of the worker whose lock was lost, and what it built counts."""
    request_index(ports, "files", FileList())
    taken: list[IndexRun] = []

    def lost() -> None:
        ports.coordinator.close()
        taken.append(run(other))

    late = run(ports, meanwhile(ports, [lost]))
    assert taken[0].ended is Ended.COMPLETED
    assert late.ended is Ended.FAILED
    assert late.pieces == 0
    assert listed(other) == visible(other)


def test_a_writer_that_feeds_nothing_is_caught_up_with(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are lacking from its commit on, and are built in the same run."""
    request_index(ports, "files", FileList())
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)
    done = run(ports, meanwhile(ports, [lambda: Table(ports).append(rows(9))]))
    assert (done.ended, done.left) == (Ended.COMPLETED, 0)
    assert listed(ports) == visible(ports)


def test_a_large_time_chunk_is_built_by_several_events(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries need not fit into memory at once; a pause in the midst of it loses nothing."""
    request_index(ports, "files", FileList())
    monkeypatch.setattr(indexing, "EVENT_BYTES", 1)
    paused = run(ports, timeout_s=0)
    assert (paused.ended, paused.pieces, paused.files, paused.left) == (Ended.YIELDED, 1, 1, 2)
    rest = run(ports)
    assert (rest.ended, rest.pieces, rest.files, rest.left) == (Ended.COMPLETED, 7, 7, 0)
    assert listed(ports) == visible(ports)


def test_files_with_entries_are_not_indexed_again(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build reads which files are known; only the others become jobs."""
    request_index(ports, "files", FileList())
    run(ports)
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)
    Table(ports).append(rows(9))
    done = run(ports)
    assert (done.pieces, done.files) == (2, 2)


def test_entries_of_files_that_are_gone_are_deleted(
    ports: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the next build of their time."""
    request_index(ports, "files", FileList())
    run(ports)
    state, index = Table(ports).state(), index_of(ports)
    (first, *_) = Table(ports).snapshot().segments()
    gone = [replace(first, path="data/gone.parquet")]
    feed = write_feed(
        ports, index.definition, entries(index.definition, state.table, gone, ports.files)
    )
    built = IndexBuilt(index=index.definition.id, interval=first.id.interval, through=0)
    commit_or_raise(ports, state, Change(action=built, commit_id="gone", feeds=(feed,)))
    assert "data/gone.parquet" in listed(ports)
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)
    Table(ports).append(rows(9))
    run(ports)
    assert listed(ports) == visible(ports)


@pytest.mark.parametrize("end", [drop_index, rebuild_index])
def test_an_index_that_ends_meanwhile_ends_its_build(ports: TableContext, end: object) -> None:
    """The log refuses the piece; the plan ends with the index, and says why."""
    request_index(ports, "files", FileList())
    done = run(ports, meanwhile(ports, [lambda: end(ports, "files")]))  # type: ignore[operator]
    assert done.ended is Ended.OVERTAKEN
    (plan,) = Table(ports).state().plans
    (result,) = compact(ports, [plan], in_process(ports.files))
    assert (result.ended, result.message.count("dropped or rebuilt")) == (Ended.OVERTAKEN, 1)
    assert Table(ports).state().plans[plan].status is PlanStatus.ABORTED
    built = [e for e in ports.log.events(0) if isinstance(e.action, IndexBuilt)]
    assert not built


def test_a_run_of_no_index_is_refused(ports: TableContext) -> None:
    """The message names the indexes that are there."""
    with pytest.raises(InvalidInput, match="its indexes are none"):
        run(ports)

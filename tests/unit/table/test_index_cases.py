"""The cases of Hudi's RFC-45, "Asynchronous Metadata Indexing", as interleavings of real code.

After each of them every file that readers see has its entry, or the log says that it is lacking.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.catch_up import next_piece
from airflow_provider_segtable.core.errors import CommitConflict, InvalidInput, SegtableError
from airflow_provider_segtable.core.indexes.index_kind import FILE, FileList
from airflow_provider_segtable.core.indexes.index_state import INDEXES, IndexState, IndexStatus
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services import indexing
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.index_run import IndexRun, run_index
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes.index_entries import entries_in
from airflow_provider_segtable.table.table import Table
from tests.simulation.indexes.index_actors import build_piece
from tests.unit.table.conftest import numbers, rows
from tests.unit.table.interleaving import Killed, before_event, die

NAME = "files"
NOTHING = Retention(hours=0, versions=1, orphan_hours=0)


def requested(ports: TableContext) -> None:
    """Ask for the index."""
    request_index(ports, NAME, FileList())


def built(ports: TableContext) -> IndexRun:
    """Build all that the index lacks."""
    return run_index(ports, NAME, in_process(ports.files))


def before_build(ports: TableContext, deed: Callable[[], object]) -> TableContext:
    """Return ports of an indexer that has read its version and made the entries, not the event."""
    return before_event(ports, deed, word="IndexBuilt")


def state_of(ports: TableContext) -> IndexState:
    """Return the index as of the newest version."""
    return ports.log.load().indexes[NAME]


def append(ports: TableContext, turn: int) -> int:
    """Append rows of a turn, under a commit id of its own; return the event."""
    first = 100 + turn * 20
    return Table(ports).append(rows(range(first, first + 20)), commit_id=f"dc-{turn}").n


def compacted(ports: TableContext) -> None:
    """Sort all chunks."""
    plans = [each.plan.id for each in request(ports, SemiMajorPlan.kind)]
    compact(ports, plans, in_process(ports.files))


def check(table: Table) -> None:
    """Check that the index lacks nothing, and knows each visible file once."""
    index = state_of(table.ports)
    listed = entries_in(table.ports, index).column(FILE).to_pylist()
    visible = {segment.path for segment in table.snapshot().segments() if segment.path}
    assert index.current
    assert index.status is IndexStatus.AVAILABLE
    assert len(listed) == len({*listed})
    assert visible <= {*listed}


def test_case_1_a_writer_fails_while_the_index_is_built(table: Table) -> None:
    """What it had not committed is in no version; its next attempt feeds the index."""
    requested(table.ports)

    def writer_dies() -> None:
        with pytest.raises(Killed):
            append(before_event(table.ports, die), 1)

    built(before_build(table.ports, writer_dies))
    check(table)
    n = append(table.ports, 1)
    check(table)
    assert state_of(table.ports).available_n == n - 2  # then the plan completed


def test_case_2_the_indexer_fails_while_a_writer_writes(table: Table) -> None:
    """The writer feeds the index, which is not available; another run goes on."""
    requested(table.ports)

    def indexer_dies() -> None:
        with pytest.raises(Killed):
            built(before_build(table.ports, die))

    append(before_event(table.ports, indexer_dies), 1)
    index = state_of(table.ports)
    assert index.status is IndexStatus.BUILDING
    assert index.lagging_commits == 0
    built(table.ports)
    check(table)


def test_case_3a_a_writer_begins_before_the_indexer_runs(table: Table) -> None:
    """It feeds the index although nothing of it was built; the indexer finds that, and goes on."""
    requested(table.ports)
    n = append(table.ports, 1)
    event = table.ports.log.event(n)
    assert event is not None
    assert [feed.index for feed in event.feeds] == [state_of(table.ports).definition.id]
    assert not state_of(table.ports).lagging_commits
    built(table.ports)
    check(table)


def test_case_3b_the_index_is_built_right_before_a_writer_commits(table: Table) -> None:
    """The commit that lost the race is made again, with its feed: nothing is lacking, ever."""
    requested(table.ports)
    n = append(before_event(table.ports, lambda: built(table.ports)), 1)
    assert state_of(table.ports).available_n == n - 2  # then the plan completed
    check(table)


def test_case_3b_a_writer_commits_right_before_the_index_is_built(table: Table) -> None:
    """The build is of the version that it read, and the writer's own event fed the rest."""
    requested(table.ports)
    built(before_build(table.ports, lambda: append(table.ports, 1)))
    (event,) = [e for e in table.ports.log.events(0) if isinstance(e.action, IndexBuilt)]
    assert isinstance(event.action, IndexBuilt)
    assert event.action.through == event.n - 2
    check(table)


def test_case_3c_a_writer_commits_while_the_index_is_requested(table: Table) -> None:
    """Before the request is in the log there is no index: it lacks what the writer published."""
    requested(before_event(table.ports, lambda: append(table.ports, 1)))
    head = table.state()
    assert [lack.n for lack in state_of(table.ports).lacks] == [head.n]
    built(table.ports)
    check(table)


def test_case_3c_an_index_is_requested_right_before_a_writer_commits(table: Table) -> None:
    """The writer, who had read the log before, reads the request, and feeds the index."""
    n = append(before_event(table.ports, lambda: requested(table.ports)), 1)
    event = table.ports.log.event(n)
    assert event is not None
    assert len(event.feeds) == 1
    assert state_of(table.ports).lagging_commits == 0
    built(table.ports)
    check(table)


def test_case_3c_half_an_index_is_never_fed(table: Table) -> None:
    """While the index's own table is being made, the log does not name it."""
    requested(before_event(table.ports, lambda: append(table.ports, 1), INDEXES))
    event = table.ports.log.event(table.state().n - 1)
    assert event is not None
    assert event.commit == "dc-1"
    assert not event.feeds
    built(table.ports)
    check(table)


def test_case_4_a_compaction_replaces_what_is_being_indexed(table: Table) -> None:
    """Its outputs are fed in its own event, and the entries of its inputs do no harm."""
    requested(table.ports)
    built(before_build(table.ports, lambda: compacted(table.ports)))
    check(table)
    assert numbers(table) == [*range(40)]


def test_case_4_cleaning_deletes_what_is_being_indexed(table: Table) -> None:
    """A run whose files were cleaned ends with an error, or goes on; the next one succeeds."""

    def cleaned() -> None:
        compacted(table.ports)
        clean(table.ports, retention=NOTHING)

    requested(table.ports)
    with suppress(SegtableError):
        built(before_event(table.ports, cleaned, INDEXES))
    built(table.ports)
    check(table)


def test_case_5_a_commit_in_flight_is_not_waited_for(table: Table) -> None:
    """Commits 1 to 8, of which 5 is in flight: the index is available without it.

    It has no place in the past. When it completes, after all others, it feeds the index itself.
    """

    def others() -> None:
        for turn in (6, 7, 8):
            append(table.ports, turn)
        requested(table.ports)
        built(table.ports)
        check(table)

    n = append(before_event(table.ports, others), 5)
    assert n == table.state().n
    check(table)


def test_case_5_cleaning_and_compaction_in_flight(table: Table) -> None:
    """DC1-3, CLEAN4 in flight, DC5-6, COMPACT7 requested, DC8, INDEXING9, DC10 in flight.

    The index is available before any of the three completes, and still after each.
    """
    plans: list[str] = []

    def index() -> None:
        requested(table.ports)
        append(before_event(table.ports, completed), 10)
        check(table)

    def completed() -> None:
        built(table.ports)
        check(table)

    def others() -> None:
        append(table.ports, 5)
        append(table.ports, 6)
        plans.extend(each.plan.id for each in request(table.ports, SemiMajorPlan.kind))
        append(table.ports, 8)
        index()

    for turn in (1, 2, 3):
        append(table.ports, turn)
    compacted(table.ports)
    table.ports.clock.sleep(1)
    clean(before_event(table.ports, others), retention=NOTHING)
    check(table)
    compact(table.ports, plans, in_process(table.ports.files))
    check(table)
    clean(table.ports, retention=NOTHING)
    check(table)


def test_a_run_that_timed_out_is_a_pause(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built stays, and the next run builds the rest, nothing twice."""
    monkeypatch.setattr(indexing, "next_piece", partial(next_piece, most=1))
    requested(table.ports)
    paused = run_index(table.ports, NAME, in_process(table.ports.files), timeout_s=0.0)
    assert (paused.pieces, paused.left) == (1, 1)
    assert state_of(table.ports).status is IndexStatus.BUILDING
    assert built(table.ports).pieces == 1
    check(table)
    actions = [event.action for event in table.ports.log.events(0)]
    first, second = [each.interval for each in actions if isinstance(each, IndexBuilt)]
    assert not first.overlaps(second)


def test_a_second_indexer_leaves_the_plan_to_the_first(
    table: Table, service: MemoryService
) -> None:
    """It is told that the plan runs elsewhere, and does nothing."""
    runs: list[IndexRun] = []
    requested(table.ports)
    rival = of_another_session(table, service)
    runs.append(built(before_build(table.ports, lambda: runs.append(built(rival)))))
    assert [run.ended for run in runs] == [Ended.RUNNING_ELSEWHERE, Ended.COMPLETED]
    check(table)


def test_an_indexer_that_lost_its_lock_is_overtaken(table: Table, service: MemoryService) -> None:
    """Whoever takes the plan over completes it; the first one's piece is refused by the log."""
    first, rival = of_another_session(table, service), of_another_session(table, service)
    assert isinstance(first.optional_coordinator, MemoryCoordinator)
    session = first.optional_coordinator.session

    def takes_over() -> None:
        service.expire(session, notice=False)
        assert built(rival).ended is Ended.COMPLETED

    requested(table.ports)
    assert built(before_build(first, takes_over)).ended is not Ended.COMPLETED
    assert sum(isinstance(e.action, IndexBuilt) for e in table.ports.log.events(0)) == 1
    check(table)


def test_two_builds_without_a_plan_do_work_twice_and_nothing_wrong(table: Table) -> None:
    """The one that comes late commits the same entries under the same keys."""
    requested(table.ports)
    build_piece(before_build(table.ports, lambda: build_piece(table.ports, NAME, 99)), NAME, 99)
    check(table)
    assert len(entries_in(table.ports, state_of(table.ports))) == len(table.snapshot().segments())


def of_another_session(table: Table, service: MemoryService) -> TableContext:
    """Return ports of a process with a session of its own."""
    client = MemoryCoordinator(table.ports.clock, service)
    return replace(table.ports, optional_coordinator=client)


def test_an_index_that_is_requested_twice_is_there_once(table: Table) -> None:
    """The second request is refused, and leaves no file; the same request again is no request."""

    def rival() -> None:
        request_index(table.ports, NAME, FileList(), commit_id="ours")

    with pytest.raises(CommitConflict, match="is requested already"):
        requested(before_event(table.ports, rival))
    index = state_of(table.ports).definition
    kept = {entry.path.split("/")[2] for entry in table.ports.storage.list(INDEXES)}
    assert kept == {index.id}
    n = table.state().n
    rival()
    assert table.state().n == n
    with pytest.raises(InvalidInput, match="already"):
        requested(table.ports)
    built(table.ports)
    check(table)

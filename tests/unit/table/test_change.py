"""The loop of a change: beside compactions, appends and other changes, over failing storage."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import (
    ChangeConflict,
    CommitUnknown,
    CoordinatorUnavailable,
    LockLost,
    OutcomeUnknown,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.core.locks import FencingToken, LockRequest
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import ChangeKind, Delete
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import HOUR_US, Granularity, Interval
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.coordination import Coordinator, Lease
from airflow_provider_segtable.ports.files import DataFiles, Sink
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.append import PROMPT_S, AppendTicket, Write, incoming
from airflow_provider_segtable.table.changes.arrow_engine import ArrowEngine
from airflow_provider_segtable.table.changes.row_change import Found, change
from airflow_provider_segtable.table.changes.run_change import find_rows
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import files, numbers, rows

Strike = Callable[[str, bytes], None]


@dataclass(slots=True)
class Trap:
    """A storage whose next creates of events go wrong, one by one."""

    inner: Storage
    strikes: list[Strike] = field(default_factory=list)

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self.inner.uri

    def create(self, path: str, data: bytes) -> None:
        """Spring the next trap, or create."""
        if self.strikes:
            self.strikes.pop(0)(path, data)
        else:
            self.inner.create(path, data)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def trapped(table: Table, *strikes: Strike) -> Table:
    """Return the table over a storage with traps."""
    storage = Trap(table.ports.storage, list(strikes))
    return Table(replace(table.ports, storage=storage))  # type: ignore[arg-type]


def rival(act: Callable[[], object], storage: Storage) -> Strike:
    """Somebody acts right before our put, which then fails, for the number is taken."""

    def strike(path: str, data: bytes) -> None:
        act()
        storage.create(path, data)

    return strike


def lost(storage: Storage, *, landed: bool) -> Strike:
    """The reply to our put is lost; it landed or did not."""

    def strike(path: str, data: bytes) -> None:
        if landed:
            storage.create(path, data)
        raise OutcomeUnknown("injected")

    return strike


def beside(table: Table, *acts: Callable[[], object]) -> Table:
    """Return the table where others act before each of our first puts."""
    return trapped(table, *(rival(act, table.ports.storage) for act in acts))


def price(table: Table, number: int) -> list[float]:
    found = table.snapshot().to_arrow().filter(pc.field("row") == number)
    return found.column("price").to_pylist()


def in_use(table: Table) -> set[str]:
    """Return the files that the log names."""
    state = table.state()
    vectors = {each.path for some in state.vectors.values() for each in some}
    return vectors | {segment.path for segment in state.timeline.segments() if segment.path}


def test_deletes_of_other_rows_go_side_by_side(table: Table, other: Table) -> None:
    """Two deletes of different rows of the same files both count, found once each."""
    done = beside(table, lambda: other.delete("row < 4")).delete("row >= 4 AND row < 8")
    assert (done.matched, done.deleted) == (4, 4)
    assert numbers(table) == list(range(8, 40))
    assert files(table) == in_use(table)


def test_rows_that_another_delete_took_are_left_out(table: Table, other: Table) -> None:
    """Two deletes of overlapping rows both count, and no row is deleted twice."""
    done = beside(table, lambda: other.delete("row < 10")).delete("row < 15")
    assert (done.matched, done.deleted) == (15, 5)
    assert numbers(table) == list(range(15, 40))
    assert sum(each.rows for some in table.state().vectors.values() for each in some) == 15
    assert files(table) == in_use(table)


def test_a_delete_that_others_did_is_no_event(table: Table, other: Table) -> None:
    """If others deleted all its rows first, a delete leaves nothing behind."""
    done = beside(table, lambda: other.delete("row < 10")).delete("row < 10")
    assert (done.n, done.matched, done.deleted) == (None, 10, 0)
    assert table.state().n == 5
    assert files(table) == in_use(table)


def test_the_later_of_two_updates_sees_the_first(table: Table, other: Table) -> None:
    """Two updates of one row both count: the later one is found anew."""

    def more(by: Table) -> Callable[[], object]:
        return lambda: by.update({"price": pc.field("price") + 1}, "row = 7")

    done = beside(table, more(other)).update({"price": pc.field("price") * 10}, "row = 7")
    assert (done.matched, done.deleted, done.inserted) == (1, 1, 1)
    assert price(table, 7) == [45.0]
    assert files(table) == in_use(table)


def test_updates_of_other_rows_are_not_found_anew(table: Table, other: Table) -> None:
    """An update beside one of other rows in the same files is put again as it is."""
    one = beside(table, lambda: other.update({"price": 0.0}, "row = 9"))
    written = len(files(table))
    one.update({"price": 1.0}, "row = 7")
    assert (price(table, 9), price(table, 7)) == ([0.0], [1.0])
    assert len(files(table)) == written + 4
    assert files(table) == in_use(table)


def test_a_delete_follows_a_row_that_was_updated(table: Table, other: Table) -> None:
    """A delete that an update overtook deletes the row as it is then, if it still matches."""
    done = beside(table, lambda: other.update({"price": -1.0}, "row < 2")).delete("row = 1")
    assert done.deleted == 1
    assert numbers(table) == [0, *range(2, 40)]
    done = beside(table, lambda: other.update({"price": -9.0}, "row = 5")).delete("price = 2.5")
    assert (done.n, done.matched) == (None, 0)
    assert price(table, 5) == [-9.0]


def test_an_update_lets_a_deleted_row_go(table: Table, other: Table) -> None:
    """An update that a delete overtook does not bring rows back."""
    done = beside(table, lambda: other.delete("row = 7")).update({"price": 1.0}, "row < 8")
    assert (done.matched, done.deleted, done.inserted) == (7, 7, 7)
    assert 7 not in numbers(table)
    assert files(table) == in_use(table)


def test_who_is_overtaken_too_often_is_told_by_whom(table: Table, other: Table) -> None:
    """After a bounded number of tries a conflict names the event that won; no file stays."""

    def act() -> object:
        return other.update({"price": pc.field("price") + 1}, "row = 7")

    with pytest.raises(ChangeConflict, match=r"overtaken 5 times: .* \(event 9 won\)"):
        beside(table, *[act] * 9).update({"price": 0.0}, "row = 7")
    assert price(table, 7) == [8.5]
    assert files(table) == in_use(table)


def test_appends_are_no_reason_to_look_again(table: Table, other: Table) -> None:
    """What was appended since the snapshot is not seen, and costs one more put."""
    act = beside(table, lambda: other.append(rows(range(100, 103))))
    assert act.delete("row < 5 OR row = 101").deleted == 5
    assert 101 in numbers(table)


def test_an_update_without_a_coordinator_is_refused(table: Table) -> None:
    """What comes needs ids, so an update without ZooKeeper says how to get one."""
    with pytest.raises(CoordinatorUnavailable, match="needs ZooKeeper"):
        Table(replace(table.ports, optional_coordinator=None)).update({"price": 1.0}, "row = 1")


def test_a_lost_session_ends_an_update(table: Table, service: MemoryService) -> None:
    """If the session is lost while the update writes, nothing is committed, and no file stays."""
    before = files(table)
    coordinator = table.ports.coordinator

    def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
        counts, write = incoming(table.ports, rows(range(1, 2)), state)(state)

        def losing(ticket: AppendTicket) -> Sequence[Segment]:
            made = write(ticket)
            service.expire(coordinator.session)  # type: ignore[attr-defined]
            return made

        return counts, losing

    def find(snapshot: Snapshot) -> Found:
        found = find_rows(Delete(where="row = 1"), ArrowEngine(), snapshot)
        return replace(found, prepare=prepare)

    with pytest.raises(LockLost):
        change(table.ports, find, kind=ChangeKind.UPDATE, reason="", commit_id="mine")
    assert table.state().n == 4
    assert files(table) == before


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_reply_is_looked_up(table: Table, landed: bool) -> None:  # noqa: FBT001
    """After a lost reply the change is in the log once, whether the put had landed or not."""
    act = trapped(table, lost(table.ports.storage, landed=landed))
    done = act.update({"price": 1.0}, "row < 3", commit_id="mine")
    assert (done.n, done.deleted, done.inserted) == (5, 3, 3)
    assert table.state().n == 5
    assert files(table) == in_use(table)


def test_an_unknown_outcome_keeps_all_files(table: Table) -> None:
    """While a put may land yet, no file is deleted; the same commit id ends it later."""
    storage = table.ports.storage
    act = trapped(table, *[lost(storage, landed=False)] * 1000)
    with pytest.raises(CommitUnknown, match="'mine'"):
        act.update({"price": 1.0}, "row < 3", commit_id="mine")
    assert len(files(table) - in_use(table)) == 3
    assert table.update({"price": 1.0}, "row < 3", commit_id="mine").deleted == 3
    assert numbers(table) == list(range(40))


def test_a_late_put_of_an_earlier_run_is_told_as_it_was(table: Table) -> None:
    """If the earlier run's event lands while the same is run again, its rows are reported."""
    storage = table.ports.storage
    late: list[tuple[str, bytes]] = []

    def strike(path: str, data: bytes) -> None:
        late.append((path, data))
        raise OutcomeUnknown("injected")

    with pytest.raises(CommitUnknown):
        trapped(table, strike, *[lost(storage, landed=False)] * 1000).delete(
            "row < 3", commit_id="mine"
        )
    again = trapped(table, rival(lambda: storage.create(*late[0]), storage))
    done = again.delete("row < 30", commit_id="mine")
    assert (done.n, done.matched, done.deleted) == (5, 3, 3)
    assert numbers(table) == list(range(3, 40))


def test_a_certain_failure_leaves_no_file(table: Table) -> None:
    """If the storage refuses the event for certain, vectors and new segments are deleted."""
    before = files(table)

    def full(path: str, _: bytes) -> None:
        raise StorageFull(path)

    with pytest.raises(StorageError):
        trapped(table, full).update({"price": 1.0}, "row < 3")
    assert files(table) == before


def test_an_interrupted_put_keeps_all_files(table: Table) -> None:
    """Whoever is interrupted in a put that landed has not destroyed what the event names."""
    storage = table.ports.storage

    def strike(path: str, data: bytes) -> None:
        storage.create(path, data)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trapped(table, strike).update({"price": 1.0}, "row < 3", commit_id="mine")
    assert price(table, 2) == [1.0]
    assert table.update({"price": 1.0}, "row < 3", commit_id="mine").n == 5


def test_an_update_commits_once(table: Table) -> None:
    """Run again under its commit id, an update tells what it did, and writes nothing."""
    first = table.update({"price": pc.field("price") + 1}, "row < 3", commit_id="mine")
    reader = Table(replace(table.ports, optional_coordinator=None))
    again = reader.update({"price": pc.field("price") + 1}, "row < 3", commit_id="mine")
    assert files(table) == in_use(table)
    assert (again.n, again.deleted, again.inserted) == (first.n, 3, 3)
    assert price(table, 2) == [2.0]


def recut(table: Table, granularity: Granularity) -> None:
    """Carry out a major compaction of both hours without inputs: every segment is carried over."""
    region = Interval(0, 24 * HOUR_US)
    plan = MajorPlan(
        id=f"recut-{table.state().n}",
        chunk=ChunkKey(region, table.state().base_version),
        inputs=(),
        outputs=1,
        rows=0,
        size=0,
        reason="time",
        region=region,
        granularity=granularity,
    )
    version = table.state().version_above(region) + 1
    token = FencingToken("t", 1)
    started = PlanInflight(
        plan_id=plan.id, attempt="a", token=token, outputs=(), inputs=(), version=version
    )
    done = PlanCompleted(plan_id=plan.id, attempt="a", segments=())
    for number, action in enumerate((PlanRequested(plan=plan), started, done)):
        change = Change(action=action, commit_id=f"{plan.id}-{number}")
        assert isinstance(commit(table.ports, table.state(), change), Committed)


def test_deletes_find_rows_of_carried_files(table: Table, other: Table) -> None:
    """Rows of segments that a new version took over are found, counted and deleted as ever."""
    table.delete("row < 5")
    recut(table, Granularity.DAY)
    assert numbers(table) == list(range(5, 40))
    assert table.snapshot().count() == 35
    done = beside(table, lambda: other.delete("row < 8")).delete("row < 10")
    assert (done.matched, done.deleted) == (5, 2)
    assert numbers(table) == list(range(10, 40))
    assert numbers(table, version=4) == list(range(40))


def test_a_change_overtaken_by_a_new_version_still_counts(table: Table, other: Table) -> None:
    """If all files get other ids and time is cut anew, an update lands, with what it wrote."""
    act = beside(table, lambda: recut(other, Granularity.DAY))
    done = act.update({"price": -1.0}, "row < 4")
    assert (done.matched, done.deleted, done.inserted) == (4, 4, 4)
    assert numbers(table) == list(range(40))
    assert len(table.snapshot().to_arrow().filter(pc.field("price") == -1.0)) == 4


def test_time_cut_finer_meanwhile_is_cut_again(table: Table, other: Table) -> None:
    """If a new segment would lie in two chunks now, its rows are split again."""
    recut(table, Granularity.DAY)
    act = beside(table, lambda: recut(other, Granularity.HOUR))
    done = act.update({"price": -1.0}, "row IN (2, 3)")
    assert (done.deleted, done.inserted) == (2, 2)
    assert numbers(table) == list(range(40))
    chunks = table.state().timeline.visible_chunks()
    assert {
        chunk.interval.end - chunk.interval.start
        for chunk in chunks
        if chunk.interval.start < 2 * HOUR_US
    } == {HOUR_US}


@dataclass(slots=True)
class Late:
    """A coordinator at which others get their way before the next grant."""

    inner: Coordinator
    act: Callable[[], object] | None

    def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> Lease:
        """Let the others act, then grant."""
        act, self.act = self.act, None
        if act is not None:
            act()
        return self.inner.acquire_for_append(request, wait_s=wait_s)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@dataclass(slots=True)
class Noted:
    """Data files; which were begun is noted."""

    inner: DataFiles
    begun: list[str] = field(default_factory=list)

    def create(self, path: str) -> AbstractContextManager[Sink]:
        """Begin a file."""
        self.begun.append(path)
        return self.inner.create(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def waiting(table: Table, act: Callable[[], object]) -> tuple[Table, list[str]]:
    """Return the table where others act while a writer waits for its lock, and files it begins."""
    noted = Noted(table.ports.files)
    coordinator = Late(table.ports.coordinator, act)
    ports = replace(table.ports, files=noted, optional_coordinator=coordinator)  # type: ignore[arg-type]
    return Table(ports), noted.begun


CUTS = [(Granularity.HOUR, Granularity.DAY, 1), (Granularity.DAY, Granularity.HOUR, 2)]


@pytest.mark.parametrize(("before", "after", "chunks"), CUTS)
@pytest.mark.parametrize("what", ["append", "update"])
def test_rows_are_split_by_the_time_chunks_under_the_lock(
    table: Table, other: Table, what: str, before: Granularity, after: Granularity, chunks: int
) -> None:
    """If time is cut anew while a writer waits, it writes once: a file for each new time chunk."""
    recut(table, before)

    def cut_anew() -> None:
        recut(other, after)
        table.ports.clock.sleep(2 * PROMPT_S)

    late, begun = waiting(table, cut_anew)
    if what == "append":
        late.append(rows(range(40, 44)))
    else:
        late.update({"price": 1.0}, "row IN (2, 3)")
    assert len([path for path in begun if path.startswith("data/")]) == chunks


def test_an_update_split_anew_does_not_look_again(table: Table, other: Table) -> None:
    """If time is cut finer before its put, an update leaves alone what was loaded meanwhile."""
    recut(table, Granularity.DAY)

    def act() -> None:
        other.append(rows(range(41, 42)))
        recut(other, Granularity.HOUR)

    done = beside(table, act).update({"price": -1.0}, "row IN (2, 3, 41)")
    assert (done.matched, done.deleted, done.inserted) == (2, 2, 2)
    assert price(table, 41) == [20.5]
    assert files(table) == in_use(table)


def test_time_cut_anew_again_and_again_ends_in_a_conflict(table: Table, other: Table) -> None:
    """A bounded number of cuts later the update gives up, says why, and leaves no file."""
    recut(table, Granularity.DAY)

    class Restless(Late):
        """Others act before every grant."""

        def acquire_for_append(self, request: LockRequest, *, wait_s: float) -> Lease:
            cut = Granularity.HOUR if table.state().overrides else Granularity.DAY
            recut(other, cut)
            return self.inner.acquire_for_append(request, wait_s=wait_s)

    ports = replace(table.ports, optional_coordinator=Restless(table.ports.coordinator, None))  # type: ignore[arg-type]
    with pytest.raises(ChangeConflict, match="time was repartitioned 5 times"):
        Table(ports).update({"price": 0.0}, "row = 7")
    assert price(table, 7) == [3.5]
    assert files(table) == in_use(table)


def purge(table: Table) -> None:
    """Rewrite all files without what is deleted, and forget which rows these were."""
    ports = table.ports
    plans = [known.plan.id for known in request(ports, MajorPlan.kind)]
    compact(ports, plans, in_process(ports.files))
    ports.clock.sleep(1)  # so that versions are old
    clean(ports, retention=Retention(hours=0, versions=1, orphan_hours=1000))


@pytest.mark.parametrize("kind", ["delete", "update"])
def test_a_row_whose_deletion_was_cleaned_stays_deleted(
    table: Table, other: Table, kind: str
) -> None:
    """If others deleted our row and the vector is cleaned, a newer vector there proves nothing."""

    def act() -> None:
        other.delete("row = 7")
        purge(other)
        other.delete("row = 9")  # of the same file

    late = beside(table, act)
    done = late.delete("row = 7") if kind == "delete" else late.update({"price": 1.0}, "row = 7")
    assert (done.n, done.matched) == (None, 0)
    assert {7, 9}.isdisjoint(numbers(table))


def test_rows_that_are_still_there_need_no_other_look(table: Table, other: Table) -> None:
    """If deletions beside ours were cleaned, our rows are looked up by address, and go on."""

    def act() -> None:
        other.append(rows(range(40, 44)))
        other.delete("row = 9")
        purge(other)

    done = beside(table, act).update({"price": -1.0}, "row IN (5, 7, 41)")
    assert (done.matched, done.deleted, done.inserted) == (2, 2, 2)
    assert (price(table, 7), price(table, 41)) == ([-1.0], [20.5])


def event(table: Table, n: int) -> Event:
    found = EventLog(table.ports.storage).event(n)
    assert found is not None
    return found


def test_the_event_names_what_its_author_knew(table: Table, other: Table) -> None:
    """Beside others of other rows, the event says up to which event its author has looked."""
    done = beside(table, lambda: other.delete("row < 5")).delete("row >= 5 AND row < 10")
    action = event(table, done.n or 0).action
    assert isinstance(action, RowsChanged)
    assert (action.seen, action.deleted, action.matched) == (5, 5, 5)


def test_addresses_race_as_conditions_do(table: Table, other: Table) -> None:
    """Rows that others deleted between the look and the put are left out by address, too."""
    given = pa.Table.from_batches(table.snapshot().addressed(columns=["row"]))
    done = beside(table, lambda: other.delete("row < 10")).delete(addresses=given)
    assert (done.matched, done.deleted) == (40, 30)
    assert table.snapshot().count() == 0

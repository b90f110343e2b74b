"""Dropping a table: gone at once for everyone, nothing left, killed between any two steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    CorruptTable,
    NotATable,
    OutcomeUnknown,
    TableExists,
    TableGone,
    TableInUse,
    VersionExpired,
)
from airflow_provider_segtable.core.log.families.table_events import TableDropped
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.log_paths import EXPIRED, TIMELINE, event_path, expired_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.health.repair import plan_repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.files import Sink
from airflow_provider_segtable.ports.storage import Entry, Storage
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.committer import Change, commit, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.simulation.faults.faulty_coordinator import FaultyCoordinator
from tests.simulation.faults.faulty_storage import Faults, FaultyStorage
from tests.simulation.simulator import Actor, Simulation
from tests.support.rooted import RootedFiles
from tests.unit.table.conftest import new_table, numbers, rows

ALL = [n for n in range(40) if n != 3]


@dataclass(slots=True)
class Place:
    """One location with a storage and a coordination service, seen by several processes."""

    storage: MemoryStorage
    service: MemoryService
    of: TableContext

    def ports(self) -> TableContext:
        """Return another process's view, with nothing cached."""
        return replace(
            self.of,
            storage=self.storage,
            files=RootedFiles(self.storage),
            optional_coordinator=MemoryCoordinator(self.of.clock, self.service),
        )

    def table(self) -> Table:
        """Return the table as another process opens it."""
        return Table(self.ports())

    def paths(self) -> list[str]:
        """Return all objects."""
        return [entry.path for entry in self.storage.list("")]

    def copy(self) -> "Place":
        """Return the same objects elsewhere."""
        storage = MemoryStorage(clock=self.of.clock)
        for path in self.paths():
            storage.create(path, self.storage.read(path))
        return Place(storage, MemoryService(), self.of)

    def create(self) -> Table:
        """Create a new table here."""
        definition = replace(self.definition, table_id="t2", name="second")
        return create_table(self.ports(), definition)

    @property
    def definition(self) -> TableDefinition:
        """Return the definition of the first table."""
        return new_table(MemoryService()).state().table


@pytest.fixture
def place(service: MemoryService, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Rows 0 to 39 but 3: appends, a delete, a tag, a compaction, checkpoints."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 2)
    of = new_table(service).ports
    made = Place(of.storage, service, of)  # type: ignore[arg-type]
    table = made.table()
    for turn in range(4):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    table.delete("row = 3")
    table.tag("good")
    plans = [asked.plan.id for asked in request(table.ports, "minor")]
    done = compact(table.ports, plans, in_process(table.ports.files))
    assert {result.ended for result in done} == {Ended.COMPLETED}
    return made


def marker(n: int | None) -> str:
    """Return the path of what a drop by event ``n`` leaves."""
    assert n is not None
    return expired_path(n + 1)


def test_nothing_is_left_but_the_marker(place: Place) -> None:
    """Not in the coordinator, and in the storage only what segtable did not make, by name."""
    for path in ("data/notes.txt", "_segtable/mine", "readme.md"):
        place.storage.create(path, b"mine")
    told = drop(place.ports(), dry_run=True)
    assert (told.name, told.n, told.rows, told.files) == ("t", None, 39, len(place.paths()) - 3)
    done = drop(place.ports())
    assert (done.rows, done.segments, done.bytes) == (told.rows, told.segments, told.bytes)
    assert done.kept == ("data/notes.txt", "_segtable/mine")
    left = {"_segtable/mine", marker(done.n), "data/notes.txt", "readme.md"}
    assert set(place.paths()) == left
    assert place.service.tables == ()


def test_everyone_sees_it_gone(place: Place) -> None:
    """Opened before or not: reads, appends, changes, tags, alterations, plans, verify, repair."""
    opened, read = place.table(), place.table()
    state = opened.state()
    read.state()
    drop(place.ports())
    attempts = (
        place.table().state,
        read.scan,
        lambda: opened.append(rows(range(50, 60))),
        lambda: opened.delete("row = 4"),
        lambda: opened.tag("late"),
        lambda: opened.alter(set={"retention.hours": "1"}),
        lambda: request(opened.ports, "major"),
        lambda: clean(opened.ports),
        lambda: verify(place.ports()),
        lambda: plan_repair(place.ports()),
        lambda: commit(opened.ports, state, Change(action=Tagged(name="x", n=1), commit_id="x")),
    )
    for attempt in attempts:
        with pytest.raises(TableGone, match=r"table 't' was dropped at .* by first"):
            attempt()
    assert len(place.paths()) == 1
    assert len(place.paths()) == 1
    assert place.service.tables == ()


def test_a_place_without_a_table_is_refused(place: Place) -> None:
    """A typing error is not answered by success."""
    empty = Place(MemoryStorage(), MemoryService(), place.of)
    with pytest.raises(NotATable):
        drop(empty.ports())


class Meanwhile(RootedFiles):
    """Files that call back once, when the first one has been written."""

    def __init__(self, storage: MemoryStorage, call: Callable[[], None]) -> None:
        super().__init__(storage)
        self.calls = [call]

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Write a file, then call back."""
        with super().create(path) as sink:
            yield sink
        while self.calls:
            self.calls.pop()()


def test_a_table_in_use_is_refused(place: Place) -> None:
    """The holder is named, and the table is whole; with force its append fails without a trace."""

    def drop_it() -> None:
        with pytest.raises(TableInUse, match=r"in use: .*held by first for append .*--force"):
            drop(place.ports())
        assert numbers(place.table()) == ALL
        assert len(drop(place.ports(), force=True).locks) == 1

    ports = replace(place.ports(), files=Meanwhile(place.storage, drop_it))
    with pytest.raises(TableGone):
        Table(ports).append(rows(range(50, 60)))
    assert len(place.paths()) == 1
    assert len(place.paths()) == 1
    assert place.service.tables == ()


def test_a_compaction_under_way_leaves_no_file(place: Place) -> None:
    """It fails, and deletes its outputs."""
    ports = place.ports()
    plans = [asked.plan.id for asked in request(ports, "major")]
    dropped = replace(
        ports, files=Meanwhile(place.storage, lambda: drop(place.ports(), force=True) and None)
    )
    results = compact(dropped, plans, in_process(dropped.files))
    assert {result.ended for result in results} == {Ended.FAILED}, results
    assert len(place.paths()) == 1, results


def test_an_author_who_comes_late_leaves_nothing(place: Place) -> None:
    """It read the log before the drop, and asks for a lock after it."""
    ports = place.ports()
    state = ports.log.load()
    drop(place.ports())
    known = replace(ports)
    object.__setattr__(known, "log", Stale(ports.storage, state))
    with pytest.raises(TableGone):
        Table(known).append(rows(range(50, 60)))
    assert len(place.paths()) == 1
    assert len(place.paths()) == 1
    assert place.service.tables == ()


class Stale(EventLog):
    """A log whose first look is an old one."""

    def __init__(self, storage: Storage, state: State) -> None:
        super().__init__(storage)
        self.old = [state]

    def load(self) -> State:
        """Return the old state once."""
        return self.old.pop() if self.old else super().load()


@pytest.mark.parametrize("again", ["", "a new table"])
def test_an_author_paused_before_its_put_leaves_nothing(place: Place, again: str) -> None:
    """Its event lands at a number that is free again, and is not taken for one of a new table."""
    ports = place.ports()
    state = ports.log.load()

    def drop_it() -> None:
        drop(place.ports())
        if again:
            made = place.create()
            for turn in range(state.n + 2):
                made.append(rows(range(turn, turn + 1)))

    with pytest.raises(TableGone):
        commit_or_raise(
            ports, state, Change(action=Tagged(name="x", n=1), commit_id="x", guard=once(drop_it))
        )
    assert event_path(state.n + 1) not in place.paths()
    if again:
        with pytest.raises(TableGone, match="another one was created in its place"):
            Table(ports).append(rows(range(90, 95)))
        assert numbers(place.table()) == [*range(state.n + 2)]


def once(call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls another one the first time only."""
    calls = [call]
    return lambda: calls.pop()() if calls else None


@dataclass
class Noting:
    """A storage that notes its changes, in order."""

    inner: MemoryStorage
    calls: list[tuple[str, str]]

    def __getattr__(self, name: str) -> object:
        known = getattr(self.inner, name)
        if name not in {"create", "delete", "flush"}:
            return known

        def noted(path: str, *rest: bytes, **given: Any) -> None:
            self.calls.append((name, path))
            known(path, *rest, **given)

        return noted


def test_the_name_goes_first_durably_and_the_events_last(place: Place) -> None:
    """A power cut between any two steps leaves what leads to the marker, or a whole table."""
    n, calls = place.table().state().n + 1, list[tuple[str, str]]()
    drop(replace(place.ports(), storage=Noting(place.storage, calls)))  # type: ignore[arg-type]
    begun = calls.index(("create", event_path(n)))
    assert calls[begun + 1 : begun + 4] == [
        ("create", expired_path(n + 1)),
        ("flush", TIMELINE),
        ("flush", EXPIRED),
    ]
    deleted = [path for name, path in calls[begun:] if name == "delete"]
    assert deleted[-n - 1 :] == [event_path(number) for number in range(n + 1)]
    assert not [path for path in deleted[: -n - 1] if path.startswith(TIMELINE)]
    assert expired_path(n + 1) not in deleted


def test_killed_between_any_two_steps(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step the table is whole or gone; a second drop leaves nothing, at any step."""
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 2)
    of = new_table(service).ports
    place = Place(of.storage, service, of)  # type: ignore[arg-type]
    place.table().append(rows(range(4)))
    place.table().delete("row = 3")
    steps = after_crash(place.copy(), None)
    assert steps > 50
    for at in range(1, steps + 1):
        after_crash(place.copy(), at)


def after_crash(place: Place, crash_at: int | None) -> int:
    """Drop a table, killed at one boundary, and again; return the number of boundaries."""
    faults = Faults(random=Random(0), crash_at=crash_at)
    simulation = Simulation(0)

    def dropper(actor: Actor) -> None:
        if actor.incarnation:
            check(place)
        ports, client = place.ports(), MemoryCoordinator(place.of.clock, place.service)
        actor.on_crash.append(lambda: place.service.expire(client.session))
        coordinator = FaultyCoordinator(
            client, actor, faults, expire=lambda _: None, wipe=lambda _: None
        )
        storage = FaultyStorage(place.storage, actor, faults)
        drop(replace(ports, storage=storage, optional_coordinator=coordinator))

    simulation.spawn("dropper", dropper)
    simulation.run(max_steps=10_000)
    assert len(place.paths()) == 1, crash_at
    assert place.service.tables == ()
    assert place.create().state().n == 3 + 1
    return faults.boundaries


def check(place: Place) -> None:
    """The table is whole, or gone; a new one is created only where nothing is left of it."""
    try:
        assert numbers(place.table()) == [0, 1, 2]
    except TableGone:
        if any(path.startswith(TIMELINE) for path in place.paths()):
            with pytest.raises((TableGone, TableExists)):
                place.create()


def test_a_paused_drop_spares_the_new_table(place: Place) -> None:
    """Another one finished it, and a table was created, before the first one deletes."""
    ports = place.ports()

    def finish() -> None:
        drop(place.ports())
        place.create().append(rows(range(5)))

    paused = replace(ports, storage=PausedListing(place.storage, finish))
    paused = replace(paused, files=RootedFiles(place.storage))
    drop(paused)
    assert numbers(place.table()) == [*range(5)]
    assert not verify(place.ports()).findings


def test_the_state_before_a_drop_is_gone_once_another_table_is_there(place: Place) -> None:
    """The log of the new table begins after the end of the old one's."""
    ports = place.ports()
    Table(ports).append(rows(range(3)))
    drop(ports)
    log = place.create().ports.log
    created = next(iter(log.events(log.begin())))
    assert log.before(replace(created, n=created.n - 1)) is None


@pytest.mark.parametrize("later", ["dropped", "cleaned"])
def test_a_paused_drop_spares_what_came_after_the_new_table_began(place: Place, later: str) -> None:
    """Its first event is gone again, by a drop or a cleaning: a later marker tells of it."""
    markers: list[str] = []

    def go_on() -> None:
        drop(place.ports())
        made = place.create()
        begun = event_path(made.state().n)
        for turn in range(4):
            made.append(rows(range(turn, turn + 1)))
        if later == "dropped":
            markers.append(marker(drop(place.ports()).n))
        else:
            made.ports.clock.sleep(3600)
            clean(made.ports, retention=Retention(hours=0, versions=1, orphan_hours=0))
        assert begun not in place.paths()

    storage = PausedListing(place.storage, go_on)
    drop(replace(place.ports(), storage=storage, files=RootedFiles(place.storage)))
    if later == "dropped":
        assert place.paths() == markers
    else:
        assert numbers(place.table()) == [*range(4)]


@pytest.mark.parametrize("again", ["", "a new table", "another cleaning"])
def test_a_cleaning_paused_before_its_marker_leaves_none(place: Place, again: str) -> None:
    """The table is dropped meanwhile, or its log has expired further: the marker means nothing."""
    oldest = Retention(hours=0, versions=1, orphan_hours=0)

    def go_on() -> None:
        if again == "another cleaning":
            for turn in range(3):
                place.table().append(rows(range(50 + turn, 51 + turn)))
            clean(place.ports(), retention=oldest)
            return
        drop(place.ports())
        if again:
            place.create()

    storage = PausedMarker(place.storage, go_on)
    late = replace(place.ports(), storage=storage, files=RootedFiles(place.storage))
    late.clock.sleep(3600)
    with suppress(TableGone):
        clean(late, retention=oldest)
    assert not storage.calls
    assert len([*place.storage.list(EXPIRED)]) == 1
    if again:
        assert not verify(place.ports()).findings


@dataclass
class PausedMarker:
    """A storage whose author sleeps, right before it puts its first marker."""

    inner: MemoryStorage
    call: Callable[[], None]
    calls: list[Callable[[], None]] = field(init=False)

    def __post_init__(self) -> None:
        self.calls = [self.call]

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Create, when others have gone on."""
        if path.startswith(EXPIRED) and self.calls:
            self.calls.pop()()
        self.inner.create(path, data, **given)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@dataclass
class PausedListing:
    """A storage that calls back when the marker has been put, at the next look into the log."""

    inner: MemoryStorage
    call: Callable[[], None]
    marked: int = 0

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Create, and note a marker."""
        self.inner.create(path, data, **given)
        self.marked += path.startswith(EXPIRED)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """List data files only when others have gone on."""
        if prefix == "data" and self.marked == 1:
            self.marked = 2
            self.call()
        return self.inner.list(prefix, after=after)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_a_new_table_lives_above_the_old_numbers(place: Place) -> None:
    """Versions, times, history, tags, verify, cleaning and opening work from its first event on."""
    first = drop(place.ports()).n
    assert first is not None
    made = place.create()
    start = made.state()
    assert (start.n, start.retained_from) == (first + 1, first + 1)
    assert len(made.snapshot().to_arrow()) == 0
    for turn in range(3):
        made.append(rows(range(turn * 10, turn * 10 + 10)))
    made.tag("new", version=first + 2)
    table = place.table()
    assert numbers(table) == [*range(30)]
    assert numbers(table, version=first + 2) == [*range(10)]
    assert numbers(table, tag="new") == [*range(10)]
    assert len(table.snapshot(as_of=start.time).to_arrow()) == 0
    with pytest.raises(VersionExpired):
        table.snapshot(version=1)
    assert not verify(place.ports(), deep=True, all_versions=True).findings
    assert not plan_repair(place.ports()).event
    table.delete("true")
    clean(table.ports, retention=Retention(hours=0, versions=1, orphan_hours=0))
    assert not verify(place.ports()).findings
    with pytest.raises(TableExists):
        place.create()
    again = drop(place.ports())
    assert place.paths() == [marker(again.n)]
    assert drop(place.ports()).files == 0


def test_a_damaged_new_table_is_damaged_and_not_dropped(place: Place) -> None:
    """The marker is one of expiry once the new table is there."""
    n = drop(place.ports()).n
    assert n is not None
    place.create()
    assert place.storage.read(marker(n)) == b""
    place.storage.delete(event_path(n + 1))
    with pytest.raises(CorruptTable):
        place.table().state()


def test_a_killed_creation_is_a_table(place: Place) -> None:
    """Its event decides, whatever the marker says yet."""
    n = drop(place.ports()).n
    kept = place.storage.read(marker(n))
    place.create()
    place.storage.replace(marker(n), kept)
    assert place.table().state().table.name == "second"
    with pytest.raises(TableExists):
        place.create()


def test_a_creation_killed_before_its_end_is_dropped_like_any_other(place: Place) -> None:
    """The old drop's event is still in the marker; it is not taken for the new table's."""
    first = drop(place.ports())
    kept = place.storage.read(marker(first.n))
    place.create().append(rows(range(5)))
    place.storage.replace(marker(first.n), kept)
    again = drop(place.ports())
    assert (again.name, again.rows) == ("second", 5)
    assert place.paths() == [marker(again.n)]
    assert place.create().state().n == (again.n or 0) + 1


def test_a_drop_beside_one_that_was_faster_says_gone(place: Place) -> None:
    """It waited for its lock while another one ended the log, and a new table was created."""
    ports = place.ports()
    ports.log.load()

    def faster() -> None:
        drop(place.ports())
        place.create().append(rows(range(5)))

    late = replace(ports, optional_coordinator=Waiting(ports.coordinator, faster))
    late.log.remember(ports.log.load())
    with pytest.raises(TableGone, match="another one was created in its place"):
        drop(late)
    assert numbers(place.table()) == [*range(5)]


class Waiting:
    """A coordinator that calls back before it grants a lock."""

    def __init__(self, inner: object, call: Callable[[], None]) -> None:
        self.inner, self.call = inner, call

    def acquire(self, *given: object, **named: object) -> object:
        """Grant the lock after the call."""
        self.call()
        return self.inner.acquire(*given, **named)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_a_late_checkpoint_of_the_old_table_spoils_no_version(place: Place) -> None:
    """Every version of the new table is read from its own first event on."""
    ports = place.ports()
    state = ports.log.load()
    drop(place.ports())
    made = place.create()
    made.append(rows(range(5)))
    ports.log.checkpoint(state)
    first = made.state().retained_from
    assert len(place.table().snapshot(version=first).to_arrow()) == 0
    assert numbers(place.table()) == [*range(5)]


def test_an_event_of_an_author_who_was_too_late_is_no_damage(place: Place) -> None:
    """It lies before a new table, or before an event that is not deleted yet: that is the end."""
    ports = place.ports()
    state = ports.log.load()
    path = event_path(state.n + 1)
    late = late_event(place, state)
    drop(place.ports())
    place.create()
    place.storage.create(path, late)
    with pytest.raises(TableGone, match="another one was created in its place"):
        ports.log.refresh(state)
    with pytest.raises(TableGone):
        ports.log.load()


def late_event(place: Place, state: State) -> bytes:
    """Return the next event of a table, as an author with a later clock writes it."""
    twin = place.copy()
    commit_or_raise(twin.ports(), state, Change(action=Tagged(name="x", n=state.n), commit_id="x"))
    return twin.storage.read(event_path(state.n + 1))


def test_a_cleaning_of_a_table_that_is_dropped_meanwhile_says_gone(place: Place) -> None:
    """No version of it is read any more, not even by its history."""
    ports = place.ports()
    state = ports.log.load()
    commit_or_raise(
        place.ports(),
        state,
        Change(action=TableDropped(table_id=state.table.table_id, name="t"), commit_id="d"),
    )
    with pytest.raises(TableGone):
        list(ports.log.history(state.time, state.n))


def test_a_lost_reply_to_a_creation_is_not_a_table_that_exists(place: Place) -> None:
    """Whether it is there is unknown, and that is what is said."""
    empty = Place(MemoryStorage(), MemoryService(), place.of)
    ports = replace(empty.ports(), storage=Unanswered(empty.storage))
    with pytest.raises(CommitUnknown, match="the reply to the creation was lost"):
        create_table(ports, place.definition)
    assert empty.create().state().n == 0


@dataclass
class Unanswered:
    """A storage whose answers to new events are lost, and the requests, too."""

    inner: MemoryStorage

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Create what is no event."""
        if path.startswith(TIMELINE):
            raise OutcomeUnknown(f"{path}: no reply")
        self.inner.create(path, data, **given)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

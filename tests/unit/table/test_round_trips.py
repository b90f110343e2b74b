"""How many requests a table sends to a remote storage, and what guesses may not change."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import NotFound, StorageError, TableGone
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.log.log_paths import (
    CHECKPOINTS,
    EXPIRED,
    LAST,
    TIMELINE,
    event_path,
    expired_path,
)
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.log.event_log import OPENING, EventLog
from airflow_provider_segtable.table.log.read_ahead import ReadAhead
from airflow_provider_segtable.table.table import Table
from tests.support.in_memory import in_another_process
from tests.unit.table.conftest import rows

PATIENCE_S = 60.0


class Counted(MemoryStorage):
    """A remote storage that notes its requests."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__("memory://counted", remote=True)
        self.seen: list[str] = []
        self.together: threading.Barrier | None = None
        self.before_create: list[Callable[[], object]] = []

    def requests(self) -> list[str]:
        """Return the requests since the last call."""
        found, self.seen = self.seen, []
        return found

    def read(self, path: str) -> bytes:
        """Note and read; wait for the others if reads are to be at once."""
        self.seen.append(f"read {path}")
        if self.together is not None and not path.endswith("_last"):
            self.together.wait(PATIENCE_S)
        return super().read(path)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Note and create."""
        self.seen.append(f"create {path}")
        if self.before_create:
            self.before_create.pop()()
        super().create(path, data, ready=ready)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Note and list."""
        self.seen.append(f"list {prefix}")
        return super().list(prefix, after=after)


@pytest.fixture
def counted(table: Table, service: MemoryService) -> Table:
    """The table of four appends on a remote storage that counts, opened."""
    storage, given = Counted(), table.ports.storage
    for entry in given.list(""):
        storage.replace(entry.path, given.read(entry.path))
    ports = replace(in_another_process(table.ports, service), storage=storage)
    ports.log.load()
    storage.requests()
    return Table(ports)


def storage_of(table: Table) -> Counted:
    """Return the counting storage."""
    found = table.ports.storage
    assert isinstance(found, Counted)
    return found


def put_by_another(ports: TableContext, turn: int) -> int:
    """Put an event as a writer elsewhere does; return its number."""
    state = EventLog(ports.storage).load()
    action = Tagged(name=f"v{turn}", n=state.n)
    event = Event(n=state.n + 1, time=state.time + 1, commit="other", author="o", action=action)
    MemoryStorage.create(storage_of(Table(ports)), event_path(event.n), encode(event))
    return event.n


def test_an_append_is_one_look_one_put_and_one_listing(counted: Table) -> None:
    """Beyond its data files, an append sends at most three requests, one after another."""
    storage = storage_of(counted)
    counted.append(rows(range(40, 50)))  # compares the clocks
    n = EventLog(storage).load().n
    storage.requests()
    done = counted.append(rows(range(50, 60)))
    path = event_path(n + 1)
    assert done.n == n + 1
    assert storage.requests() == [f"read {path}", f"create {path}", f"list {EXPIRED}"]


def test_an_append_that_is_overtaken_lands_after_the_other(counted: Table) -> None:
    """A put on a number that is taken is refused; the log is read, and both events are there."""
    storage = storage_of(counted)
    others: list[int] = []
    storage.before_create.append(lambda: others.append(put_by_another(counted.ports, 7)))
    done = counted.append(rows(range(40, 50)))
    assert done.n == others[0] + 1
    newest = EventLog(storage).load()
    assert newest.n == done.n
    assert newest.commits["other"] == others[0]


def test_a_refusal_is_never_a_guess(counted: Table) -> None:
    """A change that an outdated state forbids is held against the newest state."""
    ports = counted.ports
    old = ports.log.load()
    given = Change(action=Tagged(name="kept", n=old.n), commit_id="give")
    taken = Change(action=Untagged(name="kept"), commit_id="take")
    assert isinstance(commit(ports, old, taken), Conflict)
    assert isinstance(commit(replace(ports), old, given), Committed)  # by another log
    storage_of(counted).requests()
    assert isinstance(commit(ports, old, taken), Committed)
    assert storage_of(counted).requests()[0].startswith("read")


def test_an_equal_commit_id_lands_once_without_a_put(counted: Table) -> None:
    """A change that the known state has is not put again."""
    ports = counted.ports
    done = counted.append(rows(range(40, 50)), commit_id="once")
    storage_of(counted).requests()
    again = commit(ports, done.state, Change(action=Appended(segments=()), commit_id="once"))
    assert isinstance(again, Committed)
    assert again.n == done.n
    assert not [each for each in storage_of(counted).requests() if each.startswith("create")]


def test_a_guess_on_an_expired_number_is_taken_back(counted: Table) -> None:
    """The number is free because its event expired: the put is deleted, and put again."""
    storage, ports = storage_of(counted), counted.ports
    old = ports.log.load()
    newest = [put_by_another(ports, 20 + turn) for turn in range(3)][-1]
    state = EventLog(storage).load()
    ports.log.checkpoint(state)
    storage.replace(expired_path(newest), b"")
    for n in range(newest):
        storage.delete(event_path(n))
    done = commit(ports, old, Change(action=Tagged(name="late", n=newest), commit_id="late"))
    assert isinstance(done, Committed)
    assert done.n == newest + 1
    with pytest.raises(NotFound):
        storage.read(event_path(old.n + 1))


def test_a_writer_of_a_dropped_table_learns_of_it(counted: Table, service: MemoryService) -> None:
    """An append by a process that knew the table before its drop commits nothing."""
    drop(in_another_process(counted.ports, service))
    with pytest.raises(TableGone):
        counted.append(rows(range(40, 50)))


def test_opening_reads_the_checkpoint_and_later_events_at_once(counted: Table) -> None:
    """Three round trips: the hint, then checkpoint and events together, then the markers."""
    storage = storage_of(counted)
    state = EventLog(storage).load()
    counted.ports.log.checkpoint(state)
    for partition in range(20, 26):
        put_by_another(counted.ports, partition)
    storage.requests()
    storage.together = threading.Barrier(1 + OPENING)
    opened = EventLog(storage).load()
    storage.together = None
    seen = storage.requests()
    assert opened.n == state.n + 6
    assert seen[0] == f"read {LAST}"
    assert seen[-1] == f"list {EXPIRED}"
    assert len([each for each in seen if CHECKPOINTS in each]) == 2
    assert len([each for each in seen if TIMELINE in each]) == OPENING


def test_a_reader_notices_later_events_in_two_round_trips(counted: Table) -> None:
    """The last known event and the next one are read together, then the markers are listed."""
    storage, log = storage_of(counted), counted.ports.log
    known = log.load()
    storage.requests()
    storage.together = threading.Barrier(2)
    assert log.load() == known
    storage.together = None
    assert storage.requests()[-1] == f"list {EXPIRED}"
    n = put_by_another(counted.ports, 20)
    assert log.load().n == n


def test_a_run_ends_before_the_first_absent_number() -> None:
    """What lies behind a gap is not returned, and its errors are not raised."""

    def read(n: int) -> tuple[int, ...] | None:
        if n > 6:
            raise StorageError(str(n))
        return None if n == 6 else (n,)

    with ReadAhead(read, 2, remote=True, window=8) as ahead:
        assert list(ahead) == [2, 3, 4, 5]
    with ReadAhead(read, 7, remote=True) as ahead, pytest.raises(StorageError):
        list(ahead)


def test_a_local_run_reads_one_object_at_a_time() -> None:
    """On a local storage nothing is read that is not asked for."""
    seen: list[int] = []

    def read(n: int) -> tuple[int, ...] | None:
        seen.append(n)
        return (n,)

    with ReadAhead(read, 0, remote=False, window=8) as ahead:
        run = iter(ahead)
        assert [next(run), next(run)] == [0, 1]
    assert seen == [0, 1]


def test_a_run_goes_on_after_an_object_of_several_numbers() -> None:
    """The next object is named by the number after; those between are requested in vain at most."""
    objects = {2: (2,), 3: (3, 4, 5, 6, 7), 8: (8,), 9: (9, 10, 11), 12: (12,)}
    for window in (1, 2, 8):
        with ReadAhead(objects.get, 2, remote=True, window=window) as ahead:
            assert list(ahead) == [*range(2, 13)]

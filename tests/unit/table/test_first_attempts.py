"""The first attempt of a commit: few requests before its put, and all checks after it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Committed, commit, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import (
    EXPIRED,
    TIMELINE,
    EventLog,
    event_path,
    expired_path,
)
from airflow_provider_segtable.table.table import create_table
from tests.support.builders import BASE, DEFINITION
from tests.support.clock import FakeClock, FakeRandomness
from tests.unit.table.committing import append


class Noted(MemoryStorage):
    """A storage that notes its requests for events and markers."""

    def __init__(self) -> None:
        """Note nothing yet."""
        super().__init__("memory://noted", clock=FakeClock(BASE))
        self.requests: list[str] = []

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        self._note("read", path)
        return super().read(path)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """List objects."""
        self._note("list", prefix)
        return super().list(prefix, after=after)

    def create(self, path: str, data: bytes, **ready: object) -> None:
        """Create an object."""
        super().create(path, data, **ready)  # type: ignore[arg-type]
        self._note("create", path)

    def _note(self, request: str, path: str) -> None:
        if path.startswith((TIMELINE, EXPIRED)):
            self.requests.append(f"{request} {path}")


@pytest.fixture
def ports() -> TableContext:
    """A table on a storage whose requests are cheap."""
    made = TableContext(
        uri="memory://noted",
        storage=Noted(),
        files=MemoryFiles(),
        clock=FakeClock(BASE),
        randomness=FakeRandomness(),
        author="me",
    )
    create_table(made, DEFINITION)
    return made


def requests(ports: TableContext) -> list[str]:
    """Return the requests since the last call."""
    storage = ports.storage
    assert isinstance(storage, Noted)
    found, storage.requests = storage.requests, []
    return found


def test_a_lone_commit_looks_for_markers_once(ports: TableContext) -> None:
    """After its put: that answers for what was read before, too."""
    state = ports.log.load()
    requests(ports)
    assert commit_or_raise(ports, state, append(0)).n == 1
    one = event_path(1)
    assert requests(ports) == [f"read {one}", f"create {one}", f"list {EXPIRED}"]


def test_new_events_are_read_before_the_put(ports: TableContext) -> None:
    """No put is made in vain where a look is cheap."""
    state = EventLog(ports.storage).load()
    for turn in range(3):
        commit_or_raise(ports, state, append(turn, f"c{turn}"))
    requests(ports)
    late = replace(ports, author="late")
    assert commit_or_raise(late, state, append(9)).n == 4
    assert [each for each in requests(ports) if each.startswith("create")] == [
        f"create {event_path(4)}"
    ]


def test_a_put_into_the_expired_part_of_the_log_is_undone(ports: TableContext) -> None:
    """The number was free, because its event had expired: the change lands at the log's end."""
    state = EventLog(ports.storage).load()
    for turn in range(5):
        newest = commit_or_raise(ports, state, append(turn, f"c{turn}")).state
    ports.log.checkpoint(newest)
    ports.storage.create(expired_path(5), b"")
    for n in range(5):
        ports.storage.delete(event_path(n))
    outcome = commit(replace(ports, author="late"), state, append(9))
    assert isinstance(outcome, Committed)
    assert outcome.n == 6
    assert not ports.storage.exists(event_path(1))
    assert "c4" in outcome.state.commits


def test_a_file_is_decoded_once(ports: TableContext) -> None:
    """What this process put, or read last, is compared by its bytes."""
    done = commit_or_raise(ports, ports.log.load(), append(0))
    put = ports.log.file(done.n)
    assert put is ports.log.file(done.n)
    other = EventLog(ports.storage)
    assert other.file(done.n) is other.file(done.n)
    assert other.file(done.n) == put

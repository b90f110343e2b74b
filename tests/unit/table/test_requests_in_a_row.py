"""Which requests of compactions, changes and publications are sent together, and which in a row.

A round is the requests that are under way at the same time: none of them ends before all have
begun, so a request that waits for one of its round would never begin.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.log.log_paths import EXPIRED, TIMELINE
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.publishing.publisher import PublishedNow
from airflow_provider_segtable.table.table import Table as PlainTable
from tests.support.clock import FakeRandomness
from tests.support.in_memory import in_another_process
from tests.unit.table.conftest import rows

PATIENCE_S = 60.0


@dataclass
class Round:
    """Requests that are under way at once."""

    size: int
    requests: list[str] = field(default_factory=list)
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        """Wait for so many."""
        self.barrier = threading.Barrier(self.size)


class Rounds(MemoryStorage):
    """A remote storage that holds each request until those of its round have begun."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        super().__init__("memory://rounds", remote=True)
        self.mutex = threading.Lock()
        self.rounds: list[Round] | None = None

    def expect(self, *sizes: int) -> list[Round]:
        """Hold requests in rounds of these sizes from now on."""
        self.rounds = [Round(size) for size in sizes]
        return self.rounds

    def _sent(self, request: str) -> None:
        with self.mutex:
            if self.rounds is None:
                return
            free = [each for each in self.rounds if len(each.requests) < each.size]
            assert free, f"{request} is one more than expected"
            now = free[0]
            now.requests.append(request)
        now.barrier.wait(PATIENCE_S)

    def read(self, path: str) -> bytes:
        """Hold and read."""
        self._sent(f"read {path}")
        return super().read(path)

    def exists(self, path: str) -> bool:
        """Hold and look."""
        self._sent(f"exists {path}")
        return super().exists(path)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Hold and create."""
        self._sent(f"create {path}")
        super().create(path, data, ready=ready)

    def replace(self, path: str, data: bytes) -> None:
        """Hold and replace."""
        self._sent(f"replace {path}")
        super().replace(path, data)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Hold and list."""
        self._sent(f"list {prefix}")
        return super().list(prefix, after=after)


@pytest.fixture
def storage() -> Rounds:
    """A storage that holds nothing yet."""
    return Rounds()


@pytest.fixture
def remote(table: PlainTable, service: MemoryService, storage: Rounds) -> Table:
    """The table of four appends in that storage, opened."""
    for entry in table.ports.storage.list(""):
        storage.replace(entry.path, table.ports.storage.read(entry.path))
    ports = replace(in_another_process(table.ports, service), storage=storage)
    ports.checked_now()
    ports.log.load()
    return Table(ports)


def ended(rounds: list[Round]) -> None:
    """Check that all requests of all rounds were sent."""
    assert [len(each.requests) for each in rounds] == [each.size for each in rounds]


def test_a_compaction_looks_at_the_log_once(remote: Table, storage: Rounds) -> None:
    """One look, then each of its three events is a put and a listing of the markers."""
    hour = remote.state().timeline.visible_segments()[0].id.interval
    rounds = storage.expect(2, *([1] * 7))
    done = remote.compact("minor", interval=(hour.start, hour.end))
    ended(rounds)
    assert done.segments_in == 4
    assert [each.requests[0].partition(" ")[0] for each in rounds[1:]] == [
        "list",
        *("create", "list") * 3,
    ]


def test_compactions_of_one_call_go_on_from_each_others_events(
    remote: Table, storage: Rounds
) -> None:
    """Of two plans none puts an event on a number that the other one has taken."""
    rounds = storage.expect(2, *([1] * 13))
    assert len(remote.compact("minor").plans) == 2
    ended(rounds)
    assert [each.requests[0].partition(" ")[0] for each in rounds[1:]] == [
        "list",
        *("create", "list") * 6,
    ]


def test_a_delete_looks_at_the_log_once(remote: Table, storage: Rounds) -> None:
    """One look, then its event; the event is not read again for the result."""
    remote.delete(where="row < 3")
    rounds = storage.expect(2, 1, 1, 1)
    done = remote.delete(where="row < 6")
    ended(rounds)
    assert (done.matched, done.deleted) == (3, 3)
    assert rounds[2].requests[0].startswith(f"create {TIMELINE}")
    assert rounds[3].requests == [f"list {EXPIRED}"]


def test_an_append_is_published_as_delta_in_six_rounds(remote: Table, storage: Rounds) -> None:
    """Five in the storage, and one for the new file's footer; the looks after the put are last."""
    rounds = published(remote, storage, "delta", 4, 1, 1, 3, 1)
    assert rounds[2].requests[0].startswith("create _delta_log/")
    assert {each.partition("/")[0] for each in rounds[3].requests} == {
        "list _delta_log",
        "read _delta_log",
        "read _segtable",
    }


def test_an_append_is_published_as_iceberg_in_eight_rounds(remote: Table, storage: Rounds) -> None:
    """Seven in the storage, and one for the new file's footer; files are put before the version."""
    rounds = published(remote, storage, "iceberg", 6, 1, 2, 1, 1, 6, 1)
    manifests, version, hint = (each.requests for each in rounds[2:5])
    assert {each.rpartition("/")[0] for each in manifests} == {"create _iceberg/manifests"}
    assert version == ["create _iceberg/metadata/v2.metadata.json"]
    assert hint == ["replace _iceberg/metadata/version-hint.text"]


def published(remote: Table, storage: Rounds, name: str, *sizes: int) -> list[Round]:
    """Publish an append after another version, in rounds of these sizes."""
    remote.alter(set={f"publish.{name}": "on", "publish.on_commit": "off"})
    publish_all(remote.ports)
    remote.append(rows(range(40, 50, 2)))
    rounds = storage.expect(*sizes)
    (outcome,) = publish_all(remote.ports).outcomes
    storage.rounds = None
    ended(rounds)
    assert isinstance(outcome, PublishedNow)
    assert (outcome.shown, outcome.gone) == (1, 0)
    return rounds


def test_what_a_process_knows_is_not_taken_for_the_newest(remote: Table, other: PlainTable) -> None:
    """A version that another process put first is found, and followed."""
    storage = remote.ports.storage
    elsewhere = Table(replace(other.ports, storage=storage, randomness=FakeRandomness(7)))
    remote.alter(set={"publish.iceberg": "on", "publish.on_commit": "off"})
    publish_all(remote.ports)
    elsewhere.append(rows(range(40, 44)))
    assert [each.number for each in publish_all(elsewhere.ports).outcomes] == [2]
    remote.append(rows(range(44, 48)))
    (outcome,) = publish_all(remote.ports).outcomes
    assert isinstance(outcome, PublishedNow)
    assert (outcome.number, outcome.shown) == (3, 2)
    assert storage.read("_iceberg/metadata/version-hint.text") == b"3"

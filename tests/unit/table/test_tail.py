"""A follower of a bucket: what it does at the edges between files and service."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, StorageError
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Reset, Source
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.log_store import LogStoreProvider
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.log_store.checkpointing import DELETED, log_schema
from airflow_provider_segtable.table.log_store.positions import log_lag, store_positions
from airflow_provider_segtable.table.log_store.tail import BucketTail, LogRecords
from airflow_provider_segtable.table.table import Table
from tests.property.test_keyed_tables import batch, keyed_table
from tests.unit.table.logged import Logged
from tests.unit.table.served import WAIT_S, Service, numbers


@pytest.fixture
def serving(table: Table) -> Iterator[Service]:
    """A service in this process."""
    made = Service(table).start()
    yield made
    made.end()


def test_a_follower_goes_to_the_service_and_back(serving: Service) -> None:
    """Committed records come from files, others from the service, and from files without one."""
    tail = serving.follow()
    assert tail.read(0) is None
    serving.append(1, 2)
    serving.checkpoint()
    serving.append(3)
    late = serving.follow()
    assert [numbers(late.read(0)), numbers(late.read(0))] == [[1, 2], [3]]
    assert numbers(tail.read(0)) == [1, 2]
    assert tail.source is Source.SERVICE
    serving.checkpoint()
    serving.end()
    assert numbers(tail.read(0)) == [3]
    assert tail.read(0) is None
    Logged(serving.table, written=4).begin(0)
    logged = Logged(serving.table, written=4)
    logged.begin(0)
    logged.checkpoint(b0=2)
    assert numbers(tail.read(1)) == [4, 5]
    assert tail.read(1) is None
    serving.start()
    serving.append(6)
    assert [numbers(each.read(1)) for each in (tail, late)] == [[6], [4, 5]]


def test_a_start_that_never_was_is_refused(serving: Service) -> None:
    """By the service, as only it knows what is not committed yet; a lost log resets its readers."""
    serving.append(1)
    with pytest.raises(InvalidInput, match="begin at a position"):
        serving.follow(Position(epoch=1, offset=2)).read(0)
    lost = serving.follow(Position(epoch=9, offset=7))
    assert lost.read(0) == Reset(epoch=1, offset=0)
    assert numbers(lost.read(0)) == [1]


@pytest.mark.parametrize("provider", [MemoryLogStoreProvider, FlightLogStoreProvider])
def test_a_restore_resets_followers(table: Table, provider: type[LogStoreProvider]) -> None:
    """A follower that has read what the restore undid is reset, and reads what follows then."""
    service = Service(table, provider()).start()
    tail = service.follow()
    service.append(1, 2)
    before = service.checkpoint()
    assert numbers(tail.read(WAIT_S)) == [1, 2]
    service.append(3)
    service.checkpoint()
    assert numbers(tail.read(WAIT_S)) == [3]
    table.restore(version=before)
    service.end()
    assert tail.read(WAIT_S) == Reset(epoch=2, offset=2)
    service.start()
    service.append(30)
    assert numbers(tail.read(WAIT_S)) == [30]
    assert tail.position == Position(epoch=3, offset=3)
    tail.close()
    service.end()


def test_a_restore_brings_records_back(table: Table) -> None:
    """A follower that waits at the end of a restored version reads what a later restore brings."""
    logged = Logged(table)
    logged.begin(0)
    before = logged.checkpoint(b0=2)
    after = logged.checkpoint(b0=3)
    table.restore(version=before)
    tail = BucketTail(table.ports, 0, Position(), lambda _: None)
    assert numbers(tail.read(0)) == [0, 1]
    assert tail.read(0) is None
    marks = store_positions(table.ports, "billing", {0: tail.position}, {})
    table.restore(version=after)
    assert numbers(tail.read(0)) == [2, 3, 4]
    assert tail.read(0) is None
    assert log_lag(table.ports, lambda _: None, "billing").records == 3
    moved = replace(tail.position, offset=3)
    assert store_positions(table.ports, "billing", {0: moved}, marks)[0].through == after - 1


def test_a_range_of_a_primary_key_table_is_read_to_its_end(tmp_path: Path) -> None:
    """After the service went away within a range, its merge follows, and the copy is exact."""
    kind = PrimaryKey(key=("key",), buckets=1, ordering="seq")
    table = keyed_table(str(tmp_path / "t"), kind)
    service = Service(table).start()
    tail, copy = service.follow(), dict[int, int]()

    def upsert(*rows: tuple[int, int, bool]) -> None:
        given = [{"key": k, "seq": s, "text": "", "gone": gone} for k, s, gone in rows]
        records = batch(given).rename_columns([*batch(given).column_names[:-1], DELETED])
        cast = records.select(log_schema(table.state()).names).cast(log_schema(table.state()))
        service.writer.append(cast.combine_chunks().to_batches()[0], wait_s=WAIT_S)

    def read() -> None:
        while isinstance(found := tail.read(0), LogRecords):
            assert found.deleted is not None
            rows = zip(found.rows.select(["key", "seq"]).to_pylist(), found.deleted, strict=True)
            for row, gone in rows:
                copy.pop(row["key"], None) if gone else copy.update({row["key"]: row["seq"]})

    upsert((1, 1, False), (2, 1, False))
    read()
    assert (copy, tail.position.offset) == ({1: 1, 2: 1}, 2)
    upsert((1, 2, False), (2, 2, True))
    service.checkpoint(DELETED)
    service.end()
    read()
    assert (copy, tail.position.offset) == ({1: 2}, 4)
    shown = table.scan().to_arrow().select(["key", "seq"]).to_pylist()
    assert {each["key"]: each["seq"] for each in shown} == copy


class Counting:
    """A storage that counts how often an event is read."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self.events = storage, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def read(self, path: str) -> bytes:
        """Read a file."""
        self.events += path.startswith("_segtable/timeline")
        return self._storage.read(path)


def test_a_follower_reads_each_event_once(table: Table) -> None:
    """Also if it stops at each commit, and waypoints are far apart."""
    logged = Logged(table)
    logged.begin(0)
    counting = Counting(table.ports.storage)
    ports = replace(table.ports, storage=counting)
    tail = BucketTail(ports, 0, Position(), lambda _: None)
    for _ in range(140):
        logged.checkpoint(b0=1)
    assert [numbers(tail.read(0)) for _ in range(100)] == [[n] for n in range(100)]
    counting.events = 0
    assert [numbers(tail.read(0)) for _ in range(40)] == [[n] for n in range(100, 140)]
    assert tail.read(0) is None
    assert counting.events <= 45
    counting.events = 0
    logged.checkpoint(b0=1)
    assert numbers(tail.read(0)) == [140]
    assert counting.events <= 4


@dataclass(frozen=True)
class _Broken:
    """Data files of which the first few cannot be opened."""

    inner: DataFiles
    failures: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self, path: str) -> Any:
        """Open a file, or fail."""
        if self.failures:
            raise StorageError(self.failures.pop())
        return self.inner.open(path)


def test_a_failed_read_of_files_is_made_again(table: Table) -> None:
    """What a storage error kept a follower from is read next, not taken for read or expired."""
    logged = Logged(table)
    logged.begin(0)
    for _ in "123":
        logged.checkpoint(b0=2)
    failures: list[str] = []
    ports = replace(table.ports, files=_Broken(table.ports.files, failures))
    tail = BucketTail(ports, 0, Position(), lambda _: None)
    assert numbers(tail.read(0)) == [0, 1]
    failures.append("the storage does not answer")
    with pytest.raises(StorageError):
        tail.read(0)
    assert [numbers(tail.read(0)), numbers(tail.read(0))] == [[2, 3], [4, 5]]

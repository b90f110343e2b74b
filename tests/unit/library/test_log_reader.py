"""Readers that follow a table's log store, alone and in consumer groups."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    Fenced,
    InvalidInput,
    InvalidName,
    LockLost,
)
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.library.log_reader import (
    BucketExpired,
    TableLogReader,
)
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.log_store.positions import store_positions
from airflow_provider_segtable.table.log_store.tail import LogRecords
from tests.contract.worlds import PATIENCE_S, eventually
from tests.unit.library.log_world import new_table, rows

PROVIDER = MemoryLogStoreProvider()


def taken(reader: TableLogReader, count: int) -> list[int]:
    """Return the ids of so many rows, as they come."""
    found: list[int] = []
    while len(found) < count:
        item = reader.read(PATIENCE_S)
        assert isinstance(item, LogRecords), item
        found += item.rows.column("id").to_pylist()
    return found


def process(table: Table, service: MemoryService) -> Table:
    """Return the table in a process with a session of its own."""
    client = MemoryCoordinator(SystemClock(), service)
    return Table(replace(table.ports, optional_coordinator=client))


@pytest.fixture
def table(service: MemoryService) -> Table:
    """An empty table with two buckets."""
    return process(new_table(buckets="2"), service)


@pytest.fixture
def log(table: Table) -> Iterator[TableLogWriter]:
    """A writer that commits on request."""
    with table.log_writer(automatic=False, provider=PROVIDER) as writer:
        yield writer


def test_a_reader_follows_all_buckets(table: Table, log: TableLogWriter) -> None:
    """It yields committed rows and those that are not, and another one goes on at its positions."""
    for n in range(4):
        log.append(rows(n))
    log.checkpoint()
    with table.log_reader("earliest", provider=PROVIDER) as reader:
        assert sorted(taken(reader, 4)) == [0, 1, 2, 3]
        log.append(rows(4))
        log.append(rows(5))
        items = [*islice(reader, 2)]
        assert [each.committed for each in items if isinstance(each, LogRecords)] == [False] * 2
        assert {n: at.offset for n, at in reader.positions.items()} == {0: 3, 1: 3}
        assert reader.read(0.05) is None
        positions = reader.positions
    log.append(rows(6))
    with table.log_reader(positions, provider=PROVIDER) as reader:
        assert taken(reader, 1) == [6]


def test_a_reader_begins_where_it_is_told(table: Table, log: TableLogWriter) -> None:
    """At the first or last record, at a version, a time, or a position; else it is refused."""
    log.append(rows(0))
    first = log.checkpoint()
    time_of_first = table.state().time
    log.append(rows(1))
    log.checkpoint()
    log.append(rows(2))

    def begin(start: object, **more: object) -> dict[int, int]:
        with table.log_reader(start, provider=PROVIDER, **more) as reader:  # type: ignore[arg-type]
            return {n: at.offset for n, at in reader.positions.items()}

    assert first is not None
    assert begin("earliest") == begin(0) == begin({}) == {0: 0, 1: 0}
    assert begin("latest") == {0: 2, 1: 1}
    assert begin(first) == begin(iso(time_of_first)) == {0: 1, 1: 0}
    assert begin({0: Position(epoch=1, offset=1)}, buckets=[0]) == {0: 1}
    for start in ("newest", {0: Position(epoch=9, offset=0)}, {0: Position(epoch=1, offset=-1)}):
        with pytest.raises(InvalidInput):
            begin(start)
    with pytest.raises(InvalidInput, match=r"buckets \[3\] are to be read"):
        begin("latest", buckets=[3])


def test_members_of_a_group_share_buckets(
    table: Table, log: TableLogWriter, service: MemoryService
) -> None:
    """A member that dies is followed by the other one, which begins where the group has stored."""
    for n in range(4):
        log.append(rows(n))
    first = table.log_reader("earliest", group="billing", provider=PROVIDER)
    assert sorted(taken(first, 4)) == [0, 1, 2, 3]
    first.store()
    dying = process(table, service)
    second = dying.log_reader("latest", group="billing", provider=PROVIDER)

    def shared() -> bool:
        first.read(0)
        second.read(0)
        return [len(each.positions) for each in (first, second)] == [1, 1]

    eventually(shared)
    for n in range(4, 8):
        log.append(rows(n))
    not_stored = taken(second, 2)
    assert sorted(taken(first, 2) + not_stored) == [4, 5, 6, 7]
    first.store()
    client = dying.ports.coordinator
    assert isinstance(client, MemoryCoordinator)
    service.expire(client.session)
    assert taken(first, 2) == not_stored
    with pytest.raises(LockLost, match="went to other members"):
        second.store()
    first.store()
    stored = table.consumers()["billing"].log
    assert [mark.position.offset for mark in stored.values()] == [4, 4]
    second.close()
    first.close()


def test_a_position_that_moved_on_is_not_overwritten(table: Table, log: TableLogWriter) -> None:
    """A member that wakes up late is fenced, and goes on from what the group has stored."""
    log.append(rows(0))
    log.append(rows(1))
    with table.log_reader("earliest", group="billing", provider=PROVIDER) as reader:
        taken(reader, 2)
        store_positions(table.ports, "billing", {0: Position(epoch=1, offset=0)}, {})
        with pytest.raises(Fenced, match="another member has read it since"):
            reader.store()
        assert sorted(taken(reader, 2)) == [0, 1]
        reader.store()
        n = table.state().n
        reader.store()
        assert table.state().n == n
    with pytest.raises(InvalidInput, match="reads the log store"):
        table.advance_consumer("billing")
    table.advance_consumer("windows")
    with pytest.raises(InvalidInput, match="reads windows"):
        table.log_reader(group="windows", provider=PROVIDER)
    with pytest.raises(InvalidName):
        table.log_reader(group="a/b", provider=PROVIDER)
    with pytest.raises(InvalidInput, match="belongs to no consumer group"):
        table.log_reader(provider=PROVIDER).store()


def test_cleaning_keeps_what_a_group_has_yet_to_read(table: Table, log: TableLogWriter) -> None:
    """For a bounded time; then its reader is told of the first position that is left."""
    nothing = Retention(hours=0, versions=1, orphan_hours=0, consumer_hours=1)
    for n in range(4):
        log.append(rows(n))
        log.checkpoint()
    store_positions(table.ports, "billing", {0: Position(epoch=1, offset=1)}, {})
    table.compact("semi-major")
    clean(table.ports, retention=nothing)
    with table.log_reader(group="billing", buckets=[0], provider=PROVIDER) as reader:
        assert taken(reader, 1) == [2]
    clean(table.ports, retention=replace(nothing, consumer_hours=0))
    with table.log_reader(group="billing", buckets=[0], provider=PROVIDER) as reader:
        assert reader.read(PATIENCE_S) == BucketExpired(
            bucket=0, position=Position(epoch=1, offset=2)
        )


def test_lag_is_what_a_reader_has_yet_to_read(table: Table, log: TableLogWriter) -> None:
    """In records and seconds, of a group or positions; without services, of what is committed."""
    start = {0: Position(epoch=1, offset=0), 1: Position(epoch=1, offset=0)}
    assert table.log_lag(start, provider=PROVIDER).records == 0
    for n in range(3):
        log.append(rows(n))
    lag = table.log_lag(start, provider=PROVIDER)
    assert (lag.records, lag.served, lag.seconds < PATIENCE_S) == (3, True, True)
    assert lag.seconds > 0
    assert table.log_lag(start, provider=MemoryLogStoreProvider()).records == 0
    log.checkpoint()
    log.append(rows(3))
    with table.log_reader("earliest", group="billing", provider=PROVIDER) as reader:
        with pytest.raises(InvalidInput, match="has stored no position"):
            table.log_lag("billing")
        taken(reader, 4)
        reader.store()
    lag = table.log_lag("billing", provider=PROVIDER)
    assert (lag.records, lag.seconds) == (0, 0)
    lag = table.log_lag(start, provider=MemoryLogStoreProvider())
    assert (lag.records, lag.served, [each.end for each in lag.buckets.values()]) == (
        3,
        False,
        [2, 1],
    )
    assert lag.seconds > 0
    with pytest.raises(InvalidInput, match=r"buckets \[7\]"):
        table.log_lag({7: Position()}, provider=PROVIDER)

"""Writers of a table's log store: beside their store, and with external services."""

from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    Fenced,
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    SchemaMismatch,
    SegtableError,
    TableGone,
    TimeOutOfRange,
)
from airflow_provider_segtable.core.log_store.reading import Whence
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from airflow_provider_segtable.library import log_writer
from airflow_provider_segtable.library.log_stores import log_finder
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.flight_store import FlightLogStore
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.ports.log_store import DeployMode, Records
from airflow_provider_segtable.services.log_directory import BucketAddress, addresses
from airflow_provider_segtable.storage.local import SystemClock
from tests.contract.worlds import PATIENCE_S, Running, eventually
from tests.unit.library.log_world import SCHEMA, ExternalService, ids, logged, new_table, rows
from tests.unit.table.committing import Trap, lost_reply, traps


def test_readers_see_rows_at_once_and_the_table_has_them_soon() -> None:
    """The embedded service publishes its address, and commits by the policy and at the end."""
    table = new_table(checkpoint_seconds="0.2")
    with table.log_writer() as log:
        assert log.append(rows(1, 2)) == {0: 0}
        assert not ids(table)
        eventually(lambda: log_finder(table.ports)(0))
        client = log_finder(table.ports)(0)
        assert client
        reader = client.reader(0, start=Whence.EARLIEST)
        found = reader.read(wait_s=PATIENCE_S)
        assert isinstance(found, Records)
        assert found.batch.num_rows == 2
        eventually(lambda: ids(table) == [1, 2])
        log.send(rows(3).drop_columns(["value"]))
        assert log.end == {0: 3}
        reader.close()
    assert ids(table) == [1, 2, 3]
    assert not addresses(table.ports.coordinator, table.state().table.table_id)
    log.close()
    with pytest.raises(InvalidInput, match="was closed: open another one"):
        log.append(rows(4))


def test_a_checkpoint_has_all_rows_and_says_its_version() -> None:
    """The next writer goes on from the committed end; a version is that of the rows."""
    table = new_table(buckets="2")
    with table.log_writer(automatic=False, provider=MemoryLogStoreProvider()) as log:
        assert log.checkpoint() is None
        assert [log.append(rows(n)) for n in range(3)] == [{0: 0}, {1: 0}, {0: 1}]
        version = log.checkpoint()
        assert version == table.state().n == log.checkpoint()
        assert log.committed == log.end == {0: 2, 1: 1}
        assert ids(table) == [0, 1, 2]
        first = log.epoch
    with table.log_writer(buckets=[1], provider=MemoryLogStoreProvider()) as log:
        assert log.epoch == first + 1
        assert log.append(rows(7)) == {1: 1}
    assert logged(table, 1) == [1, 7]


def test_keys_stay_in_their_bucket() -> None:
    """Rows of a primary-key table are routed by the key's hash; marks delete keys."""
    table = new_table(keyed=True, buckets="3")
    with table.log_writer(provider=MemoryLogStoreProvider()) as log:
        log.append(rows(*range(30), value="old"))
        log.append(rows(*range(0, 30, 2), value="new"))
        gone = rows(1, 3).drop_columns(["value"]).append_column("gone", pa.array([True, False]))
        log.append(gone, deleted="gone")
        log.checkpoint()
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [each["id"] for each in found] == [0, *range(2, 30)]
    assert {each["value"] for each in found if each["id"] % 2 == 0} == {"new"}
    expected = buckets_of(rows(*range(30)), ["id"], 3)
    for bucket in range(3):
        assert {n for n in range(30) if expected[n] == bucket} == {*logged(table, bucket)}
    (foreign,) = [n for n in range(99) if buckets_of(rows(n), ["id"], 3)[0] == 1][:1]
    with (
        table.log_writer(buckets=[0], provider=MemoryLogStoreProvider()) as log,
        pytest.raises(InvalidInput, match="keys of bucket 1 of the log store"),
    ):
        log.append(rows(foreign))


def test_the_later_writer_wins_and_the_other_learns_it() -> None:
    """What the first one had not committed is discarded; it ends with a typed error, and leaves."""
    table = new_table()
    first = table.log_writer(automatic=False)
    (at,) = addresses(table.ports.coordinator, table.state().table.table_id).values()
    first.append(rows(1))
    first.checkpoint()
    first.append(rows(2))
    with table.log_writer() as second:
        second.append(rows(3))
        with pytest.raises(Fenced, match=r"begun by .*this writer's was 1"):
            first.checkpoint()
        for call in (lambda: first.append(rows(4)), first.flush):
            with pytest.raises(Fenced):
                call()
        second.append(rows(5))
        eventually(lambda: served_elsewhere(table, at))
        first.close()
    assert logged(table) == [1, 3, 5]


def served_elsewhere(table: Table, at: BucketAddress) -> bool:
    """Return whether another service has the bucket now."""
    now = addresses(table.ports.coordinator, table.state().table.table_id).get(at.bucket)
    return now is not None and now.address != at.address


def test_a_writer_follows_its_bucket_to_another_service() -> None:
    """Rows that the killed service had not committed are sent again, once and in order."""
    table = new_table()
    one = ExternalService(table)
    log = table.log_writer()
    assert log.append(rows(1)) == {0: 0}
    log.checkpoint()
    log.append(rows(2))
    log.send(rows(3))
    one.kill()
    two = ExternalService(table)
    assert log.append(rows(4)) == {0: 3}
    two.kill()
    three = ExternalService(table)
    log.send(rows(5))
    version = log.checkpoint()
    assert logged(table) == [1, 2, 3, 4, 5]
    assert version == table.state().n
    log.append(rows(6))
    log.close()
    three.service.close()
    assert logged(table) == [1, 2, 3, 4, 5, 6]


def test_a_writer_waits_for_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """External services are used if they are there; without one it ends with the way out."""
    monkeypatch.setattr(log_writer, "FAILOVER_S", 0.3)
    table = new_table()
    with pytest.raises(LogStoreUnavailable, match=r"no service has bucket 0.*logstore serve"):
        table.log_writer(embedded=False, wait_s=0.1)
    waiting = Running(lambda: table.log_writer(embedded=False, wait_s=PATIENCE_S))
    one = ExternalService(table)
    log = waiting.result()
    log.append(rows(1))
    with pytest.raises(InvalidInput, match="external services commit for several writers"):
        log.checkpoint(commit_id="batch-1")
    (at,) = addresses(table.ports.coordinator, table.state().table.table_id).values()
    assert at.deploy_mode is DeployMode.EXTERNAL
    one.kill()
    with pytest.raises(LogStoreUnavailable):
        log.append(rows(2), deleted=None)


def test_a_refused_call_leaves_no_rows_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a service rows are refused, not heaped up; those before them are sent again."""
    monkeypatch.setattr(log_writer, "FAILOVER_S", 0.1)
    table = new_table(buckets="2")
    one = ExternalService(table, buckets=(0, 1))
    log = table.log_writer(wait_s=0.1)
    log.append(rows(1))
    log.append(rows(2))
    one.kill()
    for number in (66, 67):
        with pytest.raises(LogStoreUnavailable):
            log.append(rows(number))
    assert log.end == {0: 1, 1: 1}
    two = ExternalService(table, buckets=(0, 1))
    log.send(rows(3))
    log.checkpoint()
    log.close()
    two.service.close()
    assert ids(table) == [1, 2, 3]


def test_the_address_is_published_again_after_a_lost_session() -> None:
    """Readers find the store of a writer whose session with ZooKeeper has expired."""
    service, made = MemoryService(), new_table()
    coordinator = MemoryCoordinator(made.ports.clock, service)
    table = Table(replace(made.ports, optional_coordinator=coordinator))
    name = table.state().table.table_id
    with table.log_writer() as log:
        before = addresses(coordinator, name)[0]
        service.expire(coordinator.session)
        eventually(lambda: addresses(coordinator, name))
        after = addresses(coordinator, name)[0]
        assert after.address == before.address
        assert after.number > before.number
        log.append(rows(1))
    assert ids(table) == [1]


def test_a_commit_id_commits_its_rows_once() -> None:
    """A repeated micro-batch is known before its rows are appended again."""
    table = new_table()
    with table.log_writer(automatic=False) as log:
        assert log.committed_as("batch-1") is None
        log.append(rows(1, 2))
        version = log.checkpoint("batch-1")
        assert log.checkpoint("batch-1") == version
    with table.log_writer(automatic=False, provider=MemoryLogStoreProvider()) as log:
        assert log.committed_as("batch-1") == version
        log.append(rows(1, 2))
        with pytest.raises(InvalidInput, match="'batch-1' stands for event"):
            log.checkpoint("batch-1")
        log.checkpoint("batch-2")
    assert ids(table) == [1, 1, 2, 2]


class Sleepless(SystemClock):
    """A clock of this host, by which pauses between attempts take no time."""

    def sleep(self, seconds: float) -> None:
        """Return at once."""


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_in_doubt_is_learnt_before_its_id_is_answered(landed: bool) -> None:  # noqa: FBT001
    """Else a caller would append the rows of its batch once more, beside those in doubt."""
    made = new_table()
    trap = Trap(made.ports.storage)  # type: ignore[arg-type]
    table = Table(replace(made.ports, storage=trap, clock=Sleepless()))  # type: ignore[arg-type]
    provider = MemoryLogStoreProvider()
    with table.log_writer(automatic=False, provider=provider, wait_s=0.2) as log:

        def lost_and_unreadable(path: str, data: bytes) -> None:
            trap.unreadable = 999
            lost_reply(table.ports, landed=landed)(path, data)

        log.append(rows(1, 2))
        traps(table.ports).append(lost_and_unreadable)
        with pytest.raises(SegtableError):
            log.checkpoint("batch-1")
        with pytest.raises(SegtableError):
            log.committed_as("batch-1")
        trap.unreadable = 0
        assert log.committed_as("batch-1") is not None
        log.append(rows(3))
        log.checkpoint("batch-2")
    assert ids(table) == [1, 2, 3]
    assert logged(table) == [1, 2, 3]


def test_what_ends_the_checkpoints_reaches_the_writer() -> None:
    """The error of the service's thread is raised by the next call, and by the end."""
    table = new_table(checkpoint_rows="1")
    log = table.log_writer(provider=MemoryLogStoreProvider())
    Table.drop(table.ports.uri, force=True, zookeeper=table.ports.coordinator.address)

    def go_on() -> None:
        while True:
            log.append(rows(1))

    with pytest.raises(TableGone):
        go_on()
    with pytest.raises(TableGone):
        log.close()


def test_a_full_bucket_is_told_and_nothing_is_appended() -> None:
    """The rows of a refused call are not there; a checkpoint makes room."""
    table = new_table(bucket_mb="0.001", checkpoint_mb="1")
    with table.log_writer(automatic=False, wait_s=0.05, provider=MemoryLogStoreProvider()) as log:
        kept = 0

        def fill() -> None:
            nonlocal kept
            while True:
                log.append(rows(*range(5)))
                kept += 5

        with pytest.raises(LogStoreFull, match="no room for 5 records"):
            fill()
        assert log.end == {0: kept}
        log.checkpoint()
        log.append(rows(*range(5)))
    assert len(ids(table)) == kept + 5


def test_rows_beyond_the_memory_wait_in_files_for_their_checkpoint() -> None:
    """A batch of any size is committed once, as one; what is in memory stays below the bound."""
    table = new_table(bucket_mb="0.02", kept_checkpoints="0")
    log = table.log_writer(automatic=False, overflow=True, provider=MemoryLogStoreProvider())
    beyond = log._overflow
    assert beyond
    for batch in range(2):
        for part in range(30):
            log.append(rows(*range(part * 100, part * 100 + 100)))
        assert table.scan().count() == batch * 3000
        assert log.checkpoint(f"batch-{batch}") == table.state().n
    assert table.state().n == 3
    assert beyond.written > 2 * 3000 * 20 - 2 * 20_480
    assert beyond._used == 0
    log.append(rows(1))
    log.close()
    assert logged(table) == [*range(3000), *range(3000), 1]
    with pytest.raises(InvalidInput, match="add automatic=False"):
        table.log_writer(overflow=True)


def test_large_appends_go_piece_by_piece() -> None:
    """Rows that exceed a bucket many times wait for checkpoints, and keep their order."""
    table = new_table(bucket_mb="0.02", checkpoint_mb="0.005", checkpoint_seconds="0.1")
    with table.log_writer(provider=MemoryLogStoreProvider()) as log:
        log.append(rows(*range(3000)))
        with pytest.raises(InvalidInput, match=r"a record of .* exceeds a bucket"):
            log.append(rows(1, value="x" * 30_000))
    assert logged(table) == [*range(3000)]


def test_wrong_rows_and_tables_are_refused_before_anything_starts() -> None:
    """By their columns, by buckets that are not there, and by the kind of table."""
    table = new_table()
    before = table.state().n
    for buckets in ([], [1]):
        with pytest.raises(InvalidInput, match="which has 1, from 0 up"):
            table.log_writer(buckets=buckets)
    assert table.state().n == before
    with table.log_writer(provider=MemoryLogStoreProvider()) as log:
        with pytest.raises(SchemaMismatch, match=r"column 'other'.*table alter --add\)$"):
            log.append(rows(1).append_column("other", pa.array([1])))
        with pytest.raises(InvalidInput, match="no primary key"):
            log.append(rows(1), deleted="value")
        assert log.end == {0: 0}
    rollup = Table.create(
        f"memory://{uuid4()}",
        schema=pa.schema([SCHEMA.field("at"), SCHEMA.field("value")]),
        time_column="at",
        kind=Rollup(dimensions=("value",)),
        zookeeper=f"memory://{uuid4()}",
    )
    with pytest.raises(InvalidInput, match=r"cannot have a log store: .* a row stands for many"):
        rollup.log_writer()


def test_a_row_without_an_event_time_takes_no_other_with_it() -> None:
    """Nulls without a type are refused at once: no checkpoint could commit what is beside them."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())])
    table = Table.create("memory://untimed", schema=schema, time_column="at", primary_key="id")
    with table.log_writer(provider=MemoryLogStoreProvider()) as log:
        log.append(pa.table([[0], [1]], schema=schema))
        with pytest.raises(TimeOutOfRange, match="event time at is null"):
            log.append(pa.table({"at": pa.nulls(1), "id": [2]}))
    assert table.scan().count() == 1


def test_alterations_are_not_in_the_way_of_a_writer() -> None:
    """It goes on with the columns that it was opened with; the next one has the new ones."""
    table = new_table()
    with table.log_writer(provider=MemoryLogStoreProvider()) as log:
        log.append(rows(1))
        table.alter(columns=[AddColumn(name="note", type="string", default="none")])
        log.append(rows(2))
        with pytest.raises(SchemaMismatch, match=r"'note'.* altered since this writer was opened"):
            log.append(rows(3).append_column("note", pa.array(["x"])))
    with table.log_writer(provider=MemoryLogStoreProvider()) as log:
        log.append(rows(4).append_column("note", pa.array(["y"])))
    found = table.scan().to_arrow().sort_by("id").column("note").to_pylist()
    assert found == ["none", "none", "y"]


def test_a_writer_leaves_a_service_that_stands_still_once_it_is_replaced() -> None:
    """No answer comes, and no connection breaks: the append goes on where the bucket is served."""
    table = new_table()
    one = ExternalService(table)
    log = table.log_writer()
    log.append(rows(1))
    store = one.service.store
    assert isinstance(store, FlightLogStore)
    with store.bucket(0).held():
        waiting = Running(lambda: log.append(rows(2)))
        one.claims.release([0])
        two = ExternalService(table)
        waiting.result()
    log.append(rows(3))
    log.checkpoint()
    log.close()
    with suppress(Fenced):  # unless it has read so in the log, and has nothing left
        one.service.close()
    two.service.close()
    assert ids(table) == [1, 2, 3]

"""What the calls of a log writer promise when they return, while others take its buckets.

``append``: readers see the rows, until they are committed, or a call of this writer says which are
lost. ``checkpoint`` and ``close``: the table's log has all rows of the writer.
"""

import contextlib
from collections.abc import Callable
from uuid import uuid4

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    Fenced,
    LogStoreFull,
    LogStoreServed,
    LogStoreUnavailable,
    StorageError,
    TableGone,
)
from airflow_provider_segtable.library.log_records import BucketQueue
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.library.open_log_writer import EmbeddedLog
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.services.log_directory import addresses
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch
from tests.contract.worlds import PATIENCE_S, Running, eventually
from tests.unit.library.log_world import SCHEMA, ExternalService, ids, new_table, rows


def told(call: Callable[[], object], *errors: type[Exception]) -> Exception:
    """Repeat a call until it raises one of these errors; return it."""
    found: list[Exception] = []

    def raised() -> bool:
        try:
            call()
        except errors as error:
            found.append(error)
        return bool(found)

    eventually(raised)
    return found[0]


def live_ids(table: Table) -> list[int]:
    """Return the ids of the rows that a reader of the log sees."""
    return sorted(table.scan(include_log=True).to_arrow().column("id").to_pylist())


def restore(table: Table) -> None:
    """Undo what the log store has no part in: its buckets get a new epoch nevertheless."""
    before = table.state().n
    table.append(rows(99))
    table.restore(version=before)


def test_a_replaced_writer_answers_no_more_once_the_other_one_is_open() -> None:
    """Its next append raises, and names what is lost; readers see the other's rows at once."""
    table = new_table()
    first = table.log_writer(automatic=False)
    first.append(rows(1))
    first.checkpoint()
    first.append(rows(2, 3))
    with table.log_writer(automatic=False) as second:
        with pytest.raises(Fenced, match="records 1-2 of bucket 0 were appended and are not in"):
            first.append(rows(4))
        assert first.lost == {0: range(1, 3)}
        second.append(rows(5))
        assert live_ids(table) == [1, 5]  # though the first one is not closed
    first.close()
    assert ids(table) == [1, 5]


def test_a_writer_that_closes_without_another_call_is_told_what_it_lost() -> None:
    """The takeover was between its last append and its end."""
    table = new_table()
    first = table.log_writer(automatic=False)
    first.append(rows(1))
    with table.log_writer(automatic=False) as second, pytest.raises(Fenced, match="records 0-0 of"):
        first.close()
    second.close()
    assert not ids(table)


@pytest.mark.parametrize("automatic", [True, False])
def test_an_append_after_a_restore_is_refused(automatic: bool) -> None:  # noqa: FBT001
    """What the restore undid is named, too; the end of the writer has nothing to add."""
    table = new_table(checkpoint_seconds="0.1")
    log = table.log_writer(automatic=automatic, provider=MemoryLogStoreProvider())
    log.append(rows(1))
    version = log.checkpoint()
    log.append(rows(2))
    log.checkpoint()
    table.restore(version=version)
    error = told(lambda: log.append(rows(3)), Fenced)
    assert "since the table was restored" in str(error)
    assert log.lost[0].start == 1
    log.close()
    assert ids(table) == [1]


def test_the_end_of_a_writer_after_a_restore_says_what_is_lost() -> None:
    """Also if its service had found it out before."""
    table = new_table()
    log = table.log_writer(automatic=False, provider=MemoryLogStoreProvider())
    log.append(rows(1))
    restore(table)
    service = service_of(log)
    eventually(lambda: service._given_up)
    with pytest.raises(Fenced, match="records 0-0 of bucket 0"):
        log.close()
    assert not ids(table)


def service_of(log: TableLogWriter) -> "object":
    embedded = log._log
    assert isinstance(embedded, EmbeddedLog)
    return embedded.service


def test_a_writer_with_a_service_learns_of_a_restore() -> None:
    """The service is not asked for a checkpoint meanwhile."""
    table = new_table()
    one = ExternalService(table)
    log = table.log_writer()
    log.append(rows(1))
    restore(table)
    told(lambda: log.append(rows(2)), Fenced)
    assert log.lost[0].start == 0
    log.close()
    with contextlib.suppress(Fenced):
        one.service.close()
    assert not ids(table)


def test_a_takeover_of_one_bucket_reaches_a_writer_that_writes_another() -> None:
    """Appends look at idle buckets every now and then, a flush at once."""
    table = new_table(keyed=True, buckets="2")
    first = table.log_writer(automatic=False, provider=MemoryLogStoreProvider())
    first.append(rows(*range(8)))
    begin_epoch(table.ports, [1], owner="another")
    error = told(lambda: first.append(rows(0)), Fenced)
    assert "begun by another" in str(error)
    assert {*first.lost} >= {1}
    first.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_writer_of_a_dropped_table_is_told_and_leaves_the_next_one_alone(again: bool) -> None:  # noqa: FBT001
    """Also if a table is made in its place, whose writer has the same epoch."""
    table, uri = new_table(), f"memory://{uuid4()}"
    zookeeper = table.ports.coordinator.address
    Table.create(uri, schema=SCHEMA, time_column="at", granularity="all", zookeeper=zookeeper)
    table = Table.open(uri, zookeeper=zookeeper)
    log = table.log_writer(automatic=False, provider=MemoryLogStoreProvider())
    log.append(rows(1))
    Table.drop(uri, force=True, zookeeper=zookeeper)
    if again:
        new = Table.create(uri, schema=SCHEMA, time_column="at", granularity="all")
        begin_epoch(new.ports, [0], owner="the new table's writer")
    told(lambda: log.append(rows(2)), TableGone)
    for call in (log.checkpoint, log.close):
        with pytest.raises(TableGone):
            call()
    if again:
        assert not ids(Table.open(uri))


def test_a_service_beside_which_a_table_is_dropped_and_made_anew_commits_nothing_there() -> None:
    """Not by its first checkpoint, either, before which it had never read the log itself."""
    uri, zookeeper = f"memory://{uuid4()}", f"memory://{uuid4()}"
    made = {"schema": SCHEMA, "time_column": "at", "granularity": "all", "zookeeper": zookeeper}
    log = Table.create(uri, **made).log_writer(automatic=False)
    log.append(rows(1))
    service = service_of(log)
    Table.drop(uri, force=True, zookeeper=zookeeper)
    new = Table.create(uri, **made)
    begin_epoch(new.ports, [0], owner="the new table's writer")
    with pytest.raises(TableGone):
        service.checkpoint()
    assert not ids(new)
    log.discard()


def test_a_writer_whose_table_cannot_be_read_does_not_answer_for_long() -> None:
    """Another one may have its bucket; once the log is read again, the append goes on."""
    table = new_table(lease_seconds="0.2")
    storage = table.ports.storage
    log = table.log_writer(automatic=False, wait_s=PATIENCE_S, provider=MemoryLogStoreProvider())
    log.append(rows(1))
    service = service_of(log)
    away = Away(storage)
    service._log.storage = away
    error = told(lambda: bucket_answer(log), LogStoreUnavailable)
    assert "has not read the table's log for too long" in str(error)
    away.back = True
    log.append(rows(2))
    log.close()
    assert ids(table) == [1, 2]


@pytest.mark.parametrize(
    ("broken", "fate"),
    [
        (("create",), "were appended and are not in the table"),
        (("create", "read", "list"), "may not be in the table: its log cannot be read now"),
    ],
)
def test_a_last_checkpoint_that_fails_names_the_rows(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...], fate: str
) -> None:
    """Whatever the error; rows that an earlier checkpoint committed are not among them."""
    table = new_table()
    log = table.log_writer(automatic=False, provider=MemoryLogStoreProvider())
    log.append(rows(1))
    log.checkpoint()
    log.append(rows(2, 3))
    with monkeypatch.context() as patch:
        for name in broken:
            patch.setattr(table.ports.storage, name, _fail)
        with pytest.raises(CorruptTable, match=f"^damaged; records 1-2 of bucket 0 {fate}"):
            log.close()
    assert log.lost == {0: range(1, 3)}
    assert ids(table) == [1]


def _fail(*_: object, **__: object) -> None:
    raise CorruptTable("damaged")


def bucket_answer(log: TableLogWriter) -> None:
    log._queues[0].check(wait_s=0.01)


class Away:
    """A storage that fails until it is back."""

    def __init__(self, inner: object) -> None:
        self._inner, self.back = inner, False

    def __getattr__(self, name: str) -> object:
        if not self.back:
            raise StorageError("away")
        return getattr(self._inner, name)


def test_the_rows_of_one_append_are_seen_and_committed_together() -> None:
    """Though they go to several buckets; a call that finds no room appends nothing."""
    table = new_table(keyed=True, buckets="3", bucket_mb="0.1")
    many, seen = 400, set[int]()
    with table.log_writer(automatic=False, provider=MemoryLogStoreProvider()) as log:
        service = service_of(log)
        pushed, right = 0, BucketQueue.push

        def push(queue: BucketQueue, *, wait_s: float) -> None:
            nonlocal pushed
            pushed += 1
            reading.append(Running(service.store.status))
            reading[-1]._thread.join(0.02)  # so long a reader that is let in would take
            right(queue, wait_s=wait_s)

        reading: list[Running] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BucketQueue, "push", push)
            for turn in range(2):
                log.append(rows(*range(turn * many, turn * many + many)))
        for each in reading:
            found = each.result().values()
            seen.add(sum(status.end.offset for status in found))
        assert pushed >= 2
        assert seen <= {0, many, 2 * many}
        with pytest.raises(LogStoreFull):
            _fill(log, many)
        assert sum(log.end.values()) % many == 0
        log.checkpoint()
    assert len(ids(table)) % many == 0


def _fill(log: TableLogWriter, many: int) -> None:
    log._wait_s = 0.05
    for turn in range(99):
        log.append(rows(*range(turn * many, turn * many + many)))


def test_the_rows_of_the_newer_writer_are_read_though_the_older_one_claims_anew() -> None:
    """Claims have the writer's epoch, so a late one of an older writer misleads no reader."""
    table = new_table()
    first = table.log_writer(automatic=False)
    service = service_of(first)
    service._closing.set()  # its threads stand still: it never learns of the takeover
    second = table.log_writer(automatic=False)
    second.append(rows(5))
    coordinator = table.ports.coordinator
    assert isinstance(coordinator, MemoryCoordinator)
    embedded = first._log
    assert isinstance(embedded, EmbeddedLog)
    assert embedded._claims
    embedded._claims.release([0])
    embedded._claim()
    (at,) = addresses(coordinator, table.state().table.table_id).values()
    assert at.epoch == second.epoch
    assert live_ids(table) == [5]
    second.close()
    first.discard()


def test_a_store_beside_the_writer_is_refused_where_services_have_the_buckets() -> None:
    """No epoch begins, so the service's writer goes on; one that is gone is not in the way."""
    table = new_table()
    one = ExternalService(table)
    log = table.log_writer()
    log.append(rows(1))
    before = table.state().n
    with pytest.raises(LogStoreServed, match=r"bucket 0.*stop it.*embedded=False"):
        table.log_writer(embedded=True)
    assert table.state().n == before
    log.append(rows(2))
    log.close()
    one.service.store.shutdown()  # killed; its session has not ended
    with table.log_writer(embedded=True, automatic=False) as other:
        other.append(rows(3))
        assert live_ids(table) == [1, 2, 3]


def test_a_read_beside_a_killed_service_shows_what_is_committed_and_says_so() -> None:
    """Its uncommitted rows are with its writer, who sends them to the next service."""
    table = new_table()
    one = ExternalService(table)
    log = table.log_writer()
    log.append(rows(1))
    log.checkpoint()
    log.append(rows(2))
    assert live_ids(table) == [1, 2]
    one.service.store.shutdown()  # killed; its session has not ended
    scan = table.scan(include_log=True)
    assert scan.count() == 1
    (note,) = scan.explain().log_notes
    assert "has ended" in note
    log.discard()

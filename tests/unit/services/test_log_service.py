"""The service of a log store: when it commits, and what becomes of failures."""

import threading
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import (
    CheckpointPending,
    CommitUnknown,
    Fenced,
    LogStoreFull,
    LogStoreUnavailable,
    StorageError,
    StorageFull,
    TableGone,
)
from airflow_provider_segtable.core.log_store.bucket import ON_REQUEST, CheckpointPolicy
from airflow_provider_segtable.services import log_store
from airflow_provider_segtable.services.log_store import LOOK_S, Progress
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch
from airflow_provider_segtable.table.table import Table
from tests.contract.worlds import PATIENCE_S, Running, eventually
from tests.unit.services.logging_service import Served
from tests.unit.table.committing import full, lost_reply
from tests.unit.table.logged import tail

AT_ONCE = CheckpointPolicy(seconds=1e9, nbytes=1, records=1)


@pytest.fixture
def served() -> Served:
    """A store of two buckets, whose service is stepped by hand."""
    return Served()


def test_records_are_committed_when_they_are_old_enough(served: Served) -> None:
    """Not before; their age counts from the first look that saw them."""
    assert served.service.step() == LOOK_S
    served.clock.advance(50)
    assert served.service.step() == LOOK_S
    served.append(3)
    served.append(2, bucket=1)
    served.clock.advance(9.9)
    assert served.service.step() == LOOK_S
    assert not served.numbers()
    served.clock.advance(0.1)
    served.service.step()
    assert served.numbers() == [*range(5)]
    assert served.service.progress.checkpoints == 1
    assert served.service.progress.version == served.table.state().n


def test_records_that_come_during_a_commit_have_their_time(served: Served) -> None:
    """They wait as long as others: their age does not count from those before them."""

    def slow(path: str, data: bytes) -> None:
        served.clock.advance(3)
        served.append(1)
        served.table.ports.storage.inner.create(path, data)  # type: ignore[attr-defined]

    served.append(1)
    served.clock.advance(20)
    served.trap(slow)
    served.service.step()
    served.clock.advance(6.5)
    assert served.service.step() > 0
    assert served.numbers() == [0]
    served.clock.advance(1)
    served.service.step()
    assert served.numbers() == [0, 1]


def test_many_records_are_committed_at_once(served: Served) -> None:
    """The policy's number is reached by all buckets together."""
    served.append(60)
    served.service.step()
    assert not served.numbers()
    served.append(40, bucket=1)
    served.service.step()
    assert len(served.numbers()) == 100


def test_a_failing_storage_is_tried_again_after_a_pause(served: Served) -> None:
    """Nothing is lost or doubled, and what came meanwhile is in the same commit."""
    served.trap(full, full)
    served.append(100)
    for _ in range(2):
        with pytest.raises(StorageFull):
            served.service.step()
        served.append(1)
        assert served.service.step() == LOOK_S
        served.clock.advance(1)
    assert isinstance(served.service.progress.failure, StorageFull)
    served.service.step()
    assert served.numbers() == [*range(102)]
    assert served.service.progress.failure is None


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_is_settled_before_anything_else(served: Served, landed: bool) -> None:  # noqa: FBT001
    """Though none is due, the same records are committed again, once; what came since waits."""
    served.append(90)
    before = served.table.state().n

    def lost_and_unreadable(path: str, data: bytes) -> None:
        served.table.ports.storage.unreadable = 999  # type: ignore[attr-defined]
        lost_reply(served.table.ports, landed=landed)(path, data)

    served.trap(lost_and_unreadable)
    with pytest.raises(CommitUnknown, match="commits once"):
        served.service.checkpoint()
    with pytest.raises(StorageError):  # the retry learns nothing, either
        served.service.checkpoint()
    served.table.ports.storage.unreadable = 0  # type: ignore[attr-defined]
    served.append(7)
    served.clock.advance(1)
    served.service.step()
    assert served.numbers() == [*range(90)]
    served.service.checkpoint()
    assert served.numbers() == [*range(97)]
    assert served.table.state().n == before + 2
    assert tail(served.table, 0) == [*range(97)]
    assert served.lost == []


def test_a_bucket_that_was_taken_is_left_out(served: Served) -> None:
    """The others are committed; its writer is fenced, and the directory is told."""
    served.append(3)
    served.append(2, bucket=1)
    begin_epoch(Table(replace(served.table.ports)).ports, [0], owner="another")
    with pytest.raises(Fenced, match="begun by another"):
        served.service.checkpoint()
    assert served.numbers() == [3, 4]
    assert served.lost == [0]
    with pytest.raises(Fenced):
        served.append(1)
    served.append(1, bucket=1)
    served.service.checkpoint()
    served.begin(0)
    served.append(4)
    served.service.checkpoint()
    assert served.numbers() == [3, 4, 5, 6, 7, 8, 9]


def test_a_refusal_that_cannot_be_looked_up_is_tried_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage fails between the refusal and the look who has the bucket: nothing hangs."""
    served.append(3)
    served.append(2, bucket=1)
    begin_epoch(Table(replace(served.table.ports)).ports, [0], owner="another")

    def away(*_: object) -> None:
        raise StorageError("away")

    with monkeypatch.context() as failing:
        failing.setattr(log_store, "refused", away)
        with pytest.raises(StorageError):
            served.service.checkpoint()
    with pytest.raises(Fenced, match="begun by another"):
        served.service.checkpoint()
    assert served.numbers() == [3, 4]
    assert served.lost == [0]


def test_a_request_during_a_checkpoint_waits_for_the_next(served: Served) -> None:
    """Its version has what was appended before it; requests that wait together share one."""
    reached, go_on = threading.Event(), threading.Event()

    def slow(path: str, data: bytes) -> None:
        reached.set()
        assert go_on.wait(PATIENCE_S)
        served.table.ports.storage.inner.create(path, data)  # type: ignore[attr-defined]

    served.store.serve_checkpoints(served.service.request)
    client = served.store.client()
    assert client.checkpoint(wait_s=1) is None
    served.trap(slow)
    served.append(1)
    first = Running(lambda: client.checkpoint(wait_s=1))
    assert reached.wait(PATIENCE_S)
    served.append(1)
    with pytest.raises(CheckpointPending, match=r"still under way after 0.01 s"):
        client.checkpoint(wait_s=0.01)
    others = [Running(lambda: client.checkpoint(wait_s=PATIENCE_S)) for _ in range(2)]
    go_on.set()
    versions = [each.result() for each in (first, *others)]
    assert versions[1] == versions[2] == versions[0] + 1
    assert client.checkpoint(wait_s=1) == versions[1]
    assert served.numbers() == [0, 1]


def test_a_slow_storage_slows_the_writer() -> None:
    """A full bucket lets appends wait; at their deadline they are refused, and nothing is lost."""
    served, go_on = Served(AT_ONCE), threading.Event()

    def slow(path: str, data: bytes) -> None:
        assert go_on.wait(PATIENCE_S)
        served.table.ports.storage.inner.create(path, data)  # type: ignore[attr-defined]

    def fill() -> None:
        while True:
            served.append(100)

    served.trap(slow)
    served.service.start()
    with pytest.raises(LogStoreFull):
        fill()
    waiting = Running(lambda: served.append(100, wait_s=PATIENCE_S))
    go_on.set()
    waiting.result()
    served.service.close()
    assert served.numbers() == [*range(served.written)]


def test_what_ends_the_service_reaches_its_users() -> None:
    """An error that does not pass is raised by requests and by the end, with its type."""
    served = Served(AT_ONCE)
    served.service.start()
    drop(served.table.ports, force=True)
    served.append(1)
    eventually(lambda: served.service.error is not None)
    for call in (served.service.checkpoint, served.service.close):
        with pytest.raises(TableGone):
            call()
    served.service.close()
    with pytest.raises(LogStoreUnavailable, match="is closing"):
        served.service.request(1)


def test_the_end_commits_what_is_left(served: Served) -> None:
    """After a pause if the storage fails; then clients are told."""
    served.service.start()
    served.append(5)
    served.trap(full, full)
    served.service.close()
    assert served.numbers() == [*range(5)]
    with pytest.raises(LogStoreUnavailable):
        served.append(1)
    broken = Served()
    broken.service.start()
    broken.append(1)
    broken.trap(*[full] * 99)
    with pytest.raises(StorageFull):
        broken.service.close(wait_s=3)
    with pytest.raises(LogStoreUnavailable):
        broken.append(1)


def test_progress_reads_as_a_sentence() -> None:
    """The line that a service logs at its end has no Python in it."""
    progress = Progress(
        checkpoints=2, version=7, failure=StorageFull("the disk is full"), lost=(3, 1, 3)
    )
    assert str(Progress()) == "0 checkpoints"
    assert str(progress) == (
        "2 checkpoints; the last one is version 7; the last attempt failed: the disk is full; "
        "taken by others: buckets 1, 3"
    )


def test_a_look_during_a_checkpoint_starts_no_other() -> None:
    """On request alone, records that come meanwhile wait for the next request and its id."""
    served = Served(ON_REQUEST)
    served.append(3)

    def meanwhile(path: str, data: bytes) -> None:
        served.append(2)
        assert Running(served.service.step).result() == LOOK_S
        served.table.ports.storage.inner.create(path, data)  # type: ignore[attr-defined]

    served.trap(meanwhile)
    served.service.checkpoint("batch-0")
    assert served.numbers() == [*range(3)]
    assert served.service.step() == LOOK_S
    assert served.numbers() == [*range(3)]
    served.service.checkpoint("batch-1")
    assert served.numbers() == [*range(5)]


@pytest.mark.parametrize("landed", [True, False])
def test_a_checkpoint_in_doubt_takes_nothing_of_the_next_batch(landed: bool) -> None:  # noqa: FBT001
    """The look that learns its outcome commits no row that came since: these have an id to come."""
    served = Served(ON_REQUEST)
    served.append(3)
    _lose_reply(served, landed=landed)
    served.append(2)
    served.clock.advance(1)
    served.service.step()
    assert served.numbers() == [*range(3)]
    assert served.service.step() == LOOK_S
    assert served.numbers() == [*range(3)]
    served.service.checkpoint("batch-1")
    assert served.numbers() == [*range(5)]
    commits = served.table.state().commits
    assert {"batch-0", "batch-1"} <= commits.keys()


@pytest.mark.parametrize("landed", [True, False])
def test_an_outcome_is_learnt_before_its_id_is_asked_for(landed: bool) -> None:  # noqa: FBT001
    """Else the rows of a batch would be appended again beside those in doubt."""
    served = Served(ON_REQUEST)
    served.append(3)
    _lose_reply(served, landed=landed)
    served.service.resolve()
    assert "batch-0" in served.table.state().commits
    served.service.resolve()
    assert served.numbers() == [*range(3)]


def _lose_reply(served: Served, *, landed: bool) -> None:
    """Let the outcome of a checkpoint as "batch-0" stay unknown."""
    storage = served.table.ports.storage

    def lost_and_unreadable(path: str, data: bytes) -> None:
        storage.unreadable = 999  # type: ignore[attr-defined]
        lost_reply(served.table.ports, landed=landed)(path, data)

    served.trap(lost_and_unreadable)
    with pytest.raises(CommitUnknown):
        served.service.checkpoint("batch-0")
    storage.unreadable = 0  # type: ignore[attr-defined]

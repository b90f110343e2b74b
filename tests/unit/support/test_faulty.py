"""Each class of fault does what it says, alone and at full rate."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    LockLost,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.ports.coordination import LeaseState
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from tests.simulation.faults.faulty_coordinator import FaultyCoordinator
from tests.simulation.faults.faulty_storage import (
    Faults,
    FaultyFiles,
    FaultyStorage,
)
from tests.simulation.simulator import Actor, Simulation


def only(seed: int = 0, **rates: Any) -> Faults:
    return Faults(random=Random(seed), **rates)


def alone(run: Callable[[Actor], None]) -> Simulation:
    """Run one actor to its end."""
    simulation = Simulation(0)
    simulation.spawn("actor", run)
    simulation.run(max_steps=10_000)
    return simulation


def after_create(faults: Faults) -> tuple[type[StorageError] | None, bool, bool]:
    """Return a create's outcome, whether it took effect at once, and in the end."""
    storage, outcome, at_once = MemoryStorage(), list[type[StorageError]](), list[bool]()

    def run(actor: Actor) -> None:
        try:
            FaultyStorage(storage, actor, faults).create("0", b"x")
        except StorageError as error:
            outcome.append(type(error))
        at_once.append(bool(list(storage.list(""))))

    alone(run)
    return (outcome[0] if outcome else None, at_once[0], bool(list(storage.list(""))))


def test_without_faults_nothing_changes() -> None:
    """A create is a create, with two boundaries."""
    faults = only()
    assert after_create(faults) == (None, True, True)
    assert (faults.boundaries, faults.injected) == (2, {})


def test_an_error_has_no_effect() -> None:
    """A plain storage error is certain: nothing was written, now or later."""
    assert after_create(only(error=1.0)) == (StorageError, False, False)


def test_a_lost_reply_may_or_may_not_have_had_its_effect() -> None:
    """Both kinds occur, and neither changes its mind later."""
    seen = {after_create(only(seed, lost_reply=1.0)) for seed in range(20)}
    assert seen == {(OutcomeUnknown, True, True), (OutcomeUnknown, False, False)}


def test_a_late_request_lands_after_its_sender_gave_up() -> None:
    """At first there is nothing to see; in the end it is there."""
    assert after_create(only(late=1.0)) == (OutcomeUnknown, False, True)


def test_exists_may_be_about_oneself() -> None:
    """A retried request is told that its own object exists already."""
    assert after_create(only(false_exists=1.0)) == (AlreadyExists, True, True)


def test_a_late_request_does_not_overwrite() -> None:
    """When it arrives and another owns the name, it changes nothing."""
    storage = MemoryStorage()

    def run(actor: Actor) -> None:
        with pytest.raises(OutcomeUnknown):
            FaultyStorage(storage, actor, only(late=1.0)).create("0", b"late")
        storage.create("0", b"other")

    alone(run)
    assert storage.read("0") == b"other"


@pytest.mark.parametrize("what", ["replace", "delete"])
def test_a_change_may_fail_after_its_effect(what: str) -> None:
    """An error of replace or delete says nothing about the effect."""
    storage = MemoryStorage()
    storage.create("0", b"old")

    def run(actor: Actor) -> None:
        faulty = FaultyStorage(storage, actor, only(lost_reply=1.0))
        with pytest.raises(StorageError, match="after the effect"):
            faulty.replace("0", b"new") if what == "replace" else faulty.delete("0")

    alone(run)
    left = [storage.read(e.path) for e in storage.list("")]
    assert left == ([b"new"] if what == "replace" else [])


def test_a_data_file_dies_whole() -> None:
    """Killed at any boundary of writing it, a file is invisible until its commit took effect."""

    def write(faults: Faults) -> list[str]:
        files = MemoryFiles()

        def run(actor: Actor) -> None:
            if actor.incarnation:
                return
            with FaultyFiles(files, actor, faults).create("data/c/0-a.parquet") as sink:
                sink.write(b"half")
                sink.write(b"half")
                sink.commit()

        alone(run)
        return [data.decode() for data in files.store.values()]

    calm = only()
    assert write(calm) == ["halfhalf"]
    outcomes = [write(only(crash_at=k)) for k in range(1, calm.boundaries + 1)]
    assert outcomes == [[]] * (calm.boundaries - 1) + [["halfhalf"]]


def test_a_data_file_that_was_not_committed_cannot_be_opened() -> None:
    """An error in mid-file leaves nothing to read."""
    files = MemoryFiles()

    def run(actor: Actor) -> None:
        with (
            pytest.raises(StorageError, match="injected"),
            FaultyFiles(files, actor, only(error=1.0)).create("data/c/0-a.parquet") as sink,
        ):
            sink.write(b"half")
        calm = FaultyFiles(files, actor, only())
        with pytest.raises(NotFound), calm.open("data/c/0-a.parquet"):
            pass

    alone(run)


def leased(faults: Faults, then: Callable[[FaultyCoordinator, Actor, Any], None]) -> None:
    """Acquire with these faults, then do ``then``."""
    service = MemoryService()

    def run(actor: Actor) -> None:
        client = MemoryCoordinator(actor, service)

        def cut(off: bool) -> None:  # noqa: FBT001  # the seam's own form
            (service.suspend if off else service.resume)(client.session)

        coordinator = FaultyCoordinator(
            client,
            actor,
            faults,
            expire=lambda told: service.expire(client.session, notice=told),
            wipe=lambda told: service.wipe(notice=told),
            cut=cut,
        )
        request = LockRequest(table="t", group="g", purpose="test", holder="h")
        then(coordinator, actor, coordinator.acquire(request, wait_s=1.0))

    alone(run)


def test_a_session_may_expire_unnoticed() -> None:
    """The lease still says held, and its check finds out."""
    told: set[LeaseState] = set()

    def then(_: FaultyCoordinator, __: Actor, lease: Any) -> None:
        told.add(lease.state)
        with pytest.raises(LockLost):
            lease.check()

    for seed in range(10):
        leased(only(seed, expiry=1.0), then)
    assert told == {LeaseState.HELD, LeaseState.LOST}


def test_a_wiped_server_knows_no_lease() -> None:
    """Whether its holder was told or not, no check passes after a wipe."""

    def then(_: FaultyCoordinator, __: Actor, lease: Any) -> None:
        with pytest.raises(LockLost):
            lease.check()

    for seed in range(4):
        leased(only(seed, wipe=1.0), then)


def test_a_cut_connection_makes_a_lease_doubtful_for_a_while() -> None:
    """Doubtful means: do not commit. Once the connection is back, it is held again."""
    faults = only()

    def then(_: FaultyCoordinator, actor: Actor, lease: Any) -> None:
        faults.suspension = 1.0
        with pytest.raises(LockLost, match="doubtful"):
            lease.check()
        faults.stop()
        actor.sleep(60)
        assert lease.state is LeaseState.HELD
        lease.check()

    leased(faults, then)


def test_stopping_ends_all_faults() -> None:
    """After ``stop`` the world is calm, so that recovery can be asserted."""
    faults = Faults.swarm(Random(5))
    faults.crash, faults.late, faults.crash_at = 1.0, 1.0, 1
    faults.stop()
    assert after_create(faults) == (None, True, True)
    assert faults.injected == {}

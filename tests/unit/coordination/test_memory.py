"""The hooks by which a simulation breaks the memory coordinator."""

import threading

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, LockLost, LockTimeout
from airflow_provider_segtable.core.time import parse_instant
from airflow_provider_segtable.ports.coordination import LeaseState
from tests.contract.worlds import TABLE, Running, appending, eventually, request, time_chunk
from tests.support.clock import FakeClock


class FrozenClock(FakeClock):
    """Who sleeps here does not wake before ``thaw`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.thaw = threading.Event()

    def sleep(self, seconds: float) -> None:
        """Stand still, then let time pass."""
        self.thaw.wait()
        super().sleep(seconds)


def test_a_deadline_is_measured_by_the_clock_given() -> None:
    """Waiting takes the clock's time and no other."""
    service, clock = MemoryService(), FakeClock()
    start = clock.monotonic()
    MemoryCoordinator(clock, service).acquire(request("g", 1), wait_s=0)
    with pytest.raises(LockTimeout, match=r"gave up after 30\.0 s"):
        MemoryCoordinator(clock, service).acquire(request("h", 1), wait_s=30)
    assert clock.monotonic() - start == pytest.approx(30)


def test_the_service_may_have_a_clock_of_its_own() -> None:
    """Grants carry the service's time, not the client's."""
    clock = FakeClock(parse_instant("2026-01-02"))
    client = MemoryCoordinator(FakeClock(), MemoryService(clock))
    assert client.acquire(request("g", 1), wait_s=0).granted_at == clock.now()


def test_suspended_is_doubtful_and_resumed_is_held() -> None:
    """A cut connection puts the lease in doubt; the session survives it."""
    service = MemoryService()
    client = MemoryCoordinator(FakeClock(), service)
    lease = client.acquire(request("g", 1), wait_s=0)
    service.suspend(client.session)
    assert lease.state is LeaseState.DOUBTFUL
    for forbidden in (lease.check, lease.make_irrevocable):
        with pytest.raises(LockLost, match="doubtful"):
            forbidden()
    with pytest.raises(CoordinatorUnavailable):
        client.locks(TABLE)
    service.resume(client.session)
    lease.check()


def test_a_session_that_ended_while_suspended_is_lost_at_the_reconnection() -> None:
    """The client learns of the expiry when it reconnects, not before."""
    service = MemoryService()
    client = MemoryCoordinator(FakeClock(), service)
    lease, session = client.acquire(request("g", 1), wait_s=0), client.session
    service.suspend(session)
    service.expire(session, notice=False)
    assert lease.state is LeaseState.DOUBTFUL
    service.resume(session)
    assert lease.state is LeaseState.LOST


def test_who_was_not_told_believes_until_it_asks() -> None:
    """A paused process holds a lease that says HELD while another has the lock; check finds out."""
    service = MemoryService()
    client = MemoryCoordinator(FakeClock(), service)
    lease = client.acquire(request("g", 1), wait_s=0)
    service.expire(client.session, notice=False)
    later = MemoryCoordinator(FakeClock(), service).acquire(request("h", 1), wait_s=0)
    assert lease.state is LeaseState.HELD
    with pytest.raises(LockLost):
        lease.check()
    assert lease.state is LeaseState.LOST
    assert lease.token.older_than(later.token)


def test_who_was_not_told_cannot_publish() -> None:
    """Publishing asks the server: a paused process that lost its session finds out."""
    service = MemoryService()
    client = MemoryCoordinator(FakeClock(), service)
    lease = client.acquire(request("g", 1), wait_s=0)
    service.expire(client.session, notice=False)
    with pytest.raises(LockLost):
        lease.make_irrevocable()
    assert lease.state is LeaseState.LOST


def test_who_was_overtaken_is_remembered_beyond_the_session() -> None:
    """A waiter whose place went with its session does not start to count anew."""
    service, frozen = MemoryService(), FrozenClock()
    holder, patient = MemoryCoordinator(FakeClock(), service), MemoryCoordinator(frozen, service)
    lease = holder.acquire(appending("a"), wait_s=0)
    with service.box(TABLE) as box:
        session, asked = patient.session, time_chunk("major")
        place = service.queue(asked, session, None, 0)
        holder.acquire(appending("b"), wait_s=0)
        service.attempt(asked, session, place, 0)
        assert place.lock.yields == 1
        service.attempt(asked, session, place, 0)  # the same rival counts once
        service.expire(session)
        place = service.queue(asked, service.open(), place, 0)
        assert [each.lock.yields for each in box.queue] == [place.lock.yields] == [1]
    lease.check()


def test_a_waiter_that_never_wakes_does_not_block_after_its_session() -> None:
    """The place in the queue of a dead process goes with its session."""
    service, frozen = MemoryService(), FrozenClock()
    holder, dead = MemoryCoordinator(FakeClock(), service), MemoryCoordinator(frozen, service)
    lease = holder.acquire(request("g", 1), wait_s=0)
    waiting = Running(lambda: dead.acquire(request("h", 1), wait_s=5))
    eventually(lambda: _queued(service) == 1)
    service.expire(dead.session)
    lease.release()
    assert holder.acquire(request("i", 1), wait_s=0).state is LeaseState.HELD
    frozen.thaw.set()
    with pytest.raises(LockTimeout):
        waiting.result()


def test_a_wipe_starts_numbers_anew_in_another_epoch() -> None:
    """Tokens of the new epoch may repeat numbers, which is why epochs do not compare."""
    service = MemoryService()
    client = MemoryCoordinator(FakeClock(), service)
    before = client.acquire(request("g", 1), wait_s=0).token
    client.announce(TABLE, 9)
    service.wipe()
    after = client.acquire(request("h", 1), wait_s=0).token
    assert (before.number, after.number) == (1, 1)
    assert before.epoch != after.epoch
    assert client.wait_head(TABLE, beyond=-1, wait_s=0) is None


def _queued(service: MemoryService) -> int:
    with service.box(TABLE) as box:
        return len(box.queue)

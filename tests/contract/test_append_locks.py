"""Leases of appends that follow each other: their ids, and who waits for the lock they share."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import LockLost
from airflow_provider_segtable.ports.coordination import Coordinator, Lease
from tests.contract.worlds import (
    PATIENCE_S,
    TABLE,
    Running,
    World,
    appending,
    eventually,
    request,
    time_chunk,
)


def next_append(client: Coordinator, group: str, at_least: int = 0) -> Lease:
    """Return the lease of an append of one segment."""
    asked = appending(group)
    ask = replace(asked.allocate[0], at_least=at_least)
    return client.acquire_for_append(replace(asked, allocate=(ask,)), wait_s=PATIENCE_S)


def burst(client: Coordinator, count: int, name: str = "a") -> list[int]:
    """Append ``count`` times; return the partition ids."""
    given: list[int] = []
    for n in range(count):
        lease = next_append(client, f"{name}{n}", at_least=len(given))
        lease.check()
        given += [each.partition for each in lease.allocated]
        lease.release()
    return given


def test_appends_that_follow_each_other_get_ids_in_order(world: World) -> None:
    """As if each had asked; after the last one, neither a lock nor a lost id is left."""
    client, other = world.client(), world.client()
    assert burst(client, 11) == [*range(11)]
    eventually(lambda: not other.locks(TABLE))
    assert burst(other, 1, "b") == [11]


def test_no_id_is_given_to_two_writers(world: World) -> None:
    """Two clients that append by turns, and one after them."""
    one, two = world.client(), world.client()
    leases = [next_append(client, f"{n}-{client}") for n in range(9) for client in (one, two)]
    for lease in leases:
        lease.release()
    eventually(lambda: not one.locks(TABLE))
    leases.append(next_append(two, "last"))
    given = [each for lease in leases for each in lease.allocated]
    assert len(set(given)) == len(given) == 19


@pytest.mark.parametrize("used", [False, True])
def test_a_request_for_the_time_chunk_waits_for_appends_only(
    world: World, monkeypatch: pytest.MonkeyPatch, *, used: bool
) -> None:
    """A lock that no append uses is given up at once, another one after its append."""
    monkeypatch.setattr("airflow_provider_segtable.coordination.zookeeper.client.KEPT_S", 3600.0)
    client, major = world.client(), world.client()
    burst(client, 5)
    lease = next_append(client, "last") if used else None
    running = Running(lambda: major.acquire(time_chunk("major"), wait_s=PATIENCE_S))
    if lease:
        eventually(lambda: world.queued() == 1)
        assert not running.done
        lease.check()
        lease.release()
    running.result().release()
    assert len(next_append(client, "later").allocated) == 1


def test_a_compaction_of_segments_does_not_wait_for_the_append_that_made_them(
    world: World,
) -> None:
    """They are published, although the lock that they were allocated under may be kept."""
    client = world.client()
    made = burst(client, 5)
    lease = next_append(client, "last")
    world.client().acquire(request("minor", *made), wait_s=0).release()
    lease.check()


def test_a_writer_learns_that_its_lock_was_broken_or_expired(world: World) -> None:
    """Its append is refused; the next one gets another lock."""
    client, person = world.client(), world.client()
    burst(client, 5)
    broken = next_append(client, "broken")
    for lock in person.locks(TABLE):
        person.break_lock(TABLE, lock.group)
    eventually(lambda: refused(broken))
    expired = next_append(client, "expired")
    world.expire(client)
    eventually(lambda: refused(expired))
    next_append(client, "next").check()


def refused(lease: Lease) -> bool:
    """Return whether a lease is lost."""
    try:
        lease.check()
    except LockLost:
        return True
    return False

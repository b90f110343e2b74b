"""Nodes that no segtable wrote: named, never obeyed, and in nobody's way for ever."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from kazoo.client import KazooClient

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import LockRevoked, LockTimeout, UnreadableNode
from tests.contract.worlds import PATIENCE_S, TABLE, ZooKeeperWorld, append, request, time_chunk

pytestmark = pytest.mark.zookeeper

JUNK = [b"", b"\xff\xfe\x00", b"[]", b"null", b'{"v":2}', b'{"v":"2"}', b"[" * 5000]
_chroots = (f"/strays-{n}" for n in count())


@pytest.fixture
def world(zookeeper: EmbeddedZooKeeper) -> Iterator[ZooKeeperWorld]:
    """Yield clients of a fresh chroot whose table's nodes are there."""
    made = ZooKeeperWorld(zookeeper.hosts, next(_chroots))
    made.client().acquire(append("warm"), wait_s=0).release()
    yield made
    made.end()


def put(world: ZooKeeperWorld, name: str, data: bytes, *, ephemeral: bool = True) -> KazooClient:
    """Let somebody else make a node of the table."""
    path = f"{world.chroot}/tables/{TABLE}/{name}"
    world.admin.create(path, data, ephemeral=ephemeral)
    return world.admin


def test_junk_of_a_live_session_is_refused_by_name_and_can_be_released(
    world: ZooKeeperWorld,
) -> None:
    """It may be a lock: nothing is granted beside it until it is freed; appends go on."""
    client = world.client()
    for n, data in enumerate(JUNK):
        name = f"{('locks', 'waiters')[n % 2]}/junk-{n}"
        put(world, name, data)
        with pytest.raises(UnreadableNode, match=rf"{TABLE}/{name} .*--release {name}"):
            client.acquire(request("g", 1), wait_s=0)
        client.acquire(append(f"append-{n}"), wait_s=0).release()
        assert [(s.name, s.blocks) for s in client.strays(TABLE)] == [(name, True)]
        assert client.locks(TABLE) == client.waiters(TABLE) == ()
        assert client.break_lock(TABLE, name)
        assert client.strays(TABLE) == ()
        client.acquire(request("g", 1), wait_s=0).release()


def test_what_no_session_made_is_no_lock(world: ZooKeeperWorld) -> None:
    """A copy of a lock, or junk, that nothing would ever end is skipped, and still named."""
    client = world.client()
    lease = client.acquire(time_chunk("g"), wait_s=0)
    locks = f"{world.chroot}/tables/{TABLE}/locks"
    (name,) = world.admin.get_children(locks)
    copy, _ = world.admin.get(f"{locks}/{name}")
    lease.release()
    put(world, "locks/copy-T", copy, ephemeral=False)
    put(world, "waiters/junk", b"\xff", ephemeral=False)
    client.acquire(time_chunk("h"), wait_s=0).release()
    assert [(s.name, s.blocks) for s in client.strays(TABLE)] == [
        ("locks/copy-T", False),
        ("waiters/junk", False),
    ]


def test_a_state_that_cannot_be_read_stops_its_holder_and_frees_nothing(
    world: ZooKeeperWorld,
) -> None:
    """Fail closed on both sides: the holder does not commit, and nobody takes what it holds."""
    client = world.client()
    lease = client.acquire(request("g", 1), wait_s=0)
    (name,) = world.admin.get_children(f"{world.chroot}/tables/{TABLE}/locks")
    put(world, f"states/{name}", b"\xff", ephemeral=False)
    for forbidden in (lease.make_irrevocable, lease.check):
        with pytest.raises(LockRevoked, match="unreadable record"):
            forbidden()
    with pytest.raises(LockTimeout):
        client.acquire(request("h", 1), wait_s=0)
    client.acquire(replace(request("i", 1), priority=75), wait_s=0).release()
    lease.release()
    client.acquire(request("h", 1), wait_s=0).check()


def test_numbers_that_are_none_are_refused_by_name(world: ZooKeeperWorld) -> None:
    """A damaged counter hands out nothing until it is freed; a damaged head is no news."""
    client = world.client()
    table = f"{world.chroot}/tables/{TABLE}"
    (counter,) = world.admin.get_children(f"{table}/counters")
    world.admin.set(f"{table}/counters/{counter}", b"x")
    put(world, "version", b"", ephemeral=False)
    put(world, "head", b"\xff", ephemeral=False)
    with pytest.raises(UnreadableNode, match=f"--release counters/{counter}"):
        client.acquire(append("g"), wait_s=0)
    with pytest.raises(UnreadableNode, match="--release version"):
        client.acquire(time_chunk("h", above=5), wait_s=0)
    assert [stray.name for stray in client.strays(TABLE)] == [f"counters/{counter}", "version"]
    for stray in client.strays(TABLE):
        assert client.break_lock(TABLE, stray.name)
    assert client.acquire(append("g", at_least=7), wait_s=0).allocated[0].partition == 7
    assert client.wait_head(TABLE, beyond=-1, wait_s=0) is None
    client.announce(TABLE, 3)
    assert client.wait_head(TABLE, beyond=-1, wait_s=PATIENCE_S) == 3

"""Leases and claims in ZooKeeper after its connection broke and came back within one session."""

import socket
from collections.abc import Iterator

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
    ZooKeeperCoordinator,
)
from airflow_provider_segtable.ports.coordination import LeaseState
from tests.contract.worlds import TABLE, ZooKeeperWorld, eventually, request

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def world(zookeeper: EmbeddedZooKeeper) -> Iterator[ZooKeeperWorld]:
    made = ZooKeeperWorld(zookeeper.hosts, "/lease")
    yield made
    made.end()


def reconnect(client: ZooKeeperCoordinator) -> None:
    """Break a client's connection, and wait until it is connected again."""
    link = client._link
    assert link
    before = link.generation
    link.client._connection._socket.shutdown(socket.SHUT_RDWR)
    eventually(lambda: link.generation > before and link.connected)


def test_after_a_reconnection_a_lease_is_believed_only_once_its_node_was_seen(
    world: ZooKeeperWorld,
) -> None:
    """A lock node that went away unnoticed is lost though the session lives; another is held."""
    client = world.client()
    gone, stays = (client.acquire(request(group, n), wait_s=0) for n, group in enumerate("ab"))
    world.admin.delete(gone.path)
    assert client._link
    session = client._link.session
    assert gone.state is LeaseState.HELD  # nothing is asked while the connection stands
    reconnect(client)
    assert client._link.session == session
    assert (gone.state, stays.state) == (LeaseState.LOST, LeaseState.HELD)


def test_after_a_reconnection_a_claim_is_believed_only_once_its_node_was_seen(
    world: ZooKeeperWorld,
) -> None:
    """One whose node went away meanwhile is lost; another one is held."""
    client = world.client()
    gone, stays = (client.claim(TABLE, "log-buckets", name, {}) for name in "01")
    assert gone
    assert stays
    world.admin.delete(f"{world.chroot}/tables/{TABLE}/claims/log-buckets/0")
    assert gone.state is LeaseState.HELD
    reconnect(client)
    assert (gone.state, stays.state) == (LeaseState.LOST, LeaseState.HELD)

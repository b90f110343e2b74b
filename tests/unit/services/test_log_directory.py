"""Where the buckets of a log store are served."""

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.ports.log_store import DeployMode
from airflow_provider_segtable.services.log_directory import (
    BUCKETS,
    BucketFinder,
    ClaimedBuckets,
    addresses,
    wait_addresses,
)
from airflow_provider_segtable.storage.local import SystemClock

TABLE = "some-table"


def client(service: MemoryService) -> MemoryCoordinator:
    """Return another client of the coordinator."""
    return MemoryCoordinator(SystemClock(), service)


def claims(coordinator: MemoryCoordinator, name: str) -> ClaimedBuckets:
    """Return the claims of a service."""
    return ClaimedBuckets(coordinator, TABLE, service=name, deploy_mode=DeployMode.EXTERNAL)


def test_a_bucket_is_served_where_its_claim_says(service: MemoryService) -> None:
    """A bucket of another service stays its own; what is released is taken."""
    one, two = client(service), client(service)
    first, second = claims(one, "one"), claims(two, "two")
    assert first.take([0, 1], "memory://one") == {0, 1}
    assert second.take([1, 2], "memory://two") == {2}
    found = addresses(one, TABLE)
    assert {n: (at.service, at.address) for n, at in found.items()} == {
        0: ("one", "memory://one"),
        1: ("one", "memory://one"),
        2: ("two", "memory://two"),
    }
    assert wait_addresses(two, TABLE, seen=found, wait_s=0) == found
    first.release([1, 5])
    assert wait_addresses(two, TABLE, seen=found, wait_s=60).keys() == {0, 2}
    assert second.take([1], "memory://two") == {1, 2}


def test_claims_end_with_the_session_of_their_service(service: MemoryService) -> None:
    """The service sees that they are lost, and takes them again."""
    one = client(service)
    held = claims(one, "one")
    held.take([0], "memory://one")
    before = addresses(one, TABLE)[0]
    service.suspend(one.session)
    assert held.held == {0}
    service.expire(one.session)
    assert held.held == frozenset()
    assert held.take([0], "memory://one") == {0}
    assert addresses(one, TABLE)[0].number > before.number


def test_a_finder_connects_once_to_each_life_of_a_service(service: MemoryService) -> None:
    """The same client as long as the claim is the same; another one after it was claimed anew."""
    one, reader = client(service), client(service)
    connected: list[str] = []

    def connect(address: str) -> object:
        connected.append(address)
        return object()

    find = BucketFinder(reader, TABLE, connect)  # type: ignore[arg-type]
    assert find(0) is None
    held = claims(one, "one")
    held.take([0, 1], "memory://one")
    first = find(0)
    assert first is not None
    assert find(0) is first is find(1)
    held.release([0])
    held.take([0], "memory://one")
    assert find(0) is not first
    assert connected == ["memory://one", "memory://one"]


def test_a_finder_goes_on_with_what_it_knows_while_the_coordinator_is_away(
    service: MemoryService,
) -> None:
    """What was read last; nothing for a bucket that was not known then."""
    one, reader = client(service), client(service)
    claims(one, "one").take([0], "memory://one")
    find = BucketFinder(reader, TABLE, lambda address: address)  # type: ignore[arg-type,return-value]
    assert find(0)
    reader.close()
    assert find(0)
    assert find(1) is None


def test_what_is_no_address_is_left_out(service: MemoryService) -> None:
    """A claim without an address, with another name than a number, or of an unknown mode."""
    one = client(service)
    for name, content in {
        "0": {},
        "x": {"address": "a", "deploy_mode": "external"},
        "1": {"address": "a", "deploy_mode": "other"},
    }.items():
        assert one.claim(TABLE, BUCKETS, name, content)
    assert addresses(one, TABLE) == {}

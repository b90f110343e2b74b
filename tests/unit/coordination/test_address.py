"""Addresses of coordinators."""

import pytest

from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.core.errors import CoordinatorUnavailable, InvalidInput
from tests.contract.worlds import TABLE, append


@pytest.mark.parametrize(
    ("address", "means"),
    [
        ("zk://a:2181", "zk://a:2181/segtable"),
        ("a:2181,b-1.example:2182/x/y", "zk://a:2181,b-1.example:2182/x/y"),
        ("zk://[::1]:2181/", "zk://[::1]:2181/segtable"),
    ],
)
def test_addresses_are_read(address: str, means: str) -> None:
    """Scheme and chroot may be left out; nothing is contacted yet."""
    assert connect(address).address == means


@pytest.mark.parametrize("address", ["", "localhost", "http://a:1", "zk://", "a:2181/x y"])
def test_others_are_refused(address: str) -> None:
    """The error shows the value and the right form."""
    with pytest.raises(InvalidInput, match="zk://host:2181/segtable") as refused:
        connect(address)
    assert repr(address) in str(refused.value)


def test_equal_memory_names_are_one_service() -> None:
    """Within a process ``memory://x`` is always the same place."""
    lease = connect("memory://one").acquire(append("g"), wait_s=0)
    (lock,) = connect("memory://one").locks(TABLE)
    assert lock.token == lease.token
    assert connect("memory://other").locks(TABLE) == ()


def test_nobody_at_the_address_says_how_to_start_one() -> None:
    """Without a server the first call ends soon, with the address and the command."""
    client = connect("127.0.0.1:1", connect_timeout_s=0.3)
    with pytest.raises(CoordinatorUnavailable, match=r"127\.0\.0\.1:1.*zookeeper start"):
        client.locks(TABLE)

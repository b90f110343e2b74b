"""A pytest fixture with a real ZooKeeper: ``pytest_plugins = ["...testing.zookeeper"]``.

The server starts on first use, once a session, on a free loopback port, and cannot outlive the
test run. Tests keep apart by table id, or by a chroot of their own.
"""

from collections.abc import Iterator

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper.embedded_server import (
    EmbeddedZooKeeper,
)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """Yield a running server; ``zookeeper.address`` is what ``connect`` takes."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server

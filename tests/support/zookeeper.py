"""A pytest fixture with a real ZooKeeper: ``pytest_plugins = ["tests.support.zookeeper"]``.

The server starts on first use, once per session, on a free loopback port, and cannot outlive the
test run. Tests are isolated by table id, or by their own chroot.
"""

from collections.abc import Iterator

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """Yield a running server; ``zookeeper.address`` is its address for ``connect``."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server

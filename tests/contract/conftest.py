"""Every adapter of a port under the same suite."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.contract.worlds import MemoryWorld, World, ZooKeeperWorld

_chroots = (f"/contract-{n}" for n in count())


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A fresh coordination service."""
    if request.param == "memory":
        made: World = MemoryWorld()
    else:
        server = request.getfixturevalue("zookeeper")
        made = ZooKeeperWorld(server.hosts, next(_chroots))
    yield made
    made.end()

"""One server for all checks that it is asked for; a missing one skips its checks, with the reason.

With ``make test-stores`` a missing server is a failure, and the run ends with the matrix of checks
and servers.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage import open_storage
from tests.stores.faulty_proxy import Fault, FaultyProxy
from tests.stores.matrix import Matrix
from tests.stores.servers import SERVERS, Server, ServerMissing

REQUIRED = "SEGTABLE_STORES"
"""A variable: ``required`` fails checks whose server is missing."""

_places = count()

Place = Callable[[], Storage]
Behind = Callable[..., FaultyProxy]


def pytest_configure(config: pytest.Config) -> None:
    """Collect outcomes for the matrix."""
    config.pluginmanager.register(Matrix(), "matrix-of-stores")


@pytest.fixture(scope="session", params=sorted(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A running server; all its checks are run before the next one starts."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(SERVERS[request.param]())
        except ServerMissing as missing:
            if os.environ.get(REQUIRED) == "required":
                raise
            pytest.skip(str(missing))
        yield running


@pytest.fixture
def uri(server: Server) -> str:
    """The URI of a fresh folder; its name needs to be quoted."""
    return server.uri(f"place-{next(_places)}/a table")


@pytest.fixture
def place(server: Server, uri: str) -> Place:
    """Opens one fresh storage, as often as it is called."""
    return lambda: open_storage(uri, server.options)


@pytest.fixture
def files(server: Server, uri: str) -> DataFiles:
    """Return an empty store of data files."""
    return open_files(uri, server.options)


@pytest.fixture
def behind(server: Server) -> Iterator[Behind]:
    """Puts a proxy with faults in front of the server."""
    with ExitStack() as stack:

        def put(*faults: Fault) -> FaultyProxy:
            return stack.enter_context(FaultyProxy(server.port, *faults))

        yield put

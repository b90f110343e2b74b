"""One browser, one Airflow and one lake for all tests of the page; each test has its own windows.

Without ``make test-page`` a missing browser skips; with it, it is a failure.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from tests.page.airflow import LookedAt
from tests.page.chromium import BrowserMissing, Window, chromium
from tests.page.lake import Lake

pytest_plugins = ["tests.support.zookeeper"]
REQUIRED = "SEGTABLE_PAGE"
"""A variable: ``required`` fails where there is no browser."""

Opening = Callable[..., Window]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(chromium())
        except BrowserMissing as missing:
            if os.environ.get(REQUIRED) == "required":
                raise
            pytest.skip(str(missing))
        yield running


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables."""
    made = Lake(tmp_path_factory.mktemp("lake"))
    made.make()
    return made.root


@pytest.fixture(scope="session")
def airflow(
    browser: Any,  # noqa: ARG001  # without one nothing is started
    lake: Path,
    tmp_path_factory: pytest.TempPathFactory,
    zookeeper: EmbeddedZooKeeper,
) -> Iterator[LookedAt]:
    """Airflow with the lake."""
    with LookedAt(tmp_path_factory.mktemp("airflow"), lake, zookeeper.address) as started:
        started.prepare()
        yield started


@pytest.fixture
def opened(browser: Any) -> Iterator[Opening]:
    """Opens windows; none may have complained at the end."""
    windows: list[Window] = []

    def made(**arguments: Any) -> Window:
        windows.append(Window(browser, **arguments))
        return windows[-1]

    yield made
    for each in windows:
        each.close()
    assert [each.clean() for each in windows] == [[] for _ in windows]


@pytest.fixture
def reader(airflow: LookedAt, opened: Opening) -> Opening:
    """Opens windows of a user of Airflow, of ``admin`` by default."""

    def made(user: str = "admin", **arguments: Any) -> Window:
        return opened(cookies=airflow.cookies(airflow.token_of(user)), **arguments)

    return made

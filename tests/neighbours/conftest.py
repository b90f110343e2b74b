"""The neighbours of a published table: real servers and runtimes, if they are there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.neighbours.life import Life, lived
from tests.neighbours.prepare import JARS, NO_JAVA, PYTHON, TRINO, java_of_trino
from tests.neighbours.session import Session
from tests.neighbours.spark_reader import SparkReader
from tests.neighbours.trino_reader import TrinoReader
from tests.neighbours.trino_server import trino_server

ABSENT = "{} is not there: make test-neighbours fetches it"


def _skip_without(what: str, *parts: Path) -> None:
    if not all(part.exists() for part in parts):
        pytest.skip(ABSENT.format(what))


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Return a table all of whose stages are published, unless a format cannot show one."""
    return lived(tmp_path_factory.mktemp("life") / "t")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReader]:
    """Yield a session of Spark that reads Iceberg and Delta Lake by their own runtimes."""
    _skip_without("Spark with the runtimes of Iceberg and Delta Lake", PYTHON, JARS)
    made = SparkReader.start(tmp_path_factory.mktemp("lake"))
    try:
        yield made
    finally:
        made.session.stop()


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrinoReader]:
    """Yield a client of a Trino server."""
    if not java_of_trino():
        pytest.skip(NO_JAVA)
    _skip_without("Trino's server", PYTHON, TRINO)
    folder = tmp_path_factory.mktemp("trino")
    with trino_server(folder) as port:
        made = TrinoReader.start(folder, port)
        try:
            yield made
        finally:
            made.session.stop()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield a session of DuckDB and ClickHouse."""
    _skip_without("DuckDB with its extensions, or ClickHouse as chDB,", PYTHON)
    # ClickHouse reads no table outside of the folder that it was started in.
    made = Session.start("embedded_program", tmp_path_factory.getbasetemp())
    try:
        yield made
    finally:
        made.stop()

"""The neighbours of a published table: real servers and runtimes, if they are there."""

from collections.abc import Iterator

import pytest

from tests.neighbours.prepare import JARS, PYTHON
from tests.neighbours.spark_reader import SparkReader

ABSENT = "there is no Spark with the runtimes of Iceberg and Delta Lake: make test-neighbours"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReader]:
    """Yield a session of Spark that reads Iceberg and Delta Lake by their own runtimes."""
    if not PYTHON.exists() or not any(JARS.glob("iceberg-spark-runtime-*.jar")):
        pytest.skip(ABSENT)
    made = SparkReader.start(tmp_path_factory.mktemp("lake"))
    try:
        yield made
    finally:
        made.stop()

"""Clusters of other versions of Spark, if they are there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.standalone import Standalone
from tests.remote_spark.prepare import home_of, python_with


@contextmanager
def standalone(folder: Path, version: str) -> Iterator[Standalone]:
    """Yield a running cluster of a version of Spark; skip where it is not there."""
    needs(version)
    made = Standalone(folder, home_of(version))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def needs(version: str) -> None:
    """Skip where a version of Spark is not there."""
    if not python_with(version).exists():
        pytest.skip(f"there is no Spark {version}: make test-remote-spark")

"""Commands over tables in an empty folder, coordinated in memory."""

from tests.unit.cli.conftest import facts, run, table
from tests.unit.conftest import memory_zookeeper

__all__ = ["facts", "memory_zookeeper", "run", "table"]  # fixtures

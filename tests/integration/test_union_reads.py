"""``Table.scan(include_log=True)`` finds running log stores by ZooKeeper, reads them by Flight."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import CoordinatorUnavailable
from airflow_provider_segtable.library.table import Table
from tests.integration.served_logs import served
from tests.unit.table.conftest import new_table
from tests.unit.table.logged import rows_of


@pytest.fixture
def table() -> Iterator[Table]:
    """Three committed rows; four more in each of two services, which hold a bucket each."""
    made = Table(new_table(MemoryService()).ports)
    made.append(rows_of(range(3)))
    with served(made.ports, {0: rows_of(range(10, 14)), 1: rows_of(range(20, 24))}):
        yield made


def test_the_tails_of_all_services_are_read(table: Table) -> None:
    """Each by the address that it has published."""
    scan = table.scan(include_log=True, where="row > 1")
    assert sorted(scan.to_arrow().column("row").to_pylist()) == [2, *range(10, 14), *range(20, 24)]
    assert scan.explain().log_notes == ("bucket 0: 4 records", "bucket 1: 4 records")
    assert table.scan().count() == 3


def test_without_zookeeper_it_is_not_known_which_services_run(table: Table) -> None:
    """The error says so; another process that has no services to find reads the table alone."""
    alone = Table(replace(table.ports, optional_coordinator=None))
    with pytest.raises(CoordinatorUnavailable, match="log stores of memory://t are found by Zoo"):
        alone.scan(include_log=True)
    other = MemoryCoordinator(table.ports.clock, MemoryService())
    empty = Table(replace(table.ports, optional_coordinator=other))
    assert empty.scan(include_log=True).count() == 3

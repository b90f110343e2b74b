"""Readers of other projects reach an object store with the options of the table."""

from collections.abc import Iterator

import pytest

from airflow_provider_segtable.health.publish_check import Verdict, check_published
from airflow_provider_segtable.table.table import Table
from tests.support.s3 import LoopbackS3
from tests.unit.cli.conftest import trips


@pytest.fixture
def table(s3: LoopbackS3) -> Iterator[Table]:
    """A table in a bucket, from which rows are deleted."""
    rows = trips(48)
    made = Table.create(
        s3.uri("published"),
        schema=rows.schema,
        time_column="at",
        zookeeper="memory://published",
        storage_options=s3.storage_options,
    )
    made.append(rows)
    made.delete("amount < 3")
    yield made
    made.ports.coordinator.close()


def test_readers_agree_with_a_table_in_a_bucket(table: Table) -> None:
    """Endpoint and credentials are given to each library under its own names."""
    formats = tuple(table.ports.formats)
    table.publish(formats=formats)
    for check in check_published(table.ports, formats):
        seen = {each.reader: each.verdict for each in check.readers}
        assert not check.findings
        assert [*seen.values()].count(Verdict.SAME) >= 2
        assert check.rows == 36

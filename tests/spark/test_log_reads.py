"""The data source reads what log stores hold and no commit has."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.table.log_store.checkpointing import DELETED
from tests.integration.served_logs import served
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
DAY_US = 86_400_000_000


def rows(*numbers: int, who: str = "old") -> pa.Table:
    """Return rows, each on a day of its own."""
    found = [{"at": n * DAY_US, "n": n, "who": who} for n in numbers]
    return pa.Table.from_pylist(found, EVENTS)


def read(spark: SparkSession, uri: str, zookeeper: EmbeddedZooKeeper) -> DataFrame:
    """Return the table with the live tail."""
    register(spark)
    reader = spark.read.format("segtable").option("includeLog", "true")
    return reader.option("zookeeper", zookeeper.address).load(uri)


def test_an_append_table_with_its_tail(
    spark: SparkSession, make_table: MakeTable, zookeeper: EmbeddedZooKeeper
) -> None:
    """A frame has what was there when it was made; it takes no rows, and no hidden columns."""
    table = make_table(EVENTS)
    table.append(rows(1, 2, 3))
    with served(table.ports, {0: rows(4, 5, who="new"), 1: rows(6, 40, who="new")}):
        found = read(spark, table.ports.uri, zookeeper)
        hidden = spark.read.format("segtable").options(zookeeper=zookeeper.address)
        hidden = hidden.options(includeLog="true", columns="*,_segtable_instant")
        with pytest.raises(IllegalArgumentException, match="rows that are not committed"):
            hidden.load(table.ports.uri)
    table.delete(where="n < 3")
    assert sorted(row.n for row in found.collect()) == [1, 2, 3, 4, 5, 6, 40]
    some = found.where("n > 2 and n < 6").select("n")
    assert sorted(row.n for row in some.collect()) == [3, 4, 5]
    assert found.where("who = 'new'").count() == 4


def test_a_primary_key_table_with_its_tail(
    spark: SparkSession, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """Records of the tail are merged with those of files: updates, deletes, and new keys."""
    table = Table.create(
        str(tmp_path / "keyed"),
        schema=EVENTS,
        time_column="at",
        granularity="month",
        primary_key="n",
        buckets=2,
        zookeeper=zookeeper.address,
    )
    table.upsert(rows(*range(8)))
    table.compact("semi-major")
    gone = pa.array([False, False, True])
    tail = rows(1, 50, 3, who="new").append_column(pa.field(DELETED, pa.bool_()), gone)
    with served(table.ports, {0: tail}):
        found = read(spark, table.ports.uri, zookeeper)
        assert {row.n: row.who for row in found.collect()} == {
            **dict.fromkeys([0, 2, 4, 5, 6, 7], "old"),
            **dict.fromkeys([1, 50], "new"),
        }
        assert found.where("who = 'old'").count() == 6
    table.ports.coordinator.close()

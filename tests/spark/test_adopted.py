"""Spark reads files that a table adopted, its own among them, and compacts them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.data.adoption.decision import Action
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.source.registration import register

pytestmark = pytest.mark.spark
DAY = datetime(2026, 1, 5, tzinfo=UTC)


def rows(day: int) -> pa.Table:
    """Return the ten rows of a day."""
    numbers = range(day * 10, day * 10 + 10)
    return pa.table(
        {
            "at": [DAY + timedelta(days=day, minutes=n) for n in numbers],
            "row": list(numbers),
            "name": [None if n % 3 == 0 else f"n{n % 7}" for n in numbers],
            "tags": [[n] for n in numbers],
        }
    )


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Callable[..., list[int]]:
    """Return what reads the numbers of rows by the data source."""
    own = spark.newSession()
    register(own)

    def numbers(where: str = "true") -> list[int]:
        found = own.read.format("segtable").load(str(tmp_path / "t")).where(where)
        return sorted(row["row"] for row in found.select("row", "at").collect())

    return numbers


def test_spark_reads_what_pyarrow_does(
    tmp_path: Path, read: Callable[..., list[int]], zookeeper: EmbeddedZooKeeper
) -> None:
    """Columns in another order, missing ones, dictionaries and ignored ones."""
    root = tmp_path / "t"
    root.mkdir()
    pq.write_table(rows(0), root / "a.parquet")
    pq.write_table(rows(1).drop(["name"]), root / "b.parquet")
    pq.write_table(rows(2).select(["tags", "name", "row", "at"]), root / "c.parquet")
    some = rows(3).append_column("extra", pa.array(range(10)))
    pq.write_table(some.set_column(2, "name", some["name"].dictionary_encode()), root / "d.parquet")
    Table.adopt(str(root), ignore_columns=["extra"], zookeeper=zookeeper.address)
    table = Table.open(str(root), zookeeper=zookeeper.address)
    assert read() == [*range(40)]
    assert read("name is null") == sorted({*range(0, 40, 3), *range(10, 20)})
    table.delete("row in (3, 15)")
    table.alter(columns=[RenameColumn(name="name", new="label"), AddColumn(name="n", type="int64")])
    left = [n for n in range(40) if n not in (3, 15)]
    assert read() == left
    assert read("label = 'n1' and n is null") == [1, 8, 22, 29]
    table.compact("minor")
    assert read() == left


def test_spark_writes_what_is_adopted(
    spark: SparkSession, tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Partitioned by day, with times in microseconds; by default they are INT96, and copied."""
    frame = spark.createDataFrame([(day, f"2026-01-{5 + day:02} 01:00:00") for day in range(3)])
    frame = frame.selectExpr("_1 as row", "timestamp_seconds(0) as zero", "to_timestamp(_2) as at")
    frame = frame.selectExpr("row", "at", "cast(at as date) as day").coalesce(1)
    for name, action in (("TIMESTAMP_MICROS", Action.ADOPT), ("INT96", Action.COPY)):
        spark.conf.set("spark.sql.parquet.outputTimestampType", name)
        root = tmp_path / name
        frame.write.partitionBy("day").parquet(str(root))
        done = Table.adopt(
            *(str(root),),
            ignore_columns=["day"],
            time_column="at",
            copy_rest=True,
            zookeeper=zookeeper.address,
        )
        assert len(done.those(action)) == 3
        table = Table.open(str(root), zookeeper=zookeeper.address)
        assert sorted(table.scan().to_arrow().column("row").to_pylist()) == [0, 1, 2]
        table.compact("major")
        assert table.verify(deep=True).sound
    spark.conf.unset("spark.sql.parquet.outputTimestampType")

"""Spark's own hash is the one that buckets are made of."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from tests.unit.data.key_vectors import VECTORS

pytestmark = pytest.mark.spark


def test_spark_computes_the_same_buckets(spark: SparkSession, tmp_path: Path) -> None:
    """``pmod(hash(...), n)`` is the bucket, for keys of each type and of all of them together."""
    chance = random.Random(5)
    columns = {
        f"k{at}": pa.array(chance.choices(values, k=200), kind)
        for at, (kind, values, _) in enumerate(VECTORS)
    }
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "keys.parquet")
    frame = spark.read.parquet(str(tmp_path / "keys.parquet")).coalesce(1)
    keys = [[name] for name in columns] + [[*columns], ["k11", "k3", "k9"]]
    buckets = [F.pmod(F.hash(*key), F.lit(13)).alias(f"b{at}") for at, key in enumerate(keys)]
    found = frame.select(*buckets).toArrow()
    for key, column in zip(keys, found.columns, strict=True):
        assert column.to_pylist() == buckets_of(table, key, 13).tolist(), key

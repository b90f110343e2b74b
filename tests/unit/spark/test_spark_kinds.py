"""Kinds of table in Spark."""

from airflow_provider_segtable.core.tables.definition import KINDS
from airflow_provider_segtable.spark.table_kinds import SPARK_KINDS


def test_each_kind_has_a_part_for_spark() -> None:
    """Every kind that can be decoded can be ingested and scanned by Spark."""
    assert set(SPARK_KINDS) == set(KINDS)

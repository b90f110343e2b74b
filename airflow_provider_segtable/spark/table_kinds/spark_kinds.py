"""The registry of kinds of table in Spark."""

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.spark.table_kinds.append_spark import AppendSpark
from airflow_provider_segtable.spark.table_kinds.keyed_spark import KeyedSpark
from airflow_provider_segtable.spark.table_kinds.rollup_spark import RollupSpark
from airflow_provider_segtable.spark.table_kinds.spark_kind import SparkKind

SPARK_KINDS: Mapping[str, Callable[[Any], SparkKind]] = {
    Append.name: AppendSpark,
    Rollup.name: RollupSpark,
    PrimaryKey.name: KeyedSpark,
}
"""How to make a kind's part for Spark from its pure part, by name."""


def spark_kind_of(kind: TableKind) -> SparkKind:
    """Return a kind's part for Spark."""
    return SPARK_KINDS[kind.name](kind)

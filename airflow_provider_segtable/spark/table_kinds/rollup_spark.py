"""Rollup tables in Spark: rows of a group are merged by Spark's aggregates, sketches included."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, Rollup
from airflow_provider_segtable.data.arrow.arrow_schema import physical_schema
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.table_kinds.spark_kind import Incoming, Read
from airflow_provider_segtable.spark.writes.dataframe_rollup import from_input, rolled_up


@dataclass(frozen=True, slots=True)
class RollupSpark:
    """A rollup table in Spark; the methods are those of ``SparkKind``."""

    kind: Rollup

    @contextmanager
    def incoming(self, rows: DataFrame, shown: pa.Schema, time_column: str) -> Iterator[Incoming]:
        """Yield the rows rolled up among themselves; Spark keeps them for both passes."""
        rolled = from_input(rows, self.kind, time_column=time_column).persist()
        schema = physical_schema(shown, self.kind)
        try:
            yield Incoming(rows=rolled, schema=schema, events=column(rolled, EVENTS))
        finally:
            rolled.unpersist()

    def merged(
        self, read: Read, shown: pa.Schema, wanted: Sequence[str], time_column: str
    ) -> DataFrame:
        """Return one row for each group; merging needs all columns."""
        known = physical_schema(shown, self.kind)
        merged = rolled_up(read(known, known.names), self.kind, time_column=time_column)
        return merged.select([column(merged, name) for name in wanted])

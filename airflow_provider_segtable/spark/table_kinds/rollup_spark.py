"""Rollup tables in Spark: rows of a group are merged by Spark's aggregates, sketches included."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, Rollup
from airflow_provider_segtable.data.arrow_schema import physical_schema
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.table_kinds.spark_kind import Incoming, Stored
from airflow_provider_segtable.spark.writes.dataframe_rollup import from_input
from airflow_provider_segtable.spark.writes.dataframe_rollup import rolled_up as rolled_up_rows


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

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return stored rows, or one row for each group; merging needs all columns."""
        if not rolled_up:
            return stored.rows(known, wanted)
        physical = physical_schema(known, self.kind)
        rows = stored.rows(physical, physical.names)
        merged = rolled_up_rows(rows, self.kind, time_column=time_column)
        return merged.select([column(merged, name) for name in wanted])

"""Primary-key tables in Spark: tasks make records of rows, and merge records into rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.spark.table_kinds.spark_kind import Incoming, Stored


@dataclass(frozen=True, slots=True)
class KeyedSpark:
    """A primary-key table in Spark; the methods are those of ``SparkKind``."""

    kind: PrimaryKey

    @contextmanager
    def incoming(self, rows: DataFrame, shown: pa.Schema, time_column: str) -> Iterator[Incoming]:
        """Yield the rows; tasks make records of them (``writes.keyed.dataframe_upsert``)."""
        del time_column
        yield Incoming(rows=rows, schema=shown)

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return one row for each key."""
        del known, time_column, rolled_up
        return stored.rows_by_key(wanted)

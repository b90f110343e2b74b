"""Append tables in Spark: rows pass unchanged."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.spark.table_kinds.spark_kind import Incoming, Stored


@dataclass(frozen=True, slots=True)
class AppendSpark:
    """An append table in Spark; the methods are those of ``SparkKind``."""

    kind: Append = field(default_factory=Append)

    @contextmanager
    def incoming(self, rows: DataFrame, shown: pa.Schema, time_column: str) -> Iterator[Incoming]:
        """Yield the rows; they are read twice from their source."""
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
        """Return the columns as they are stored."""
        del time_column, rolled_up
        return stored.rows(known, wanted)

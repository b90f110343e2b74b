"""Primary-key tables in Spark."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.keyed.keyed_kind import PrimaryKey
from airflow_provider_segtable.spark.table_kinds.spark_kind import Incoming, Read


@dataclass(frozen=True, slots=True)
class KeyedSpark:
    """A primary-key table in Spark; the methods are those of ``SparkKind``."""

    kind: PrimaryKey

    def incoming(
        self, rows: DataFrame, shown: pa.Schema, time_column: str
    ) -> AbstractContextManager[Incoming]:
        """Refuse: Spark does not write records yet.

        Raises:
            InvalidInput: use the local engine.
        """
        del rows, shown, time_column
        raise InvalidInput(_not_yet("written"))

    def merged(
        self, read: Read, shown: pa.Schema, wanted: Sequence[str], time_column: str
    ) -> DataFrame:
        """Refuse: Spark does not merge records yet.

        Raises:
            InvalidInput: use the local engine.
        """
        del read, shown, wanted, time_column
        raise InvalidInput(_not_yet("read"))


def _not_yet(what: str) -> str:
    return (
        f"tables with a primary key are not {what} by Spark yet: use --engine local, or the library"
    )

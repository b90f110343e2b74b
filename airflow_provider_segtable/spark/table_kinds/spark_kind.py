"""A kind of table in Spark: prepare the rows of an ingest, merge the rows of a scan."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame


class Stored(Protocol):
    """The wanted rows of a snapshot, as files hold them."""

    def rows(self, schema: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """Return columns of all rows, given the schema of the files."""
        ...

    def rows_by_key(self, columns: Sequence[str]) -> DataFrame:
        """Return columns of one row for each primary key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Incoming rows as files will hold them.

    Attributes:
        rows: the rows, in the columns of ``schema``; may be read twice.
        schema: the columns of the files.
        events: the number of ingested rows that a row stands for; one if None.
    """

    rows: DataFrame
    schema: pa.Schema
    events: Column | None = None


class SparkKind(Protocol):
    """A kind of table, in Spark."""

    def incoming(
        self, rows: DataFrame, shown: pa.Schema, time_column: str
    ) -> AbstractContextManager[Incoming]:
        """Prepare the rows of an ingest; frames that Spark caches are released at the end.

        Args:
            rows: rows in the input schema.
            shown: the columns that readers see.
            time_column: the event time.
        """
        ...

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return some columns of a snapshot, as readers see its rows.

        Args:
            stored: the rows in the files.
            known: the columns that readers see.
            wanted: the columns to return; they are among these.
            time_column: the event time.
            rolled_up: merge rows of equal dimensions, if the kind rolls up.
        """
        ...

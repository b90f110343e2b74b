"""Count rows by time chunk and check their times: the first pass of an ingest."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import TimeOutOfRange
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, Layout
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.spark_times import chunk_key, column, instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Per chunk: its rows, its input rows, and its ``spark_times.chunk_key``."""

    chunks: Mapping[Interval, int]
    events: Mapping[Interval, int]
    starts: Mapping[Interval, Instant]

    @property
    def rows(self) -> int:
        """Return the number of all rows."""
        return sum(self.chunks.values())


def take_census(
    df: DataFrame, time_column: str, layout: Layout, events: Column | None = None
) -> Census:
    """Count rows by time chunk, reading the time column alone.

    Args:
        df: the rows.
        time_column: their event time.
        layout: the layout of time chunks.
        events: how many input rows a row represents; one by default.

    Raises:
        TimeOutOfRange: times are null or out of range; the message counts and shows them.
    """
    raw = column(df, time_column)
    at = instant(df, time_column)
    stands = F.lit(1) if events is None else events
    key = chunk_key(at, layout)
    times = df.select(key.alias("start"), at.alias("at"), raw.alias("raw"), stands.alias("events"))
    counted = times.groupBy("start").agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum("events").alias("events"),
        F.sum(F.when(F.col("raw").isNotNull(), F.col("events")).otherwise(0)).alias("timed"),
        F.min("at").alias("first"),
        F.min("raw").cast("string").alias("lowest"),
        F.max("raw").cast("string").alias("highest"),
    )
    with translated("counting the rows to ingest"):
        found = counted.collect()
    for row in found:
        if row.start is None:
            raise _bad_times(row, time_column)
    chunks = {layout.chunk(row["first"]): row for row in found}
    return Census(
        chunks={chunk: chunks[chunk]["rows"] for chunk in sorted(chunks)},
        events={chunk: row["events"] for chunk, row in chunks.items()},
        starts={chunk: row["start"] for chunk, row in chunks.items()},
    )


def _bad_times(row: Row, time_column: str) -> TimeOutOfRange:
    nulls, outside = row["events"] - row["timed"], row["timed"]
    found = [f"{nulls} are null"] if nulls else []
    if outside:
        span = f"{row['lowest']} to {row['highest']}"
        found.append(f"{outside} lie outside {ALL_TIME} ({span}): check the column's unit")
    return TimeOutOfRange(
        f"of the event times in column {time_column!r}, {' and '.join(found)}; "
        "filter or correct these rows, nothing was written"
    )

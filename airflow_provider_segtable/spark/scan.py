"""Reading a snapshot as a DataFrame: its files, by Spark's own Parquet reader.

1. Which files are visible is resolved here, from the log; Spark is given their names and the
   table's schema, so it looks for nothing and infers nothing.
2. Segments that lie in the asked interval wholly are read as they are; the others with a filter
   on the event time.
3. A column that Spark's reader does not know is read by pyarrow in tasks instead (``arrow_scan``):
   slower, as rows then cross into Spark one by one, but the same rows.
4. The files of a rollup table may have several rows of a group, until a major compaction. With
   ``rolled_up`` these are merged, so that a query's answer does not depend on compactions.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.interval import Interval
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.rollup import physical_schema
from airflow_provider_segtable.spark import rollup
from airflow_provider_segtable.spark.arrow_scan import arrow_scan
from airflow_provider_segtable.spark.failures import translated
from airflow_provider_segtable.spark.places import spark_root
from airflow_provider_segtable.spark.schemas import readable, spark_schema
from airflow_provider_segtable.spark.times import column, within
from airflow_provider_segtable.table.snapshot import Snapshot


def scan(
    spark: SparkSession,
    snapshot: Snapshot,
    interval: Interval | None = None,
    columns: Sequence[str] | None = None,
    *,
    rolled_up: bool = False,
) -> DataFrame:
    """Return the rows of a snapshot.

    Args:
        spark: the session.
        snapshot: which state of which table.
        interval: only rows with event time in it.
        columns: only these, in this order.
        rolled_up: of a rollup table, one row a group.

    Raises:
        SchemaMismatch: a column does not exist, or Spark cannot hold its type.
        InvalidName: Spark has no reader for the table's URI.
    """
    wanted = list(snapshot.schema.names if columns is None else columns)
    table, known = snapshot.state.table, snapshot.schema
    if not rolled_up or table.rollup is None:
        return _scanned(spark, snapshot, interval, known, wanted)
    _fields(known, wanted)  # hidden columns are not to be asked for
    known = physical_schema(known, table.rollup)
    rows = _scanned(spark, snapshot, interval, known, known.names)
    merged = rollup.rolled_up(rows, table.rollup, time_column=table.time_column)
    return merged.select([column(merged, name) for name in wanted])


def _scanned(
    spark: SparkSession,
    snapshot: Snapshot,
    interval: Interval | None,
    known: pa.Schema,
    wanted: list[str],
) -> DataFrame:
    schema = spark_schema(readable(_fields(known, wanted)))
    frames = [
        frame.select([column(frame, name) for name in wanted])
        for frame in _frames(spark, snapshot, interval, known, wanted)
    ]
    if not frames:
        return spark.createDataFrame([], schema)
    return reduce(DataFrame.union, frames)


def _frames(
    spark: SparkSession,
    snapshot: Snapshot,
    interval: Interval | None,
    known: pa.Schema,
    wanted: list[str],
) -> Iterator[DataFrame]:
    time = snapshot.state.table.time_column
    for clip, segments in _by_clip(snapshot, interval).items():
        read = wanted if clip is None else list(dict.fromkeys([*wanted, time]))
        frame = _read(spark, snapshot, segments, _fields(known, read))
        yield frame if clip is None else frame.where(within(frame, time, clip))


def _by_clip(snapshot: Snapshot, interval: Interval | None) -> dict[Interval | None, list[Segment]]:
    """Group the visible segments by the interval to clip them to; None for not at all."""
    parts: dict[Interval | None, list[Segment]] = {}
    for found in snapshot.visible(interval):
        for segment in found.segments:
            times = (segment.time_min, segment.time_max)
            whole = all(map(found.interval.holds, times))
            parts.setdefault(None if whole else found.interval, []).append(segment)
    return parts


def _read(
    spark: SparkSession, snapshot: Snapshot, segments: list[Segment], fields: pa.Schema
) -> DataFrame:
    ports = snapshot.ports
    if readable(fields) != fields:
        return arrow_scan(spark, snapshot, segments, fields)
    root = spark_root(ports.uri, ports.storage_options)
    schema = spark_schema(fields)
    reader = spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED")
    with translated(f"reading {ports.uri} at version {snapshot.version}"):
        return reader.parquet(*(f"{root}/{segment.path}" for segment in segments))


def _fields(known: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    for name in columns:
        if name not in known.names:
            raise SchemaMismatch(f"no column {name!r}: the table has {', '.join(known.names)}")
    return pa.schema([known.field(name) for name in columns])

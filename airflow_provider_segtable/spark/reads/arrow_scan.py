"""Read segments with pyarrow in tasks, for columns that Spark's own reader does not support.

1. A task gets descriptors and row filters, and reads the files with ``data.parquet.segment_scan``,
   as ``Table`` does.
2. Files that are not stored, as those of a read with the live tail, are sent to the tasks.
3. Values are cast to the nearest type that Spark can hold; nanoseconds lose their last three
   digits. Of ``carried`` columns an exact copy is added.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.data.files.open_files import held_files
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema
from airflow_provider_segtable.spark.tasks.exact_columns import copied
from airflow_provider_segtable.spark.tasks.reading import Held, ReadTask
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.snapshot import Snapshot

NAMES = pa.schema([(ROOT, pa.string()), (ROW, pa.int64())])
"""The address columns, in types that Spark can hold."""


def arrow_scan(
    spark: SparkSession,
    snapshot: Snapshot,
    segments: Sequence[Segment],
    schema: pa.Schema,
    row_filters: Mapping[SegmentId, RowFilter],
    *,
    addressed: bool = False,
    carried: Sequence[str] = (),
) -> DataFrame:
    """Return the rows of some segments of a snapshot, in the columns of a schema.

    Args:
        spark: the session.
        snapshot: the table at one version.
        segments: visible segments with rows.
        schema: columns of the table, in its own types.
        row_filters: the deleted rows, by segment.
        addressed: add the columns ``NAMES``, with root addresses.
        carried: columns to add a copy of (``exact_columns``).
    """
    copies = [copied(schema.field(name)) for name in carried]
    columns = [*readable(schema), *(NAMES if addressed else ()), *readable(pa.schema(copies))]
    kinds = spark_schema(pa.schema(columns))

    task = ReadTask(
        uri=absolute(snapshot.ports.uri),
        storage_options=snapshot.ports.storage_options,
        segments=spark.sparkContext.broadcast([(each, row_filters[each.id]) for each in segments]),
        schema=schema,
        target=to_arrow_schema(kinds, timezone="UTC"),
        time_column=snapshot.state.table.time_column,
        addressed=addressed,
        carried=tuple(carried),
        checked=snapshot.checked,
        held=held_by(spark, snapshot.ports.files),
    )
    tasks = min(len(segments), spark.sparkContext.defaultParallelism * 4)
    numbers = spark.range(0, len(segments), 1, tasks)
    return numbers.mapInArrow(task.run, kinds)


def held_by(spark: SparkSession, files: DataFiles) -> Held | None:
    """Return the files that only this process has, for tasks; None if there are none."""
    found = held_files(files)
    return spark.sparkContext.broadcast(dict(found)) if found else None

"""Reading segments by pyarrow inside tasks, for columns that Spark's own reader does not know.

1. A task is given descriptors and sieves, and reads the files with ``data.scan``, as ``Table``
   does.
2. Values are brought to the nearest type that Spark can hold; nanoseconds lose their last three
   digits.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.data.files import open_files
from airflow_provider_segtable.data.scan import read_segment
from airflow_provider_segtable.data.sieve import Sieve
from airflow_provider_segtable.spark.places import absolute
from airflow_provider_segtable.spark.schemas import readable, spark_schema
from airflow_provider_segtable.table.snapshot import Snapshot

NAMES = pa.schema([(ROOT, pa.string()), (ROW, pa.int64())])
"""The columns that name rows, as Spark has them."""


def arrow_scan(
    spark: SparkSession,
    snapshot: Snapshot,
    segments: Sequence[Segment],
    schema: pa.Schema,
    sieves: Mapping[SegmentId, Sieve],
    *,
    addressed: bool = False,
) -> DataFrame:
    """Return the rows of some segments of a snapshot, in the columns of a schema.

    Args:
        spark: the session.
        snapshot: which state of which table.
        segments: some of its visible ones; none of them empty.
        schema: columns of the table, in its own types.
        sieves: what is deleted, by segment.
        addressed: add the columns ``NAMES``, with root addresses.
    """
    uri, options = absolute(snapshot.ports.uri), snapshot.ports.storage_options
    time_column = snapshot.state.table.time_column
    target = pa.schema([*readable(schema), *(NAMES if addressed else ())])

    held = spark.sparkContext.broadcast([(each, sieves[each.id]) for each in segments])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(uri, options)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            segment, sieve = held.value[number]
            for rows in read_segment(
                files,
                segment,
                schema=schema,
                time_column=time_column,
                sieve=sieve,
                addressed=addressed,
            ):
                table = pa.Table.from_batches([rows]).cast(target, safe=False)
                yield from table.to_batches()

    tasks = min(len(segments), spark.sparkContext.defaultParallelism * 4)
    numbers = spark.range(0, len(segments), 1, tasks)
    return numbers.mapInArrow(read, spark_schema(target))

"""Reading segments by pyarrow inside tasks, for columns that Spark's own reader does not know.

1. A task is given descriptors and reads their files with ``data.scan``, as ``Table`` does.
2. Values are brought to the nearest type that Spark can hold; nanoseconds lose their last three
   digits.
"""

import json
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import encode_segment
from airflow_provider_segtable.data.files import open_files
from airflow_provider_segtable.data.scan import read_segment
from airflow_provider_segtable.spark.places import absolute
from airflow_provider_segtable.spark.schemas import readable, spark_schema
from airflow_provider_segtable.spark.write_task import decode_result
from airflow_provider_segtable.table.snapshot import Snapshot


def arrow_scan(
    spark: SparkSession, snapshot: Snapshot, segments: Sequence[Segment], schema: pa.Schema
) -> DataFrame:
    """Return all rows of some segments of a snapshot, in the columns of a schema."""
    uri, options = absolute(snapshot.ports.uri), dict(snapshot.ports.storage_options)
    time_column = snapshot.state.table.time_column
    target = readable(schema)

    def read(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # Spark's
        files = open_files(uri, options)
        for text in (text for batch in batches for text in batch.column(0).to_pylist()):
            segment = decode_result(text)
            for rows in read_segment(files, segment, schema=schema, time_column=time_column):
                table = pa.Table.from_batches([rows]).cast(target, safe=False)
                yield from table.to_batches()

    tasks = min(len(segments), spark.sparkContext.defaultParallelism * 4)
    texts = [(json.dumps(encode_segment(segment)),) for segment in segments]
    given = spark.createDataFrame(texts, "segment string").repartition(tasks)
    return given.mapInArrow(read, spark_schema(target))

"""Sorting in Spark tasks: the same stages, jobs and results as in one process."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.data.sort.sorting import sort_stages
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from tests.unit.data.making import written
from tests.unit.data.sort_making import events, named, spec

pytestmark = pytest.mark.spark


def in_tasks(
    spark: SparkSession, root: Path, segments: tuple[Segment, ...], **changes: object
) -> tuple[Segment, ...]:
    """Sort by two columns in Spark tasks."""
    what = spec(events(1, 0).schema, "carrier,flight", uri=str(root), **changes)
    stages = sort_stages(what, segments, named)
    jobs = next(stages)
    try:
        while True:
            done = sorted(spark_execute(spark)(jobs), key=lambda one: one.index)
            assert [one.error for one in done] == [None] * len(jobs)
            jobs = stages.send([one.value for one in done])
    except StopIteration as stop:
        result: tuple[Segment, ...] = stop.value
        return result


@pytest.mark.parametrize("memory", [400_000, 512 << 20])
def test_spark_reads_what_tasks_sorted(spark: SparkSession, tmp_path: Path, memory: int) -> None:
    """Tasks sort as Spark does, null by null, and Spark reads the result; no run remains."""
    tables = [events(3_000, seed) for seed in range(4)]
    segments = written(LocalFiles(tmp_path), tables)
    given = spark.createDataFrame(pa.concat_tables(tables)).orderBy("carrier", "flight", "at")
    results = in_tasks(spark, tmp_path, segments, memory=memory, target_size=60_000)
    assert len(results) > 1
    paths = [str(tmp_path / segment.path) for segment in results]
    columns = ["carrier", "flight", "at"]
    rows = [row for path in paths for row in spark.read.parquet(path).select(columns).collect()]
    assert rows == given.select(columns).collect()
    told = [
        row for path in paths for row in spark.read.parquet(path).select("row", ROOT, ROW).collect()
    ]
    assert len(told) == 12_000
    for number, root, row in told:  # as sort_making.events numbers them
        assert number == SegmentId.parse(root).partition * 10_000_000 + row
    left = {str(path) for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert left == {str(tmp_path / segment.path) for segment in (*segments, *results)}

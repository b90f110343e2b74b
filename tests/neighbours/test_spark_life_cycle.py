"""Spark reads a published table at every stage of its life, and its earlier versions and tags."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.neighbours.life import REFUSED_BY_DELTA, STAGES, Life
from tests.neighbours.spark_reader import SparkReader
from tests.property.published_readers import metadata
from tests.property.published_values import rows


@pytest.mark.parametrize("stage", [name for name in STAGES if name not in REFUSED_BY_DELTA])
def test_delta_has_the_rows_of_each_stage(life: Life, spark: SparkReader, stage: str) -> None:
    """Each version is read by its number."""
    number = life.number("delta", stage)
    assert rows(spark.delta_rows(life.root, number)) == life.rows(stage)


@pytest.mark.parametrize("stage", STAGES)
def test_iceberg_has_the_rows_of_each_stage(life: Life, spark: SparkReader, stage: str) -> None:
    """Each version is read by its metadata."""
    number = life.number("iceberg", stage)
    assert rows(spark.iceberg_rows(life.root, number)) == life.rows(stage)


def test_the_newest_version_is_found_without_a_number(life: Life, spark: SparkReader) -> None:
    """Spark follows the log of Delta Lake, and the hint of Iceberg."""
    last = [*STAGES][-1]
    assert rows(spark.delta(life.root)) == rows(spark.iceberg(life.root)) == life.rows(last)


def test_snapshots_of_one_metadata_file_are_read(life: Life, spark: SparkReader) -> None:
    """Iceberg travels in time by the ids of snapshots."""
    number = life.number("iceberg", "tagged")
    snapshot = json.loads(Path(metadata(life.root, number)).read_text())["current-snapshot-id"]
    options = {"versionAsOf": str(snapshot)}
    path = str(life.root / "_iceberg")
    found = spark.ask(format="iceberg", path=path, options=options)
    assert rows(found) == life.rows("tagged")


def test_delta_travels_by_the_times_of_events(life: Life, spark: SparkReader) -> None:
    """It goes by in-commit timestamps, which are the times of events."""
    number = life.number("delta", "minor")
    lines = (life.root / f"_delta_log/{number:020d}.json").read_text().splitlines()
    stamp = json.loads(lines[0])["commitInfo"]["inCommitTimestamp"]
    at = datetime.fromtimestamp(stamp / 1000, UTC).replace(tzinfo=None)
    options = {"timestampAsOf": at.isoformat(sep=" ", timespec="milliseconds")}
    found = spark.ask(format="delta", path=str(life.root), options=options)
    assert rows(found) == life.rows("minor")

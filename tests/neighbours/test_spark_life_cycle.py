"""Spark reads a published table at every stage of its life, and its earlier versions and tags."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.library.table import Table
from tests.neighbours.spark_reader import SparkReader
from tests.property.published_readers import EVENTS, NEWEST, metadata
from tests.property.published_values import Row, rows
from tests.property.published_world import new_table

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("ms", "UTC"), nullable=False),
        ("row", pa.int32()),
        ("name", pa.string()),
        ("fare", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("local", pa.timestamp("s")),
    ]
)
START = datetime(2026, 1, 30, tzinfo=UTC)
REFUSED_BY_DELTA = ("widened", "renamed", "dropped", "restored")
"""Stages in which files have columns under another name or type."""
FORMATS = {"publish.delta": "on", "publish.iceberg": "on"}


def batch(table: Table, start: int, count: int = 60) -> pa.Table:
    """Return numbered rows of some days, in the present columns."""
    made = []
    for n in range(start, start + count):
        at = START + timedelta(hours=n % 96)
        row = {"at": at, "local": at.replace(tzinfo=None), "row": n, "name": f"n{n % 7}"}
        made.append({**row, "fare": None if n % 5 == 0 else n / 4, "price": n})
    schema = table.snapshot().schema
    return pa.Table.from_pylist([{k: r.get(k) for k in schema.names} for r in made], schema)


STAGES: Mapping[str, Callable[[Table], object]] = {
    "empty": lambda _: None,
    "appended": lambda t: t.append(batch(t, 0)),
    "appended again": lambda t: t.append(batch(t, 60)),
    "deleted": lambda t: t.delete("row % 6 = 1"),
    "minor": lambda t: t.compact("minor"),
    "appended after it": lambda t: t.append(batch(t, 120)),
    "tagged": lambda t: t.tag("january"),
    "updated": lambda t: t.update({"name": "'new'"}, "row between 50 and 70"),
    "semi-major": lambda t: t.compact("semi-major"),
    "merged": lambda t: t.merge(batch(t, 170, 20), on=["row"]),
    "z-order": lambda t: t.compact("major", clustering="zorder(row, name)"),
    "deleted from it": lambda t: t.delete("row > 175 or name = 'n3'"),
    "by the hour": lambda t: t.compact("major", granularity="hour"),
    "deleted by the hour": lambda t: t.delete("row % 11 = 3"),
    "by the month": lambda t: t.compact("major", granularity="month"),
    "column added": lambda t: t.alter(columns=[AddColumn(name="more", type="string")]),
    "appended with it": lambda t: t.append(batch(t, 300)),
    "widened": lambda t: t.alter(columns=[WidenColumn(name="row", type="int64")]),
    "renamed": lambda t: t.alter(columns=[RenameColumn(name="name", new="label")]),
    "dropped": lambda t: t.alter(columns=[DropColumn(name="fare")]),
    "written anew": lambda t: t.compact("major"),
    "restored": lambda t: t.restore(tag="january"),
    "compacted at last": lambda t: t.compact("major"),
}


@dataclass(frozen=True)
class Life:
    """A table that lived through all stages, and its event after each of them."""

    table: Table
    root: Path
    events: Mapping[str, int]

    def rows(self, stage: str) -> Counter[Row]:
        """Return the rows after a stage, as the log has them."""
        return rows(self.table.scan(version=self.events[stage]).to_arrow())

    def number(self, name: str, stage: str) -> int:
        """Return the number of the newest version up to the event of a stage."""
        first = 0 if name == "delta" else 1
        numbers = range(first, NEWEST[name](self.root) + 1)
        event = self.events[stage]
        return max(n for n in numbers if EVENTS[name](self.root, n) <= event)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A table all of whose commits are published, unless a format cannot show the version."""
    root = tmp_path_factory.mktemp("life") / "t"
    table = new_table(root, SCHEMA, granularity="day", properties=FORMATS)
    events = {}
    for name, act in STAGES.items():
        act(table)
        table.publish()
        events[name] = table.state().n
        assert list(violations(table.state())) == []
    return Life(table, root, events)


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

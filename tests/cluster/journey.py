"""What one driver does on a cluster, step by step: a program for ``test_journey.py``.

    python journey.py FOLDER ZOOKEEPER

Each step prints one line of JSON: its name, and what it found or the error that it met.
"""

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_provider_segtable.spark import change
from airflow_provider_segtable.spark.ingest import ingest
from airflow_provider_segtable.spark.scan import scan
from airflow_provider_segtable.spark.session import session
from airflow_provider_segtable.spark.source import read_stream_source
from airflow_provider_segtable.spark.stream import ingest_stream
from airflow_provider_segtable.table.table import Table
from tests.cluster.conftest import SCHEMA, numbered


@dataclass
class Driver:
    """A session on the cluster, and tables below a folder."""

    spark: SparkSession
    folder: Path
    zookeeper: str

    def table(self, name: str, schema: pa.Schema = SCHEMA, **more: Any) -> Table:
        """Make a table."""
        properties = {"compaction.min_segments": "2"}
        return Table.create(
            str(self.folder / name),
            schema=schema,
            time_column="at",
            properties=properties,
            zookeeper=self.zookeeper,
            **more,
        )

    def give(self, table: Table, *starts: int) -> None:
        """Append numbered rows by Spark, two segments a day."""
        for start in starts:
            rows = self.spark.createDataFrame(numbered(start, 60)).repartition(2)
            ingest(table.ports, rows, rows_per_segment=20)


def rows_of(table: Table) -> list[int]:
    return sorted(table.snapshot().to_arrow(columns=["row"])["row"].to_pylist())


def changed(driver: Driver) -> Sequence[object]:
    """Update, merge, and delete by address."""
    table = driver.table("changed")
    driver.give(table, 0)
    change.update(driver.spark, table.ports, {"row": "row + 1000"}, "k = 'a' and row < 4")
    source = driver.spark.createDataFrame(numbered(58, 4))
    change.merge(driver.spark, table.ports, source, ["row"])
    rows = scan(driver.spark, table.snapshot(), addressed=True).where("row = 5")
    change.delete(driver.spark, table.ports, addresses=rows)
    return rows_of(table)


def streamed(driver: Driver) -> Sequence[object]:
    """Append the files of a folder as a stream, twice from one checkpoint."""
    table = driver.table("streamed")
    incoming = driver.folder / "incoming"
    incoming.mkdir()
    for number in range(2):
        lines = [f"2024-01-0{1 + n % 2}T00:00:00Z,a,{number * 10 + n}" for n in range(10)]
        (incoming / f"{number}.csv").write_text("\n".join(["at,k,row", *lines]))
        rows = read_stream_source(driver.spark, f"file:{incoming}", "csv", schema=SCHEMA)
        ingest_stream(table.ports, rows, f"file:{driver.folder}/checkpoint").wait(60)
    return rows_of(table)


def read_by_arrow(driver: Driver) -> Sequence[object]:
    """Scan columns that Spark's own reader does not know, in tasks."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.timestamp("ns"))])
    table = driver.table("nanoseconds", schema)
    times = numbered(0, 10)["at"]
    table.append(pa.table([times, pa.array(range(10), pa.timestamp("ns"))], schema=schema))
    table.delete("row = TIMESTAMP '1970-01-01 00:00:00'")
    return [scan(driver.spark, table.snapshot()).count()]


STEPS: dict[str, Callable[[Driver], Sequence[object]]] = {
    "changed": changed,
    "streamed": streamed,
    "read by Arrow": read_by_arrow,
}


def main(folder: str, zookeeper: str) -> None:
    """Do all steps; one that fails stops no other."""
    driver = Driver(session("journey", conf={"spark.cores.max": "2"}), Path(folder), zookeeper)
    for name, step in STEPS.items():
        told: dict[str, object] = {"step": name}
        try:
            told["found"] = step(driver)
        except Exception:  # noqa: BLE001  # the test shows it
            told["error"] = traceback.format_exc()
        print("STEP " + json.dumps(told), flush=True)  # noqa: T201  # its answer
    driver.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What one driver does on a cluster, step by step: a program for ``test_journey.py``.

    python journey.py FOLDER ZOOKEEPER SETTINGS

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
from pyspark.sql import SparkSession, functions

from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.library import table as library
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.reads.input_source import read_stream_source
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.spark.table_kinds import estimate
from airflow_provider_segtable.spark.writes import spark_engine
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.spark.writes.stream import ingest_stream
from airflow_provider_segtable.table.table import Table
from tests.cluster.conftest import SCHEMA, numbered

METRICS = ("n=count", "total=sum(row)", "rows=hll(row,10)")
SINCE_4_1 = ("ids=theta(row)", "spread=kll(row)")
KINDS = ("minor", "semi-major", "major")


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

    def compact(self, table: Table, kind: str) -> None:
        """Carry out one kind of compaction; refuse any other end than completion."""
        plans = [known.plan.id for known in request(table.ports, kind)]
        results = compact(table.ports, plans, spark_execute(self.spark), parallelism=2)
        bad = [result for result in results if result.ended is not Ended.COMPLETED]
        assert results, "nothing was planned"
        assert not bad, bad
        assert not [*violations(table.state())]


def rows_of(table: Table) -> list[int]:
    return sorted(table.snapshot().to_arrow(columns=["row"])["row"].to_pylist())


def appended(driver: Driver) -> Sequence[object]:
    """Ingest, compact and delete, once with each of the three compactions."""
    table = driver.table("plain")
    found = []
    for number, kind in enumerate(KINDS):
        driver.give(table, 60 * number)
        driver.compact(table, kind)
        spark_engine.delete(driver.spark, table.ports, f"row = {60 * number}")
        found.append(rows_of(table))
    return found


def changed(driver: Driver) -> Sequence[object]:
    """Update, merge, and delete by address."""
    table = driver.table("changed")
    driver.give(table, 0)
    spark_engine.update(driver.spark, table.ports, {"row": "row + 1000"}, "k = 'a' and row < 4")
    source = driver.spark.createDataFrame(numbered(58, 4))
    spark_engine.merge(driver.spark, table.ports, source, ["row"])
    rows = scan(driver.spark, table.snapshot(), addressed=True).where("row = 5")
    spark_engine.delete(driver.spark, table.ports, addresses=rows)
    return rows_of(table)


def rolled_up(driver: Driver) -> Sequence[object]:
    """Ingest and compact; give a rollup table's answers before and after.

    A major compaction sorts and merges in tasks, as every kind does for sketches.
    """
    metrics = (*METRICS, *SINCE_4_1) if hasattr(functions, "theta_sketch_agg") else METRICS
    how = Rollup(
        dimensions=("k",),
        metrics=tuple(map(Metric.parse, metrics)),
        query_granularity=QueryGranularity.DAY,
    )
    table = driver.table("rollup", kind=how)
    driver.give(table, 0, 60)
    before = answers(driver, table, how)
    driver.compact(table, "major")
    return [before, answers(driver, table, how)]


def answers(driver: Driver, table: Table, how: Rollup) -> list[list[object]]:
    rows = scan(driver.spark, table.snapshot(), rolled_up=True)
    estimates = [
        estimate(rows, metric).alias(metric.name)
        for metric in how.metrics
        if metric.name in {"rows", "ids"}
    ]
    asked = rows.select("at", "k", "n", "total", *estimates).orderBy("at", "k")
    return [list(row)[1:] for row in asked.collect()]


def streamed(driver: Driver) -> Sequence[object]:
    """Append the files of a folder as a stream, twice from one checkpoint."""
    table = driver.table("streamed")
    incoming = driver.folder / "incoming"
    incoming.mkdir()
    for number in range(2):
        lines = [f"2024-01-0{1 + n % 2}T00:00:00Z,a,{number * 10 + n}" for n in range(10)]
        (incoming / f"{number}.csv").write_text("\n".join(["at,k,row", *lines]))
        rows = read_stream_source(driver.spark, f"file:{incoming}", "csv", schema=SCHEMA)
        ingest_stream(table.ports, rows, f"file:{driver.folder}/checkpoint").wait(300)
    return rows_of(table)


def followed(driver: Driver) -> Sequence[object]:
    """Write, read and follow a table by the data source."""
    register(driver.spark)
    table, other = driver.table("source"), driver.table("followed")
    rows = driver.spark.createDataFrame(numbered(0, 60)).write.format("segtable")
    rows.option("zookeeper", driver.zookeeper).mode("append").save(table.ports.uri)
    table.delete("row = 7")
    following = driver.spark.readStream.format("segtable").load(table.ports.uri)
    writer = following.writeStream.format("segtable").option("zookeeper", driver.zookeeper)
    writer = writer.option("checkpointLocation", f"file:{driver.folder}/followed-checkpoint")
    writer.trigger(availableNow=True).start(other.ports.uri).awaitTermination(300)
    read = driver.spark.read.format("segtable")
    found = read.load(table.ports.uri).select("row").collect()
    feed = read.option("sinceVersion", "0").option("changes", "true").load(table.ports.uri)
    hidden = driver.spark.read.format("segtable").option("columns", "*,_segtable_instant")
    known = hidden.load(table.ports.uri).where("_segtable_instant is not null").count()
    where = f"path '{other.ports.uri}', zookeeper '{driver.zookeeper}'"
    driver.spark.sql(f"CREATE TEMPORARY VIEW followed USING segtable OPTIONS ({where})")
    copied = driver.spark.read.format("segtable").load(other.ports.uri)
    copied.where("row < 3").createOrReplaceTempView("few")
    driver.spark.sql("INSERT INTO followed SELECT * FROM few")
    return [sorted(row.row for row in found), rows_of(other), feed.count(), known]


def log_followed(driver: Driver) -> Sequence[object]:
    """Follow a log store: what its service has committed, and what it has not."""
    register(driver.spark)
    ports = driver.table("logged").ports
    with library.Table(ports).log_writer(embedded=True, automatic=False) as writer:
        writer.append(numbered(0, 30))
        writer.checkpoint()
        writer.append(numbered(30, 30))
        options = {"log": "true", "start": "earliest", "zookeeper": driver.zookeeper}
        rows = driver.spark.readStream.format("segtable").options(**options).load(ports.uri)
        found = rows.select("row").writeStream.format("memory").queryName("logged")
        found.trigger(availableNow=True).start().awaitTermination(300)
    return sorted(row.row for row in driver.spark.table("logged").collect())


def keyed(driver: Driver) -> Sequence[object]:
    """Upsert rows twice, delete some keys, and compact; read before and after."""
    table = driver.table("keyed", primary_key="row", buckets=2)
    found = []
    for number, kind in enumerate(("minor", "semi-major")):
        driver.give(table, 0, 0)
        gone = driver.spark.createDataFrame(numbered(0, 60)).selectExpr("*", "true gone")
        ingest(table.ports, gone.where(f"row % 10 = {number}"), deleted="gone")
        for _ in range(2):
            rows = scan(driver.spark, table.snapshot(), columns=["row"]).collect()
            found.append(sorted(row.row for row in rows))
            if len(found) % 2:
                driver.compact(table, kind)
    return found


def indexed(driver: Driver) -> Sequence[object]:
    """Build an index in tasks; give its outcome, its files, and the rows of a condition."""
    table = driver.table("indexed")
    driver.give(table, 0)
    table.create_index("rows", "column_stats", ["row"])
    built = run_index(table.ports, "rows", spark_execute(driver.spark))
    some = scan(driver.spark, table.snapshot(), where="row = 7").collect()
    return [built.ended.value, built.files, [row.row for row in some]]


def read_by_arrow(driver: Driver) -> Sequence[object]:
    """Scan columns that Spark's own reader does not know, in tasks."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.timestamp("ns"))])
    table = driver.table("nanoseconds", schema)
    times = numbered(0, 10)["at"]
    table.append(pa.table([times, pa.array(range(10), pa.timestamp("ns"))], schema=schema))
    table.delete("row = TIMESTAMP '1970-01-01 00:00:00'")
    return [scan(driver.spark, table.snapshot()).count()]


STEPS: dict[str, Callable[[Driver], Sequence[object]]] = {
    "appended": appended,
    "changed": changed,
    "rolled up": rolled_up,
    "streamed": streamed,
    "followed": followed,
    "log followed": log_followed,
    "keyed": keyed,
    "indexed": indexed,
    "read by Arrow": read_by_arrow,
}


def main(folder: str, zookeeper: str, settings: str) -> None:
    """Do all steps; one that fails stops no other."""
    conf = {**json.loads(settings), "spark.cores.max": "2"}
    driver = Driver(session("journey", conf=conf), Path(folder), zookeeper)
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

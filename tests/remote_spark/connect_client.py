"""What a client of Spark Connect does with a table: a program of ``test_connect.py``.

    python -m tests.remote_spark.connect_client PORT FOLDER ZOOKEEPER

Each step prints one line of JSON: its name, and what it found or the error that it met.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.table.table import Table

ROWS = (
    "select timestamp'2026-01-01 08:00:00' + make_dt_interval(id) at, "
    "concat('k', id % 2) k, id row from range(60)"
)


@dataclass
class Client:
    """A session of Spark Connect, and tables below a folder."""

    spark: SparkSession
    folder: str
    zookeeper: str

    @property
    def place(self) -> str:
        """Return where the table is."""
        return f"{self.folder}/trips"

    def rows(self) -> list[int]:
        """Return the rows as the data source reads them."""
        found = self.spark.read.format("segtable").load(self.place).select("row").collect()
        return sorted(row.row for row in found)


def written(client: Client) -> object:
    """Append by the data source."""
    writer = client.spark.sql(ROWS).write.format("segtable").mode("append")
    writer.option("zookeeper", client.zookeeper).save(client.place)
    return client.rows()


def filtered(client: Client) -> object:
    """Read some columns of some rows, and through Python in tasks."""
    rows = client.spark.read.format("segtable").load(client.place).where("row < 3").select("row")
    return sorted(
        row.row for row in rows.mapInArrow(lambda batches: batches, rows.schema).collect()
    )


def in_sql(client: Client) -> object:
    """Insert into a view, and count."""
    options = f"path '{client.place}', zookeeper '{client.zookeeper}'"
    client.spark.sql(f"CREATE TEMPORARY VIEW trips USING segtable OPTIONS ({options})").collect()
    client.spark.sql(
        "INSERT INTO trips VALUES (timestamp'2026-03-01 08:00:00', 'x', 60L)"
    ).collect()
    return client.spark.sql("SELECT count(*) n FROM trips").collect()[0].n


def followed(client: Client) -> object:
    """Stream the table into another one."""
    rows = client.spark.readStream.format("segtable").load(client.place)
    writer = rows.writeStream.format("segtable").option("zookeeper", client.zookeeper)
    writer = writer.option("checkpointLocation", f"file:{client.folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{client.folder}/copy").awaitTermination(300)
    return client.spark.read.format("segtable").load(f"{client.folder}/copy").count()


def unknown_option(client: Client) -> object:
    """Misspell an option."""
    return client.spark.read.format("segtable").option("asof", "x").load(client.place).count()


def scanned(client: Client) -> object:
    """Call a function of the driver."""
    return scan(client.spark, Table.open(client.place).snapshot()).count()


def ingested(client: Client) -> object:
    """Call another one."""
    return ingest(Table.open(client.place).ports, client.spark.sql(ROWS)).n


STEPS: dict[str, Callable[[Client], object]] = {
    step.__name__: step
    for step in (written, filtered, in_sql, followed, unknown_option, scanned, ingested)
}


def main(port: str, folder: str, zookeeper: str) -> None:
    """Do all steps; one that fails stops no other."""
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    client = Client(spark, folder, zookeeper)
    for name, step in STEPS.items():
        told: dict[str, object] = {"step": name}
        try:
            told["found"] = step(client)
        except Exception as error:  # noqa: BLE001  # the test shows it
            told["error"] = f"{type(error).__name__}: {error}"
        print("STEP " + json.dumps(told), flush=True)  # noqa: T201  # its answer
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

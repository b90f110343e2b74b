"""A Spark session with the runtimes of Iceberg and Delta Lake: a program for ``spark_reader.py``.

    python -m tests.neighbours.spark_program JARS FOLDER

It runs in an environment of its own, so it imports PySpark and ``answers.py`` alone.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.neighbours.answers import serve

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


def settings(jars: str, folder: str) -> dict[str, Any]:
    """Return the settings of a small session; its catalog ``lake`` has the tables of a folder."""
    return {
        "spark.jars": ",".join(map(str, sorted(Path(jars).glob("*.jar")))),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": ICEBERG,
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": folder,
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.catalog.default_iceberg": ICEBERG,
        "spark.sql.catalog.default_iceberg.type": "hadoop",
        "spark.sql.catalog.default_iceberg.warehouse": folder,
        "spark.sql.catalog.default_iceberg.cache-enabled": "false",
    }


def frame(spark: SparkSession, asked: dict[str, Any]) -> DataFrame:
    """Return what a request asks for: a table as its view ``t``, or the answer of a statement."""
    if "path" in asked:
        reader = spark.read.format(asked["format"]).options(**asked.get("options", {}))
        found = reader.load(asked["path"])
        found.createOrReplaceTempView("t")
    return spark.sql(asked.get("sql", "SELECT * FROM t"))


def streamed(spark: SparkSession, asked: dict[str, Any]) -> DataFrame:
    """Return all that a stream of a table has, in the end."""
    rows = spark.readStream.format(asked["format"]).options(**asked.get("options", {}))
    writer = rows.load(asked["path"]).writeStream.format("memory").queryName("streamed")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.table("streamed")


def rows_of(spark: SparkSession, asked: dict[str, Any]) -> pa.Table:
    """Return the rows that a request asks for."""
    return (streamed if asked.get("stream") else frame)(spark, asked).toArrow()


def main(jars: str, folder: str) -> None:
    """Answer requests until there are no more."""
    builder = SparkSession.builder.master("local[1]").appName("neighbours")
    spark = builder.config(map=settings(jars, folder)).getOrCreate()
    serve(partial(rows_of, spark))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

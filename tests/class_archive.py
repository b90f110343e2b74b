"""Spark's classes in one file, so that a JVM of the tests starts in half of its processor time.

    python -m tests.class_archive .venv/spark-classes.jsa

1. A small application does what drivers do here, and its JVM archives the classes that it has
   loaded (AppCDS). ``make test`` runs this once for each ``.venv``, whose jars the archive is of.
2. ``conftest.py`` offers the archive to every driver. A JVM whose version or class path differs
   starts without it.
"""

import os
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / ".venv" / "spark-classes.jsa"


def with_archive(path: Path = ARCHIVE) -> str:
    """Return the JVM options that use an archive, quietly if it does not fit; empty if missing."""
    return f"-XX:SharedArchiveFile={path} -Xlog:disable" if path.exists() else ""


def main(target: str) -> None:
    """Write the archive, at once or not at all."""
    new = Path(target).with_suffix(".new").absolute()
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={new} -Xlog:disable"
    with tempfile.TemporaryDirectory() as folder:
        work(Path(folder))
    new.replace(target)


def work(folder: Path) -> None:
    """Read and write files, aggregate, join, sort, and run Python in tasks."""
    from pyspark.sql import functions as F  # noqa: N812

    from airflow_provider_segtable.spark.driver.session import session

    spark = session("classes", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    rows = spark.range(100).select("id", (F.col("id") % 3).alias("key"))
    rows.repartition(2).sortWithinPartitions("key").write.parquet(f"{folder}/parquet")
    rows.write.csv(f"{folder}/csv", header=True)
    spark.read.csv(f"{folder}/csv", header=True, schema=rows.schema).count()
    read = spark.read.parquet(f"{folder}/parquet").where("id > 5")
    totals = read.groupBy("key").agg(F.sum("id"), F.count_distinct("id"))
    joined = read.join(totals, "key").mapInArrow(lambda batches: batches, "key long, id long")
    spark.createDataFrame(joined.select("key").toArrow()).orderBy("key").collect()
    spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
    gateway = spark.sparkContext._gateway  # its JVM writes the archive as it ends
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])

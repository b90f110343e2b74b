"""The demo's Spark application: several writers in one driver, each appending file after file.

It is what a user would write: a session, ``Table.open``, ``spark.writes.dataframe_ingest.ingest``.
Each append is told as one JSON line on standard output.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, current_thread

from pyspark.sql import SparkSession

from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.table.table import Table


def main(argv: Sequence[str]) -> int:
    """Append files to a table by concurrent writers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", required=True)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("files", nargs="+")
    asked = parser.parse_args(argv)
    spark = session("segtable demo: writers")
    table = Table.open(asked.table, zookeeper=asked.zookeeper)
    telling = Lock()

    def append(path: str) -> None:
        _append(spark, table, path, telling)

    with ThreadPoolExecutor(asked.writers, thread_name_prefix="writer") as pool:
        for _ in pool.map(append, asked.files):
            pass
    spark.stop()
    return 0


def _append(spark: SparkSession, table: Table, path: str, telling: Lock) -> None:
    started = time.monotonic()
    rows = spark.read.parquet(f"file:{path}")
    committed = ingest(table.ports, rows, commit_id=path)
    told = {
        "file": path,
        "event": committed.n,
        "writer": current_thread().name,
        "seconds": round(time.monotonic() - started, 2),
    }
    with telling:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

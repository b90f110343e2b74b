"""A Connect server that is a Python driver with the data source: a program of ``test_connect.py``.

It prints its port, and ends with its standard input.
"""

import sys

from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.source.registration import register


def main(port: str) -> None:
    """Serve clients of Spark Connect on a port of loopback."""
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.sql.shuffle.partitions": "1",
        "spark.log.level": "OFF",
    }
    spark = session("connect", "local[2]", settings)
    register(spark)
    print("READY", flush=True)  # noqa: T201  # its answer
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

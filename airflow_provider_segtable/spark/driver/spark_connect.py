"""Refuse Spark Connect where work needs the driver's own process.

1. A session of Spark Connect is a client: it has no ``sparkContext``, no RDDs and no JVM. The
   functions of ``spark`` are a part of the driver. They plan tasks by its context, and commit what
   these wrote.
2. The data source needs no such function in the client. So clients read, write and follow tables by
   ``format("segtable")``, if the server is a Python driver that has called ``register``.
3. A process is a client, too, if its settings name a server before a session starts: PySpark would
   then start none of its own.
"""

import os
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import InvalidInput

_REMOTE = "SPARK_REMOTE"
_CLIENT = "SPARK_CONNECT_MODE_ENABLED"
_SCHEME = "sc://"


def check_in_driver(given: SparkSession | DataFrame, work: str) -> None:
    """Refuse a session of Spark Connect, or a DataFrame of one.

    Args:
        given: the session or the DataFrame.
        work: the function that needs the driver, for the message.

    Raises:
        InvalidInput: it is one.
    """
    session = given.sparkSession if isinstance(given, DataFrame) else given
    if not isinstance(session, SparkSession):
        raise InvalidInput(
            f"this is a session of Spark Connect: {work} works in the process of the driver, and "
            'format("segtable") in each client of a driver that has called register: register it '
            "there, start a classic session, or submit an application (segtable spark-app)"
        )


def check_not_client(settings: Mapping[str, str]) -> None:
    """Refuse to start a session where Spark's settings or the environment name a Connect server.

    Raises:
        InvalidInput: they do.
    """
    server = _server(settings)
    if server:
        raise InvalidInput(
            f"{server} makes this process a client of Spark Connect, and segtable needs a driver "
            "here: name a master (local[*], spark://host:7077, yarn, k8s://...) by --master or "
            f"spark.master, and unset {_REMOTE}, spark.remote and spark.api.mode"
        )


def _server(settings: Mapping[str, str]) -> str:
    """Return what makes this process a client, as it was given; empty if nothing does."""
    for name in ("spark.master", "spark.remote"):
        text = settings.get(name, "")
        if text.startswith(_SCHEME) or (text and name == "spark.remote"):
            return f"{name} {text.partition(';')[0]}"
    if settings.get("spark.api.mode", "").lower() == "connect":
        return "spark.api.mode connect"
    if remote := os.environ.get(_REMOTE):
        return f"{_REMOTE}={remote.partition(';')[0]}"
    return f"a session of Spark Connect ({_CLIENT})" if _CLIENT in os.environ else ""

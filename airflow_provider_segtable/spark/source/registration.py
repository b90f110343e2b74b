"""Make the data source known to a Spark driver, and answer its requests: ``register(spark)``.

1. Spark finds a source by its name among the classes of the driver. ``SegtableSource.java`` is
   compiled there (``driver.java_classes``).
2. The source asks Python through py4j, as ``foreachBatch`` does (``SegtableSource.Tables``).
3. A read opens no connection to ZooKeeper (``source_reading``); a write does (``source_writing``).
"""

import json
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.spark.driver.java_classes import java_class
from airflow_provider_segtable.spark.driver.spark_connect import check_in_driver
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.native_files import native_fault
from airflow_provider_segtable.spark.source.log_stream import LogFeed
from airflow_provider_segtable.spark.source.source_options import (
    Options,
    answered,
    follows_log,
    frame_of,
    to_follow,
    to_follow_log,
    to_read,
    to_receive,
    to_write,
    with_hadoop_keys,
)
from airflow_provider_segtable.spark.source.source_reading import SourceFeed, SourceReading
from airflow_provider_segtable.spark.source.source_writing import (
    StreamTarget,
    connected,
    readable,
    save,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


# Answers to the source's requests
@dataclass(frozen=True, slots=True)
class JvmTables:
    """The tables of this driver."""

    context: SparkContext

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Tables",)

    def _with_keys(self, options: str) -> Options:
        return with_hadoop_keys(self.context, json.loads(options))

    @answered
    def read(self, session: "JavaObject", options: str) -> SourceReading:
        """Return what the options ask for, of the version that they name."""
        del session
        return SourceReading.of(self.context, *to_read(self._with_keys(options)))

    @answered
    def follow(self, session: "JavaObject", options: str) -> SourceFeed | LogFeed:
        """Return the feed of a stream that reads a table, or its log store."""
        del session
        known = self._with_keys(options)
        if follows_log(known):
            place, asked = to_follow_log(known)
            return LogFeed.of(self.context, readable(place), asked, partial(connected, place))
        place, request = to_follow(known)
        return SourceFeed.of(self.context, readable(place), request)

    @answered
    def save(
        self, session: "JavaObject", options: str, mode: str, rows: "JavaObject"
    ) -> SourceReading:
        """Write a batch; return the table."""
        del session
        place, request = to_write(self._with_keys(options))
        before = SourceReading.of(self.context, place, ReadRequest())
        save(place, request, mode, frame_of(self.context, rows))
        return before

    @answered
    def receive(self, session: "JavaObject", options: str) -> StreamTarget:
        """Return a table to which a stream is written."""
        del session
        place, request, log = to_receive(self._with_keys(options))
        readable(place)  # an error now, not at the first batch
        return StreamTarget(self.context, place, request, log)


NAME = "segtable"
_CLASS = "segtable.SegtableSource"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


# Registration with a driver
def register(spark: SparkSession) -> None:
    """Make ``format("segtable")`` and ``USING segtable`` known to all sessions of this driver.

    >>> register(spark)
    >>> spark.read.format("segtable").load("trips")

    Raises:
        InvalidInput: the session is one of Spark Connect, whose driver is another process.
        ExecutionFailed: this Spark's interfaces differ.
    """
    check_in_driver(spark, "register")
    context = spark.sparkContext
    with translated(f"registering the data source {NAME!r} in Spark {spark.version}"):
        source = java_class(
            context,
            _CLASS,
            files(__package__) / "SegtableSource.java",
            {_SERVICE: f"{_CLASS}\n"},
        )
        native_fault(spark)  # loads it now: in a query, the class loader may be the session's
        gateway: Any = context._gateway  # noqa: SLF001  # as PySpark does for its own callbacks
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        source.getField("tables").set(None, JvmTables(context))

"""What Spark asks of the data source, answered by segtable: ``SegtableSource.Tables``.

A read opens no connection to ZooKeeper (``source_reading``); a write does (``source_writing``).
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark import SparkContext

from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.spark.source.jvm_answers import answered, frame_of
from airflow_provider_segtable.spark.source.log_stream import LogFeed
from airflow_provider_segtable.spark.source.source_options import (
    Options,
    follows_log,
    to_follow,
    to_follow_log,
    to_read,
    to_receive,
    to_write,
)
from airflow_provider_segtable.spark.source.source_reading import SourceReading
from airflow_provider_segtable.spark.source.source_stream import SourceFeed
from airflow_provider_segtable.spark.source.source_writing import (
    StreamTarget,
    connected,
    readable,
    save,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


@dataclass(frozen=True, slots=True)
class JvmTables:
    """The tables of this driver."""

    context: SparkContext

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Tables",)

    @answered
    def read(self, session: "JavaObject", options: Options) -> SourceReading:
        """Return what the options ask for, of the version that they name."""
        del session
        return SourceReading.of(self.context, *to_read(options))

    @answered
    def follow(self, session: "JavaObject", options: Options) -> SourceFeed | LogFeed:
        """Return the feed of a stream that reads a table, or its log store."""
        del session
        if follows_log(options):
            place, asked = to_follow_log(options)
            return LogFeed.of(self.context, readable(place), asked, partial(connected, place))
        place, request = to_follow(options)
        return SourceFeed.of(self.context, readable(place), request)

    @answered
    def save(
        self, session: "JavaObject", options: Options, mode: str, rows: "JavaObject"
    ) -> SourceReading:
        """Write a batch; return the table."""
        del session
        place, request = to_write(options)
        before = SourceReading.of(self.context, place, ReadRequest())
        save(place, request, mode, frame_of(self.context, rows))
        return before

    @answered
    def receive(self, session: "JavaObject", options: Options) -> StreamTarget:
        """Return a table to which a stream is written."""
        del session
        place, request, log = to_receive(options)
        readable(place)  # an error now, not at the first batch
        return StreamTarget(self.context, place, request, log)

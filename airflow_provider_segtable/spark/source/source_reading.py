"""Versions of a table as the data source reads them: ``Reading`` and ``Feed``.

1. The version is settled when the DataFrame or view is made, and every query over it reads that
   one. Files are resolved when a query is planned: only those that its columns and its filters on
   the event time need.
2. Spark plans a query more than once while it runs; the last plan's frame is kept for that.
3. A feed's offset is a version. Its first batch is what the request asks for; without a start that
   is the whole table. Each later one is the window since the batch before. Columns are those that
   the table had when the stream was started. A consumer advances to what Spark has processed.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import ReadRequest, columns_read
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.arrow.change_columns import with_change_columns
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.spark.reads.dataframe_scan import read
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema
from airflow_provider_segtable.spark.source.jvm_answers import (
    answered,
    java_of,
    jvm_of,
    session_of,
)
from airflow_provider_segtable.spark.source.pushed_filters import time_condition
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.reads.window import settled, version_read
from airflow_provider_segtable.table.versions.consumers import advance

if TYPE_CHECKING:
    from py4j.java_gateway import JavaArray, JavaObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a read request asks for, of one version; the start of its window is a version, too."""

    ports: TableContext
    state: State
    request: ReadRequest

    @staticmethod
    def of(ports: TableContext, request: ReadRequest) -> "Asked":
        """Return what a request asks for now.

        Raises:
            VersionExpired, WindowExpired, InvalidInput: see ``table.reads.window``.
        """
        state = version_read(ports.log, request)
        return Asked(ports=ports, state=state, request=settled(ports.log, request, state))

    @property
    def columns(self) -> pa.Schema:
        """Return the columns, in the table's own types."""
        known = to_arrow(self.state.table.schema)
        known = with_change_columns(known) if self.request.changes else known
        return pa.schema([known.field(name) for name in columns_read(self.request, known.names)])

    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return str(spark_schema(readable(self.columns)).json())

    def rows(self, spark: SparkSession, pushed: Condition | None = None) -> DataFrame:
        """Return the rows; those for which ``pushed`` does not hold may be left out."""
        return read(spark, self.ports, self.state, self.request, pushed=pushed)


@dataclass(slots=True)
class SourceReading:
    """One version as Spark's relation: ``SegtableSource.Reading``."""

    context: SparkContext
    asked: Asked
    _planned: "tuple[tuple[str, ...], JavaObject] | None" = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Reading",)

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return self.asked.schema()

    @answered
    def size(self) -> int:
        """Return the bytes of the visible files, by which Spark chooses joins."""
        summaries = self.asked.state.timeline.visible_summaries().values()
        return max(sum(summary.size for summary in summaries), 1)

    @answered
    def frame(
        self, session: "JavaObject", columns: "JavaArray", filters: "JavaArray"
    ) -> "JavaObject":
        """Return a DataFrame of columns; rows that the filters exclude may be left out."""
        names = tuple(columns)
        key = (*names, *(each.toString() for each in filters))
        if self._planned is None or self._planned[0] != key:
            asked = replace(self.asked, request=replace(self.asked.request, columns=names))
            rows = asked.rows(session_of(self.context, session), self._pushed(filters))
            self._planned = (key, java_of(rows))
        return self._planned[1]

    def _pushed(self, filters: "JavaArray") -> Condition | None:
        table = self.asked.state.table
        days = pa.types.is_date(to_arrow(table.schema).field(table.time_column).type)
        catalyst = jvm_of(self.context).org.apache.spark.sql.catalyst
        to_catalyst = catalyst.CatalystTypeConverters.convertToCatalyst
        return time_condition(filters, table.time_column, days=days, to_catalyst=to_catalyst)


@dataclass(frozen=True, slots=True)
class SourceFeed:
    """The versions of a table as Spark's stream: ``SegtableSource.Feed``."""

    context: SparkContext
    ports: TableContext
    request: ReadRequest

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Feed",)

    @staticmethod
    def of(context: SparkContext, ports: TableContext, request: ReadRequest) -> "SourceFeed":
        """Return the feed that a request asks for, with the columns of the newest version.

        Raises:
            InvalidInput: the request names a version, and a stream has no end.
        """
        if (request.version, request.as_of, request.tag) != (None, None, None):
            raise InvalidInput(
                "a stream has no end: give sinceVersion or since for its start, and no version, "
                "asOf or tag"
            )
        columns = tuple(Asked.of(ports, request).columns.names)
        return SourceFeed(context, ports, replace(request, columns=columns))

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return Asked.of(self.ports, self.request).schema()

    @answered
    def newest(self) -> str:
        """Return the newest version."""
        return str(self.ports.log.load().n)

    @answered
    def rows(self, session: "JavaObject", after: str, up_to: str) -> "JavaObject":
        """Return a DataFrame of a batch."""
        request = replace(self.request, version=int(up_to))
        if after:
            request = replace(request, since_version=int(after), since=None, consumer=None)
        return java_of(Asked.of(self.ports, request).rows(session_of(self.context, session)))

    @answered
    def done(self, up_to: str) -> None:
        """Advance the consumer, if the stream reads as one."""
        if self.request.consumer is not None:
            advance(self.ports, self.request.consumer, int(up_to))

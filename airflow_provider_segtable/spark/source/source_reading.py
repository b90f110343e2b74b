"""Versions of a table as the data source reads them: ``SegtableSource.Reading``.

1. The version is settled when the DataFrame or view is made, and every query over it reads that
   one. Files are resolved when a query is planned: only those that its columns and its filters
   need, by event times and indexes.
2. Spark plans a query more than once while it runs; the last plan's frame is kept for that.
3. ``INSERT INTO`` a view or table of the catalog appends, ``INSERT OVERWRITE`` replaces all rows.
   Then the view reads the newest version, so that its author sees the rows. A view of anything but
   the whole newest version takes no rows.
4. The option ``includeLog`` adds the live tail of the log stores, read by the driver when the
   DataFrame or view is made. Its files are in memory, and are sent to the tasks that read them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import ORIGIN_COLUMNS
from airflow_provider_segtable.core.requests.read_request import ReadRequest, columns_read
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.row_filter import with_origin_columns
from airflow_provider_segtable.data.rows import with_change_columns
from airflow_provider_segtable.library.log_stores import log_finder
from airflow_provider_segtable.spark.reads.dataframe_scan import read
from airflow_provider_segtable.spark.reads.spark_schemas import readable as in_spark
from airflow_provider_segtable.spark.reads.spark_schemas import spark_schema
from airflow_provider_segtable.spark.reads.window_scan import shows_origin
from airflow_provider_segtable.spark.source.jvm_answers import (
    answered,
    frame_of,
    java_of,
    jvm_of,
    session_of,
)
from airflow_provider_segtable.spark.source.pushed_filters import pushed_condition
from airflow_provider_segtable.spark.source.source_options import Place, WriteRequest
from airflow_provider_segtable.spark.source.source_writing import opened, save
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.union_scan import union_scan
from airflow_provider_segtable.table.windows import settled, version_read

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
        """Return what a request asks for now; with the log, ``ports`` have a coordinator.

        Raises:
            VersionExpired, WindowExpired, InvalidInput: see ``table.reads.window``.
            LogStoreUnavailable: see ``table.log_store.live_tail``.
        """
        if request.include_log:
            found = union_scan(ports, log_finder(ports), ReadRequest(include_log=True))
            if shows_origin(request, found.schema.names):
                raise InvalidInput(
                    f"{ports.uri} with its log stores has rows that are not committed: leave out "
                    f"{' and '.join(ORIGIN_COLUMNS)}, or includeLog"
                )
            return Asked(ports=found.ports, state=found.state, request=request)
        state = version_read(ports.log, request)
        return Asked(ports=ports, state=state, request=settled(ports.log, request, state))

    @property
    def columns(self) -> pa.Schema:
        """Return the columns, in the table's own types."""
        known = to_arrow(self.state.table.schema)
        known = with_change_columns(known) if self.request.changes else known
        names = columns_read(self.request, known.names)
        return pa.schema([with_origin_columns(known).field(name) for name in names])

    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return str(spark_schema(in_spark(self.columns)).json())

    def rows(self, spark: SparkSession, pushed: Condition | None = None) -> DataFrame:
        """Return the rows; those for which ``pushed`` does not hold may be left out."""
        return read(spark, self.ports, self.state, self.request, pushed=pushed)


@dataclass(slots=True)
class SourceReading:
    """A read as Spark's relation: ``SegtableSource.Reading``.

    Attributes:
        context: of the driver.
        ask: returns what is read; it is called when that is first needed.
        place: where the rows of an ``INSERT`` go; None if it takes none.
    """

    context: SparkContext
    ask: Callable[[], Asked]
    place: Place | None = None
    _asked: Asked | None = field(default=None, repr=False)
    _planned: "tuple[tuple[str, ...], JavaObject] | None" = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Reading",)

    @staticmethod
    def of(context: SparkContext, place: Place, request: ReadRequest) -> "SourceReading":
        """Return the reading of what a request asks for now.

        Raises:
            NotATable, VersionExpired, WindowExpired, InvalidInput: as ``Asked.of``.
        """
        with opened(place, request) as ports:
            asked = Asked.of(ports, request)
        whole = request == ReadRequest(checked=request.checked)
        return SourceReading(context, lambda: asked, place if whole else None)

    @property
    def asked(self) -> Asked:
        """Return what is read."""
        if self._asked is None:
            self._asked = self.ask()
        return self._asked

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

    @answered
    def insert(self, rows: "JavaObject", overwrite: bool) -> "SourceReading":  # noqa: FBT001
        """Append rows, or replace all rows by them; return the reading of the newest version.

        Raises:
            InvalidInput: this is not the whole newest version.
        """
        if self.place is None:
            raise InvalidInput(
                "this view shows a part, a window or an earlier version of "
                f"{self.asked.ports.uri}: insert into one with the option path alone"
            )
        frame = frame_of(self.context, rows)
        save(self.place, WriteRequest(), "Overwrite" if overwrite else "Append", frame)
        request = ReadRequest(checked=self.asked.request.checked)
        return SourceReading.of(self.context, self.place, request)

    def _pushed(self, filters: "JavaArray") -> Condition | None:
        table = self.asked.state.table
        catalyst = jvm_of(self.context).org.apache.spark.sql.catalyst
        to_catalyst = catalyst.CatalystTypeConverters.convertToCatalyst
        return pushed_condition(filters, to_arrow(table.schema), table.time_column, to_catalyst)

"""Read versions of a table for Spark's data source, as one version or as a stream.

One version (``SegtableSource.Reading``):

1. The version is fixed when the DataFrame or view is made, and every query over it reads that
   one. Files are resolved when a query is planned: only those that its columns and its filters
   need, by event times and indexes. The table is kept for the next read (``source.kept_tables``).
2. Spark plans a query more than once while it runs; the last plan's frame is kept for that.
3. ``INSERT INTO`` a view or table of the catalog appends, ``INSERT OVERWRITE`` replaces all rows.
   Then the view reads the newest version, so that its author sees the rows. A view of anything but
   the whole newest version takes no rows.
4. The option ``includeLog`` adds the live tail of the log stores, read by the driver when the
   DataFrame or view is made. Its files are in memory, and are sent to the tasks that read them.

Filters that Spark hands to the data source:

5. Spark evaluates every filter itself; here they only choose files. So a filter may become a weaker
   condition, or none, but never a stronger one. Parquet's statistics are left to Spark's own
   reader.
6. Filters are compared by the table's types. Spark cuts nanoseconds to microseconds, towards zero,
   so a comparison with one becomes wider by a microsecond.

The versions as a stream (``SegtableSource.Feed``):

7. An offset is a version. The first batch is what the request asks for: without a start the whole
   table, with ``sinceVersion`` ``latest`` nothing. Each later one is the window since the batch
   before. ``core.reads.effects`` decides where a batch ends.
8. A batch follows from its two offsets alone, which Spark keeps. So a batch that it runs again
   after a restart is the same.
9. A batch is read when its rows are needed. After a restart Spark asks for the batch before, too,
   which may be expired, and does not read it.
10. Columns are those that the table had when the stream was started; of these, a query's are read.
11. Spark asks for the batch after a version once it has noted the batch before as done. So then a
    consumer advances to that version.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.reads.effects import BatchLimits, Step, batch_end
from airflow_provider_segtable.core.requests.read_request import (
    ORIGIN_COLUMNS,
    ReadRequest,
    columns_read,
)
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import Condition, by_predicate
from airflow_provider_segtable.data.row_filter import with_origin_columns
from airflow_provider_segtable.data.rows import with_change_columns
from airflow_provider_segtable.library.log_stores import log_finder
from airflow_provider_segtable.spark.driver.java_classes import jvm_of
from airflow_provider_segtable.spark.reads.dataframe_scan import read, shows_origin
from airflow_provider_segtable.spark.source.kept_tables import OF_THIS_DRIVER
from airflow_provider_segtable.spark.source.source_options import (
    FollowRequest,
    Place,
    WriteRequest,
    answered,
    frame_of,
    java_of,
    session_of,
)
from airflow_provider_segtable.spark.source.source_writing import save, writable
from airflow_provider_segtable.spark.spark_columns import schema_json
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.kept_versions import advance
from airflow_provider_segtable.table.log_store.union_scan import union_scan
from airflow_provider_segtable.table.windows import pinned, version_read

if TYPE_CHECKING:
    from py4j.java_gateway import JavaArray, JavaObject


ToCatalyst = Callable[[Any], Any]
"""Converts one of Spark's external values to the number that Spark computes with."""

_COMPARES: Mapping[str, Compares] = {
    "EqualTo": Compares.EQUAL,
    "EqualNullSafe": Compares.EQUAL,
    "LessThan": Compares.LESS,
    "LessThanOrEqual": Compares.AT_MOST,
    "GreaterThan": Compares.MORE,
    "GreaterThanOrEqual": Compares.AT_LEAST,
}
_BELOW = {Compares.EQUAL, Compares.LESS, Compares.AT_MOST}
_ABOVE = {Compares.EQUAL, Compares.MORE, Compares.AT_LEAST}


# Filters of Spark as conditions that choose files
def pushed_condition(
    filters: Iterable["JavaObject"], schema: pa.Schema, time_column: str, to_catalyst: ToCatalyst
) -> Condition | None:
    """Return what filters say about rows; None if nothing.

    Args:
        filters: filters of ``org.apache.spark.sql.sources``, all of which hold for wanted rows.
        schema: the table's columns.
        time_column: the event time.
        to_catalyst: see ``ToCatalyst``.
    """
    pushed = _Pushed(schema, to_catalyst)
    found = tuple(part for part in map(pushed.predicate, filters) if part)
    return by_predicate(AllOf(found), time_column) if found else None


@dataclass(frozen=True, slots=True)
class _Pushed:
    """Filters over the columns of a table."""

    schema: pa.Schema
    to_catalyst: ToCatalyst

    def predicate(self, each: "JavaObject") -> Predicate | None:
        """Return a predicate that holds wherever a filter does; None for any row."""
        name = each.getClass().getSimpleName()
        if name == "And":
            some = (self.predicate(each.left()), self.predicate(each.right()))
            parts = tuple(part for part in some if part)
            return AllOf(parts) if parts else None
        if name == "Or":
            either = (self.predicate(each.left()), self.predicate(each.right()))
            return AnyOf(tuple(part for part in either if part)) if all(either) else None
        if name not in {*_COMPARES, "In", "IsNull", "IsNotNull"}:
            return None
        column = _column(each.attribute())
        return None if column not in self.schema.names else self._of_column(name, column, each)

    def _of_column(self, name: str, column: str, each: "JavaObject") -> Predicate | None:
        if name in {"IsNull", "IsNotNull"}:
            return IsNull(column) if name == "IsNull" else Not(IsNull(column))
        kind = self.schema.field(column).type
        if name == "In":
            values = tuple(self._value(value, kind) for value in each.values() if value is not None)
            wide = pa.types.is_timestamp(kind) and kind.unit == "ns"
            return None if wide or None in values else Among(column, values)
        value = self._value(each.value(), kind)
        return None if value is None else _compared(column, _COMPARES[name], value, kind)

    def _value(self, given: Any, kind: pa.DataType) -> Value:
        """Return a filter's value as one of predicates; None if it cannot be compared exactly."""
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            at = self.to_catalyst(given)
            made = Day if pa.types.is_date(kind) else Moment
            return made(at) if isinstance(at, int) else None
        for known, python in (
            (pa.types.is_boolean, bool),
            (pa.types.is_signed_integer, int),
            (pa.types.is_string, str),
            (pa.types.is_large_string, str),
            (pa.types.is_floating, float),
        ):
            if known(kind) and type(given) is python:
                exact = not isinstance(given, float) or isfinite(given)
                value: Value = given
                return value if exact else None
        return None


def _column(attribute: str) -> str:
    """Return the column that an attribute names; a part of a struct is no column."""
    if attribute.startswith("`"):
        return attribute[1:-1].replace("``", "`")
    return "" if "." in attribute else attribute


def _compared(column: str, how: Compares, value: Value, kind: pa.DataType) -> Predicate:
    if not isinstance(value, Moment) or kind.unit != "ns":
        return Compare(column, how, value)
    below = Compare(column, Compares.LESS, Moment(value.us + 1))
    above = Compare(column, Compares.MORE, Moment(value.us - 1))
    return AllOf((*([below] if how in _BELOW else ()), *([above] if how in _ABOVE else ())))


# One version, and the versions as a stream
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
            VersionExpired, WindowExpired, InvalidInput: see ``table.windows``.
            LogStoreUnavailable: see ``table.log_store.tail``.
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
        return Asked(ports=ports, state=state, request=pinned(ports.log, request, state))

    @property
    def columns(self) -> pa.Schema:
        """Return the columns, in the table's own types."""
        known = to_arrow(self.state.table.schema)
        known = with_change_columns(known) if self.request.changes else known
        names = columns_read(self.request, known.names)
        return pa.schema([with_origin_columns(known).field(name) for name in names])

    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return schema_json(self.columns)

    def rows(self, spark: SparkSession, pushed: Condition | None = None) -> DataFrame:
        """Return the rows; those for which ``pushed`` does not hold may be left out."""
        return read(spark, self.ports, self.state, self.request, pushed=pushed)


def _asked_now(place: Place, request: ReadRequest) -> Asked:
    """Return what a request asks for now; a coordinator is opened only to find log stores."""
    if not request.include_log:
        return OF_THIS_DRIVER.read(place, lambda ports: Asked.of(ports, request))
    with writable(place) as ports:
        return Asked.of(ports, request)


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
        asked = _asked_now(place, request)
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
    def frame(self, session: "JavaObject", columns: str, filters: "JavaArray") -> "JavaObject":
        """Return a DataFrame of columns; rows that the filters exclude may be left out."""
        names = tuple(json.loads(columns))
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
        if not len(filters):
            return None
        table = self.asked.state.table
        catalyst = jvm_of(self.context).org.apache.spark.sql.catalyst
        to_catalyst = catalyst.CatalystTypeConverters.convertToCatalyst
        return pushed_condition(filters, to_arrow(table.schema), table.time_column, to_catalyst)


@dataclass(frozen=True, slots=True)
class SourceFeed:
    """The versions of a table, as far as a stream asks for them; ``columns`` as Spark's JSON."""

    context: SparkContext
    ports: TableContext
    request: FollowRequest
    columns: str
    _steps: dict[int, Step | None] = field(default_factory=dict, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Feed",)

    @staticmethod
    def of(context: SparkContext, ports: TableContext, request: FollowRequest) -> "SourceFeed":
        """Return the feed that a request asks for, with the columns of the newest version.

        The start of the first batch is not looked at: a stream that is started again has it behind.

        Raises:
            InvalidInput: the request names a version, and a stream has no end; or this kind of
                table has no windows.
        """
        read = request.read
        if (read.version, read.as_of, read.tag) != (None, None, None):
            raise InvalidInput(
                "a stream has no end: give sinceVersion or since for its start, and no version, "
                "asOf or tag"
            )
        state = ports.log.load()
        state.table.kind.check_window(ports.uri)
        shown = Asked(ports=ports, state=state, request=read)
        wanted = replace(request, read=replace(read, columns=tuple(shown.columns.names)))
        return SourceFeed(context, ports, wanted, shown.schema())

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return self.columns

    @answered
    def newest(self) -> str:
        """Return the newest version."""
        return str(self.ports.log.load().n)

    @answered
    def next(self, after: str, up_to: str, limited: bool) -> str | None:  # noqa: FBT001
        """Return the end of the batch after a version, at most ``up_to``; None if there is none."""
        last = int(up_to)
        if after and self.request.read.consumer is not None:
            advance(self.ports, self.request.read.consumer, int(after))
        start = int(after) if after else self._begin(last)
        if start is None:
            return up_to
        limits = self.request.limits if limited else BatchLimits()
        end = batch_end(self._between(start, last), limits, last)
        if end is None:
            return after or None
        return str(min(last, max(end, self.ports.log.load().retained_from)))

    @answered
    def batch(self, after: str, up_to: str) -> SourceReading:
        """Return the reading of a batch."""
        request = replace(self.request.read, version=int(up_to))
        if after or self.request.latest:
            request = replace(request, since_version=int(after or up_to), since=None, consumer=None)
        return SourceReading(self.context, lambda: Asked.of(self.ports, request))

    @answered
    def close(self) -> None:
        """Do nothing: a stream of versions has no connection."""

    def _begin(self, last: int) -> int | None:
        """Return the version after which the first batch begins; None if it has no window."""
        if not self.request.read.windowed or self.request.latest:
            return None
        state = self.ports.log.at(last)
        return pinned(self.ports.log, self.request.read, state).since_version

    def _between(self, start: int, last: int) -> Iterator[Step]:
        """Yield the steps after ``start``, up to ``last``; an event is read once."""
        for n in [each for each in self._steps if each <= start]:
            del self._steps[n]
        for n in range(start + 1, last + 1):
            if n not in self._steps:
                event = self.ports.log.event(n)
                changes = self.request.read.changes
                self._steps[n] = Step(n=n) if event is None else Step.of(event, changes=changes)
            step = self._steps[n]
            if step is not None:
                yield step

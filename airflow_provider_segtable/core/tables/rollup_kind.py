"""Rollup tables: one aggregated row is kept for each group; the definition, not the computation.

1. A rollup table stores one row for each *group* of ingested rows: rows of equal dimensions (null
   is a value like any other) and equal event time, truncated to the query granularity.
2. Metrics aggregate the rows of a group. Each is a function of the *set* of rows, so rows may be
   rolled up in parts, and the parts again, in any order:

   ====================  =============================  =====================================
   kind                  stored as                      how
   ====================  =============================  =====================================
   sum(column)           int64, double,                 nulls are ignored; int64 and decimal
                         decimal128(38, s)              never wrap: too much is refused
   min(column), max      the column's type              nulls are ignored; NaN is the largest
   first(column), last   the column's type              at the first or last exact event time;
                                                        ties: first the smallest, last the
                                                        largest value; nulls always lose
   count                 int64, not null                the number of rows
   hll(column[, lgK])    binary                         Spark's sketches; lgK, lgNomEntries
   theta(column[, lgN])                                 and k are Spark's parameters
   kll(column[, k])
   ====================  =============================  =====================================

   Only sums of floating numbers depend on the order, in their last digits.
3. Minus zero is stored as zero, so that equal numbers are one group and one extreme.
4. Files have hidden columns: ``__segtable_events`` (the number of ingested rows of the group) and
   ``__segtable_at_<metric>`` (the exact time in µs of the value that first or last kept).
5. A table has two schemas: *input*, the columns of ingested rows (time, dimensions, sources), and
   *stored*, the columns that readers see (time, dimensions, metrics).
6. *Query granularities* are the steps to which event times are truncated. A table's is at most as
   coarse as its time chunks, so a group lies in one time chunk, that of its truncated time.
7. A stored row has no address, and its metrics change whenever its group is merged. So deletes are
   predicates over dimensions and time (rules 8 and 9), which apply to rows appended before; rows
   cannot be updated; and sorting keeps the rows of a group together.
8. A stored row aggregates many input rows and is merged with others at each compaction. So a
   predicate must have the same value for all rows of a group (equal dimensions and truncated
   time). Metrics change with every merge.
9. The time of an input row within its step is not stored. So a predicate may name only the start
   of a step; any other time would split groups that are stored as one row.
10. All changes of columns are refused, each for its own reason. Stored rows stand for rows that are
    not kept, so nothing can be computed for them anew. The definition has the role of a column
    (time, dimension, metric) by its name, and so have the hidden columns of metrics in files.

Source of the idea: Druid's rollup (dimensionsSpec, metricsSpec, queryGranularity).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, assert_never

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Not,
    Predicate,
    columns_of,
    instant_of,
)
from airflow_provider_segtable.core.requests.change_request import ChangeRequest, Delete, Update
from airflow_provider_segtable.core.schema import (
    HIDDEN,
    ORDERLY,
    Column,
    Metric,
    MetricKind,
    Order,
    Schema,
    no_column,
    orderly,
)
from airflow_provider_segtable.core.segment import Roots, Segment
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import (
    ALL_TIME,
    HOUR_US,
    MIN_INSTANT,
    MINUTE_US,
    SECOND_US,
    Granularity,
    Instant,
    iso,
)


# Changes of columns
def check_group_columns(
    changes: Iterable[ColumnChange], dimensions: Collection[str], table: str
) -> None:
    """Refuse any change of columns.

    Raises:
        InvalidInput: with the column, the reason and the way out.
    """
    for change in changes:
        raise InvalidInput(
            f"{table} is a rollup table, and {_refused(change, dimensions)}: create another table "
            "with the columns wanted, and ingest the source there"
        )


def _refused(change: ColumnChange, dimensions: Collection[str]) -> str:
    match change:
        case AddColumn(name=name):
            return (
                f"column {name!r} cannot be added: the rows that were rolled up so far are not "
                "kept, so its value in them is unknown"
            )
        case DropColumn(name=name) if name in dimensions:
            return (
                f"dimension {name!r} cannot be dropped: rows that differ in it alone would be "
                "several rows of one group"
            )
        case DropColumn(name=name):
            return f"column {name!r} cannot be dropped: {_BY_NAME}"
        case RenameColumn(name=name):
            return f"column {name!r} cannot be renamed: {_BY_NAME}; a query can rename it"
        case WidenColumn(name=name, type=kind) if name in dimensions:
            return f"dimension {name!r} cannot become {kind}: rows are grouped by its present type"
        case WidenColumn(name=name, type=kind):
            return (
                f"column {name!r} cannot become {kind}: a metric's type follows from the column "
                "that it aggregates"
            )
        case MakeNullable(name=name):
            return f"column {name!r} cannot be made nullable: {_BY_NAME}"
        case Reorder():
            return "its columns stand in the order time, dimensions, metrics; a query can reorder"
        case _:
            assert_never(change)


_BY_NAME = "the definition of the rollup and the hidden columns of its files name it"


# Query granularities


class QueryGranularity(StrEnum):
    """The steps to which event times are truncated for grouping; ``none`` truncates nothing."""

    NONE = "none"
    SECOND = "second"
    MINUTE = "minute"
    FIVE_MINUTE = "five_minute"
    TEN_MINUTE = "ten_minute"
    FIFTEEN_MINUTE = "fifteen_minute"
    THIRTY_MINUTE = "thirty_minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    @staticmethod
    def parse(text: str) -> "QueryGranularity":
        """Return the granularity of this name.

        Raises:
            InvalidName: if there is none.
        """
        try:
            return QueryGranularity(text)
        except ValueError:
            choices = ", ".join(QueryGranularity)
            raise InvalidName(
                f"{text!r} is not a query granularity: choose one of {choices}"
            ) from None

    @property
    def width_us(self) -> int | None:
        """Return the width of its steps, counted from the epoch; None for calendar steps."""
        return _WIDTHS.get(self)

    @property
    def calendar(self) -> Granularity | None:
        """Return the granularity whose chunks are its steps, for day and above."""
        return Granularity(self.value) if self in _CALENDAR else None

    def truncate(self, at: Instant) -> Instant:
        """Return the start of the step that holds the instant."""
        if self.calendar:
            return self.calendar.chunk(at).start
        return max(at - at % (self.width_us or 1), MIN_INSTANT)

    def fits(self, granularity: Granularity) -> bool:
        """Return whether it is at most as coarse as a table's granularity."""
        if granularity is Granularity.ALL:
            return True
        steps = list(QueryGranularity)
        return steps.index(self) <= steps.index(QueryGranularity(granularity.value))


_WIDTHS = {
    QueryGranularity.NONE: 1,
    QueryGranularity.SECOND: SECOND_US,
    QueryGranularity.MINUTE: MINUTE_US,
    QueryGranularity.FIVE_MINUTE: 5 * MINUTE_US,
    QueryGranularity.TEN_MINUTE: 10 * MINUTE_US,
    QueryGranularity.FIFTEEN_MINUTE: 15 * MINUTE_US,
    QueryGranularity.THIRTY_MINUTE: 30 * MINUTE_US,
    QueryGranularity.HOUR: HOUR_US,
}
_CALENDAR = set(QueryGranularity) - set(_WIDTHS)


# Predicates over groups
def check_group_predicate(
    predicate: Predicate, dimensions: Sequence[str], steps: QueryGranularity, time_column: str
) -> None:
    """Refuse a predicate whose effect would depend on compactions.

    Raises:
        InvalidInput: it names a metric or a time within a step; the message gives the neighbouring
            step starts.
    """
    for name in columns_of(predicate):
        if name not in (time_column, *dimensions):
            known = ", ".join((time_column, *dimensions))
            raise InvalidInput(
                f"{name!r} is a metric: its value changes whenever rows of a group are rolled up "
                "together, so a delete by it would depend on the compactions so far; delete by "
                f"time and dimensions ({known})"
            )
    for at in _times(predicate, time_column):
        _check_step(at, steps, time_column)


def _times(predicate: Predicate, time_column: str) -> Iterator[Instant]:
    match predicate:
        case Compare(column=name, value=value) if name == time_column:
            given = [value]
        case Among(column=name, values=values) if name == time_column:
            given = list(values)
        case Not(of=one):
            yield from _times(one, time_column)
            return
        case AllOf(of=some) | AnyOf(of=some):
            for one in some:
                yield from _times(one, time_column)
            return
        case _:
            return
    yield from (at for value in given if (at := instant_of(value)) is not None)


def _check_step(at: Instant, steps: QueryGranularity, time_column: str) -> None:
    if not ALL_TIME.holds(at):
        return  # no row has such a time
    start = steps.truncate(at)
    if start == at:
        return
    width = steps.width_us
    calendar = steps.calendar
    end = calendar.chunk(at).end if calendar else start + (width or 1)
    raise InvalidInput(
        f"{iso(at)} lies within a step of the query granularity {steps.value!r}: rows are "
        f"stored with {time_column!r} at the start of their step, so it cannot split a step; "
        f"write {iso(start)} or {iso(end)}"
    )


__all__ = [
    "EVENTS",
    "HIDDEN",
    "Metric",
    "MetricKind",
    "QueryGranularity",
    "Rollup",
    "bound",
    "decode_rollup",
    "encode_rollup",
    "input_schema",
    "stored_schema",
]

# The kind of table itself
EVENTS = HIDDEN + "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """A table that keeps one row for each group; methods as of ``TableKind``.

    Attributes:
        dimensions: the columns that rows are grouped by, besides the truncated event time; in the
            order in which compaction sorts.
        metrics: the aggregates of a group.
        query_granularity: the granularity to which event times are truncated.
        sources: the input columns of metrics; filled in by ``bound``.
    """

    dimensions: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    query_granularity: QueryGranularity = QueryGranularity.NONE
    sources: tuple[Column, ...] = ()

    name: ClassVar[str] = "rollup"
    deletion: ClassVar[DeletionForm] = DeletionForm.PREDICATE
    merges: ClassVar[bool] = True
    shows_base: ClassVar[bool] = False
    buckets: ClassVar[int] = 0
    major_tidies: ClassVar[bool] = True
    properties: ClassVar[Mapping[str, str]] = {}
    rules: ClassVar[None] = None
    unmerged: ClassVar[str] = "are not rolled up perfectly"

    def __post_init__(self) -> None:
        """Refuse names that clash or are reserved."""
        names = [*self.dimensions, *(metric.name for metric in self.metrics)]
        for name in names:
            if names.count(name) > 1:
                raise InvalidName(f"{name!r} names two columns of the rollup: rename one")
            if not name or name.startswith(HIDDEN):
                raise InvalidName(f"column name {name!r} is empty or reserved: choose another")

    @property
    def sketches(self) -> tuple[Metric, ...]:
        """Return the metrics that only Spark can compute."""
        return tuple(metric for metric in self.metrics if metric.kind.sketch)

    @property
    def hidden(self) -> tuple[Column, ...]:
        """Return the hidden columns of the files, in order."""
        times = [m.at for m in self.metrics if m.kind.timed]
        return (
            Column(name=EVENTS, type="int64", nullable=False),
            *(Column(name=name, type="int64") for name in times),
        )

    def bound(
        self, schema: Schema, *, time_column: str, granularity: Granularity
    ) -> "tuple[Rollup, Schema]":
        """Check the rollup, and return it with its sources, and the stored schema."""
        found = bound(self, schema, time_column=time_column, granularity=granularity)
        return found, stored_schema(found, schema, time_column=time_column)

    def encoded(self) -> dict[str, Any]:
        """Return the field ``rollup`` with the settings."""
        return {self.name: encode_rollup(self)}

    @staticmethod
    def decoded(body: Mapping[str, Any]) -> "Rollup":
        """Parse the output of ``encoded``."""
        return decode_rollup(body[Rollup.name])

    def facts(self) -> Mapping[str, str | list[str]]:
        """Return the dimensions, the metrics as text and the query granularity."""
        return {
            "dimensions": list(self.dimensions),
            "metrics": [str(metric) for metric in self.metrics],
            "query_granularity": self.query_granularity.value,
        }

    def needed(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return time, dimensions and the sources of metrics."""
        used = {time_column, *self.dimensions, *(metric.source for metric in self.metrics)}
        return [name for name in names if name in used]

    def input_schema(self, stored: Schema, time_column: str) -> Schema:
        """Return time, dimensions and the sources of metrics."""
        return input_schema(self, stored, time_column=time_column)

    def identity(self, names: Sequence[str], time_column: str) -> Sequence[str]:
        """Return time and dimensions: a group's rows stay together."""
        del names
        return (time_column, *self.dimensions)

    def check_columns(self, changes: Sequence[ColumnChange], table: str) -> None:
        """Refuse every change: stored rows are rolled up by the present columns."""
        check_group_columns(changes, self.dimensions, table)

    def with_columns(self, changes: object, before: Schema, after: Schema) -> "Rollup":
        """Return the kind: no change passes ``check_columns``."""
        del changes, before, after
        return self

    def placed(self, segment: Segment, n: int, *, renamed: bool) -> Segment:
        """Return the segment after all deletes so far: predicates hit only earlier rows."""
        del renamed
        return replace(segment, deletes_applied_through=n)

    def published(self, segment: Segment, at: Instant) -> Segment:
        """Return the segment: its event has the time."""
        del at
        return segment

    def roots(self, inputs: Sequence[Segment]) -> tuple[Roots, ...]:
        """Return none: rows have no addresses."""
        del inputs
        return ()

    def unaccounted(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield nothing: the log counts the ingested rows of a group, not its rows."""
        del inputs, outputs
        return ()

    def misplaced(self, inputs: Sequence[Segment], outputs: Sequence[Segment]) -> Iterable[str]:
        """Yield nothing: merged rows have no order of their own."""
        del inputs, outputs
        return ()

    def doubled(self, segments: Iterable[Segment]) -> Iterator[str]:
        """Yield nothing: the log does not record which rows a stored row stands for."""
        del segments
        return iter(())

    def tie_columns(self, time_column: str) -> tuple[str, ...]:
        """Return the dimensions, then the event time: equal groups become neighbours."""
        return (*self.dimensions, time_column)

    def check_order(self, order: Order, time_column: str, table: str) -> None:
        """Refuse an order that would separate rows of a group, or that Spark cannot sort by."""
        fixed = (time_column, *self.dimensions)
        for name in order.columns:
            if name not in fixed:
                raise InvalidInput(
                    f"{table} can not be sorted by {order}: {name} is a metric, which "
                    f"changes as rows are rolled up; choose among {', '.join(fixed)}"
                )
        if order.curve == "zorder" and self.sketches:
            raise InvalidInput(
                f"{table} can not be sorted by {order}: only Spark can merge the sketch "
                f"{self.sketches[0]}, and it sorts by columns one after another; write "
                f"{','.join(order.columns)}"
            )

    def check_buckets(self, buckets: int, table: str) -> None:
        """Refuse: rows without a key are in no bucket."""
        raise InvalidInput(
            f"{table} has no primary key, so it cannot have {buckets} buckets: leave them out"
        )

    def check_granularity(self, granularity: Granularity, table: str) -> None:
        """Refuse one finer than the query granularity: a group must fit in a time chunk."""
        if not self.query_granularity.fits(granularity):
            query = self.query_granularity.value
            raise InvalidInput(
                f"{table} is rolled up by {query}, so its time can not be cut by "
                f"{granularity.value}: ask for granularity {query} or coarser"
            )

    @property
    def only_spark(self) -> str:
        """Return the first sketch, which only Spark can merge."""
        return f"only Spark can merge {self.sketches[0]}, a sketch" if self.sketches else ""

    def check_degree(self, degree: str, table: str) -> None:
        """Accept: which locks allow a perfect rollup, ``core.locks`` decides."""

    def check_addresses(self, uri: str) -> None:
        """Refuse: rows have no addresses."""
        raise InvalidInput(f"rows of a rollup table have no addresses ({uri})")

    def check_window(self, uri: str) -> None:
        """Refuse: compactions merge rows of several events into one."""
        raise InvalidInput(
            f"{uri} is a rollup table: a row stands for many, of different events, so the event "
            "that added it is not recorded; compare two versions (version=, as_of=), or keep the "
            "ingested rows in an append table and read its windows"
        )

    def check_change(self, request: ChangeRequest, uri: str) -> None:
        """Refuse all but a delete by SQL: the log records a predicate."""
        if not isinstance(request, Delete):
            raise InvalidInput(
                f"{uri} is a rollup table: its rows stand for many that are not kept, so they "
                f"cannot be {'updated' if isinstance(request, Update) else 'merged'}; delete by a "
                "condition over dimensions and time, and append"
            )
        if not isinstance(request.where, str) or request.rows is not None:
            raise InvalidInput(
                f"{uri} is a rollup table: its rows stand for many and have no address, so only a "
                "condition in SQL, over dimensions and time, can delete there"
            )

    def check_predicate(self, predicate: Predicate, time_column: str) -> None:
        """Refuse a predicate that is not equal for all rows of a group."""
        steps = self.query_granularity
        check_group_predicate(predicate, self.dimensions, steps, time_column)

    def unpublished(self, stored: Schema, unmerged: Iterable[str]) -> str:
        """Return the first sketch, or the first chunk that is not rolled up perfectly."""
        del stored
        if self.sketches:
            return f"other engines cannot read {self.sketches[0]}, a sketch: leave it unpublished"
        why = next(iter(unmerged), "")
        return f"rows are not rolled up perfectly: {why}; run a major compaction" if why else ""


def bound(rollup: Rollup, schema: Schema, *, time_column: str, granularity: Granularity) -> Rollup:
    """Check a rollup against the input schema, and return it with its sources.

    Args:
        rollup: the rollup as the user gave it.
        schema: the columns of ingested rows; each must be used.
        time_column: the event time.
        granularity: the granularity of the table's time chunks.

    Raises:
        SchemaMismatch: if a column is missing, unused, or of an unsupported type.
        InvalidName: if a name is used twice.
        InvalidInput: if the query granularity is coarser than the table's.
    """
    _check_granularity(rollup.query_granularity, granularity)
    if time_column in (*rollup.dimensions, *(metric.name for metric in rollup.metrics)):
        raise InvalidName(
            f"{time_column!r} is the time column, which rows are grouped by anyway: "
            "drop it from the dimensions and metrics, or rename the metric"
        )
    for name in rollup.dimensions:
        _check_dimension(_found(schema, name, "dimension"))
    wanted = dict.fromkeys(metric.source for metric in rollup.metrics if metric.source)
    sources = tuple(_found(schema, name, "metric source") for name in wanted)
    _check_used(schema, {time_column, *rollup.dimensions, *wanted})
    found = replace(rollup, sources=sources)
    stored_schema(found, schema, time_column=time_column)
    return found


def stored_schema(rollup: Rollup, schema: Schema, *, time_column: str) -> Schema:
    """Return the stored schema for an input schema: time, dimensions, metrics."""
    kept = (time_column, *rollup.dimensions)
    sources = {column.name: column for column in schema.columns}
    metrics = (m.stored(sources[m.source] if m.source else None) for m in rollup.metrics)
    return Schema(
        tuple(replace(column, id=0) for column in (*map(sources.__getitem__, kept), *metrics))
    )


def input_schema(rollup: Rollup, stored: Schema, *, time_column: str) -> Schema:
    """Return the input schema for a stored schema; ``rollup`` comes from ``bound``."""
    kept = (time_column, *rollup.dimensions)
    columns = {column.name: column for column in stored.columns if column.name in kept}
    more = (column for column in rollup.sources if column.name not in kept)
    return Schema((*(columns[name] for name in kept), *more))


def _check_granularity(query: QueryGranularity, table: Granularity) -> None:
    if not query.fits(table):
        raise InvalidInput(
            f"query granularity {query.value!r} is coarser than the table's granularity "
            f"{table.value!r}: make it {table.value!r} or finer, or the table's coarser"
        )


def _found(schema: Schema, name: str, noun: str) -> Column:
    column = schema.find(name)
    if column is None:
        raise no_column(name, schema.names, f"for the {noun}", of="the schema")
    return column


def _check_dimension(column: Column) -> None:
    if not orderly(column.type):
        raise SchemaMismatch(
            f"dimension {column.name!r} has type {column.type}, which rows cannot be grouped by: "
            f"use {ORDERLY}"
        )


def _check_used(schema: Schema, used: set[str]) -> None:
    unused = [name for name in schema.names if name not in used]
    if unused:
        raise SchemaMismatch(
            f"nothing would be kept of {_names(unused)}: make a dimension of it or a metric from "
            "it, or leave it out of the schema"
        )


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def encode_rollup(rollup: Rollup) -> dict[str, Any]:
    """Return a rollup as JSON."""
    return {
        "dimensions": list(rollup.dimensions),
        "metrics": [metric.encoded() for metric in rollup.metrics],
        "query_granularity": rollup.query_granularity.value,
        "sources": [
            {"name": c.name, "type": c.type, "nullable": c.nullable} for c in rollup.sources
        ],
    }


def decode_rollup(body: Mapping[str, Any]) -> Rollup:
    """Parse the output of ``encode_rollup``."""
    return Rollup(
        dimensions=tuple(body["dimensions"]),
        metrics=tuple(map(Metric.decoded, body["metrics"])),
        query_granularity=QueryGranularity.parse(body["query_granularity"]),
        sources=tuple(Column(**column) for column in body["sources"]),
    )

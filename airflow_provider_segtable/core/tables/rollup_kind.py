"""Rollup: the definition of a table of aggregated rows, without its computation.

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
6. The query granularity is at most as coarse as the table's, so a group lies in one time chunk,
   that of its truncated time.

Source of the idea: Druid's rollup (dimensionsSpec, metricsSpec, queryGranularity).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch
from airflow_provider_segtable.core.tables.metric import (
    HIDDEN,
    ORDERLY,
    Metric,
    MetricKind,
    orderly,
)
from airflow_provider_segtable.core.tables.query_granularity import QueryGranularity
from airflow_provider_segtable.core.tables.schema import Column, Schema
from airflow_provider_segtable.core.time.interval import Granularity

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

EVENTS = HIDDEN + "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """The rollup of a table.

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
    return Schema((*(sources[name] for name in kept), *metrics))


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


def _found(schema: Schema, name: str, what: str) -> Column:
    column = schema.find(name)
    if column is None:
        raise SchemaMismatch(f"{what} {name!r} is not in the schema: it has {_names(schema.names)}")
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
        "metrics": [_encode_metric(metric) for metric in rollup.metrics],
        "query_granularity": rollup.query_granularity.value,
        "sources": [
            {"name": c.name, "type": c.type, "nullable": c.nullable} for c in rollup.sources
        ],
    }


def decode_rollup(body: Mapping[str, Any]) -> Rollup:
    """Parse the output of ``encode_rollup``."""
    return Rollup(
        dimensions=tuple(body["dimensions"]),
        metrics=tuple(
            Metric(**{**metric, "kind": MetricKind(metric["kind"])}) for metric in body["metrics"]
        ),
        query_granularity=QueryGranularity.parse(body["query_granularity"]),
        sources=tuple(Column(**column) for column in body["sources"]),
    )


def _encode_metric(metric: Metric) -> dict[str, Any]:
    body = {
        "name": metric.name,
        "kind": metric.kind.value,
        "source": metric.source,
        "argument": metric.argument,
    }
    return {name: value for name, value in body.items() if value is not None}

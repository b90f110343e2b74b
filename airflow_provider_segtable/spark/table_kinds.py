"""Kinds of table in Spark: prepare the rows of an ingest, merge the rows of a scan.

1. Rows of append tables pass unchanged.
2. For primary-key tables, tasks make records of rows, and merge records into rows.
3. Rollup tables merge the rows of a group by Spark's aggregates, sketches included.

Rollups:

4. ``from_input`` makes physical rows (``core.tables.rollup_kind``) from input rows,
   ``rolled_up_rows`` merges physical rows. Both give one row per group and agree with
   ``data.rollup.rollup_rows`` to the last bit, except for the last digits of floating sums. Times
   are at most microseconds here.
5. Overflowing sums are refused, whatever ``spark.sql.ansi.enabled`` is. Spark also refuses a sum
   with an overflow on the way to a final value that fits.
6. Sketches merge in any order: theta estimates stay the same, KLL quantiles stay within their
   error bound. An HLL sketch filled in one go stores a better estimate beside its registers, which
   merging loses. ``estimate`` merges the sketch with itself to use the registers alone, so its
   answer stays the same, too. ``quantile`` reads KLL sketches.
7. Columns are numbered internally, because names may hold dots and backticks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Any, Protocol

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, QueryGranularity, Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import DAY_US, Granularity, Layout
from airflow_provider_segtable.data.arrow_schema import physical_schema
from airflow_provider_segtable.spark.spark_columns import chunk_key, column, instant


class Stored(Protocol):
    """The wanted rows of a snapshot, as files hold them."""

    def rows(self, schema: pa.Schema, columns: Sequence[str]) -> DataFrame:
        """Return columns of all rows, given the schema of the files."""
        ...

    def rows_by_key(self, columns: Sequence[str]) -> DataFrame:
        """Return columns of one row for each primary key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Incoming rows as files will hold them.

    Attributes:
        rows: the rows, in the columns of ``schema``; may be read twice.
        schema: the columns of the files.
        events: the number of ingested rows that a row stands for; one if None.
    """

    rows: DataFrame
    schema: pa.Schema
    events: Column | None = None


class SparkKind(Protocol):
    """A kind of table, in Spark."""

    def incoming(
        self, rows: DataFrame, shown: pa.Schema, time_column: str
    ) -> AbstractContextManager[Incoming]:
        """Prepare the rows of an ingest; frames that Spark caches are released at the end.

        Args:
            rows: rows in the input schema.
            shown: the columns that readers see.
            time_column: the event time.
        """
        ...

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return some columns of a snapshot, as readers see its rows.

        Args:
            stored: the rows in the files.
            known: the columns that readers see.
            wanted: the columns to return; they are among these.
            time_column: the event time.
            rolled_up: merge rows of equal dimensions, if the kind rolls up.
        """
        ...


# Append and primary-key tables
@dataclass(frozen=True, slots=True)
class AppendSpark:
    """An append table in Spark; the methods are those of ``SparkKind``."""

    kind: Append = field(default_factory=Append)

    @contextmanager
    def incoming(self, rows: DataFrame, shown: pa.Schema, time_column: str) -> Iterator[Incoming]:
        """Yield the rows; they are read twice from their source."""
        del time_column
        yield Incoming(rows=rows, schema=shown)

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return the columns as they are stored."""
        del time_column, rolled_up
        return stored.rows(known, wanted)


@dataclass(frozen=True, slots=True)
class KeyedSpark:
    """A primary-key table in Spark; the methods are those of ``SparkKind``."""

    kind: PrimaryKey

    @contextmanager
    def incoming(self, rows: DataFrame, shown: pa.Schema, time_column: str) -> Iterator[Incoming]:
        """Yield the rows; tasks make records of them (``writes.dataframe_ingest``)."""
        del time_column
        yield Incoming(rows=rows, schema=shown)

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return one row for each key."""
        del known, time_column, rolled_up
        return stored.rows_by_key(wanted)


_KLL = {"float": "float", "double": "double"}
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


# Rollup tables: rows of a group, merged by Spark's aggregates
def from_input(df: DataFrame, rollup: Rollup, *, time_column: str) -> DataFrame:
    """Roll up input rows.

    Args:
        df: rows in the input schema.
        rollup: the table's rollup, bound to its sources.
        time_column: the event time; times that a table cannot hold are not truncated.
    """
    at = instant(df, time_column)
    values = {EVENTS: F.count(F.lit(1))}
    for metric in rollup.metrics:
        if metric.source is None:
            values[metric.name] = F.count(F.lit(1))
        else:
            values |= _made(metric, column(df, metric.source), _kind(df, metric.source), at)
    return _aggregated(df, rollup, time_column, values)


def rolled_up_rows(df: DataFrame, rollup: Rollup, *, time_column: str) -> DataFrame:
    """Roll up physical rows of any mixture of generations to one row per group."""
    values = {EVENTS: F.sum(column(df, EVENTS))}
    kinds = {source.name: source.type for source in rollup.sources}
    for metric in rollup.metrics:
        values |= _merged(metric, df, kinds)
    return _aggregated(df, rollup, time_column, values)


def _aggregated(
    df: DataFrame, rollup: Rollup, time_column: str, values: dict[str, Column]
) -> DataFrame:
    keys = {time_column: _cut(df, time_column, rollup.query_granularity)}
    keys |= {name: _unsigned_zero(column(df, name), _kind(df, name)) for name in rollup.dimensions}
    names = [
        *keys,
        *(m.name for m in rollup.metrics),
        EVENTS,
        *(m.at for m in rollup.metrics if m.kind.timed),
    ]
    numbered = {name: str(number) for number, name in enumerate(names)}
    grouped = df.groupBy(*(key.alias(numbered[name]) for name, key in keys.items()))
    found = grouped.agg(*(values[name].alias(numbered[name]) for name in names[len(keys) :]))
    return found.select(*(F.col(f"`{number}`").alias(name) for name, number in numbered.items()))


def _made(metric: Metric, source: Column, kind: T.DataType, at: Column) -> dict[str, Column]:
    """Return a metric's columns, computed from its source."""
    match metric.kind:
        case MetricKind.SUM:
            return {metric.name: _sum(metric, source, kind)}
        case MetricKind.HLL:
            return {metric.name: F.hll_sketch_agg(_wide(source, kind), F.lit(metric.size))}
        case MetricKind.THETA:
            _check_sketches(metric)
            return {metric.name: F.theta_sketch_agg(_wide(source, kind), F.lit(metric.size))}
        case MetricKind.KLL:
            _check_sketches(metric)
            sketch = f"kll_sketch_agg_{_kll_of(kind)}"
            wide = _wide(source, kind)
            return {metric.name: F.call_function(sketch, wide, F.lit(metric.size))}
        case _:
            return _chosen(metric, _unsigned_zero(source, kind), at)


def _merged(metric: Metric, df: DataFrame, sources: dict[str, str]) -> dict[str, Column]:
    """Return a metric's columns, merged from the metric's own."""
    mine, kind = column(df, metric.name), _kind(df, metric.name)
    match metric.kind:
        case MetricKind.SUM | MetricKind.COUNT:
            return {metric.name: _sum(metric, mine, kind)}
        case MetricKind.HLL:
            return {metric.name: F.hll_union_agg(mine, F.lit(False))}
        case MetricKind.THETA:
            _check_sketches(metric)
            return {metric.name: F.theta_union_agg(mine, F.lit(metric.size))}
        case MetricKind.KLL:
            _check_sketches(metric)
            merge = f"kll_merge_agg_{kll_type(metric, sources)}"
            return {metric.name: F.call_function(merge, mine, F.lit(metric.size))}
        case _:
            at = column(df, metric.at) if metric.kind.timed else F.lit(0)
            return _chosen(metric, _unsigned_zero(mine, kind), at)


def _check_sketches(metric: Metric) -> None:
    """Refuse a sketch of a kind that this Spark does not have.

    Raises:
        DependencyMissing: Spark is older than 4.1.
    """
    if not hasattr(F, "theta_sketch_agg"):
        raise DependencyMissing(
            f"metric {metric} needs Spark 4.1 or later, and this is PySpark {pyspark.__version__}: "
            "use hll for distinct values, or give drivers and the cluster Spark 4.1"
        )


def _chosen(metric: Metric, value: Column, at: Column) -> dict[str, Column]:
    best = F.max if metric.kind in {MetricKind.MAX, MetricKind.LAST} else F.min
    if not metric.kind.timed:
        return {metric.name: best(value)}
    pair = best(F.when(value.isNotNull(), F.struct(at.alias("at"), value.alias("value"))))
    return {metric.name: pair["value"], metric.at: pair["at"]}


def _sum(metric: Metric, values: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.FloatType | T.DoubleType):
        return F.sum(values.cast("double")) + F.lit(0.0)
    wide = f"decimal(38,{kind.scale})" if isinstance(kind, T.DecimalType) else "bigint"
    total = F.try_sum(values.cast(wide)).cast(wide)
    lost = (F.count(values) > 0) & total.isNull()
    message = (
        f"metric {metric}: a sum is more than {wide} can hold: use a finer query granularity "
        "or more dimensions, or sum a double"
    )
    return F.when(lost, F.raise_error(F.lit(message)).cast(wide)).otherwise(total)


def _kind(df: DataFrame, name: str) -> T.DataType:
    return df.schema[name].dataType


def _wide(values: Column, kind: T.DataType) -> Column:
    return values.cast("bigint") if isinstance(kind, _INTEGERS) else values


def _kll_of(kind: T.DataType) -> str:
    return _KLL.get(kind.simpleString(), "bigint")


def kll_type(metric: Metric, sources: dict[str, str]) -> str:
    """Return the number type in the names of Spark's KLL functions: bigint, float or double."""
    return _KLL.get(sources[metric.source or ""], "bigint")


def _unsigned_zero(values: Column, kind: T.DataType) -> Column:
    """Turn minus zero into zero in floating columns; return others unchanged."""
    if isinstance(kind, T.FloatType | T.DoubleType):
        return (values + F.lit(0.0)).cast(kind)
    return values


def _cut(df: DataFrame, name: str, granularity: QueryGranularity) -> Column:
    """Return a time column truncated to a granularity, in its own type."""
    raw, at, kind = column(df, name), instant(df, name), _kind(df, name)
    if granularity is QueryGranularity.NONE:
        return raw
    if granularity.calendar is not None:
        start = chunk_key(at, Layout(granularity=Granularity(granularity.value)))
    else:
        start = at - F.pmod(at, F.lit(granularity.width_us))
    return F.when(at.isNull(), raw).otherwise(_time(start, kind))


def _time(at: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(at)
    rest = F.pmod(at, F.lit(DAY_US))
    days = F.call_function("div", at - rest, F.lit(DAY_US)).cast("int")
    if isinstance(kind, T.DateType):
        return F.date_from_unix_date(days)
    seconds = rest.cast("decimal(20,0)") / F.lit(1_000_000).cast("decimal(20,0)")
    span = F.make_dt_interval(days, F.lit(0), F.lit(0), seconds.cast("decimal(18,6)"))
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + span


def estimate(df: DataFrame, metric: Metric) -> Column:
    """Return the estimated number of distinct values of an HLL or theta metric, as a bigint.

    Raises:
        InvalidInput: the metric is of another kind.
    """
    if metric.kind not in {MetricKind.HLL, MetricKind.THETA}:
        raise InvalidInput(
            f"metric {metric} has no estimate of distinct values: only hll and theta have; "
            "ask a kll by quantile(...)"
        )
    sketch = column(df, metric.name)
    if metric.kind is MetricKind.THETA:
        _check_sketches(metric)
        return F.theta_sketch_estimate(sketch)
    return F.hll_sketch_estimate(F.hll_union(sketch, sketch, False))


def quantile(df: DataFrame, rollup: Rollup, metric: Metric, rank: float) -> Column:
    """Return the approximate quantile of a KLL metric at ``rank``.

    Raises:
        InvalidInput: the metric is not a kll, or the rank is outside 0 to 1.
    """
    if metric.kind is not MetricKind.KLL or not 0 <= rank <= 1:
        raise InvalidInput(
            f"quantile {rank} of metric {metric}: the metric must be a kll, and the rank lie in "
            "0 to 1"
        )
    _check_sketches(metric)
    kind = kll_type(metric, {source.name: source.type for source in rollup.sources})
    ask = f"kll_sketch_get_quantile_{kind}"
    return F.call_function(ask, column(df, metric.name), F.lit(float(rank)))


@dataclass(frozen=True, slots=True)
class RollupSpark:
    """A rollup table in Spark; the methods are those of ``SparkKind``."""

    kind: Rollup

    @contextmanager
    def incoming(self, rows: DataFrame, shown: pa.Schema, time_column: str) -> Iterator[Incoming]:
        """Yield the rows rolled up among themselves; Spark keeps them for both passes."""
        rolled = from_input(rows, self.kind, time_column=time_column).persist()
        schema = physical_schema(shown, self.kind)
        try:
            yield Incoming(rows=rolled, schema=schema, events=column(rolled, EVENTS))
        finally:
            rolled.unpersist()

    def shown(
        self,
        stored: Stored,
        known: pa.Schema,
        wanted: Sequence[str],
        time_column: str,
        *,
        rolled_up: bool,
    ) -> DataFrame:
        """Return stored rows, or one row for each group; merging needs all columns."""
        if not rolled_up:
            return stored.rows(known, wanted)
        physical = physical_schema(known, self.kind)
        rows = stored.rows(physical, physical.names)
        merged = rolled_up_rows(rows, self.kind, time_column=time_column)
        return merged.select([column(merged, name) for name in wanted])


SPARK_KINDS: Mapping[str, Callable[[Any], SparkKind]] = {
    Append.name: AppendSpark,
    Rollup.name: RollupSpark,
    PrimaryKey.name: KeyedSpark,
}
"""How to make a kind's part for Spark from its pure part, by name."""


# Registry of the kinds
def spark_kind_of(kind: TableKind) -> SparkKind:
    """Return a kind's part for Spark."""
    return SPARK_KINDS[kind.name](kind)

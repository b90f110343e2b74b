"""Columns of tables in Spark: their types, times, stored files and conditions.

Schemas:

1. A column of a table is read from Parquet by the narrowest Spark type that holds all its values:
   unsigned integers become the next wider signed type, ``uint64`` becomes ``decimal(20, 0)``.
2. Spark's Parquet reader supports neither nanoseconds nor half floats, and times of day and
   durations in microseconds alone; ``readable`` gives the nearest types. Durations become day-time
   intervals, times of day ``TIME``. Where a session has no ``TIME`` (before Spark 4.1, or switched
   off), such a column is refused by name, but only when it is requested.
3. A DataFrame fits if it has exactly the table's columns, in any order, of types that can be cast
   without loss. ``data.row_checks.check_rows`` decides, called with an empty batch.

Event times and time chunks, independent of the session's time zone:

4. An event time is a timestamp with or without zone (without means UTC) or a date (its midnight);
   its instant is a bigint of microseconds since the epoch.
5. Times outside the years a table can hold give a null instant, which never wraps into a
   plausible one.
6. ``chunk_key`` separates chunks exactly as ``Layout.chunk`` does.

Files of one schema:

7. Spark reads a file by the names and types that the file has. Then columns get their present
   names and types, and missing ones their default. The log knows both schemas, so no file is
   opened.

Conditions:

8. Predicates have the exact meaning of ``data.conditions``. They are three-valued: null means
   unknown, which is not a match; the caller coalesces.
9. A value is cast to its column's type by Arrow's rules, and refused if these refuse it.
10. Floating columns are compared as doubles, with NaN as the largest number, as Spark does.
11. A condition in SQL is evaluated by Spark. The part that this process understands is only used to
    leave files out (``known_condition``).
"""

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from inspect import signature
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema, to_arrow_type

from airflow_provider_segtable.core.column_types import type_named
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    IsNull,
    Not,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import (
    DAY_US,
    HOUR_US,
    MAX_INSTANT,
    MIN_INSTANT,
    MONDAY_US,
    Granularity,
    Interval,
    Layout,
    moment,
)
from airflow_provider_segtable.data.arrow_schema import inner_fields, is_list, with_fields
from airflow_provider_segtable.data.conditions import Condition, scalar
from airflow_provider_segtable.data.parquet.table_file import (
    default_of,
    file_names,
    may_be_left_out,
    plain_columns,
    stored_columns,
)
from airflow_provider_segtable.data.row_checks import check_rows
from airflow_provider_segtable.data.where import condition

_FIRST_DAY, _END_DAY = MIN_INSTANT // DAY_US, MAX_INSTANT // DAY_US
_WIDTHS = {
    Granularity.HOUR: (HOUR_US, 0),
    Granularity.DAY: (DAY_US, 0),
    Granularity.WEEK: (7 * DAY_US, MONDAY_US),
}
_CALENDAR = {Granularity.MONTH: "MONTH", Granularity.YEAR: "YEAR"}


# Event times and time chunks
def column(df: DataFrame, name: str) -> Column:
    """Return a column by its literal name, dots and backticks included."""
    return df["`" + name.replace("`", "``") + "`"]


def instant(df: DataFrame, name: str) -> Column:
    """Return a column's instants; null where the time is null or out of range.

    Raises:
        SchemaMismatch: if the column is not a time.
    """
    at, kind = column(df, name), df.schema[name].dataType
    if isinstance(kind, T.TimestampType):
        micros = F.unix_micros(at)
        return F.when((micros >= MIN_INSTANT) & (micros < MAX_INSTANT), micros)
    if not isinstance(kind, T.TimestampNTZType | T.DateType):
        raise SchemaMismatch(
            f"time column {name!r} has type {kind.simpleString()}: cast it to a timestamp"
        )
    day = F.unix_date(at.cast("date"))
    micros = day.cast("bigint") * DAY_US
    if isinstance(kind, T.TimestampNTZType):
        seconds = F.extract(F.lit("SECOND"), at) * F.lit(1_000_000)
        minutes = F.hour(at).cast("bigint") * 60 + F.minute(at)
        micros = micros + minutes * 60_000_000 + seconds.cast("bigint")
    return F.when((day >= _FIRST_DAY) & (day < _END_DAY), micros)


def chunk_key(at: Column, layout: Layout) -> Column:
    """Return a number for the chunk of an instant, equal for equal chunks; null of null.

    It is the chunk's start, plus a distinct number for each granularity of an override: a chunk
    outside an override may have the same start as one inside.
    """
    cuts = {override.granularity for override in layout.overrides}
    starts = {cut: _start(at, cut) + F.lit(1 + n) for n, cut in enumerate(sorted(cuts))}
    key = _start(at, layout.granularity)
    for override in layout.overrides:
        inside = (at >= override.interval.start) & (at < override.interval.end)
        key = F.when(inside, starts[override.granularity]).otherwise(key)
    return key


def buckets_at(at: Column, layout: Layout) -> Column:
    """Return the number of buckets of an instant's chunk."""
    count = F.lit(layout.buckets)
    for override in layout.overrides:
        inside = (at >= override.interval.start) & (at < override.interval.end)
        count = F.when(inside, F.lit(override.buckets or layout.buckets)).otherwise(count)
    return count


def _start(at: Column, granularity: Granularity) -> Column:
    if granularity in _WIDTHS:
        width, origin = _WIDTHS[granularity]
        return at - F.pmod(at - F.lit(origin), F.lit(width))
    if granularity in _CALENDAR:
        days = F.call_function("div", at - F.pmod(at, F.lit(DAY_US)), F.lit(DAY_US))
        first = F.trunc(F.date_from_unix_date(days.cast("int")), _CALENDAR[granularity])
        return F.unix_date(first).cast("bigint") * DAY_US
    return F.when(at.isNotNull(), F.lit(MIN_INSTANT))


def within(df: DataFrame, name: str, interval: Interval) -> Column:
    """Return the condition that a column's event time lies in ``interval``.

    It compares the column itself, so that Parquet's statistics apply.
    """
    at, kind = column(df, name), df.schema[name].dataType
    start, end = (_literal(t, kind) for t in (interval.start, interval.end))
    return (at >= start) & (at < end)


def _literal(at: int, kind: T.DataType) -> Column:
    if isinstance(kind, T.TimestampType):
        return F.timestamp_micros(F.lit(at))
    if isinstance(kind, T.DateType):
        return F.date_from_unix_date(F.lit(-(-at // DAY_US)))
    text = moment(at).replace(tzinfo=None).isoformat(" ")
    return F.expr(f"TIMESTAMP_NTZ '{text}'")


_TIME_SWITCH = "spark.sql.timeType.enabled"
_IN_UTC: Mapping[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)
"""How PySpark is asked for times in UTC: they are in UTC anyway before 4.2."""


# Schemas, and whether a DataFrame fits
def schema_json(schema: pa.Schema) -> str:
    """Return columns in the types that Spark shows, as Spark's JSON."""
    return str(spark_schema(readable(schema)).json())


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema that reads files of a table with Arrow schema ``schema``.

    Raises:
        SchemaMismatch: Spark cannot read a column; the message names it.
    """
    return T.StructType([T.StructField(f.name, _spark_type(f), True) for f in schema])


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's columns, with times in UTC.

    Raises:
        PySparkException: a column has no Arrow type.
    """
    return to_arrow_schema(schema, **_IN_UTC)


def _spark_type(field: "pa.Field[Any]") -> T.DataType:
    kind = field.type
    if (found := type_named(str(kind))) and found.spark:
        named = {"name": field.name, "type": found.spark, "nullable": True, "metadata": {}}
        return T.StructField.fromJson(named).dataType
    if pa.types.is_struct(kind):
        return spark_schema(pa.schema(list(kind)))
    if is_list(kind):
        return T.ArrayType(_spark_type(kind.value_field), True)
    if pa.types.is_map(kind):
        return T.MapType(_spark_type(kind.key_field), _spark_type(kind.item_field), True)
    if pa.types.is_time(kind) and not _has_time():
        raise _refused(field, f"needs Spark 4.1 or later, with {_TIME_SWITCH}=true: set it, or")
    try:
        if kind == _near(kind):
            return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except PySparkException:
        pass
    raise _refused(field, "is not a type of Spark:")


def _refused(field: "pa.Field[Any]", why: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"column {field.name!r} of type {field.type} {why} leave it out by columns=[...], or work "
        "without Spark (Table, --engine local)"
    )


def _has_time() -> bool:
    """Return whether Spark has times of day; where no session is known, Spark itself says so."""
    session = SparkSession.getActiveSession()
    switch = session.conf.get(_TIME_SWITCH, "false") if session else "true"
    return hasattr(T, "TimeType") and switch == "true"


def readable(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each type replaced by the nearest one that Spark can hold.

    Other units of time become microseconds and half floats become floats, at any depth.
    """
    return pa.schema([_readable(field) for field in schema])


def _near(kind: pa.DataType) -> pa.DataType:
    """Return the nearest type for values that are not nested."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return pa.float32() if pa.types.is_float16(kind) else kind


def _readable(field: "pa.Field[Any]") -> "pa.Field[Any]":
    kind = _near(field.type)
    return field.with_type(with_fields(kind, [_readable(each) for each in inner_fields(kind)]))


def with_defaults(df: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the DataFrame with the columns that it may leave out."""
    there = {*df.columns}
    missing = [each for each in schema if each.name not in there and may_be_left_out(each)]
    if not missing:
        return df
    kinds = [field.dataType for field in spark_schema(pa.schema(missing))]
    return df.withColumns(
        {
            field.name: F.lit(default_of(field).as_py()).cast(kind)
            for field, kind in zip(missing, kinds, strict=True)
        }
    )


def _check_duration(field: "pa.Field[Any]", found: T.DataType) -> None:
    """Refuse numbers for a duration: Spark's Parquet reader does not say what unit they have."""
    if pa.types.is_duration(field.type) and isinstance(found, T.NumericType):
        raise SchemaMismatch(
            f"column {field.name!r} is {field.type}, and the rows have {found.simpleString()}, as "
            "Spark reads the durations of a Parquet file: load the file without Spark "
            "(Table.append, --engine local), or make it an interval "
            f"(make_dt_interval(0, 0, 0, {field.name} / 1e6) of microseconds)"
        )


def check_columns(df: DataFrame, schema: pa.Schema, time_column: str) -> DataFrame:
    """Return the DataFrame with the table's columns in the table's order.

    Raises:
        SchemaMismatch: columns are missing, unknown or of a wrong type; the message names them.
    """
    df = with_defaults(df, schema)
    counts, known = Counter(df.columns), {*schema.names}
    missing = [name for name in schema.names if name not in counts]
    unknown = [name for name in counts if name not in known]
    twice = sorted(name for name, count in counts.items() if count > 1)
    if missing or unknown or twice:
        found = (("missing", missing), ("unknown", unknown), ("given twice", twice))
        text = "; ".join(f"{what}: {', '.join(names)}" for what, names in found if names)
        raise SchemaMismatch(
            f"the rows do not have the table's columns ({text}): select or rename them"
        )
    ordered = df.select([column(df, name) for name in schema.names])
    for field, offered_field in zip(schema, ordered.schema, strict=True):
        _check_duration(field, offered_field.dataType)
    try:
        offered = arrow_schema(ordered.schema)
    except PySparkException as error:
        raise SchemaMismatch(f"a column has no Arrow type: {error}") from error
    check_rows(offered.empty_table(), schema, time_column)
    return ordered


# Columns of stored files
def identified(table: TableDefinition, fields: pa.Schema) -> pa.Schema:
    """Return fields with the ids of the table's columns, by which tasks read them."""
    known = stored_columns(table.schema)
    named = {field.name: field for field in known}
    return pa.schema([named.get(field.name, field) for field in fields])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Some columns of the table, in files of one schema.

    Attributes:
        target: the columns as the table has them, with ids.
        schema: the columns that the files have, under their names there.
        names: the name of each target column in the files; None if they lack it.
    """

    target: pa.Schema
    schema: pa.Schema
    names: Mapping[str, str | None]

    @staticmethod
    def of(table: TableDefinition, number: int, fields: pa.Schema) -> "FileColumns":
        """Return the columns ``fields`` in files of schema ``number``."""
        if number == table.schema.number:
            return FileColumns(target=fields, schema=fields, names={n: n for n in fields.names})
        target, old = identified(table, fields), stored_columns(table.schema_of(number))
        names = file_names(old, target)
        have = {field.name: field for field in old}
        shown = {*table.schema.names}
        hidden = {field.name: field for field in fields if field.name not in shown}
        stored = (name for name in dict.fromkeys(names.values()) if name)
        schema = plain_columns(pa.schema([have.get(n) or hidden[n] for n in stored]))
        return FileColumns(target=target, schema=schema, names=names)

    def shown(self, frame: DataFrame) -> DataFrame:
        """Return a frame of the files' columns with the table's; other columns stay."""
        if self.target is self.schema:
            return frame
        stored = {name for name in self.names.values() if name}
        others = [column(frame, name) for name in frame.columns if name not in stored]
        return frame.select(*(self._shown(frame, field) for field in self.target), *others)

    def _shown(self, frame: DataFrame, field: "pa.Field") -> Column:
        kind = spark_schema(pa.schema([field]))[0].dataType
        stored = self.names[field.name]
        value = F.lit(default_of(field).as_py()) if stored is None else column(frame, stored)
        return value.cast(kind).alias(field.name)


_UTC = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00"})
"""Session zones in which a time without zone is the one that it is here."""
_OPERATORS = {
    Compares.EQUAL: eq,
    Compares.UNEQUAL: ne,
    Compares.LESS: lt,
    Compares.AT_MOST: le,
    Compares.MORE: gt,
    Compares.AT_LEAST: ge,
}


# Conditions
def matching(predicate: Predicate, frame: DataFrame) -> Column:
    """Return for each row whether the predicate holds; null if unknown.

    Raises:
        InvalidInput: a value does not fit its column.
    """
    match predicate:
        case Compare(column=name, how=how, value=value):
            at, kind = _plain(frame, name)
            compared: Column = _OPERATORS[how](at, _value_literal(value, kind, name))
            return compared
        case Among(column=name, values=values):
            at, kind = _plain(frame, name)
            given = [_value_literal(value, kind, name) for value in values]
            return F.when(at.isNotNull(), at.isin(given)) if given else F.lit(False)
        case IsNull(column=name):
            return column(frame, name).isNull()
        case Not(of=one):
            return ~matching(one, frame)
        case AllOf(of=some):
            return reduce(and_, (matching(one, frame) for one in some), F.lit(True))
        case AnyOf(of=some):
            return reduce(or_, (matching(one, frame) for one in some), F.lit(False))


def _plain(frame: DataFrame, name: str) -> tuple[Column, T.DataType]:
    at, kind = column(frame, name), frame.schema[name].dataType
    if isinstance(kind, T.FloatType):
        return at.cast(T.DoubleType()), T.DoubleType()
    return at, kind


def _value_literal(value: Value, kind: T.DataType, name: str) -> Column:
    """Return a value as a Spark literal of the column's type."""
    if value is None:
        return F.lit(None).cast(kind)
    if isinstance(kind, T.TimestampType):
        micros = scalar(value, pa.timestamp("us", "UTC"), name).cast(pa.int64()).as_py()
        return F.timestamp_micros(F.lit(micros))
    if isinstance(kind, T.TimestampNTZType):
        text = scalar(value, pa.timestamp("us"), name).as_py().isoformat(" ")
        return F.expr(f"TIMESTAMP_NTZ '{text}'")
    return F.lit(scalar(value, to_arrow_type(kind), name).as_py()).cast(kind)


def known_condition(
    spark: SparkSession, where: Where | Predicate | None, schema: pa.Schema, time_column: str
) -> Condition | None:
    """Return a condition as far as segments can be chosen by it; None where only Spark reads it.

    Raises:
        InvalidInput: the condition is not SQL text.
    """
    if where is None:
        return None
    if not isinstance(where, str | Predicate):
        raise InvalidInput(f"{where} is not text: Spark needs the condition in SQL")
    try:
        found = condition(where, schema, time_column)
    except InvalidInput:
        return None
    alike = isinstance(where, Predicate) or means_the_same(spark, found, schema)
    return found if alike else None


def means_the_same(spark: SparkSession, found: Condition, schema: pa.Schema) -> bool:
    """Return whether a condition in SQL means for Spark what it means here, in the zone UTC."""
    if spark.conf.get("spark.sql.session.timeZone") in _UTC:
        return True
    kinds = {field.name: field.type for field in schema}
    return all(name in kinds and not pa.types.is_temporal(kinds[name]) for name in found.columns)

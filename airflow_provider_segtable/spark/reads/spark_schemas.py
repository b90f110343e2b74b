"""Convert table schemas to Spark schemas, and check whether a DataFrame fits a table.

1. A column of a table is read from Parquet by the narrowest Spark type that holds all its values:
   unsigned integers become the next wider signed type, ``uint64`` becomes ``decimal(20, 0)``.
2. Spark's Parquet reader supports neither nanoseconds nor half floats, and times of day and
   durations in microseconds alone; ``readable`` gives the nearest types. Durations become day-time
   intervals, times of day ``TIME``. Where a session has no ``TIME`` (before Spark 4.1, or switched
   off), such a column is refused by name, but only when it is requested.
3. A DataFrame fits if it has exactly the table's columns, in any order, of types that can be cast
   without loss. ``data.jobs.segment_writer.check_rows`` decides, called with an empty batch.
"""

from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.data.jobs.segment_writer import check_rows
from airflow_provider_segtable.data.parquet.table_file import default_of, may_be_left_out
from airflow_provider_segtable.spark.reads.spark_times import column

_WIDER: dict[pa.DataType, T.DataType] = {
    pa.uint8(): T.ShortType(),
    pa.uint16(): T.IntegerType(),
    pa.uint32(): T.LongType(),
    pa.uint64(): T.DecimalType(20, 0),
    pa.date64(): T.DateType(),
}

_TIME_SWITCH = "spark.sql.timeType.enabled"

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema that reads files of a table with Arrow schema ``schema``.

    Raises:
        SchemaMismatch: Spark cannot read a column; the message names it.
    """
    return T.StructType([T.StructField(f.name, _spark_type(f), True) for f in schema])


def _spark_type(field: "pa.Field[Any]") -> T.DataType:
    kind = field.type
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_struct(kind):
        return spark_schema(pa.schema(list(kind)))
    if any(of(kind) for of in _LISTS):
        return T.ArrayType(_spark_type(kind.value_field), True)
    if pa.types.is_map(kind):
        return T.MapType(_spark_type(kind.key_field), _spark_type(kind.item_field), True)
    if pa.types.is_time(kind) and not _has_time():
        raise _refused(field, f"needs Spark 4.1 or later, with {_TIME_SWITCH}=true: set it")
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
    if pa.types.is_struct(kind):
        kind = pa.struct([_readable(inside) for inside in kind])
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(_readable(kind.value_field), kind.list_size)
    elif pa.types.is_list(kind):
        kind = pa.list_(_readable(kind.value_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_readable(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_readable(kind.key_field), _readable(kind.item_field))
    return field.with_type(kind)


def with_defaults(df: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the DataFrame with the columns that it may leave out."""
    for field in schema:
        if field.name not in df.columns and may_be_left_out(field):
            kind = spark_schema(pa.schema([field]))[0].dataType
            df = df.withColumn(field.name, F.lit(default_of(field).as_py()).cast(kind))
    return df


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
    missing = [name for name in schema.names if name not in df.columns]
    unknown = [name for name in df.columns if name not in schema.names]
    twice = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if missing or unknown or twice:
        found = (("missing", missing), ("unknown", unknown), ("given twice", twice))
        text = "; ".join(f"{what}: {', '.join(names)}" for what, names in found if names)
        raise SchemaMismatch(
            f"the rows do not have the table's columns ({text}): select or rename them"
        )
    ordered = df.select([column(df, name) for name in schema.names])
    for field in schema:
        _check_duration(field, ordered.schema[field.name].dataType)
    try:
        offered = to_arrow_schema(ordered.schema, timezone="UTC")
    except PySparkException as error:
        raise SchemaMismatch(f"a column has no Arrow type: {error}") from error
    check_rows(offered.empty_table(), schema, time_column)
    return ordered

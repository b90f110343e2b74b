"""Assign SQL expressions as new values of a table's columns.

1. A value of another type is cast by SQL's store assignment. If the cast changes the value, the
   running change fails, whatever ``spark.sql.ansi.enabled`` is. Floating columns take the nearest
   number.
2. Columns that Spark cannot hold exactly (nanoseconds) and that are not set are carried along as
   copies (``tasks.exact_columns``). What an expression computes from them has microseconds.
"""

from collections.abc import Collection, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema
from airflow_provider_segtable.spark.tasks.exact_columns import inexact

_EXACT = (T.IntegralType, T.DecimalType)


def expression(name: str, value: object) -> Column:
    """Return the new value of a column as a Spark expression.

    Raises:
        InvalidInput: it is no SQL text.
    """
    if not isinstance(value, Sql):
        raise InvalidInput(f"{name} = {value!r} is not SQL text: use Table.update for plain values")
    return F.expr(value.text)


def carried(schema: pa.Schema, given: Collection[str]) -> tuple[str, ...]:
    """Return the columns that are not set, and that Spark cannot hold exactly."""
    return tuple(each.name for each in schema if each.name not in given and inexact(each))


def assigned(frame: DataFrame, values: Mapping[str, Column], schema: pa.Schema) -> list[Column]:
    """Return the new values by column, cast to the types of the table's columns.

    Raises:
        SchemaMismatch: a value cannot become its column's type.
    """
    types = spark_schema(readable(pa.schema([schema.field(name) for name in values])))
    found = frame.select(*(value.alias(name) for name, value in values.items())).schema
    return [
        _stored(value, now.dataType, kind).alias(name)
        for (name, value), now, kind in zip(
            values.items(), found.fields, (field for field in types.fields), strict=True
        )
    ]


def _stored(value: Column, now: T.DataType, field: T.StructField) -> Column:
    kind = field.dataType
    if now == kind:
        return value
    if isinstance(now, T.NullType):
        return value.cast(kind)
    if isinstance(kind, T.NumericType) != isinstance(now, T.NumericType) or (
        isinstance(kind, T.ArrayType | T.MapType | T.StructType | T.BinaryType | T.BooleanType)
    ):
        raise SchemaMismatch(
            f"column {field.name!r} is {kind.simpleString()} and cannot be set to "
            f"{now.simpleString()}: cast it"
        )
    cast = value.try_cast(kind)
    lost = cast.isNull()
    if isinstance(kind, _EXACT):
        lost = lost | (cast != value)
    message = F.concat(
        F.lit(f"column {field.name} is {kind.simpleString()} and cannot hold "),
        value.cast("string"),
    )
    return F.when(value.isNotNull() & lost, F.raise_error(message).cast(kind)).otherwise(cast)

"""Assign SQL expressions as new values of a table's columns.

1. A value of another type is cast by SQL's store assignment. If the cast changes the value, the
   running change fails, whatever ``spark.sql.ansi.enabled`` is. Floating columns take the nearest
   number.
2. Columns that Spark cannot hold exactly (nanoseconds) cannot be written back, so a table with
   such columns is changed here only if they are all set.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema

_EXACT = (T.IntegralType, T.DecimalType)


def expression(name: str, value: object) -> Column:
    """Return the new value of a column as a Spark expression.

    Raises:
        InvalidInput: it is no SQL text.
    """
    if not isinstance(value, Sql):
        raise InvalidInput(f"{name} = {value!r} is not SQL text: use Table.update for plain values")
    return F.expr(value.text)


def check_rewritable(schema: pa.Schema, given: Mapping[str, object]) -> None:
    """Refuse to write back columns that Spark reads inexactly.

    Raises:
        InvalidInput: such a column is not set; the message names it.
    """
    for field, near in zip(schema, readable(schema), strict=True):
        if field.type != near.type and field.name not in given:
            raise InvalidInput(
                f"column {field.name!r} is {field.type}, which Spark cannot write back as it was: "
                "set it, or use Table.update or Table.merge, which work without Spark"
            )


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

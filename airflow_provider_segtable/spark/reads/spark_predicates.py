"""Predicates as Spark columns, with the exact meaning of ``data.arrow.arrow_predicates``.

1. They are three-valued: null means unknown, which is not a match; the caller coalesces.
2. A value is cast to its column's type by Arrow's rules, and refused if these refuse it.
3. Floating columns are compared as doubles, with NaN as the largest number, as Spark does.

A condition in SQL is Spark's. What this process knows of it is only used to leave files out
(``known_condition``).
"""

from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same
from pyspark.sql.pandas.types import to_arrow_type

from airflow_provider_segtable.core.errors import InvalidInput
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
from airflow_provider_segtable.data.conditions import Condition, scalar
from airflow_provider_segtable.data.sql.sql_conditions import condition
from airflow_provider_segtable.spark.reads.spark_times import column

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


def matching(predicate: Predicate, frame: DataFrame) -> Column:
    """Return for each row whether the predicate holds; null if unknown.

    Raises:
        InvalidInput: a value does not fit its column.
    """
    match predicate:
        case Compare(column=name, how=how, value=value):
            at, kind = _plain(frame, name)
            compared: Column = _OPERATORS[how](at, _literal(value, kind, name))
            return compared
        case Among(column=name, values=values):
            at, kind = _plain(frame, name)
            given = [_literal(value, kind, name) for value in values]
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


def _literal(value: Value, kind: T.DataType, name: str) -> Column:
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

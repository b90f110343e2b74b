"""Predicates in Spark mean what they mean in Arrow, for every type, nulls and NaN included."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import InvalidInput
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
from airflow_provider_segtable.core.time import parse_instant
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.spark.spark_columns import matching

pytestmark = pytest.mark.spark

NOON = datetime(2013, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)
MOMENT = Moment(parse_instant("2013-01-01") + 43_200_000_005)
ROWS = pa.table(
    {
        "at": pa.array([NOON, NOON.replace(hour=1), NOON.replace(hour=23), None]),
        "naive": pa.array([NAIVE, None, NAIVE.replace(year=1969), NAIVE]),
        "day": pa.array([date(2013, 1, 1), None, date(2014, 1, 1), date(1969, 1, 1)]),
        "a.word": pa.array(["b", "", None, "é"]),
        "n": pa.array([1, 2, None, -1], pa.int32()),
        "ratio": pa.array([0.5, float("nan"), None, float("inf")]),
        "narrow": pa.array([0.1, float("nan"), None, -0.0], pa.float32()),
        "money": pa.array([Decimal("1.50"), None, Decimal("0.00"), Decimal("9.99")]),
        "yes": pa.array([True, False, None, True]),
    }
)
VALUES: dict[str, tuple[Value, ...]] = {
    "at": (MOMENT, Moment(0)),
    "naive": (MOMENT, Moment(-1)),
    "day": (Day(15706), Day(-365)),
    "a.word": ("b", "é"),
    "n": (1, -1),
    "ratio": (0.5, 1),
    "narrow": (0.1, 0.0),
    "money": (1.5, 9.99),
    "yes": (True, False),
}


def every() -> list[Predicate]:
    simple: list[Predicate] = [
        Compare(name, how, value)
        for name, values in VALUES.items()
        for how in Compares
        for value in values
    ]
    simple += [Among(name, values) for name, values in VALUES.items()]
    simple += [Among("n", (1, None)), Among("ratio", (None,)), Compare("n", Compares.LESS, None)]
    simple += [Among("n", ()), IsNull("a.word"), AllOf(()), AnyOf(())]
    less, more = Compare("n", Compares.LESS, 2), Compare("ratio", Compares.MORE, 0.1)
    nested = [AllOf((less, more)), AnyOf((less, more)), AnyOf((IsNull("n"), Not(more)))]
    return [*simple, *map(Not, simple), *nested]


def test_spark_and_arrow_say_the_same(spark: SparkSession) -> None:
    """True, false and unknown, for each comparison of each type with each row."""
    predicates = every()
    frame = spark.createDataFrame(ROWS)
    columns = [matching(one, frame).alias(str(at)) for at, one in enumerate(predicates)]
    found = frame.select(*columns).toArrow()
    for at, one in enumerate(predicates):
        assert found.column(at).to_pylist() == matches(ROWS, one).to_pylist(), one


def test_values_that_do_not_fit_are_refused(spark: SparkSession) -> None:
    """A word is no number, and a fraction no integer, for Spark too."""
    frame = spark.createDataFrame(ROWS)
    for value in ("many", 1.5):
        with pytest.raises(InvalidInput, match="not a value of column 'n'"):
            matching(Compare("n", Compares.EQUAL, value), frame)

"""Values in SQL are the same on Spark and in this process."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.data.sql.sql_text import parsed
from airflow_provider_segtable.data.sql.sql_values import computed
from tests.unit.data.test_sql_values import CASES, ROWS, alike

pytestmark = pytest.mark.spark


def test_spark_computes_the_same(spark: SparkSession) -> None:
    """One query with all expressions of the unit test gives the expected values and decimals."""
    frame = spark.createDataFrame(ROWS).coalesce(1)
    found = frame.selectExpr(*(f"{text} as c{at}" for at, text in enumerate(CASES))).toArrow()
    assert found.num_rows == len(ROWS)
    for text, column in zip(CASES, found.columns, strict=True):
        values = column.to_pylist()
        assert all(map(alike, values, CASES[text])), f"{text}: {values}"
        kind = computed(parsed(text, "a value", ""), ROWS).type
        if pa.types.is_decimal(kind):
            assert column.type == kind, text

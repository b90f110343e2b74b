"""SQL means in this process what it means in Spark: random expressions, computed by both.

Each expression has the same values for each row, or both refuse it, or this process leaves it to
Spark by name (``NeedsSpark``); the share of those is bounded.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.data.sql.sql_predicates import check_tree, predicate_of
from airflow_provider_segtable.data.sql.sql_text import parsed
from airflow_provider_segtable.data.sql.sql_values import computed, folded
from tests.spark.sql_expressions import ROWS, WRITTEN, expressions

pytestmark = pytest.mark.spark

REFUSED, ERROR, VALUES = "refused", "error", "values"
BATCH = 120
MOST_REFUSED = 0.25
"""The share of random expressions that may be left to Spark."""
MOST_STRICTER = 0.03
"""The share of random expressions of which only Spark knows that a failing part does not count."""


def here(text: str) -> Any:
    """Return the values of an expression in this process, or ``REFUSED`` or ``ERROR``."""
    ways = (_as_values,) if text in ROWS.column_names else (_as_predicate, _as_values)
    found = [_outcome(text, by) for by in ways]
    known = [one for one in found if one is not REFUSED]
    if len(known) > 1 and "NULL is never true" not in text:
        assert alike(*known), f"{text}: as a predicate {found[0]}, computed {found[1]}"
    return known[-1] if known else REFUSED


def _as_predicate(text: str) -> list[Any]:
    return list(matches(ROWS, predicate_of(folded(parsed(text, "", "")), ROWS.schema)).to_pylist())


def _as_values(text: str) -> list[Any]:
    tree = parsed(text, "", "")
    check_tree(tree, ROWS.column_names)
    return list(computed(tree, ROWS).to_pylist())


def _outcome(text: str, by: Any) -> Any:
    try:
        return by(text)
    except NeedsSpark:
        return REFUSED
    except InvalidInput as error:
        deliberate = "comparison with NULL" in str(error)
        return REFUSED if deliberate else ERROR
    except (ArithmeticError, ValueError, pa.ArrowException):
        return ERROR


def alike(one: Any, other: Any) -> bool:
    """Return whether two outcomes are equal; NaN equals NaN, times without zone are UTC."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float) and isnan(one):
        return isnan(other)
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one == (other if other.tzinfo else other.replace(tzinfo=UTC))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def by_spark(frame: DataFrame, texts: Sequence[str]) -> list[Any]:
    """Return the outcomes of expressions in Spark: together, or each half if one is an error."""
    try:
        found = frame.selectExpr(*(f"{text} as c{at}" for at, text in enumerate(texts))).toArrow()
        return [column.to_pylist() for column in found.columns]
    except (PySparkException, OverflowError, ValueError):
        if len(texts) == 1:
            return [ERROR]
        half = len(texts) // 2
        return [*by_spark(frame, texts[:half]), *by_spark(frame, texts[half:])]


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of some expressions.

    Attributes:
        outcomes: how many had which outcome in this process.
        wrong: those with other values than in Spark, or with values that Spark refuses.
        stricter: those refused here, of which Spark's optimizer removes the part that fails.
    """

    outcomes: Counter[str]
    wrong: list[str]
    stricter: list[str]


def differences(spark: SparkSession, texts: Sequence[str], *, errors: bool) -> Compared:
    """Return how expressions compare; those that fail here are given to Spark if ``errors``."""
    frame = spark.createDataFrame(ROWS).coalesce(1)
    outcomes = {text: here(text) for text in texts}
    counted = Counter(one if isinstance(one, str) else VALUES for one in outcomes.values())
    valued = [text for text, one in outcomes.items() if isinstance(one, list)]
    failed = [text for text, one in outcomes.items() if one is ERROR] if errors else []
    batches = [valued[at : at + BATCH] for at in range(0, len(valued), BATCH)]
    compared = Compared(counted, [], [])
    for some in (*batches, *([one] for one in failed)):
        for text, found in zip(some, by_spark(frame, some), strict=True):
            if not alike(outcomes[text], found):
                into = compared.stricter if outcomes[text] is ERROR else compared.wrong
                into.append(f"{text!r}\n  here  {outcomes[text]}\n  Spark {found}")
    return compared


def test_a_sample_means_the_same(spark: SparkSession) -> None:
    """More than a hundred expressions have Spark's values."""
    found = differences(spark, expressions(seed=1, count=180), errors=False)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.outcomes[VALUES] > 100, found.outcomes


def test_what_users_write_means_the_same(spark: SparkSession) -> None:
    """Functions of texts, times, bits, arrays and maps have Spark's values, and few are refused."""
    found = differences(spark, WRITTEN, errors=False)
    assert not found.wrong, "\n".join(found.wrong)
    assert not found.stricter, "\n".join(found.stricter)
    assert found.outcomes[REFUSED] <= 12, found.outcomes


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_thousands_mean_the_same(spark: SparkSession, seed: int) -> None:
    """Expressions have Spark's values, and few are left to Spark."""
    count = 500
    found = differences(spark, expressions(seed=seed, count=count), errors=True)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.outcomes[REFUSED] <= MOST_REFUSED * count, found.outcomes
    assert len(found.stricter) <= MOST_STRICTER * count, "\n".join(found.stricter)

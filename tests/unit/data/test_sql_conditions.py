"""Conditions in SQL: predicates, computed ones, those for Spark, and those for no engine."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, SchemaMismatch
from airflow_provider_segtable.core.predicate import AllOf, Compare
from airflow_provider_segtable.core.time import DAY_US, parse_instant
from airflow_provider_segtable.data.sql.sql_conditions import sql_condition
from airflow_provider_segtable.data.sql.sql_text import at_time
from tests.unit.data.test_sql_values import CASES, ROWS

(BATCH,) = ROWS.append_column("l", pa.array([[1]] * 4)).to_batches()
SCHEMA = BATCH.schema
TRUTHS = {
    text: values
    for text, values in CASES.items()
    if all(value is None or isinstance(value, bool) for value in values)
}


@pytest.mark.parametrize("text", TRUTHS)
def test_a_computed_condition_keeps_what_is_true(text: str) -> None:
    """Unknown is not true."""
    kept = sql_condition(text, SCHEMA, "at").keep(BATCH)
    assert kept.column("b").to_pylist() == [
        b for b, truth in zip(ROWS["b"].to_pylist(), TRUTHS[text], strict=True) if truth
    ]


def test_parts_that_are_predicates_bound_the_time() -> None:
    """Files that a part of the AND excludes are not read; the columns are those that it names."""
    text = "at >= '2026-01-02' and upper(s) = 'AB' and (at < '2026-01-03' and b + 1 > 1)"
    found = sql_condition(text, SCHEMA, "at")
    first = parse_instant("2026-01-02")
    assert found.interval is not None
    assert found.interval.start == first
    assert found.columns == ("b", "s", "at")
    assert isinstance(found.test, AllOf)
    assert {type(part) for part in found.test.of} >= {Compare}
    assert not found.may_hold("at", first - DAY_US, first - 1)
    assert sql_condition("1 = 1", SCHEMA, "at").keep(BATCH).num_rows == 4


NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("at >= current_timestamp() - interval 1 day", "2026-03-03T12:00:00Z"),
        ("at >= date_trunc('day', now())", "2026-03-04"),
        ("at >= current_date - 7", "2026-02-25"),
        ("at >= timestamp '2026-01-31' + interval 1 month and s = 'a'", "2026-02-28"),
    ],
)
def test_times_that_no_column_is_part_of_bound_the_time(text: str, first: str) -> None:
    """They are computed once, so files before them are not read."""
    found = sql_condition(text, SCHEMA, "at", NOW)
    assert found.interval is not None
    assert found.interval.start == parse_instant(first)
    assert found.keep(BATCH).num_rows == 0


@pytest.mark.parametrize(
    ("text", "timed"),
    [
        ("at >= NOW ( )", "at >= TIMESTAMP '2026-03-04 12:00:00+00:00'"),
        ("current_date-1 = curdate()", "DATE '2026-03-04'-1 = DATE '2026-03-04'"),
        ("localtimestamp < t", "TIMESTAMP_NTZ '2026-03-04 12:00:00' < t"),
        ("unix_timestamp() > a", "1772625600L > a"),
        ("s = 'now()' -- now()", "s = 'now()'"),
        ("`now()` = x.current_date and now > 1", "`now()` = x.current_date and now > 1"),
        ("current_date(1) = now.a", "current_date(1) = now.a"),
    ],
)
def test_names_for_the_present_are_one_time(text: str, timed: str) -> None:
    """They are replaced in the text, for either engine; texts, names and columns are not."""
    assert at_time(text, NOW).rstrip() == timed
    assert at_time("current_date = now()", NOW, ["Current_Date"]).startswith("current_date = TIME")


@pytest.mark.parametrize(
    "text",
    [
        "regexp_replace(s, 'é', '') = ''",
        "s rlike 'a\\\\b'",
        "a in (select 1)",
        "s = cast(f as string)",
        "at < 'yesterday'",
        "my_function(a)",
        "array_sort(l) = l",
        "exists(l, X -> x > 1)",
        "exists(l, A -> a > 1)",
        "target.a = 1",
    ],
)
def test_what_spark_may_know_is_left_to_it(text: str) -> None:
    """The type of the error tells it, for the choice of the engine."""
    with pytest.raises(NeedsSpark, match="Spark"):
        sql_condition(text, SCHEMA, "at")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a =", "not a condition in Spark's SQL"),
        ("a = null", "never true"),
        ("a", "neither true nor false"),
        ("a = 'one'", "is not a value of column 'a'"),
        ("a = true", "it is a boolean"),
        ("yes = 1", "it is a number"),
        ("at < 'the day before'", "is not a value of column 'at'"),
        ("at > 5", "it is a number"),
        ("l = 1", "is not a value of column 'l'"),
        ("count(*) > 1", "several rows"),
        ("a / 0 > 1", "division by zero"),
    ],
)
def test_what_no_engine_evaluates_starts_none(text: str, word: str) -> None:
    """Spark is not started to refuse it."""
    with pytest.raises(InvalidInput, match=word) as refused:
        sql_condition(text, SCHEMA, "at").keep(BATCH)
    assert not isinstance(refused.value, NeedsSpark)


@pytest.mark.parametrize(
    "text",
    [
        "substring(nope, 1, 1) = 'a'",
        "a = 1 or nope = 1",
        "exists(l, x -> x > nope)",
        "size(filter(l, x -> exists(l, y -> y > x and y = nope))) > 1",
    ],
)
def test_a_missing_column_is_found_anywhere(text: str) -> None:
    """Also within functions that only Spark knows."""
    with pytest.raises(SchemaMismatch, match="no column 'nope'"):
        sql_condition(text, SCHEMA, "at")


def test_fields_of_structs() -> None:
    """They are read from their column; a missing one is named, also where a struct is null."""
    inner = pa.struct([("fare", pa.int32()), ("by", pa.struct([("card", pa.string())]))])
    rides = [{"fare": 7, "by": {"card": "x"}}, {"fare": None, "by": None}, None]
    (batch,) = pa.table({"at": BATCH["at"][:3], "ride": pa.array(rides, inner)}).to_batches()
    for text, kept in {
        "ride.fare > 5.5": 1,
        "ride.by.card = 'x'": 1,
        "ride.fare is null": 2,
        "`ride`.`by` is not null": 1,
        "coalesce(ride.fare, -1) < 0 and at > '2026-01-02'": 1,
    }.items():
        found = sql_condition(text, batch.schema, "at")
        assert found.keep(batch).num_rows == kept, text
        assert "ride" in found.columns
    with pytest.raises(SchemaMismatch, match=r"no field 'ride\.tip'"):
        sql_condition("ride.tip = 1", batch.schema, "at")

"""Conditions in SQL: read, written and computed as a database does.

Random predicates over random rows, with nulls, NaN and minus zero among them, are written as SQL,
read back, and computed by Arrow and by DuckDB, whose numbers compare as Spark's do.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import pyarrow as pa
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

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
    decode_predicate,
    encode_predicate,
    may_hold,
    reach,
)
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.data.sql.sql_conditions import parse_predicate
from airflow_provider_segtable.data.sql.sql_predicates import to_sql
from tests.examples import examples

DATABASE = duckdb.connect(config={"threads": 1})
DATABASE.execute("SET TimeZone = 'UTC'")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("small", pa.int8()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("amount", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("odd `name", pa.date32()),
        ("flag", pa.bool_()),
    ]
)
NUMBERS = [-(2**53), -1, 0, 1, 2, 2**62]
DOUBLES = [0.0, -0.0, 0.1, 1.5, -2.0, 1e300, -1e-300]
AMOUNTS = [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), Decimal("12345678.90")]
TEXTS = ["", "a", "B", "it's", "back\\slash", 'quo"te', "new\nline", "%_", "é"]
MOMENTS = [-1, 0, 1_357_000_000_000_000, 1_357_000_000_000_001]
DAYS = [-1, 0, 15_700]

CELLS = {
    "number": NUMBERS,
    "small": [-128, -1, 0, 1, 127],
    "double": [*DOUBLES, float("nan"), float("inf"), float("-inf")],
    "float": [*DOUBLES[:5], float("nan")],
    "amount": AMOUNTS,
    "text": TEXTS,
    "at": [EPOCH + timedelta(microseconds=us) for us in MOMENTS],
    "odd `name": [date(1970, 1, 1) + timedelta(days=days) for days in DAYS],
    "flag": [True, False],
}
VALUES = {
    **CELLS,
    "double": DOUBLES,
    "float": DOUBLES[:5],
    "at": [Moment(us) for us in MOMENTS],
    "odd `name": [Day(days) for days in DAYS],
}


def value(name: str) -> st.SearchStrategy[object]:
    return st.sampled_from(VALUES[name])


names = st.sampled_from(SCHEMA.names)
compares = names.flatmap(
    lambda name: st.builds(Compare, st.just(name), st.sampled_from(Compares), value(name))
)
sets = names.flatmap(
    lambda name: st.builds(
        Among,
        st.just(name),
        st.lists(value(name) | st.none(), min_size=1, max_size=4).map(tuple),
    )
)
tests = compares | sets | st.builds(IsNull, names)


def combined(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    some = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, parts) | st.builds(AllOf, some) | st.builds(AnyOf, some)


predicates = st.recursive(tests | st.just(AllOf(())) | st.just(AnyOf(())), combined, max_leaves=6)
rows = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | st.sampled_from(some) for name, some in CELLS.items()}
    ),
    min_size=1,
    max_size=8,
).map(lambda given_rows: pa.Table.from_pylist(given_rows, SCHEMA))


def by_duckdb(table: pa.Table, predicate: Predicate) -> list[bool | None]:
    """Return DuckDB's answer for the SQL that we write for Spark, in its own dialect."""
    text = sqlglot.transpile(to_sql(predicate), read="spark", write="duckdb")[0]
    DATABASE.register("given", table)
    found = DATABASE.execute(f"SELECT ({text}) FROM given").fetchall()  # noqa: S608
    return [row[0] for row in found]


@given(predicates)
@examples(200)
def test_what_is_written_is_read_back(predicate: Predicate) -> None:
    """A predicate written as SQL, or as JSON, is read as the same predicate."""
    assert parse_predicate(to_sql(predicate), SCHEMA) == predicate
    assert decode_predicate(encode_predicate(predicate)) == predicate


@given(rows, predicates)
@examples(100)
def test_arrow_answers_as_a_database_does(table: pa.Table, predicate: Predicate) -> None:
    """For each row Arrow says true, false or unknown exactly where DuckDB does."""
    assert matches(table, predicate).to_pylist() == by_duckdb(table, predicate)


@given(rows, predicates)
@examples(100)
def test_no_row_that_matches_is_out_of_reach(table: pa.Table, predicate: Predicate) -> None:
    """Every row that a predicate holds for is within its reach, and at a time when it may hold."""
    first, last = reach(predicate, "at")
    for row in table.filter(matches(table, predicate)).column("at").cast(pa.int64()).to_pylist():
        assert row is None or first <= row <= last
        assert row is None or may_hold(predicate, "at", row, row)

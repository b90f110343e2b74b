"""Conditions in SQL: what is read, and how the rest is refused."""

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from time import process_time

import pyarrow as pa
import pytest

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
from airflow_provider_segtable.data.conditions import matches
from airflow_provider_segtable.data.sql.sql_conditions import parse_predicate
from airflow_provider_segtable.data.sql.sql_predicates import predicate_of, to_sql
from airflow_provider_segtable.data.sql.sql_text import parsed, written

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("at", pa.timestamp("ms")),
        ("d", pa.date32()),
        ("b", pa.bool_()),
        ("m", pa.decimal128(10, 2)),
        ("l", pa.list_(pa.int64())),
        ("a b`", pa.string()),
        ("i8", pa.int8()),
    ]
)
ONE = Compare("x", Compares.EQUAL, 1)
JANUARY = 1_356_998_400_000_000


def never(name: str, value: Value = 0) -> Predicate:
    return AllOf((Compare(name, Compares.LESS, value), Compare(name, Compares.MORE, value)))


BETWEEN = never("x")


def at(how: Compares, us: int = JANUARY) -> Predicate:
    return Compare("at", how, Moment(us))


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("x = 1", ONE),
        ("((x)) == +1", ONE),
        ("1 = x -- one", ONE),
        ("x = 1L", ONE),
        ("x = 1.0", ONE),
        ("x <> - 1", Compare("x", Compares.UNEQUAL, -1)),
        ("5 <= x", Compare("x", Compares.AT_LEAST, 5)),
        ("5 > x", Compare("x", Compares.LESS, 5)),
        ("x IN (1, -2, NULL)", Among("x", (1, -2, None))),
        ("x NOT IN (1)", Not(Among("x", (1,)))),
        ("x IS NULL", IsNull("x")),
        ("x <=> 1", AllOf((Not(IsNull("x")), ONE))),
        ("NULL IS NOT DISTINCT FROM x", IsNull("x")),
        ("x IS DISTINCT FROM 1", Not(AllOf((Not(IsNull("x")), ONE)))),
        ("b IS NOT TRUE", Not(AllOf((Not(IsNull("b")), Compare("b", Compares.EQUAL, True))))),
        ("s = 'O''Hare' -- a comment", Compare("s", Compares.EQUAL, "O'Hare")),
        ("s = 'a' /* ' */ \"b\"", Compare("s", Compares.EQUAL, "ab")),
        ("s = r'a\\n' '\\n\\u00e9'", Compare("s", Compares.EQUAL, "a\\n\né")),
        ("s IN ('O''Hare', NULL, 'a\nb')", Among("s", ("O'Hare", None, "a\nb"))),
        ("x IN (1, 2.5, -3)", AnyOf((Among("x", (1, -3)), BETWEEN))),
        ("x IN (2.5, 1.5BD, 7.5)", BETWEEN),
        ("x > 1.5", Compare("x", Compares.MORE, 1)),
        ("x >= 1.5D", Compare("x", Compares.AT_LEAST, 2)),
        ("x = 1.5", BETWEEN),
        ("x <> 1.5", Not(BETWEEN)),
        ("x <= 1e300", Compare("x", Compares.AT_MOST, 2**63 - 1)),
        ("x > -9223372036854775809", Not(BETWEEN)),
        ("x < ' -7 '", Compare("x", Compares.LESS, -7)),
        ("i8 = 300", never("i8")),
        ("i8 < 300", Not(never("i8"))),
        (
            "i8 > -300.5 AND i8 <= 127",
            AllOf((Not(never("i8")), Compare("i8", Compares.AT_MOST, 127))),
        ),
        ("m < 1.255", Compare("m", Compares.LESS, Decimal("1.26"))),
        ("m >= 0.1e0", Compare("m", Compares.AT_LEAST, Decimal("0.10"))),
        ("m >= '1.5'", Compare("m", Compares.AT_LEAST, Decimal("1.50"))),
        ("at = '2013-01-01 00:00:00.0001'", never("at", Moment(0))),
        ("at < '2013-01-01 00:00:00.0001'", at(Compares.LESS, JANUARY + 1000)),
        ("at >= '2013-1-1 01:00:00 Europe/Berlin'", at(Compares.AT_LEAST)),
        ("d < TIMESTAMP '2013-01-01 12:00:00'", Compare("d", Compares.LESS, Day(15707))),
        ("d = '2013-01-01 12:00:00'", Compare("d", Compares.EQUAL, Day(15706))),
        ("b = 'Yes'", Compare("b", Compares.EQUAL, True)),
        ("l IS NOT NULL", Not(IsNull("l"))),
        ("x = 1 AND x = 1 AND x = 1", AllOf((ONE, ONE, ONE))),
        ("x = 1 OR x = 1 AND x = 1", AnyOf((ONE, AllOf((ONE, ONE))))),
        (
            "NOT (b OR b = FALSE)",
            Not(AnyOf((Compare("b", Compares.EQUAL, True), Compare("b", Compares.EQUAL, False)))),
        ),
        ("true", AllOf(())),
        ("FALSE", AnyOf(())),
        ("f > 1.5D", Compare("f", Compares.MORE, 1.5)),
        ("f > -1", Compare("f", Compares.MORE, -1.0)),
        ("s = 'it\\'s'", Compare("s", Compares.EQUAL, "it's")),
        ('s = "text"', Compare("s", Compares.EQUAL, "text")),
        ("`a b``` = 'x'", Compare("a b`", Compares.EQUAL, "x")),
        ("at < '2013-01-01'", at(Compares.LESS)),
        ("at < DATE '2013-01-01'", at(Compares.LESS)),
        ("at < DATE '2013-01-08' - 7", at(Compares.LESS)),
        ("at < date_trunc('year', timestamp '2013-03-01 10:00')", at(Compares.LESS)),
        ("at < TIMESTAMP '2013-01-01 01:00:00+01:00'", at(Compares.LESS)),
        ("CAST('2013-01-01T00:00:00Z' AS timestamp) < at", at(Compares.MORE)),
        ("at = TIMESTAMP_NTZ '2013-01-01'", at(Compares.EQUAL)),
        ("d = '2013-01-01'", Compare("d", Compares.EQUAL, Day(15706))),
        ("d = TIMESTAMP '2013-01-01 00:00:00'", Compare("d", Compares.EQUAL, Day(15706))),
        (
            "at NOT BETWEEN '2013-01-01' AND '2013-01-01 00:00:00.001'",
            Not(AllOf((at(Compares.AT_LEAST), at(Compares.AT_MOST, JANUARY + 1000)))),
        ),
    ],
)
def test_conditions_are_read(text: str, predicate: Predicate) -> None:
    """Each form that SQL has for what a predicate can say is read, and written back."""
    assert parse_predicate(text, SCHEMA) == predicate
    assert parse_predicate(to_sql(predicate), SCHEMA) == predicate


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x = x", "compares two columns"),
        ("lower(s) = 'a'", r"LOWER\(s\)"),
        ("x + 1 = 2", r"x \+ 1"),
        ("x = 1 + 1", r"1 \+ 1"),
        ("s LIKE 'a%'", "LIKE"),
        ("x IN (SELECT 1)", "SELECT 1"),
        ("x IN (1, x)", "'x'"),
        ("x IN (1, 2e0)", "several types"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("1 = 1", "no column beside"),
        ("NULL IS NULL", "no column beside"),
        ("t.x = 1", "'t.x'"),
        ("x IS TRUE", "IS TRUE"),
        ("x y", "AS y"),
        ("x = ?", "not a plain value"),
        ("x = -'a'", "not a plain value"),
        ("DELETE FROM t WHERE x = 1", "DELETE"),
        ("(" * 3000 + "x = 1" + ")" * 3000, "nested too deeply"),
        ("s = 1", "compares text with a number"),
        ("f = 'NaN'", "compares with nan"),
        ("at = 'yesterday'", "time of the query"),
    ],
)
def test_what_is_more_than_a_predicate_goes_to_spark(text: str, named: str) -> None:
    """All else is refused naming the piece, and the way to have it done."""
    with pytest.raises(InvalidInput, match=named) as refused:
        parse_predicate(text, SCHEMA)
    assert "give it to Spark" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not a condition"),
        ("x = 1; x = 2", "not a condition"),
        ("x =", "not a condition in Spark's SQL"),
        ("s = 'a", "not a condition in Spark's SQL"),
        ("x = 1 WHERE b", "not a condition in Spark's SQL"),
        ("nope = 1", "no column 'nope': the table has x, f, s"),
        ("X = 1", "no column 'X'"),
        ("x = NULL", "write `x` IS NULL"),
        ("at = 'the day before'", "'the day before' is not a time"),
        ("at = '2013-01-01 00:00:00 Mars/X'", "no time zone 'Mars/X'"),
        ("d = '2013-13-01'", "month must be in 1..12"),
        ("f = 1e999", "too large"),
        ("x = '1.5'", "not a whole number"),
        ("b = 'maybe'", "neither true nor false"),
    ],
)
def test_mistakes_are_told(text: str, named: str) -> None:
    """What Spark would refuse, too, is refused by name."""
    with pytest.raises(InvalidInput, match=named):
        parse_predicate(text, SCHEMA)


def test_what_is_written_is_spark_sql() -> None:
    """Names are quoted, times carry their zone, doubles an exponent, decimals none."""
    text = "x = -1 AND f < 2 AND m >= 1.50 AND at <> '2013-01-01' AND s = 'a\\'b' AND x IN (NULL)"
    assert to_sql(parse_predicate(text, SCHEMA)) == (
        r"(`x` = -1) AND (`f` < 2.0E0) AND (`m` >= 1.50) AND "
        r"(`at` <> CAST('2013-01-01 00:00:00+00:00' AS TIMESTAMP)) AND (`s` = 'a\'b') AND "
        r"(`x` IN (NULL))"
    )
    assert to_sql(Among("x", ())) == "FALSE"


def test_a_long_chain_is_read() -> None:
    """A condition of thousands of parts is no deeper than one of two."""
    text = " OR ".join(f"x = {number}" for number in range(2000))
    assert len(parse_predicate(text, SCHEMA).of) == 2000  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("form", ["{}", "'{}'", "{}L", "{}.0"])
def test_a_long_list_is_one_node(form: str) -> None:
    """Its values do not become nodes of a tree, which took 17 s for 100,000 of them."""
    values = ", ".join(form.format(n) for n in range(5000))
    tree = parsed(f"x IN ({values}, null) AND b", "", "")
    assert sum(1 for _ in tree.walk()) < 20
    assert "and 4998 more" in written(tree)
    found = predicate_of(tree, SCHEMA)
    assert found == AllOf((Among("x", (*range(5000), None)), Compare("b", Compares.EQUAL, True)))


ALIKE = {
    "x": ("1", "+2", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "1.0"),
    "i8": ("127", "-128", "128", "007"),
    "f": ("1", "-0.0", ".5", "1e3", "1.5e-400", "0.1", "2."),
    "s": ("'a'", "''", "' b '", "'\u00e9\U0001f600'", "'O''Hare'", "'\\n'", "'a\nb'"),
    "m": ("1", "-0.00", "+1.5", "99999999.99", "100000000", "0.001", "1.50000", ".5", "1."),
    "n": ("1", "-0", "+77", "99999", "100000", "1.0"),
    "at": (
        *("'2013-01-01'", "'2013-01-01 00:00:00'", "'2013-01-01T23:59:59.123Z'", "'2013-1-1'"),
        *("'2013-01-01 01:00:00+00:00'", "'2013-01-01 01:00:00+01:00'", "' 2013-01-01'"),
        *("'2013-01-01 12:30'", "'0001-01-01'", "'9999-12-31 23:59:59'"),
        *("'2013-01-01 00:00:00.0001'", "'2013-01-01 00:00:00.1234567'"),
        *("date '2013-02-28'", "DATE'2013-02-28 12:00:00'"),
        *("timestamp '2013-01-01'", "TIMESTAMP\n'2013-01-01 01:02:03'"),
    ),
    "d": (
        *("'2013-01-01'", "'0001-01-01'", "'9999-12-31'", "'2013-01-01 12:00:00'", "'2013'"),
        *("date '2012-02-29'", "date '2013'", "timestamp '2013-01-01'"),
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_list_means_what_its_values_mean(name: str) -> None:
    """A list of plain values, converted as a whole, has the values that each of them is."""
    schema = SCHEMA.append(pa.field("n", pa.decimal128(5, 0)))
    for kind in ("date", "timestamp", "'", ""):
        alike = [one for one in ALIKE[name] if _prefix(one) == kind]
        for some in (*zip(alike), *pairwise(alike)):
            whole = _members(parse_predicate(f"{name} IN ({', '.join(some)})", schema))
            with_null = (parse_predicate(f"{name} IN ({one}, NULL)", schema) for one in some)
            assert whole == set().union(*map(_members, with_null)), some


def _prefix(value: str) -> str:
    """Return what a value is written with: a date's name, a quote, or nothing."""
    return next(each for each in ("date", "timestamp", "'", "") if value.lower().startswith(each))


def _members(predicate: Predicate) -> set[object]:
    """Return the values of a set and its ranges, without null."""
    parts = predicate.of if isinstance(predicate, AnyOf) else (predicate,)
    found = {value for one in parts if isinstance(one, Among) for value in one.values}
    return (found | {one for one in parts if not isinstance(one, Among)}) - {None}


@pytest.mark.parametrize("name", ["m", "at", "d", "s", "f"])
def test_a_long_list_of_any_type_is_read_fast(name: str) -> None:
    """Ten thousand values of any type take a few times what as many integers take."""
    day = date(1990, 1, 1)
    rows = pa.Table.from_pylist([{}], SCHEMA)
    forms = {
        "m": [f"{n}.{n % 100:02}" for n in range(10_000)],
        "at": [f"'{day + timedelta(n)} 10:00:00.123'" for n in range(10_000)],
        "d": [f"date '{day + timedelta(n)}'" for n in range(10_000)],
        "s": [f"'k{n}'" for n in range(10_000)],
        "f": [f"{n}.5" for n in range(10_000)],
        "x": [str(n) for n in range(10_000)],
    }

    def spent(column: str) -> float:
        text = f"{column} in ({', '.join(forms[column])})"
        start = process_time()
        matches(rows, parse_predicate(text, SCHEMA))
        return process_time() - start

    assert min(spent(name) for _ in range(3)) < 6 * min(spent("x") for _ in range(3))

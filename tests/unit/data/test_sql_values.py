"""Values in SQL: computed as Spark computes them, or refused by name.

``tests/spark/test_sql_values.py`` gives the same expressions to Spark.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan, nan
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, NeedsSpark, SchemaMismatch
from airflow_provider_segtable.data.sql.sql_conditions import AssignedSql
from airflow_provider_segtable.data.sql.sql_text import parsed
from airflow_provider_segtable.data.sql.sql_values import computed

ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, -7], pa.int64()),
        "b": pa.array([0, 3, 4, 2], pa.int32()),
        "f": pa.array([1.5, nan, None, 0.0]),
        "g": pa.array([1.5, 2.5, 0.1, nan], pa.float32()),
        "m": pa.array([Decimal("1.50"), Decimal("2.25"), None, Decimal("-3.00")]),
        "s": pa.array(["ab", " Straße ", None, ""]),
        "at": pa.array([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)] + [None]),
        "d": pa.array([date(2026, 1, 1), None, date(2026, 2, 1), date(1969, 1, 1)]),
        "yes": pa.array([True, False, None, True]),
    }
)
HOUR = [datetime(2026, 1, day, 1, tzinfo=UTC) for day in (1, 2, 3)]
LITERALS: dict[str, Any] = {
    "'O''Hare'": "O'Hare",
    "'a' 'b' \"c\" /* 'd' */ r'\\e'": "abc\\e",
    "'a''b' -- 'c' \n 'd'": "a'bd",
    '"a""b\'c\'\'d"': "a\"b'c''d",
    "''''": "'",
    "'a\\'b\\n\\q\\%\\_\\\\ \\Z\\0'": "a'b\nq\\%\\_\\ \x1a\0",
    "'\\u00e9\\U0001F600\\uD83D\\uDE00\\101\\400\\u00e'": "é😀😀A400u00e",
    "'\\uD83Dx\\U00110000'": "?x??",
    "R'it''s' r\"\\n\"": "its\\n",
    "1 /* a /* b */ 2 */ + 1": 2,
    "1L + 1S": 2,
    "1.5BD": Decimal("1.5"),
    "1e-3bd": Decimal("0.001"),
    "1.50": Decimal("1.50"),
    "cast(-9223372036854775808 as decimal(38,18)) * 1e-3BD / 9007199254740992e0": -1.024,
    "9223372036854775808": Decimal(9223372036854775808),
    "-9223372036854775808": -9223372036854775808,
    "1e3": 1000.0,
    "0.1F": 0.10000000149011612,
    "cast(1 as float) / cast(3 as float)": 1 / 3,
    "date '2026-1-1'": date(2026, 1, 1),
    "date '2026'": date(2026, 1, 1),
    "timestamp '2026-01-01 10:30'": datetime(2026, 1, 1, 10, 30, tzinfo=UTC),
    "timestamp '2026-01-01 00:00:00.1234567 Europe/Berlin'": datetime(
        2025, 12, 31, 23, 0, 0, 123456, tzinfo=UTC
    ),
    "timestamp '2026-01-01 10:00:00 +1'": datetime(2026, 1, 1, 9, tzinfo=UTC),
    "timestamp_ntz '2026-01-01 10:00:00+02:00' = timestamp '2026-01-01 10:00:00'": True,
    "'a' in ('b', 'O''Hare', 'a')": True,
}
CASES: dict[str, list[Any]] = {
    **{text: [value] * 4 for text, value in LITERALS.items()},
    "a + 1": [2, 3, None, -6],
    "a + b * 2 - 1": [0, 7, None, -4],
    "-a": [-1, -2, None, 7],
    "abs(a)": [1, 2, None, 7],
    "a / 2": [0.5, 1.0, None, -3.5],
    "a % 4": [1, 2, None, -3],
    "a % -1": [0, 0, None, 0],
    "mod(b, 3)": [0, 0, 1, 2],
    "a div 2": [0, 1, None, -3],
    "m * 2": [Decimal("3.00"), Decimal("4.50"), None, Decimal("-6.00")],
    "m + a": [Decimal("2.50"), Decimal("4.25"), None, Decimal("-10.00")],
    "m * 1.5": [Decimal("2.250"), Decimal("3.375"), None, Decimal("-4.500")],
    "m / 2": [Decimal("0.750000"), Decimal("1.125000"), None, Decimal("-1.500000")],
    "m / 3 + 2 / m": [Decimal("1.833333"), Decimal("1.638889"), None, Decimal("-1.666667")],
    "1 / m": [Decimal("0.666667"), Decimal("0.444444"), None, Decimal("-0.333333")],
    "m / a": [Decimal("1.5"), Decimal("1.125"), None, Decimal("0.42857142857142857142857")],
    "cast(a as double) / m": [2 / 3, 2 / 2.25, None, 7 / 3],
    "coalesce(m / null, 1.123456789)": [Decimal("1.123456789")] * 4,
    "coalesce(null / m, 1.5e0)": [1.5] * 4,
    "if(a is null, a, 6) / if(a is null, 0, 4)": [1.5, 1.5, None, 1.5],
    "if(a is null, m, 6) / if(a is null, 0, 4)": [
        Decimal("1.5"),
        Decimal("1.5"),
        None,
        Decimal("1.5"),
    ],
    "2.675 * 1e0 + m": [4.175, 4.925, None, -0.3250000000000002],
    "cast(2.675 as float)": [2.674999952316284] * 4,
    "12345678901234567890.123456789012345678 / 3.1": [
        Decimal("3982477064914376738.74950219000398248")
    ]
    * 4,
    "0.00000000000000000000000000000001 / 7.00": [Decimal("1.429E-33")] * 4,
    "12345678901234567890.123456789012345678 + m * 1.00000000000000000000": [
        Decimal("12345678901234567891.62345678901234568"),
        Decimal("12345678901234567892.37345678901234568"),
        None,
        Decimal("12345678901234567887.12345678901234568"),
    ],
    "m * 1.00000000000000000000 - 12345678901234567890.123456789012345678": [
        Decimal("-12345678901234567888.62345678901234568"),
        Decimal("-12345678901234567887.87345678901234568"),
        None,
        Decimal("-12345678901234567893.12345678901234568"),
    ],
    "12345678901234567890.123456789012345678 * m * 0.12345678901234567": [
        Decimal("2286236812985825347.736627034773663"),
        Decimal("3429355219478738021.604940552160494"),
        None,
        Decimal("-4572473625971650695.473254069547325"),
    ],
    "round(m)": [Decimal(2), Decimal(2), None, Decimal(-3)],
    "round(m, 1)": [Decimal("1.5"), Decimal("2.3"), None, Decimal("-3.0")],
    "round(m * -1, 1)": [Decimal("-1.5"), Decimal("-2.3"), None, Decimal("3.0")],
    "round(m, 5)": [Decimal("1.50"), Decimal("2.25"), None, Decimal("-3.00")],
    "round(m * 1000, -3)": [Decimal(2000), Decimal(2000), None, Decimal(-3000)],
    "round(m, -20)": [Decimal(0), Decimal(0), None, Decimal(0)],
    "round(a * 25, -1)": [30, 50, None, -180],
    "round(a, 3) + round(b)": [1, 5, None, -5],
    "round(cast(b as smallint) * 55S, -2)": [0, 200, 200, 100],
    "round(f)": [2.0, nan, None, 0.0],
    "round(g, 1)": [1.5, 2.5, 0.10000000149011612, nan],
    "round(f + 0.505e0, 2)": [2.01, nan, None, 0.51],
    "round(-1.005e0 - f, 2)": [-2.51, nan, None, -1.01],
    "round(1.005e0 * b, 2)": [0.0, 3.01, 4.02, 2.01],
    "round(123456.789e0, -2) / round(2.5)": [41166.666666666664] * 4,
    "round(1e300, 2) = 1e300 and round(1e-300, 400) = 1e-300": [True] * 4,
    "coalesce(round(cast(null as double), 1), 2.5e0)": [2.5] * 4,
    "if(round(m, 1) > 2.25, round(m), m / 2)": [
        Decimal("0.75"),
        Decimal(2),
        None,
        Decimal("-1.5"),
    ],
    "m * 1e1": [15.0, 22.5, None, -30.0],
    "f + m": [3.0, nan, None, -3.0],
    "g * g": [2.25, 6.25, 0.010000000707805157, nan],
    "g + 1": [2.5, 3.5, 1.1000000014901161, nan],
    "2.5D + b": [2.5, 5.5, 6.5, 4.5],
    "3000000000 + b": [3000000000, 3000000003, 3000000004, 3000000002],
    "cast(a as double) / 4": [0.25, 0.5, None, -1.75],
    "cast(b / 3 as int)": [0, 1, 1, 0],
    "cast(b as bigint) * 2147483647": [0, 6442450941, 8589934588, 4294967294],
    "upper(s)": ["AB", " STRASSE ", None, ""],
    "lower(trim(s)) || '!'": ["ab!", "straße!", None, "!"],
    "concat(s, '-', s)": ["ab-ab", " Straße - Straße ", None, "-"],
    "length(s)": [2, 8, None, 0],
    "coalesce(a, b, 0)": [1, 2, 4, -7],
    "nullif(b, 0)": [None, 3, 4, 2],
    "if(a > b, a, b)": [1, 3, 4, 2],
    "case a when 1 then 'one' when 2 then 'two' end": ["one", "two", None, None],
    "case when b = 0 then 0 else a / b end": [0.0, 2 / 3, None, -3.5],
    "if(f > g, 'more', if(f = f, 'same', 'null'))": ["same", "more", "null", "same"],
    "f >= g": [True, True, None, False],
    "b in (0, 4) and d < '2026-01-15'": [True, False, False, False],
    "at between '2026-01-02' and '2026-01-03'": [False, True, True, None],
    "s like '%tra_e%'": [False, True, None, False],
    "s not like 'a%' and 'x' like '_'": [False, True, None, True],
    "upper(s) = 'AB'": [True, False, None, False],
    "at + interval 1 hour": [*HOUR, None],
    "at - interval '2 days' + interval 49 hours": [*HOUR, None],
    "if(at > timestamp '2026-01-01 12:00:00', d, null)": [None, None, date(2026, 2, 1), None],
}


def alike(found: Any, wanted: Any) -> bool:
    """Return whether two values are equal, NaN and NaN too."""
    if isinstance(found, float) and isinstance(wanted, float) and isnan(wanted):
        return isnan(found)
    return type(found) is type(wanted) and found == wanted


@pytest.mark.parametrize("text", CASES)
def test_an_expression_has_the_value_that_spark_gives_it(text: str) -> None:
    """Values and their types are those that Spark has for the same text, also of no rows."""
    tree = parsed(text, "a value", "")
    values = computed(tree, ROWS)
    found = values.to_pylist()
    assert all(map(alike, found, CASES[text])), found
    none = computed(tree, ROWS.slice(0, 0))
    assert (none.type, len(none)) == (values.type, 0)


@pytest.mark.parametrize(
    ("column", "text", "word"),
    [
        ("a", "a / 2", "truncated"),
        ("a", "1.5", "whole numbers"),
        ("a", "'one'", "it is text"),
        ("a", "s", "cast it"),
        ("a", "f > g", "it is bool"),
        ("b", "b + 2147483647", "overflow"),
        ("a", "a * 9223372036854775807", "overflow"),
        ("f", "a / b", "division by zero"),
        ("a", "a % b", "division by zero"),
        ("yes", "null <=> 1 / b", "division by zero"),
        ("a", "cast(s as int)", "not a whole number"),
        ("m", "m * 1.5", "data loss"),
        ("m", "m / 7", "data loss"),
        ("m", "m / 0", "division by zero"),
        ("m", "m - 9999999999999999999999999999999999.9999", "more digits than"),
        ("m", "9999999999999999999999999999999999.9999 / 0.0001", "more digits than"),
        ("m", "round(99999999999999999999999999999999999999, -1)", "more digits than"),
        ("b", "round(2147483647, -1)", "too large"),
        ("m", "f", "NaN|nan"),
        ("a", "nope + 1", "'nope'"),
        ("s", "b", "it is int32"),
    ],
)
def test_what_is_no_value_of_the_column_is_no_value_on_spark_either(
    column: str, text: str, word: str
) -> None:
    """Nothing is rounded, wrapped around or cast unasked; the error names column and expression."""
    with pytest.raises(SchemaMismatch, match=word):
        AssignedSql.read(ROWS.schema.field(column), text, ROWS.column_names).over(ROWS)


@pytest.mark.parametrize(
    ("column", "text", "word"),
    [
        ("f", "round(f, b)", "digits to round to"),
        ("s", "soundex(s)", "SOUNDEX"),
        ("s", "md5(a)", "bytes of int64"),
        ("a", "crc32(d)", "bytes of date32"),
        ("s", "get(split(s, 'x'), 1L)", "32 bits"),
        ("s", "s + s", "computes with texts"),
        ("a", "(select max(a) from t)", "SELECT"),
        ("s", "cast(f as string)", "cast to text"),
        ("s", "concat(s, f + 1)", r"f \+ 1"),
        ("at", "at + interval 1 fortnight", "intervals are"),
        ("at", "trim(s)", "large_string"),
        ("yes", "a = b > 1", "parentheses"),
        ("yes", "a between 1 and b = 2", "parentheses"),
        ("s", "s || a + 1", "parentheses"),
        ("yes", "d is distinct from d is null", "parentheses"),
        ("yes", "s not like 'a%' is distinct from yes", "parentheses"),
        ("yes", "yes <=> a not in (1, 2)", "parentheses"),
        ("f", "yes / m", "together"),
        ("yes", "a not between 1 and 2 between true and yes", "parentheses"),
        ("a", "source.a", "source.a"),
        ("yes", "s like f", "pattern is a text"),
        ("yes", "s rlike 'a(?=b)'", "in Java"),
        ("a", "(" * 2000 + "a" + ")" * 2000, "deeply"),
    ],
)
def test_what_only_spark_computes_is_refused_by_name(column: str, text: str, word: str) -> None:
    """The error names the part, the reason and Spark, also where no row is computed."""
    with pytest.raises(NeedsSpark, match=word) as refused:
        AssignedSql.read(ROWS.schema.field(column), text, ROWS.column_names).over(ROWS.slice(0, 0))
    assert "Spark" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a +", "not a value in Spark's SQL"),
        ("sum(a)", "several rows"),
        ("row_number() over (order by a)", "several rows"),
        ("explode(a)", "several rows"),
        ("round(nope)", "no column 'nope'"),
    ],
)
def test_what_no_engine_computes_starts_none(text: str, word: str) -> None:
    """Broken SQL, functions of many rows and missing columns are not left to Spark."""
    with pytest.raises(InvalidInput, match=word) as refused:
        AssignedSql.read(ROWS.schema.field("a"), text, ROWS.column_names)
    assert not isinstance(refused.value, NeedsSpark)


def test_literals_take_the_type_of_the_column() -> None:
    """As in a condition: a text is a time for a column of times, NULL is null in each."""
    texts = {"at": "'2026-01-01T02:00+01:00'", "d": "'2026-01-01'", "m": "2", "g": "1", "s": "null"}
    found = {
        name: AssignedSql.read(ROWS.schema.field(name), text, ROWS.column_names).over(ROWS)
        for name, text in texts.items()
    }
    assert {name: values[0].as_py() for name, values in found.items()} == {
        "at": datetime(2026, 1, 1, 1, tzinfo=UTC),
        "d": date(2026, 1, 1),
        "m": Decimal("2.00"),
        "g": 1.0,
        "s": None,
    }
    assert {len(values) for values in found.values()} == {4}


def test_sides_of_a_merge() -> None:
    """``source.a`` is the source's column, a bare name must be of one side alone."""
    source = {"a": "source.a", "sold": "source.sold"}
    joined = (
        ROWS.select(["a"])
        .append_column("source.a", ROWS["b"])
        .append_column("source.sold", ROWS["b"])
    )
    read = AssignedSql.read(ROWS.schema.field("a"), "target.a - source.a + sold", ["a"], source)
    assert read.over(joined).to_pylist() == [1, 2, None, -7]
    with pytest.raises(InvalidInput, match="both sides"):
        AssignedSql.read(ROWS.schema.field("a"), "a + 1", ["a"], source)

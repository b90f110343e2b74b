"""Statistics are bounds that readers may rely on, or none."""

import json
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_segtable.core.publishing import ColumnStats, FileStats, ShownFile
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.formats.delta.delta_commit import Statistics
from airflow_provider_segtable.formats.format import NewFile
from tests.support.builders import first
from tests.unit.formats.delta.making import TABLE

TS = "timestamp[us, tz=UTC]"


def bounds(kind: str, low: Any, high: Any, **other: Any) -> tuple[Any, Any]:
    """Return the bounds of a column of some type."""
    table = replace(TABLE, schema=Schema((Column(name="c", type=kind),)))
    stats = FileStats(columns={1: ColumnStats(low=low, high=high, **other)})
    made = json.loads(Statistics(table).of(NewFile(shown=ShownFile(segment=first(0)), stats=stats)))
    return made["minValues"].get("c"), made["maxValues"].get("c")


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("int64", -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
        ("string", "a" * 32, "b" * 32, ("a" * 32, "b" * 32)),
        ("string", "a" * 33, "b" * 33, ("a" * 32, "b" * 31 + "c")),
        ("string", "", "b" * 31 + "\U0010ffff" * 2, ("", "b" * 30 + "c")),
        ("string", "", "\ud7ff" * 40, ("", "\ud7ff" * 31 + "\ue000")),
        ("string", "", "\U0010ffff" * 40, ("", None)),
        (TS, 1234, 1234, ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z")),
        (TS, -1, -1, ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z")),
        ("timestamp[ms]", 5000, 5000, ("1970-01-01T00:00:00.005", "1970-01-01T00:00:00.005")),
        (TS, -(2**63), 2**63 - 1, (None, None)),
        ("date32[day]", -1, 19000, ("1969-12-31", "2022-01-08")),
        ("date32[day]", -(2**31), 2**31 - 1, (None, None)),
        ("decimal128(20, 2)", Decimal("-1.20"), Decimal("7.00"), (-1.2, 7)),
        ("decimal128(20, 9)", Decimal("0.000000001"), Decimal("12345678901.123456"), (None, None)),
        ("double", 1.5, 2.5, (1.5, 2.5)),
        ("double", float("-inf"), float("inf"), (None, None)),
        ("bool", False, True, (None, None)),
        ("binary", b"a", b"b", (None, None)),
        ("int32", None, None, (None, None)),
    ],
)
def test_bounds(kind: str, low: Any, high: Any, expected: tuple[Any, Any]) -> None:
    """A bound is written where its text is exact, or rounded outwards."""
    assert bounds(kind, low, high) == expected


def test_a_column_that_may_have_nan_has_no_bounds() -> None:
    """Some readers order NaN above all numbers, some by its sign."""
    assert bounds("double", 1.0, 2.0, nan=True) == (None, None)


def test_counts_of_nulls() -> None:
    """They are the file's; a column that it lacks is null in each row; nested ones have none."""
    columns = (
        *TABLE.schema.columns,
        Column(name="added", type="int32", id=7, first_name=""),
        Column(name="inside", type="list<element: int32>", id=8, first_name=""),
    )
    table = replace(TABLE, schema=Schema(columns, number=1), earlier=(TABLE.schema,))
    stats = FileStats(columns={1: ColumnStats(nulls=0), 2: ColumnStats(nulls=4)})
    file = NewFile(shown=ShownFile(segment=first(0)), stats=stats)
    made = json.loads(Statistics(table).of(file))
    assert made["nullCount"] == {"time_hour": 0, "carrier": 4, "added": 10}
    assert made["numRecords"] == 10
    assert "tightBounds" not in made


def test_times_are_those_of_the_column() -> None:
    """The text of a time reads as the time itself."""
    low, _ = bounds(TS, 1_700_000_000_123_000, 1_700_000_000_123_000)
    assert datetime.fromisoformat(low).timestamp() == 1_700_000_000.123


def test_characters_are_not_escaped() -> None:
    """Arrow's JSON parser reads an escaped pair of surrogates as another character."""
    table = replace(TABLE, schema=Schema((Column(name="c", type="string"),)))
    stats = FileStats(columns={1: ColumnStats(low="\U0001f600", high="\U0001f600")})
    made = Statistics(table).of(NewFile(shown=ShownFile(segment=first(0)), stats=stats))
    assert made.count("\U0001f600") == 2

"""Rolling up: limits, odd types and large numbers of groups."""

import random
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.tables.rollup_kind import (
    EVENTS,
    Metric,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.data.rollup.rollup_rows import from_input, rolled_up, visible

DAY = date(2024, 2, 29)
TOP = 2**63 - 1


def how(*metrics: str, by: tuple[str, ...] = (), granularity: str = "none") -> Rollup:
    """Return a rollup."""
    return Rollup(
        dimensions=by,
        metrics=tuple(map(Metric.parse, metrics)),
        query_granularity=QueryGranularity(granularity),
    )


def one_day(values: pa.Array) -> pa.Table:
    """Return rows of one day with these values."""
    return pa.table({"day": pa.array([DAY] * len(values), pa.date32()), "x": values})


def test_sums_are_exact_up_to_the_limit() -> None:
    """Partial sums may pass 64 bits as long as the sum does not; else it is refused."""
    sums = how("s=sum(x)")
    exact = one_day(pa.array([TOP, TOP, -TOP, -TOP, TOP, None]))
    assert from_input(exact, sums, time_column="day").column("s").to_pylist() == [TOP]
    with pytest.raises(InvalidInput, match=r"metric s=sum\(x\): a sum is 9223372036854775808"):
        from_input(one_day(pa.array([TOP, 1])), sums, time_column="day")
    lowest = from_input(one_day(pa.array([-TOP, -1])), sums, time_column="day")
    assert lowest.column("s").to_pylist() == [-TOP - 1]


def test_decimals_are_exact_up_to_38_digits() -> None:
    """Carries, signs, nulls and slices come out right; more than 38 digits are refused."""
    sums = how("s=sum(x)")
    randomness = random.Random(1)
    whole = [randomness.randrange(-(10**30), 10**30) for _ in range(500)]
    values = [*(Decimal(f"{number}E-5") for number in whole), None]
    rows = one_day(pa.array(values, pa.decimal128(38, 5)))
    total = Decimal(f"{sum(whole[100:])}E-5")
    made = from_input(rows.slice(100), sums, time_column="day")
    assert made.column("s").to_pylist() == [total]
    assert made.schema.field("s").type == pa.decimal128(38, 5)
    nines = Decimal(10**38 - 1)
    limit = one_day(pa.array([nines, nines, Decimal(f"-{nines}")], pa.decimal128(38, 0)))
    assert from_input(limit, sums, time_column="day").column("s").to_pylist() == [nines]
    with pytest.raises(InvalidInput, match=r"a sum is 1" + "0" * 38 + r", which decimal128"):
        from_input(
            one_day(pa.array([nines, Decimal(1)], pa.decimal128(38, 0))), sums, time_column="day"
        )


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**64 - 1, 0, 2**63], pa.uint64()),
        pa.array([-(2**63), 2**63 - 1, 0]),
        pa.array([b"\xff", b"", b"a"]),
        pa.array([datetime(1, 1, 1), datetime(2024, 1, 1), datetime(9000, 1, 1)]),  # noqa: DTZ001
        pa.array([5, -5, 0]).cast(pa.timestamp("ns", "UTC")),
        pa.array([5, -5, 0]).cast(pa.int32()).cast(pa.date32()),
        pa.array([86_400_000, -86_400_000, 0]).cast(pa.date64()),
        pa.array([Decimal("-1.5"), Decimal("1.5"), Decimal(0)]),
        pa.array([float("inf"), -float("inf"), -1e-300]),
        pa.array(["b", "ä", "a"], pa.large_string()),
        pa.array([True, False, True]),
    ],
)
def test_extremes_of_any_type_keep_it(values: pa.Array) -> None:
    """Smallest, largest, first and last are what Python says, in the source's type."""
    rows = one_day(values)
    found = from_input(rows, how("a=min(x)", "b=max(x)", "c=first(x)"), time_column="day")
    python = values.to_pylist()
    low, high = min(python), max(python)
    if isinstance(low, str):
        low, high = min(python, key=str.encode), max(python, key=str.encode)
    row = found.to_pylist()[0]
    assert (row["a"], row["b"], row["c"]) == (low, high, low)
    assert found.schema.field("a").type == values.type
    by = from_input(rows, how("n=count", by=("x",)), time_column="day")
    assert by.num_rows == len(set(python))
    assert by.column("x").type == values.type
    again = rolled_up(
        pa.concat_tables([found, found]),
        how("a=min(x)", "b=max(x)", "c=first(x)"),
        time_column="day",
    )
    assert again.drop_columns(EVENTS).equals(found.drop_columns(EVENTS))


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.date64(), *map(pa.timestamp, ["s", "ms", "us", "ns"])]
)
def test_cut_times_keep_their_type(kind: pa.DataType) -> None:
    """Dates and timestamps of any unit are cut and stay what they are."""
    times = pa.array([date(2024, 2, 29), date(2023, 12, 31), date(1969, 1, 2)]).cast(kind)
    rows = pa.table({"at": times})
    for granularity, starts in (
        ("month", [date(1969, 1, 1), date(2023, 12, 1), date(2024, 2, 1)]),
        ("week", [date(1968, 12, 30), date(2023, 12, 25), date(2024, 2, 26)]),
    ):
        made = from_input(rows, how("n=count", granularity=granularity), time_column="at")
        assert made.column("at").type == kind
        assert made.column("at").cast(pa.timestamp("us")).cast(pa.date32()).to_pylist() == starts


def test_a_cut_time_that_nanoseconds_cannot_hold_is_refused() -> None:
    """1677-10 has nanoseconds, its year's start has not."""
    rows = pa.table({"at": pa.array([-(2**63) + 10**9], pa.int64()).cast(pa.timestamp("ns"))})
    with pytest.raises(TimeOutOfRange, match=r"1677-01-01.* has no form in nanoseconds"):
        from_input(rows, how("n=count", granularity="year"), time_column="at")


def test_null_times_are_refused() -> None:
    """The row is named."""
    rows = pa.table({"at": pa.array([1, None]).cast(pa.timestamp("us"))})
    with pytest.raises(TimeOutOfRange, match=r"row 1 \(from 0\): event time at is null"):
        from_input(rows, how("n=count"), time_column="at")


@pytest.mark.parametrize("spread", [300, 10**6, 2**62])
def test_many_groups_are_found_whatever_the_keys(spread: int) -> None:
    """By table, by packed sort and by plain sort: the groups that Arrow's own grouping finds."""
    randomness = random.Random(spread)
    rows = pa.table(
        {
            "at": pa.array([randomness.randrange(10**11) for _ in range(50_000)]).cast(
                pa.timestamp("us")
            ),
            "a": [randomness.choice([None, -spread, spread // 3, spread]) for _ in range(50_000)],
            "b": [randomness.randrange(-spread, spread) for _ in range(50_000)],
            "x": [randomness.randrange(1000) for _ in range(50_000)],
        }
    )
    made = from_input(rows, how("s=sum(x)", "m=max(x)", by=("a", "b")), time_column="at")
    theirs = rows.group_by(["a", "b", "at"]).aggregate(
        [("x", "sum"), ("x", "max"), ([], "count_all")]
    )
    order = [(name, "ascending") for name in ("a", "b", "at")]
    theirs = theirs.sort_by(order).select(["a", "b", "at", "x_sum", "x_max", "count_all"])
    mine = made.sort_by(order).select(["a", "b", "at", "s", "m", EVENTS])
    assert mine.to_pydict() == dict(
        zip(mine.column_names, theirs.to_pydict().values(), strict=True)
    )


def test_no_rows_roll_up_to_none() -> None:
    """Empty tables keep their columns; hidden ones can be dropped."""
    empty = one_day(pa.array([], pa.int64()))
    metrics = how("s=sum(x)", "f=first(x)", "m=max(x)", by=())
    made = from_input(empty, metrics, time_column="day")
    assert made.num_rows == rolled_up(made, metrics, time_column="day").num_rows == 0
    assert visible(made).column_names == ["day", "s", "f", "m"]


def test_words_that_are_null_or_there_twice_are_one_group() -> None:
    """Dictionaries may hold a null, or a word twice; groups are of values."""
    words = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, None], pa.int8()), pa.array(["b", "a", "b", None])
    )
    made = from_input(one_day(words), how("n=count", by=("x",)), time_column="day")
    assert made.select(["x", "n"]).to_pydict() == {"x": [None, "a", "b"], "n": [2, 1, 2]}
    assert made.column("x").type == words.type
